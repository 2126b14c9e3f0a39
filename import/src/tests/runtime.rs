//! Nodes that ONNX Runtime writes when it quantises and fuses, and files of mixed number formats.

use super::Builder;
use coexec_sim::DataType;

fn convolutions() -> Builder {
    Builder::new(&[1, 16, 8, 8]).weights("w", &[32, 16, 3, 3]).node(
        "Conv",
        &["x", "w"],
        "a",
        &[("kernel_shape", &[3, 3]), ("pads", &[1, 1, 1, 1])],
    )
}

/// The format of a file with convolutions of 4,608 weights and a product with packed weights.
fn format_next_to_packed(outputs: i64) -> DataType {
    let attributes: [(&str, &[i64]); 3] = [("K", &[8]), ("N", &[outputs]), ("bits", &[4])];
    let model = convolutions().node("MatMulNBits", &["a", "packed", "scales"], "y", &attributes);
    let model = model.weights("packed", &[outputs, 1, 4]).weights("scales", &[outputs]);
    model.import().unwrap().graph.data_type()
}

#[test]
fn the_prevailing_format_of_weights_is_that_of_the_file() {
    assert_eq!(format_next_to_packed(16), DataType::F32);
    assert_eq!(format_next_to_packed(1024), DataType::W4A16);
    let quantised = |weights: &str| {
        let model = convolutions().weights("v", &[32, 32, 1, 1]).weights("s", &[1]).weights("z", &[1]);
        let last = ["a", "s", "z", weights, "s", "z", "s", "z"];
        model
            .node("QLinearConv", &last, "y", &[("kernel_shape", &[1, 1])])
            .import()
            .unwrap()
            .graph
            .data_type()
    };
    assert_eq!(quantised("v"), DataType::F32);
    // Embedding tables do not count.
    let table = Builder::new(&[1, 4]).weights("t", &[1000, 8]).half_weights("w", &[8, 8]).node(
        "Gather",
        &["t", "x"],
        "a",
        &[],
    );
    let model = table.node("MatMul", &["a", "w"], "y", &[]);
    assert_eq!(model.import().unwrap().graph.data_type(), DataType::F16);
}

#[test]
fn a_product_of_two_integer_tensors_is_one_of_integers() {
    let model = Builder::new(&[8, 8])
        .weights("s", &[1])
        .weights("z", &[1])
        .weights("w", &[8, 8])
        .node("QuantizeLinear", &["x", "s", "z"], "q", &[])
        .node("QLinearMatMul", &["q", "s", "z", "w", "s", "z", "s", "z"], "a", &[])
        .node("QLinearMatMul", &["a", "s", "z", "a", "s", "z", "s", "z"], "y", &[]);
    assert_eq!(own_formats(model), (DataType::I8, Vec::new()));
}

/// The file's format, and each operator whose format differs from it.
fn own_formats(model: Builder) -> (DataType, Vec<(String, DataType)>) {
    let graph = model.import().unwrap().graph;
    let own = graph.nodes().iter().filter_map(|node| Some((node.name.clone(), node.data_type?)));
    (graph.data_type(), own.collect())
}

#[test]
fn a_product_computes_in_the_format_of_its_own_weights() {
    // A language model's last product often stays in floats: here a third of all weights, each of four times the bytes.
    let packed: [(&str, &[i64]); 3] = [("K", &[8]), ("N", &[64]), ("bits", &[4])];
    let model = Builder::new(&[4, 8]).node("MatMulNBits", &["x", "packed", "scales"], "a", &packed);
    let model = model.weights("packed", &[64, 1, 4]).weights("scales", &[64]).half_weights("head", &[64, 4]);
    let model = model.node("MatMul", &["a", "head"], "y", &[]);
    let own = vec![("MatMul.y".to_owned(), DataType::F16)];
    assert_eq!(own_formats(model), (DataType::W4A16, own));

    // Dynamic quantisation leaves convolutions in floats.
    let model = Builder::new(&[1, 8, 4, 4]).weights("w", &[8, 8, 1, 1]).node("Conv", &["x", "w"], "a", &[]);
    let model = model.split("DynamicQuantizeLinear", &["a"], &["q", "s", "z"], &[]);
    let model = model.quantised_weights("v", &[4, 400]).weights("t", &[1]).quantised_weights("u", &[1]);
    let model = model.node("MatMulInteger", &["q", "v", "z", "u"], "y", &[]);
    let own = vec![("Conv.a".to_owned(), DataType::F32)];
    assert_eq!(own_formats(model), (DataType::I8Dynamic, own));
}

