//! Nodes that ONNX Runtime writes as it quantises and fuses, and the format of files that mix formats.

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

/// The format of a file with convolutions of 4,608 weights and a product of so many that are packed.
fn beside_packed(outputs: i64) -> DataType {
    let attributes: [(&str, &[i64]); 3] = [("K", &[8]), ("N", &[outputs]), ("bits", &[4])];
    let model = convolutions().node("MatMulNBits", &["a", "packed", "scales"], "y", &attributes);
    let model = model.weights("packed", &[outputs, 1, 4]).weights("scales", &[outputs]);
    model.import().unwrap().graph.data_type()
}

#[test]
fn most_weights_say_in_which_format_a_file_computes() {
    assert_eq!(beside_packed(16), DataType::F32);
    assert_eq!(beside_packed(1024), DataType::W4A16);
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
    // Tables in which rows are looked up are not computed with.
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
fn what_a_fused_convolution_adds_is_not_lost() {
    let apart = convolutions().weights("v", &[32, 16, 1, 1]).node("Conv", &["x", "v"], "b", &[]);
    let fused = apart.clone().node("FusedConv", &["x", "v", "", "a"], "y", &[]);
    let apart = apart.node("Add", &["b", "a"], "y", &[]);
    assert_eq!(fused.import().unwrap().graph.macs(), apart.import().unwrap().graph.macs());
    // A damaged file's node may give nothing.
    let model =
        convolutions().split("FusedConv", &["x", "w", "", "a"], &[], &[]).node("Relu", &["a"], "y", &[]);
    assert!(model.import().is_ok());
}

#[test]
fn channels_inside_are_those_outside() {
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
fn heads_of_queries_and_values_may_differ_in_width() {
    let model = Builder::new(&[1, 5, 16]).weights("w", &[16, 40]).weights("b", &[40]);
    let attributes: [(&str, &[i64]); 2] = [("num_heads", &[2]), ("qkv_hidden_sizes", &[8, 8, 24])];
    let model = model.node("Attention", &["x", "w", "b"], "y", &attributes);
    assert_eq!(model.import().unwrap().graph.macs(), 5 * 16 * 40 + 5 * 5 * 8 + 5 * 5 * 24);
}
