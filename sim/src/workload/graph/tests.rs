use proptest::prelude::*;

use super::*;
use crate::workload::{
    Concat, Conv2d, DepthwiseConv2d, Elementwise, Embedding, Function, Linear, MAX_ELEMENTS, MatMul, Mean,
    Norm, NormKind, Padding, Pool, PoolKind, Reshape, Slice, Softmax, Window,
};

fn linear(rows: u32, input_features: u32, output_features: u32) -> Operator {
    Operator::Linear(Linear { rows, input_features, output_features, bias: true })
}

fn conv(input: Shape) -> Conv2d {
    Conv2d::new(input, 32, Window::valid(3))
}

fn node(name: &str, operator: Operator, inputs: &[Source]) -> Node {
    Node { name: name.to_owned(), operator, inputs: inputs.to_vec(), data_type: None, shares_weights: false }
}

/// A graph that reads one 1x50x768 tensor.
fn graph(nodes: Vec<Node>) -> Result<Graph, GraphError> {
    Graph::new("mlp", DataType::F32, vec![Shape::tokens(50, 768)], nodes)
}

fn message(nodes: Vec<Node>) -> String {
    graph(nodes).expect_err("the graph is unsound").to_string()
}

fn operator_message(operator: &Operator) -> String {
    operator.check().expect_err("the operator is unsound").to_string()
}

const INPUT: Source = Source::Input(0);
const FIRST: Source = Source::Node(NodeId(0));
const SECOND: Source = Source::Node(NodeId(1));

#[test]
fn a_sound_graph_knows_its_tensors_and_totals() {
    let graph = graph(vec![
        node("fc1", linear(50, 768, 3072), &[INPUT]),
        node("fc2", linear(50, 3072, 768), &[FIRST]),
    ])
    .expect("the layers chain");
    assert_eq!(graph.shape(FIRST), Shape::tokens(50, 3072));
    assert_eq!(graph.macs(), 2 * 50 * 768 * 3072);
    assert_eq!(graph.parameters(), 2 * 768 * 3072 + 3072 + 768);
    assert_eq!(graph.reads(), [1, 0]);
}

#[test]
fn layers_that_do_not_fit_are_reported_with_their_extents() {
    let nodes =
        vec![node("fc1", linear(50, 768, 3000), &[INPUT]), node("fc2", linear(50, 3072, 768), &[FIRST])];
    assert_eq!(message(nodes), "fc2 reads 1x50x3072 but fc1 writes 1x50x3000");
}

#[test]
fn nodes_read_only_what_exists_before_them() {
    let fc = |source| vec![node("fc", linear(50, 768, 768), &[source])];
    assert_eq!(message(fc(FIRST)), "fc reads fc, which is not computed before it");
    assert_eq!(message(fc(SECOND)), "fc reads operator 1, but there are only 1");
    assert_eq!(message(fc(Source::Input(1))), "fc reads graph input 1, but there are only 1");
    let inputs = [INPUT, INPUT];
    assert_eq!(
        message(vec![node("fc", linear(50, 768, 768), &inputs)]),
        "fc lists 2 inputs, but its operator reads 1"
    );
}

#[test]
fn a_graph_has_nodes_with_unique_names() {
    assert_eq!(message(vec![]), "the graph has no operators");
    let twice = vec![node("fc", linear(50, 768, 768), &[INPUT]), node("fc", linear(50, 768, 768), &[FIRST])];
    assert_eq!(message(twice), "two operators are named fc");
}

#[test]
fn a_graph_of_sound_operators_can_still_be_too_large() {
    let huge = MatMul { images: 1, batch: 1 << 10, m: 1 << 14, k: 1 << 14, n: 1 << 14 };
    let inputs = Operator::MatMul(huge).inputs();
    let nodes: Vec<Node> = (0..9)
        .map(|index| {
            node(&format!("product{index}"), Operator::MatMul(huge), &[Source::Input(0), Source::Input(1)])
        })
        .collect();
    let error = Graph::new("huge", DataType::F32, inputs, nodes).expect_err("nine times 2^52");
    assert_eq!(error, GraphError::TooLarge { node: "product2".to_owned() });
}