#[test]
fn integer_weights_of_float_activations_are_dequantised_and_computed_with_in_floats() {
    let quantised = |read: &'static str| {
        let model = Builder::new(&[1, 64]).weights("s", &[1]).quantised_weights("z", &[1]);
        let model = model.quantised_weights("w", &[64, 64]).quantised_weights("v", &[64, 32]);
        let model = model.node("QuantizeLinear", &["x", "s", "z"], "q", &[]);
        let model = model.node("DequantizeLinear", &["q", "s", "z"], "d", &[]);
        let model = model.node("DequantizeLinear", &["w", "s", "z"], "dw", &[]);
        let model = model.node("DequantizeLinear", &["v", "s", "z"], "dv", &[]);
        let model = model.node("MatMul", &["d", "dw"], "a", &[]).node("Relu", &["a"], "b", &[]);
        let model = model.node("QuantizeLinear", &["b", "s", "z"], "e", &[]);
        let model = model.node("DequantizeLinear", &["e", "s", "z"], "f", &[]);
        own_formats(model.node("MatMul", &[read, "dv"], "y", &[]))
    };
    assert_eq!(quantised("f"), (DataType::I8, Vec::new()));
    assert_eq!(quantised("b"), (DataType::I8, vec![("MatMul.y".to_owned(), DataType::F32)]));
}

#[test]
fn quantised_activations_may_have_16_bits() {
    let model = Builder::new(&[1, 64])
        .weights("s", &[1])
        .quantised_weights("z", &[1])
        .quantised_weights("w", &[64, 64]);
    let mut model = model.weights("wide", &[1]);
    model.0.initializer.last_mut().unwrap().data_type = 4;
    let model = model.node("QuantizeLinear", &["x", "s", "wide"], "q", &[]);
    let model = model.node("DequantizeLinear", &["q", "s", "wide"], "d", &[]);
    let model = model.node("DequantizeLinear", &["w", "s", "z"], "dw", &[]);
    assert_eq!(own_formats(model.node("MatMul", &["d", "dw"], "y", &[])), (DataType::W8A16, Vec::new()));
}

#[test]
fn blocked_layouts_cost_the_same_as_plain_ones() {
    let window: (&str, &[i64]) = ("kernel_shape", &[1, 1]);
    let model = convolutions().weights("v", &[32, 32, 1, 1]);
    let model = model.node("Conv", &["a", "v", "", "a"], "b", &[window]);
    let model = model.node("ReorderOutput", &["b"], "c", &[("channels", &[24]), ("channels_last", &[1])]);
    let model = model.node("ReorderInput", &["c"], "d", &[("channels_last", &[1])]);
    let model = model.node("ReorderOutput", &["d"], "e", &[("channels", &[24])]);
    let model = model.node("Upsample", &["e"], "y", &[("scales", &[1, 1, 2, 2])]);
    let wanted = [
        "conv2d 3x3 8x8x16 -> 8x8x32",
        "conv2d 1x1 8x8x32 -> 8x8x32",
        "Add 8x8x32",
        "slice -> 8x8x24",
        "resize -> 16x16x24",
    ];
    assert_eq!(model.operators(), wanted);
}

