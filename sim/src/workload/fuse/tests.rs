use proptest::prelude::*;

use super::*;
use crate::workload::{
    DataType, Function, GraphBuilder, NormKind, PoolKind, Read, Shape, Window, network, networks,
};

const EXTENT: Shape = Shape::image(8, 8, 16);

/// The invariants of every fusion.
fn assert_sound(graph: &Graph, stages: &[Stage]) {
    let mut stage_of = vec![None; graph.nodes().len()];
    for (index, stage) in stages.iter().enumerate() {
        for id in &stage.nodes {
            assert_eq!(stage_of[id.index()].replace(index), None, "a node in two stages");
        }
        assert!(stage.inputs().all(|input| input < index), "{} reads a later stage", stage.name);
        let read: Vec<Shape> = stage.layer.read_shapes().collect();
        assert_eq!(read.len(), stage.input_count, "{}", stage.name);
        for &Read { position, input } in &stage.reads {
            let written = stages[input].layer.operator.output();
            assert_eq!(read[position].elements(), written.elements(), "{}", stage.name);
        }
    }
    for (index, node) in graph.nodes().iter().enumerate() {
        let stage = stage_of[index].expect("every node is in a stage");
        for source in &node.inputs {
            let Source::Node(read) = source else { continue };
            let producer = stage_of[read.index()].expect("every node is in a stage");
            if producer != stage {
                assert!(
                    stages[stage].inputs().any(|input| input == producer),
                    "{} lost a dependency",
                    node.name
                );
                assert_eq!(stages[producer].nodes.last(), Some(read), "an inner result is read");
            }
        }
    }
    let work: u64 = stages.iter().map(|stage| stage.layer.operator.macs()).sum();
    assert_eq!(work, graph.macs());
}

fn functions(stage: &Stage) -> &[Function] {
    stage.layer.linked.functions()
}

#[test]
fn fusing_the_networks_loses_no_work_and_no_dependency() {
    for (name, _) in networks() {
        let graph = network(name).expect("bundled");
        assert_sound(&graph, &fuse(&graph));
    }
}

#[test]
fn a_residual_network_is_one_launch_per_convolution() {
    // 20 convolutions, a pool, a mean and a linear layer.
    let stages = fuse(&network("resnet18").expect("bundled"));
    assert_eq!(stages.len(), 23);
    let adds = stages.iter().filter(|stage| functions(stage) == [Function::Add, Function::Relu]);
    assert_eq!(adds.count(), 8);
}

#[test]
fn a_batch_norm_becomes_the_bias_of_its_convolution() {
    let mut net = GraphBuilder::new("net", DataType::F32);
    let x = net.input(EXTENT);
    net.conv_norm(x, 16, Window::same(3));
    let stages = fuse(&net.build().expect("sound"));
    assert_eq!(stages.len(), 1);
    assert!(matches!(stages[0].layer.operator, Operator::Conv2d(conv) if conv.bias));
}

#[test]
fn a_batch_norm_after_a_pool_stays() {
    let mut net = GraphBuilder::new("net", DataType::F32);
    let x = net.input(EXTENT);
    let x = net.pool(x, PoolKind::Max, Window::same(3));
    net.norm(x, NormKind::Batch);
    assert_eq!(fuse(&net.build().expect("sound")).len(), 2);
}

#[test]
fn a_result_with_two_readers_links_nothing() {
    let mut net = GraphBuilder::new("net", DataType::F32);
    let x = net.input(EXTENT);
    let x = net.conv(x, 16, Window::same(3));
    net.activate(x, Function::Relu);
    net.activate(x, Function::Tanh);
    assert_eq!(fuse(&net.build().expect("sound")).len(), 3);
}

#[test]
fn a_function_of_two_tensors_is_linked_to_the_one_computed_last() {
    for swapped in [false, true] {
        let mut net = GraphBuilder::new("net", DataType::F32);
        let x = net.input(EXTENT);
        let early = net.conv(x, 16, Window::same(1));
        let late = net.conv(x, 16, Window::same(3));
        if swapped {
            net.multiply(late, early)
        } else {
            net.multiply(early, late)
        };
        let stages = fuse(&net.build().expect("sound"));
        assert_eq!(stages.len(), 2);
        // The operator reads an input of the network, with a halo; the linked function reads its own rows.
        assert_eq!((&stages[1].reads[..], stages[1].input_count), (&[Read { position: 1, input: 0 }][..], 2));
        assert_eq!([0, 1].map(|position| stages[1].rows_read(position, 2..4)), [Some(1..5), Some(2..4)]);
    }
}

