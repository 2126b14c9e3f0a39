//! Layouts: which reshapes and transposes move elements.

use super::{Builder, described};
use crate::ImportError;
use coexec_sim::{DataType, Source};

#[test]
fn a_convolution_with_channels_first_is_one_with_channels_last() {
    let model = Builder::new(&[1, 3, 224, 224]).weights("w", &[64, 3, 7, 7]).node(
        "Conv",
        &["x", "w"],
        "y",
        &[("strides", &[2, 2]), ("pads", &[3, 3, 3, 3])],
    );
    assert_eq!(model.operators(), ["conv2d 7x7 224x224x3 -> 112x112x64"]);
}

#[test]
fn as_many_groups_as_channels_are_a_depthwise_convolution() {
    let window: &[(&str, &[i64])] = &[("group", &[32]), ("pads", &[1, 1, 1, 1])];
    let model =
        Builder::new(&[1, 32, 8, 8]).weights("w", &[64, 1, 3, 3]).node("Conv", &["x", "w"], "y", window);
    assert_eq!(model.operators(), ["depthwise conv2d 3x3 8x8x32 -> 8x8x64"]);
    let model = Builder::new(&[1, 32, 8, 8]).weights("w", &[64, 8, 3, 3]).node(
        "Conv",
        &["x", "w"],
        "y",
        &[("group", &[4])],
    );
    assert_eq!(model.operators(), ["grouped conv2d 3x3 8x8x32 -> 6x6x64"]);
}

#[test]
fn patches_become_tokens_without_moving_and_flattened_images_do_not() {
    // The rows are pixels of an image, so the linear layer is a pointwise convolution, of several images as well.
    for (images, wanted) in [(1, "conv2d 1x1 4x4x8 -> 4x4x24"), (3, "conv2d 1x1 3x4x4x8 -> 3x4x4x24")] {
        let patches = Builder::new(&[images, 8, 4, 4])
            .integers("tokens", &[0, 8, -1])
            .weights("w", &[8, 24])
            .node("Reshape", &["x", "tokens"], "columns", &[])
            .node("Transpose", &["columns"], "rows", &[("perm", &[0, 2, 1])])
            .node("MatMul", &["rows", "w"], "y", &[]);
        assert_eq!(patches.operators(), [wanted]);
    }
    let flat = Builder::new(&[1, 8, 4, 4])
        .weights("w", &[10, 128])
        .node("Flatten", &["x"], "flat", &[])
        .node("Gemm", &["flat", "w"], "y", &[("transB", &[1])]);
    assert_eq!(flat.operators(), ["reshape -> 1x1x128", "linear 1x128 -> 10"]);
}

#[test]
fn attention_splits_heads_as_the_bundled_transformers_do() {
    let model = Builder::new(&[1, 50, 768])
        .weights("qkv", &[768, 2304])
        .integers("heads", &[1, 50, 12, 64])
        .integers("rows", &[1, 50, 768])
        .weights("out", &[768, 768])
        .scalar("scale", 0.125)
        .node("MatMul", &["x", "qkv"], "projected", &[])
        .split("Split", &["projected"], &["q3", "k3", "v3"], &[("axis", &[2])])
        .node("Reshape", &["q3", "heads"], "q4", &[])
        .node("Reshape", &["k3", "heads"], "k4", &[])
        .node("Reshape", &["v3", "heads"], "v4", &[])
        .node("Transpose", &["q4"], "q", &[("perm", &[0, 2, 1, 3])])
        .node("Transpose", &["k4"], "k", &[("perm", &[0, 2, 1, 3])])
        .node("Transpose", &["v4"], "v", &[("perm", &[0, 2, 1, 3])])
        .node("Mul", &["q", "scale"], "scaled", &[])
        .node("Transpose", &["k"], "kt", &[("perm", &[0, 1, 3, 2])])
        .node("MatMul", &["scaled", "kt"], "scores", &[])
        .node("Softmax", &["scores"], "weights", &[("axis", &[-1])])
        .node("MatMul", &["weights", "v"], "mixed", &[])
        .node("Transpose", &["mixed"], "back", &[("perm", &[0, 2, 1, 3])])
        .node("Reshape", &["back", "rows"], "joined", &[])
        .node("MatMul", &["joined", "out"], "y", &[]);
    let bundled = coexec_sim::workload::network("vit-b32").unwrap();
    // The bundled network's first attention, from its input projection to its output projection.
    let is_attention = |name: &str| name.starts_with("layer1.attention") && !name.contains("norm");
    let nodes = bundled.nodes().iter().filter(|node| is_attention(&node.name) && !node.name.contains("add"));
    let mut wanted: Vec<String> = nodes.map(|node| node.operator.to_string()).collect();
    let mut found = model.operators();
    wanted.sort();
    found.sort();
    assert_eq!(found, wanted);
}