#[test]
fn padded_channels_that_do_not_fit_are_those_of_a_file_for_one_cpu() {
    let mut model =
        Builder::new(&[1, 24, 8, 8]).weights("w", &[32, 32, 3, 3]).node("Conv", &["x", "w"], "y", &[]);
    model.0.node[0].domain = "com.microsoft.nchwc".to_owned();
    let error = model.import().unwrap_err();
    assert!(
        error.to_string().contains("saved the file for one kind of CPU, with padded channels"),
        "{error}"
    );
    assert!(error.help().contains("lower level of graph optimisation"), "{}", error.help());
}

#[test]
fn the_addend_of_a_fused_convolution_is_kept() {
    let apart = convolutions().weights("v", &[32, 16, 1, 1]).node("Conv", &["x", "v"], "b", &[]);
    let fused = apart.clone().node("FusedConv", &["x", "v", "", "a"], "y", &[]);
    let apart = apart.node("Add", &["b", "a"], "y", &[]);
    assert_eq!(fused.import().unwrap().graph.macs(), apart.import().unwrap().graph.macs());
    // A node of a damaged file may have no result.
    let model =
        convolutions().split("FusedConv", &["x", "w", "", "a"], &[], &[]).node("Relu", &["a"], "y", &[]);
    assert!(model.import().is_ok());
}

#[test]
fn channels_last_nodes_equal_channels_first_ones() {
    let weights = || Builder::new(&[1, 8, 6, 16]).weights("w", &[32, 16, 3, 3]).weights("s", &[1]);
    let window: (&str, &[i64]) = ("kernel_shape", &[3, 3]);
    let inside = weights().node(
        "QLinearConv",
        &["x", "s", "s", "w", "s", "s", "s", "s"],
        "y",
        &[window, ("channels_last", &[1])],
    );
    assert_eq!(inside.operators(), ["conv2d 3x3 8x6x16 -> 6x4x32"]);
    let pool = weights().node("NhwcMaxPool", &["x"], "y", &[window]);
    assert_eq!(pool.operators(), ["pool -> 6x4x16"]);
}

#[test]
fn a_table_of_bytes_has_two_weights_in_each() {
    let of = |bits: i64| {
        let model = Builder::new(&[1, 5]).quantised_weights("t", &[100, 32]).weights("s", &[100, 1]);
        let attributes: [(&str, &[i64]); 2] = [("gather_axis", &[0]), ("bits", &[bits])];
        model.node("GatherBlockQuantized", &["t", "x", "s"], "y", &attributes).operators()
    };
    assert_eq!(of(4).last().unwrap(), "embedding -> 1x5x64");
    assert_eq!(of(8).last().unwrap(), "embedding -> 1x5x32");
}

#[test]
fn a_table_may_be_the_weights_of_a_product_in_another_shape() {
    let model = Builder::new(&[1, 5]).quantised_weights("w", &[100, 2, 16]).weights("s", &[100, 2]);
    let model = model.integers("shape", &[100, -1]).node("Reshape", &["w", "shape"], "t", &[]);
    let attributes: [(&str, &[i64]); 1] = [("gather_axis", &[0])];
    let model = model.node("GatherBlockQuantized", &["t", "x", "s"], "e", &attributes);
    let sizes: [(&str, &[i64]); 3] = [("K", &[64]), ("N", &[100]), ("block_size", &[32])];
    let operators = model.node("MatMulNBits", &["e", "w", "s"], "y", &sizes).operators();
    assert_eq!(operators, ["reshape -> 1x5x1", "embedding -> 1x5x64", "linear 5x64 -> 100"]);
}

#[test]
fn heads_of_queries_and_values_may_differ_in_width() {
    let model = Builder::new(&[1, 5, 16]).weights("w", &[16, 40]).weights("b", &[40]);
    let attributes: [(&str, &[i64]); 2] = [("num_heads", &[2]), ("qkv_hidden_sizes", &[8, 8, 24])];
    let model = model.node("Attention", &["x", "w", "b"], "y", &attributes);
    assert_eq!(model.import().unwrap().graph.macs(), 5 * 16 * 40 + 5 * 5 * 8 + 5 * 5 * 24);
}