#[test]
fn each_error_in_an_operator_states_what_was_found_and_expected() {
    let image = Shape::image(4, 6, 8);
    let convolution = conv(image);
    let cases = [
        (linear(0, 768, 768), "rows is 0, expected at least 1"),
        (linear(u32::MAX, 1, 1), "rows is 4294967295, expected at most 16777216"),
        (
            linear(1 << 24, 1 << 24, 1),
            "the input has 281474976710656 elements, expected at most 1099511627776",
        ),
        (
            linear(1 << 20, 1 << 20, 1 << 20),
            "it takes 1152921504606846976 steps, expected at most 9007199254740992",
        ),
        (
            Operator::Conv2d(Conv2d {
                window: Window { kernel: [5, 5], ..convolution.window },
                ..convolution
            }),
            "the window covers 5 rows, but the padded input has 4",
        ),
        (
            Operator::Conv2d(Conv2d {
                window: Window { dilation: [1, 3], ..convolution.window },
                ..convolution
            }),
            "the window covers 7 columns, but the padded input has 6",
        ),
        (
            Operator::Conv2d(Conv2d { groups: 3, ..convolution }),
            "8 input channels do not divide into 3 groups",
        ),
        (
            Operator::Conv2d(Conv2d { groups: 8, output_channels: 12, ..convolution }),
            "12 output channels do not divide into 8 groups",
        ),
        (Operator::Conv2d(Conv2d { groups: 0, ..convolution }), "groups is 0, expected at least 1"),
        (
            Operator::Conv2d(Conv2d {
                window: Window { stride: [0, 1], ..convolution.window },
                ..convolution
            }),
            "stride is 0, expected at least 1",
        ),
        (
            Operator::Conv2d(Conv2d {
                window: Window { dilation: [0, 1], ..convolution.window },
                ..convolution
            }),
            "dilation is 0, expected at least 1",
        ),
        (
            Operator::Elementwise(Elementwise {
                function: Function::Add,
                input: image,
                other: Some(Shape::image(3, 1, 8)),
            }),
            "the second operand is 3x1x8, expected 4x6x8, or 1 along some of its dimensions",
        ),
        (
            Operator::Elementwise(Elementwise { function: Function::Add, input: image, other: None }),
            "the function add reads 2 tensors, found 1",
        ),
        (
            Operator::Reshape(Reshape { input: image, output: Shape::tokens(6, 31) }),
            "4x6x8 has 192 elements, but 1x6x31 has 186",
        ),
        (
            Operator::Slice(Slice::of_channels(image, u32::MAX, 2)),
            "the slice takes position 4294967295 along channels, but the input has 8",
        ),
        (Operator::Concat(Concat::of_channels(image, vec![])), "it joins no tensors, expected at least 1"),
    ];
    for (operator, expected) in cases {
        assert_eq!(operator_message(&operator), expected);
    }
}

#[test]
fn weights_that_operators_share_count_once() {
    let first = node("once", linear(50, 768, 768), &[INPUT]);
    let again = Node { shares_weights: true, ..node("again", linear(50, 768, 768), &[FIRST]) };
    let other = node("other", linear(50, 768, 3072), &[SECOND]);
    let sound = graph(vec![first, again.clone(), other]).expect("the second has the first's weights");
    assert_eq!(sound.parameters(), 769 * 768 + 769 * 3072);
    assert_eq!(sound.with_batch(2).unwrap().parameters(), sound.parameters());
    let alone = Node { inputs: vec![INPUT], ..again };
    assert_eq!(
        message(vec![alone]),
        "again shares the weights of an operator above, but none has as many weights"
    );
}

#[test]
fn the_builder_reports_the_first_mistake() {
    let mut net = GraphBuilder::new("net", DataType::F32);
    let x = net.input(Shape::image(4, 4, 8));
    let x = net.conv(x, 8, Window::valid(5));
    net.conv(x, 0, Window::same(3));
    let error = net.build().expect_err("the first window does not fit");
    assert_eq!(error.to_string(), "conv1: the window covers 5 rows, but the padded input has 4");
    assert_eq!(error.help(), "Add padding or choose a smaller kernel or dilation.");
}