#[test]
fn an_operand_that_is_broadcast_along_the_rows_is_read_in_whole() {
    let mut net = GraphBuilder::new("net", DataType::F32);
    let x = net.input(EXTENT);
    let gate = net.mean(x);
    let late = net.conv(x, 16, Window::same(3));
    net.multiply(late, gate);
    let stages = fuse(&net.build().expect("sound"));
    assert_eq!(stages[1].reads, [Read { position: 1, input: 0 }]);
    assert_eq!(stages[1].rows_read(1, 2..4), None);
}

#[test]
fn weighing_channels_links_nothing_to_the_weights() {
    let mut net = GraphBuilder::new("net", DataType::F32);
    let x = net.input(EXTENT);
    let early = net.conv(x, 16, Window::same(3));
    let mean = net.mean(x);
    net.multiply(early, mean);
    // Not linked to the convolution, since the mean is computed after it, nor to the mean, which has
    // another extent.
    let stages = fuse(&net.build().expect("sound"));
    assert_eq!(stages.len(), 3);
    assert!(stages[2].inputs().eq([0, 1]));
}

#[test]
fn a_linked_sum_keeps_its_second_operand_as_an_input() {
    let mut net = GraphBuilder::new("net", DataType::F32);
    let x = net.input(EXTENT);
    let first = net.conv(x, 16, Window::same(1));
    let second = net.conv(first, 16, Window::same(3));
    net.add(second, first);
    let stages = fuse(&net.build().expect("sound"));
    assert_eq!(stages[1].reads, [0, 1].map(|position| Read { position, input: 0 }));
    assert_eq!((stages[0].input_count, stages[1].input_count), (1, 2));
}

#[test]
fn a_full_epilogue_starts_a_stage_of_its_own() {
    let mut net = GraphBuilder::new("net", DataType::F32);
    let mut x = net.input(EXTENT);
    x = net.conv(x, 16, Window::same(1));
    for _ in 0..8 {
        x = net.activate(x, Function::Relu);
    }
    let graph = net.build().expect("sound");
    let linked: Vec<usize> = fuse(&graph).iter().map(|stage| functions(stage).len()).collect();
    assert_eq!(linked, [6, 1]);
}

#[test]
fn nothing_is_linked_to_a_reshape() {
    let mut net = GraphBuilder::new("net", DataType::F32);
    let x = net.input(EXTENT);
    let x = net.reshape(x, Shape::tokens(1, EXTENT.elements() as u32));
    net.activate(x, Function::Relu);
    assert_eq!(fuse(&net.build().expect("sound")).len(), 2);
}

proptest! {
    #[test]
    fn any_graph_keeps_its_work_order_and_dependencies(
        choices in prop::collection::vec((0..7_u8, any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..40)
    ) {
        let mut net = GraphBuilder::new("net", DataType::F32);
        let mut tensors = vec![net.input(EXTENT)];
        for (kind, first, second) in choices {
            let (a, b) = (*first.get(&tensors), *second.get(&tensors));
            tensors.push(match kind {
                0 => net.conv(a, EXTENT.channels, Window::same(3)),
                1 => net.norm(a, NormKind::Batch),
                2 => net.activate(a, Function::Relu),
                3 => net.add(a, b),
                4 => net.multiply(a, b),
                5 => net.reshape(a, EXTENT),
                _ => net.depthwise_norm(a, Window::same(3)),
            });
        }
        let graph = net.build().expect("every operator keeps the extent");
        assert_sound(&graph, &fuse(&graph));
    }
}

#[test]
fn a_function_in_another_number_format_is_a_launch_of_its_own() {
    let mut builder = GraphBuilder::new("mixed", DataType::I8);
    let x = builder.input(Shape::tokens(5, 8));
    let product = builder.linear(x, 8);
    builder.activate(product, Function::Relu);
    let graph = builder.build().unwrap();
    let nodes = |own: Option<DataType>| -> Vec<Node> {
        let mut nodes = graph.nodes().to_vec();
        nodes[1].data_type = own;
        nodes
    };
    let stages = |own| fuse(&Graph::new("mixed", DataType::I8, graph.inputs().to_vec(), nodes(own)).unwrap());
    assert_eq!(stages(None).len(), 1);
    let formats: Vec<DataType> =
        stages(Some(DataType::F32)).iter().map(|stage| stage.layer.data_type).collect();
    assert_eq!(formats, [DataType::I8, DataType::F32]);
}
