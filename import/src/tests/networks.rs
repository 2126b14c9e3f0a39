//! Bundled networks survive an export to ONNX and re-import.

use super::Builder;
use coexec_sim::workload::{
    Function, Graph, Layer, Node, Operator, Padding, PoolKind, Source, fuse, network,
};

/// A network of images as an ONNX model, channels first.
fn written(graph: &Graph) -> Builder {
    let input = graph.inputs()[0];
    let extents = [1, input.channels, input.height, input.width].map(i64::from);
    let mut model = Builder::new(&extents);
    for (index, node) in graph.nodes().iter().enumerate() {
        let reads: Vec<String> = node.inputs.iter().map(|source| name(*source)).collect();
        let reads: Vec<&str> = reads.iter().map(String::as_str).collect();
        model = with_node(model, node, &reads, &format!("t{index}"));
    }
    model
}

fn name(source: Source) -> String {
    match source {
        Source::Input(_) => "x".to_owned(),
        Source::Node(id) => format!("t{}", id.0),
    }
}

fn pads(padding: Padding) -> [i64; 4] {
    [padding.top, padding.left, padding.bottom, padding.right].map(i64::from)
}

fn with_node(model: Builder, node: &Node, reads: &[&str], to: &str) -> Builder {
    let weights = format!("{to}.weights");
    let operands = [reads[0], weights.as_str()];
    match &node.operator {
        Operator::Conv2d(conv) => {
            let [height, width] = conv.window.kernel;
            let extents =
                [conv.output_channels, conv.input.channels / conv.groups, height, width].map(i64::from);
            let (strides, pads, group) =
                (conv.window.stride.map(i64::from), pads(conv.window.padding), [i64::from(conv.groups)]);
            let attributes: &[(&str, &[i64])] = &[("strides", &strides), ("pads", &pads), ("group", &group)];
            let model = model.weights(&weights, &extents);
            if conv.bias {
                let bias = format!("{to}.bias");
                let model = model.weights(&bias, &extents[..1]);
                return model.node("Conv", &[operands[0], operands[1], &bias], to, attributes);
            }
            model.node("Conv", &operands, to, attributes)
        }
        Operator::DepthwiseConv2d(conv) => {
            let [height, width] = conv.window.kernel.map(i64::from);
            let channels = i64::from(conv.input.channels);
            let (strides, pads) = (conv.window.stride.map(i64::from), pads(conv.window.padding));
            let attributes: &[(&str, &[i64])] =
                &[("strides", &strides), ("pads", &pads), ("group", &[channels])];
            model.weights(&weights, &[channels, 1, height, width]).node("Conv", &operands, to, attributes)
        }
        Operator::Pool(pool) => {
            let kind = if pool.kind == PoolKind::Max { "MaxPool" } else { "AveragePool" };
            let (kernel, strides, pads) = (
                pool.window.kernel.map(i64::from),
                pool.window.stride.map(i64::from),
                pads(pool.window.padding),
            );
            model.node(kind, reads, to, &[("kernel_shape", &kernel), ("strides", &strides), ("pads", &pads)])
        }
        Operator::Mean(_) => model.node("GlobalAveragePool", reads, to, &[]),
        Operator::Concat(_) => model.node("Concat", reads, to, &[("axis", &[1])]),
        Operator::Reshape(_) => model.node("Flatten", reads, to, &[]),
        Operator::Norm(_) => model.node("BatchNormalization", reads, to, &[]),
        Operator::Softmax(_) => model.node("Softmax", reads, to, &[("axis", &[-1])]),
        Operator::Linear(linear) => {
            let (flat, bias) = (format!("{to}.flat"), format!("{to}.bias"));
            let features = [linear.output_features, linear.input_features].map(i64::from);
            let model = model.weights(&weights, &features).weights(&bias, &features[..1]);
            let model = model.node("Flatten", reads, &flat, &[]);
            model.node("Gemm", &[&flat, &weights, &bias], to, &[("transB", &[1])])
        }
        Operator::Elementwise(elementwise) => match elementwise.function {
            Function::Silu => {
                let gate = format!("{to}.gate");
                model.node("Sigmoid", reads, &gate, &[]).node("Mul", &[reads[0], &gate], to, &[])
            }
            Function::Relu6 => model.node("Clip", reads, to, &[]),
            Function::Multiply => model.node("Mul", reads, to, &[]),
            function => model.node(&format!("{function:?}"), reads, to, &[]),
        },
        operator => panic!("no bundled network of images has a {operator}"),
    }
}

/// The layers that plans are made for, with their inputs.
fn layers(graph: &Graph) -> Vec<(Layer, Vec<usize>)> {
    fuse(graph).into_iter().map(|stage| (stage.layer.clone(), stage.inputs().collect())).collect()
}

#[test]
fn an_imported_network_has_the_layers_of_the_bundled_one() {
    for name in ["resnet18", "resnet50", "mobilenet-v2", "vgg16", "inception-v3", "efficientnet-b2"] {
        let bundled = network(name).unwrap();
        let imported = written(&bundled).import().unwrap();
        assert!(layers(&imported.graph) == layers(&bundled), "{name}");
        assert_eq!(imported.graph.macs(), bundled.macs(), "{name}");
    }
}

/// A network of two branches of two convolutions, with its nodes in one of two orders and its tensors called
/// `names`.
fn branches(is_reversed: bool, names: [&str; 6]) -> Vec<String> {
    let mut model = Builder::new(&[1, 8, 16, 16]);
    // Interleaved, or one branch after the other.
    for convolution in if is_reversed { [1, 3, 0, 2] } else { [0, 1, 2, 3] } {
        let from = if convolution < 2 { "x" } else { names[convolution - 2] };
        let weights = format!("{}.w", names[convolution]);
        model = model.weights(&weights, &[8, 8, 1, 1]).node(
            "Conv",
            &[from, &weights],
            names[convolution],
            &[("kernel_shape", &[1, 1])],
        );
    }
    let model = model.node("Concat", &[names[2], names[3]], names[4], &[("axis", &[1])]);
    let imported = model.node("Relu", &[names[4]], names[5], &[]).import().unwrap();
    let described = |node: &Node| format!("{} of {:?}", node.operator, node.inputs);
    imported.graph.nodes().iter().map(described).collect()
}

#[test]
fn neither_names_nor_the_order_in_a_file_change_a_workload() {
    let usual = branches(false, ["a", "b", "c", "d", "e", "y"]);
    assert_eq!(usual.len(), 6);
    assert_eq!(branches(true, ["a", "b", "c", "d", "e", "y"]), usual);
    assert_eq!(branches(true, ["zz", "9", "in/put", "t:0", "\u{1b}", "out"]), usual);
}