#[test]
fn the_builder_survives_inputs_out_of_range() {
    let mut net = GraphBuilder::new("net", DataType::F32);
    let x = net.input(Shape::image(u32::MAX, u32::MAX, u32::MAX));
    net.mean(x);
    let error = net.build().expect_err("the input is out of range");
    assert_eq!(error.to_string(), "graph input 0: height is 4294967295, expected at most 16777216");
}

/// Dimensions near every limit, and ordinary ones.
fn extent() -> impl Strategy<Value = u32> {
    prop_oneof![0..70_u32, any::<u32>(), (0..32_u32).prop_map(|bit| 1 << bit)]
}

fn pair() -> impl Strategy<Value = [u32; 2]> {
    [extent(), extent()]
}

fn any_shape() -> impl Strategy<Value = Shape> {
    (prop_oneof![Just(1), extent()], extent(), extent(), extent())
        .prop_map(|(batch, height, width, channels)| Shape { batch, height, width, channels })
}

fn any_padding() -> impl Strategy<Value = Padding> {
    [extent(), extent(), extent(), extent()].prop_map(|[top, bottom, left, right]| Padding {
        top,
        bottom,
        left,
        right,
    })
}

fn any_window_operator() -> impl Strategy<Value = Operator> {
    (0..3_u8, any_shape(), pair(), pair(), pair(), any_padding(), extent(), extent()).prop_map(
        |(kind, input, kernel, stride, dilation, padding, first, groups)| match kind {
            0 => Operator::Conv2d(
                Conv2d::new(input, first, Window { kernel, stride, dilation, padding }).groups(groups),
            ),
            1 => Operator::DepthwiseConv2d(
                DepthwiseConv2d::new(input, Window { kernel, stride, dilation, padding }).multiplier(first),
            ),
            _ => Operator::Pool(Pool {
                kind: PoolKind::Max,
                input,
                window: Window { stride, ..Window::of(kernel).padding(padding) },
            }),
        },
    )
}

fn any_other_operator() -> impl Strategy<Value = Operator> {
    (0..10_u8, any_shape(), any_shape(), prop::collection::vec(extent(), 0..4)).prop_map(
        |(kind, input, other, channels)| match kind {
            0 => linear(input.width, input.channels, other.channels),
            1 => Operator::MatMul(MatMul {
                images: input.batch,
                batch: input.height,
                m: input.width,
                k: input.channels,
                n: other.channels,
            }),
            2 => Operator::Mean(Mean { input }),
            3 => Operator::Concat(Concat::of_channels(input, channels)),
            4 => Operator::Elementwise(Elementwise { function: Function::Add, input, other: Some(other) }),
            5 => Operator::Softmax(Softmax { input }),
            6 => Operator::Norm(Norm { kind: NormKind::Layer, input }),
            7 => Operator::Embedding(Embedding {
                rows: input.width,
                vocabulary: input.height,
                features: input.channels,
            }),
            8 => Operator::Slice(Slice::of_channels(input, other.width, other.channels)),
            _ => Operator::Reshape(Reshape { input, output: other }),
        },
    )
}

proptest! {
    #[test]
    fn no_dimensions_make_a_check_or_a_checked_operator_panic(
        operator in prop_oneof![any_window_operator(), any_other_operator()]
    ) {
        if operator.check().is_ok() {
            let output = operator.output();
            prop_assert!(output.elements() <= MAX_ELEMENTS);
            prop_assert!(operator.macs() <= MAX_WORK);
            prop_assert!(operator.parameters() <= MAX_WORK);
            prop_assert!(operator.inputs().iter().all(|shape| shape.elements() <= MAX_ELEMENTS));
            prop_assert!(operator.input_elements() > 0);
            prop_assert!(!operator.to_string().is_empty());
        } else {
            prop_assert!(operator.check().is_err_and(|error| !error.help().is_empty()));
        }
    }
}