#[test]
fn several_images_share_the_constant_that_scores_are_scaled_by() {
    let model = Builder::new(&[1, 50, 64])
        .weights("w", &[64, 64])
        .integers("heads", &[1, 50, 4, 16])
        .scalar("scale", 0.25)
        .node("MatMul", &["x", "w"], "projected", &[])
        .node("Reshape", &["projected", "heads"], "split", &[])
        .node("Transpose", &["split"], "q", &[("perm", &[0, 2, 1, 3])])
        .node("Transpose", &["split"], "k", &[("perm", &[0, 2, 3, 1])])
        .node("MatMul", &["q", "k"], "scores", &[])
        .node("Mul", &["scores", "scale"], "scaled", &[])
        .node("Softmax", &["scaled"], "y", &[("axis", &[-1])]);
    let one = model.import().unwrap().graph;
    let three = one.with_batch(3).unwrap();
    assert_eq!(three.macs(), 3 * one.macs());
    assert_eq!(three.inputs()[1..], one.inputs()[1..], "{:?}", described(&three));
    assert_eq!(one.inputs().len(), 2);
}

#[test]
fn casts_to_floats_divide_as_floats_and_casts_back_round_towards_zero() {
    let sliced = |kind: i64| {
        let model = Builder::new(&[1, 8, 7, 7])
            .integers("rows", &[2])
            .integers("zero", &[0])
            .scalar("two", 2.0)
            .node("Shape", &["x"], "extents", &[])
            .node("Gather", &["extents", "rows"], "seven", &[])
            .node("Cast", &["seven"], "number", &[("to", &[kind])])
            .node("Div", &["number", "two"], "half", &[])
            .node("Cast", &["half"], "whole", &[("to", &[7])])
            .node("Sub", &["half", "whole"], "rest", &[])
            .node("Ceil", &["rest"], "up", &[])
            .node("Add", &["whole", "up"], "count", &[]);
        model.node("Slice", &["x", "zero", "count", "rows"], "y", &[]).operators()
    };
    assert_eq!(sliced(1), ["slice -> 4x7x8"]);
    assert_eq!(sliced(7), ["slice -> 3x7x8"]);
}

#[test]
fn shapes_are_computed_on_the_way() {
    // What an exporter writes for x.view(x.size(0), -1) with a symbolic batch.
    let model = Builder::new(&[0, 8, 1, 1])
        .integers("zero", &[0])
        .integers("minus", &[-1])
        .weights("w", &[8, 4])
        .node("Shape", &["x"], "extents", &[])
        .node("Gather", &["extents", "zero"], "batch", &[("axis", &[0])])
        .node("Concat", &["batch", "minus"], "wanted", &[("axis", &[0])])
        .node("Reshape", &["x", "wanted"], "flat", &[])
        .node("MatMul", &["flat", "w"], "y", &[]);
    assert_eq!(described(&model.import_with(&[("open", 1)]).unwrap().graph), ["linear 1x8 -> 4"]);
}

#[test]
fn an_open_dimension_is_what_it_is_set_to_and_has_to_be_set() {
    let model = || Builder::new(&[1, 0, 64]).weights("w", &[64, 8]).node("MatMul", &["x", "w"], "y", &[]);
    let error = model().import().unwrap_err();
    assert_eq!(error, ImportError::OpenDimensions([("open".to_owned(), "axis 1 of x".to_owned())].into()));
    assert!(error.help().contains("--dim open=N"));
    let with = |name: &str| model().import_with(&[(name, 77)]);
    assert_eq!(described(&with("open").unwrap().graph), ["linear 77x64 -> 8"]);
    let error = with("opne").unwrap_err();
    assert!(matches!(error, ImportError::NoSuchDimension { .. }) && error.help().contains("open"));
}

