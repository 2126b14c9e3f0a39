use super::*;
use crate::workload::{Operator, Padding, Shape};

/// Name, convolutions, linear layers, multiply-accumulates in 10^9 and
/// parameters, as published; the parameters are those of the common
/// pre-trained models.
const PUBLISHED: [(&str, usize, usize, &str, u64); 9] = [
    ("vgg16", 13, 3, "15.470", 138_357_544),
    ("resnet18", 20, 1, "1.814", 11_689_512),
    ("resnet34", 36, 1, "3.664", 21_797_672),
    ("resnet50", 53, 1, "4.089", 25_557_032),
    ("inception-v3", 94, 1, "5.713", 23_834_568),
    ("mobilenet-v2", 52, 1, "0.301", 3_504_872),
    ("efficientnet-b2", 115, 1, "1.088", 9_109_994),
    ("vit-tiny-p16", 1, 49, "1.254", 5_717_416),
    ("vit-b32", 1, 49, "4.409", 88_224_232),
];

/// Name, convolutions, pools, linear layers and multiply-accumulates in 10^9
/// of the operators `CoDL`'s artifact times.
const TIMED_BY_CODL: [(&str, usize, usize, usize, &str); 5] = [
    ("codl-retinaface", 86, 1, 0, "89.35"),
    ("codl-yolov2", 22, 5, 0, "15.23"),
    ("codl-vgg16", 13, 5, 3, "15.47"),
    ("codl-posenet", 31, 3, 0, "30.16"),
    ("codl-fast-style-transfer", 14, 0, 0, "35.92"),
];

/// Committed lists of layers: every convolution, pool, mean, linear layer and
/// matrix product, in order. Height and width are the input's, padded for the
/// `codl-` networks; a matrix product lists m and batch there, and k and n as
/// its channels.
const LAYERS: [(&str, &str); 14] = [
    ("vgg16", include_str!("../../../tests/golden/layers/vgg16.csv")),
    ("resnet18", include_str!("../../../tests/golden/layers/resnet18.csv")),
    ("resnet34", include_str!("../../../tests/golden/layers/resnet34.csv")),
    ("resnet50", include_str!("../../../tests/golden/layers/resnet50.csv")),
    ("inception-v3", include_str!("../../../tests/golden/layers/inception-v3.csv")),
    ("mobilenet-v2", include_str!("../../../tests/golden/layers/mobilenet-v2.csv")),
    ("efficientnet-b2", include_str!("../../../tests/golden/layers/efficientnet-b2.csv")),
    ("vit-tiny-p16", include_str!("../../../tests/golden/layers/vit-tiny-p16.csv")),
    ("vit-b32", include_str!("../../../tests/golden/layers/vit-b32.csv")),
    ("codl-retinaface", include_str!("../../../tests/golden/layers/codl-retinaface.csv")),
    ("codl-yolov2", include_str!("../../../tests/golden/layers/codl-yolov2.csv")),
    ("codl-vgg16", include_str!("../../../tests/golden/layers/codl-vgg16.csv")),
    ("codl-posenet", include_str!("../../../tests/golden/layers/codl-posenet.csv")),
    ("codl-fast-style-transfer", include_str!("../../../tests/golden/layers/codl-fast-style-transfer.csv")),
];

fn count(graph: &Graph, which: impl Fn(&Operator) -> bool) -> usize {
    graph.nodes().iter().filter(|node| which(&node.operator)).count()
}

fn convolutions(graph: &Graph) -> usize {
    count(graph, |operator| matches!(operator, Operator::Conv2d(_) | Operator::DepthwiseConv2d(_)))
}

fn linear_layers(graph: &Graph) -> usize {
    count(graph, |operator| matches!(operator, Operator::Linear(_)))
}