#[test]
fn padding_is_absorbed_by_windows_and_materialised_elsewhere() {
    let pads: &[i64] = &[0, 0, 1, 1, 0, 0, 2, 2];
    let model = Builder::new(&[1, 3, 8, 8])
        .integers("pads", pads)
        .weights("w", &[4, 3, 3, 3])
        .node("Pad", &["x", "pads"], "padded", &[])
        .node("Conv", &["padded", "w"], "y", &[]);
    assert_eq!(model.operators(), ["conv2d 3x3 8x8x3 -> 9x9x4"]);
    let model = Builder::new(&[1, 3, 8, 8])
        .integers("pads", pads)
        .node("Pad", &["x", "pads"], "padded", &[])
        .node("Relu", &["padded"], "y", &[]);
    assert_eq!(model.operators(), ["pad -> 11x11x3", "Relu 11x11x3"]);
}

#[test]
fn channels_and_rows_are_sliced_where_they_lie() {
    let halves = Builder::new(&[1, 8, 4, 4]).split("Split", &["x"], &["a", "b"], &[("axis", &[1])]).node(
        "Concat",
        &["b", "a"],
        "y",
        &[("axis", &[1])],
    );
    assert_eq!(halves.operators(), ["slice -> 4x4x4", "slice -> 4x4x4", "concat -> 4x4x8"]);
    let token = Builder::new(&[1, 50, 768])
        .integers("first", &[0])
        .weights("w", &[768, 10])
        .node("Gather", &["x", "first"], "token", &[("axis", &[1])])
        .node("MatMul", &["token", "w"], "y", &[]);
    assert_eq!(token.operators(), ["slice -> 1x1x768", "linear 1x768 -> 10"]);
}

#[test]
fn a_token_joined_to_others_is_given_and_an_image_is_resized() {
    let imported = Builder::new(&[1, 49, 768])
        .weights("class", &[1, 1, 768])
        .node("Concat", &["class", "x"], "y", &[("axis", &[1])])
        .import()
        .unwrap();
    assert_eq!(imported.inputs.len(), 2);
    let [concat] = imported.graph.nodes() else { panic!("nothing is rearranged") };
    assert_eq!(concat.operator.to_string(), "concat -> 1x50x768");
    assert!(concat.inputs.iter().any(|source| matches!(source, Source::Input(_))));
    let larger = Builder::new(&[1, 8, 4, 4])
        .integers("none", &[])
        .integers("sizes", &[1, 8, 9, 8])
        .node("Resize", &["x", "", "", "sizes"], "y", &[])
        .import()
        .unwrap();
    assert_eq!(described(&larger.graph), ["resize -> 9x8x8"]);
    assert!(larger.approximated.is_empty());
}

#[test]
fn weights_that_are_stored_in_16_bits_and_cast_are_computed_with_in_32() {
    let tokens = || Builder::new(&[1, 50, 64]).half_weights("stored", &[64, 8]);
    let cast = tokens().node("Cast", &["stored"], "w", &[("to", &[1])]).node("MatMul", &["x", "w"], "y", &[]);
    assert_eq!(cast.import().unwrap().graph.data_type(), DataType::F32);
    let half = tokens().node("MatMul", &["x", "stored"], "y", &[]);
    assert_eq!(half.import().unwrap().graph.data_type(), DataType::F16);
}

#[test]
fn scores_of_one_channel_are_joined_as_rows() {
    let model = Builder::new(&[1, 1, 600, 1]).weights("others", &[1, 1, 296, 1]).node(
        "Concat",
        &["x", "others"],
        "y",
        &[("axis", &[2])],
    );
    assert_eq!(model.operators().last().unwrap(), "concat -> 896x1x1");
}

#[test]
fn an_input_transposed_to_channels_first_is_not_moved() {
    let model = Builder::new(&[1, 32, 32, 3])
        .weights("w", &[8, 3, 3, 3])
        .node("Transpose", &["x"], "turned", &[("perm", &[0, 3, 1, 2])])
        .node("Conv", &["turned", "w"], "y", &[]);
    assert_eq!(model.operators(), ["conv2d 3x3 32x32x3 -> 30x30x8"]);
}

#[test]
fn a_transpose_that_is_no_change_of_layout_is_an_operator() {
    let model = Builder::new(&[64, 128])
        .weights("w", &[128, 32])
        .node("MatMul", &["x", "w"], "product", &[])
        .node("Transpose", &["product"], "turned", &[])
        .node("Relu", &["turned"], "y", &[]);
    assert_eq!(model.operators(), ["linear 64x128 -> 32", "transpose 1x64x32 -> 1x32x64", "Relu 1x32x64"]);
}

#[test]
fn empty_parts_of_a_concatenation_are_dropped() {
    // Rotary embeddings rotate the first elements of a head and keep the rest, which may be empty.
    let model = Builder::new(&[1, 16, 64])
        .integers("first", &[64])
        .integers("last", &[i64::MAX])
        .integers("axis", &[2])
        .node("Relu", &["x"], "turned", &[])
        .node("Slice", &["x", "first", "last", "axis"], "kept", &[])
        .node("Concat", &["turned", "kept"], "y", &[("axis", &[2])]);
    assert_eq!(model.operators(), ["Relu 1x16x64"]);
}

#[test]
fn zeros_around_are_computed_as_exporters_do_that_keep_an_extent() {
    let model = Builder::new(&[1, 3, 224, 224])
        .scalar("lacking", -0.5)
        .scalar("zero", 0.0)
        .integers("one", &[1])
        .integers("none", &[0])
        .weights("w", &[8, 3, 3, 3])
        .node("Clip", &["lacking", "zero"], "before", &[])
        .node("Cast", &["before"], "before64", &[("to", &[7])])
        .node("Unsqueeze", &["before64", "none"], "before1", &[])
        .node(
            "Concat",
            &["none", "none", "before1", "before1", "none", "none", "one", "one"],
            "pads",
            &[("axis", &[0])],
        )
        .node("Pad", &["x", "pads"], "padded", &[])
        .node("Conv", &["padded", "w"], "y", &[("strides", &[2, 2])]);
    assert_eq!(model.operators(), ["conv2d 3x3 224x224x3 -> 112x112x8"]);
}

#[test]
fn copies_of_a_tensor_are_rearranged_once() {
    // Channels and pixels mix in the rows, so that no order of axes describes them.
    let model = Builder::new(&[1, 8, 4, 4])
        .node("GlobalMaxPool", &["x"], "peak", &[])
        .node("Mul", &["x", "peak"], "a", &[])
        .integers("rows", &[1, 2, 1, 64])
        .node("Reshape", &["a", "rows"], "b", &[])
        .integers("wide", &[1, 2, 16, 64])
        .node("Expand", &["b", "wide"], "y", &[]);
    let found = model.operators();
    let reshapes = found.iter().filter(|operator| operator.starts_with("reshape")).count();
    assert!(reshapes <= 2 && found.iter().any(|operator| operator.starts_with("concat")), "{found:?}");
}

#[test]
fn keys_that_heads_share_are_repeated_where_they_lie() {
    let model = Builder::new(&[1, 8, 1024, 64])
        .integers("axis", &[2])
        .integers("repeated", &[1, 8, 4, 1024, 64])
        .integers("heads", &[32, 1024, 64])
        .weights("w", &[64, 16])
        .node("Unsqueeze", &["x", "axis"], "a", &[])
        .node("Expand", &["a", "repeated"], "b", &[])
        .node("Reshape", &["b", "heads"], "c", &[])
        .node("MatMul", &["c", "w"], "y", &[]);
    assert_eq!(
        model.operators(),
        ["concat -> 8x4x1024x64", "reshape -> 1x32768x64", "linear 32768x64 -> 16"]
    );
}