/// A row of a committed list; `None` for operators that the lists omit.
fn row(operator: &Operator, padded: bool) -> Option<String> {
    let output = operator.output();
    let window = |op: &str, input: Shape, kernel: [u32; 2], stride: u32, padding: Padding, groups: u32| {
        let (mut height, mut width) = (input.height, input.width);
        if padded {
            height += padding.top + padding.bottom;
            width += padding.left + padding.right;
        }
        let [kernel_height, kernel_width] = kernel;
        format!(
            "{op},{height},{width},{},{},{kernel_height},{kernel_width},{stride},{groups},{},{}",
            input.channels, output.channels, output.height, output.width
        )
    };
    let square = |stride: [u32; 2]| {
        assert_eq!(stride[0], stride[1]);
        stride[0]
    };
    Some(match operator {
        Operator::Conv2d(conv) => window(
            "conv",
            conv.input,
            conv.window.kernel,
            square(conv.window.stride),
            conv.window.padding,
            conv.groups,
        ),
        Operator::DepthwiseConv2d(conv) => {
            let channels = conv.input.channels;
            window(
                "dwconv",
                conv.input,
                conv.window.kernel,
                square(conv.window.stride),
                conv.window.padding,
                channels,
            )
        }
        Operator::Pool(pool) => {
            let channels = pool.input.channels;
            window(
                "pool",
                pool.input,
                pool.window.kernel,
                square(pool.window.stride),
                pool.window.padding,
                channels,
            )
        }
        Operator::Mean(mean) => {
            let kernel = [mean.input.height, mean.input.width];
            window("gap", mean.input, kernel, 1, Padding::NONE, mean.input.channels)
        }
        Operator::Linear(l) => {
            format!("linear,{0},1,{1},{2},1,1,1,1,{0},1", l.rows, l.input_features, l.output_features)
        }
        Operator::MatMul(p) => format!("matmul,{0},{1},{2},{3},1,1,1,1,{0},{1}", p.m, p.batch, p.k, p.n),
        _ => return None,
    })
}

#[test]
fn parameters_and_work_are_those_published() {
    for (name, convs, linear, gigamacs, parameters) in PUBLISHED {
        let graph = network(name).expect(name);
        assert_eq!(graph.parameters(), parameters, "parameters of {name}");
        assert_eq!(format!("{:.3}", graph.macs() as f64 / 1e9), gigamacs, "work of {name}");
        assert_eq!(convolutions(&graph), convs, "convolutions of {name}");
        assert_eq!(linear_layers(&graph), linear, "linear layers of {name}");
    }
}

#[test]
fn the_operators_codl_times_are_counted_as_its_artifact_lists_them() {
    for (name, convs, pools, linear, gigamacs) in TIMED_BY_CODL {
        let graph = network(name).expect(name);
        assert_eq!(convolutions(&graph), convs, "convolutions of {name}");
        assert_eq!(count(&graph, |operator| matches!(operator, Operator::Pool(_))), pools, "pools of {name}");
        assert_eq!(linear_layers(&graph), linear, "linear layers of {name}");
        assert_eq!(format!("{:.2}", graph.macs() as f64 / 1e9), gigamacs, "work of {name}");
    }
}

#[test]
fn layers_are_those_of_the_committed_lists() {
    for (name, golden) in LAYERS {
        let graph = network(name).expect(name);
        let padded = name.starts_with("codl-");
        let found: Vec<String> =
            graph.nodes().iter().filter_map(|node| row(&node.operator, padded)).collect();
        let expected: Vec<&str> = golden.lines().skip(1).collect();
        for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(found, expected, "row {index} of {name}");
        }
        assert_eq!(found.len(), expected.len(), "rows of {name}");
    }
}

#[test]
fn every_bundled_network_is_a_sound_graph_of_its_own_name() {
    for ((name, title), (_, content)) in networks().zip(BUNDLED) {
        assert_eq!(read(name, content).unwrap().name(), name);
        let file: NetworkFile = crate::input::from_toml(content).unwrap();
        assert_eq!(file.title, title);
    }
    assert_eq!(network("alexnet"), None);
}

#[test]
fn classifiers_write_a_thousand_scores_and_nothing_else() {
    for (name, ..) in PUBLISHED {
        let graph = network(name).expect(name);
        let unread = graph.nodes().iter().zip(graph.reads()).filter(|&(_, reads)| reads == 0);
        let outputs: Vec<Shape> = unread.map(|(node, _)| node.operator.output()).collect();
        assert_eq!(outputs, [Shape::tokens(1, 1000)], "{name}");
    }
}

#[test]
fn the_transformer_block_is_the_papers_example() {
    // EPEW'25: fc1 of ViT-B/32 is 50x768 to 3072, fc2 (figure 2) 50x3072 to 768.
    let graph = network("vit-b32-mlp").expect("bundled");
    let described: Vec<String> = graph.nodes().iter().map(|node| node.operator.to_string()).collect();
    assert_eq!(described, ["linear 50x768 -> 3072", "element-wise -> 1x50x3072", "linear 50x3072 -> 768"]);
}
