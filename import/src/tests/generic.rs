//! Generic operators, and extents that are inferred or stated in the file.

use super::{Builder, described};
use crate::ImportError;
use coexec_sim::workload::{Class, Operator, Shape};

/// Elements visited by the last operator of a model, and its output shape.
fn last(model: Builder) -> (u64, Shape) {
    let imported = model.import().unwrap();
    let operator = &imported.graph.nodes().last().unwrap().operator;
    let Class::Generic(generic) = operator.class() else { panic!("{operator} has a kernel") };
    (generic.visited(), generic.output)
}

#[test]
fn results_have_the_extents_of_their_rule() {
    let model = || Builder::new(&[4, 10, 8]).integers("count", &[3]).weights("places", &[4, 10, 2]);
    let largest = model().split("TopK", &["x", "count"], &["y", "at"], &[("axis", &[1])]);
    assert_eq!(last(largest), (320, Shape { batch: 4, height: 1, width: 3, channels: 8 }));
    let place = model().node("ArgMax", &["x"], "y", &[("axis", &[2]), ("keepdims", &[0])]);
    assert_eq!(last(place), (320, Shape::tokens(4, 10)));
    let rows = model().node("GatherND", &["x", "places"], "y", &[]);
    assert_eq!(last(rows), (320, Shape { batch: 4, height: 1, width: 10, channels: 8 }));
    let regions = Builder::new(&[1, 8, 20, 20]).weights("boxes", &[30, 4]).weights("images", &[30]).node(
        "RoiAlign",
        &["x", "boxes", "images"],
        "y",
        &[("output_height", &[7]), ("output_width", &[5])],
    );
    assert_eq!(last(regions).1, Shape { batch: 30, height: 7, width: 5, channels: 8 });
    let determinants = Builder::new(&[4, 10, 8, 8]).node("Det", &["x"], "y", &[]);
    assert_eq!(last(determinants), (2560, Shape::tokens(4, 10)));
    assert_eq!(last(Builder::new(&[8, 8]).node("Det", &["x"], "y", &[])).1, Shape::tokens(1, 1));
    let sums = model().node("CumSum", &["x", "count"], "y", &[]);
    assert_eq!(last(sums).0, 320);
}

#[test]
fn results_of_computed_size_have_their_maximum_size() {
    let boxes = Builder::new(&[1, 500, 4]).weights("scores", &[1, 3, 500]).integers("most", &[20]);
    let left = boxes.node("NonMaxSuppression", &["x", "scores", "most"], "y", &[]).import().unwrap();
    assert_eq!(left.graph.nodes()[0].operator.output(), Shape::tokens(60, 3));
    assert_eq!(left.approximated.len(), 1);
    let places = Builder::new(&[6, 4]).node("NonZero", &["x"], "y", &[]);
    assert_eq!(last(places).1, Shape::tokens(2, 24));
}

#[test]
fn frequencies_of_a_signal_are_half_as_many_as_its_points_and_one() {
    let signal = || Builder::new(&[1, 1600, 1]).weights("window", &[400]).integers("step", &[160]);
    let windows = signal().node("STFT", &["x", "step", "window"], "y", &[]);
    let (visited, spectrum) = last(windows);
    assert_eq!(spectrum, Shape { batch: 8, height: 1, width: 201, channels: 2 });
    // 2.5 times the logarithm of 400 points, for each number of the result.
    assert_eq!(visited, 22 * spectrum.elements());
    let model = Builder::new(&[1, 3, 64, 1]).integers("points", &[128]);
    let whole = model.node("DFT", &["x", "points"], "y", &[("axis", &[2]), ("onesided", &[1])]);
    assert_eq!(last(whole).1.elements(), 3 * 65 * 2);
}

#[test]
fn trees_write_a_row_of_targets_for_each_row() {
    let trees = Builder::new(&[7, 40]).node("TreeEnsemble", &["x"], "y", &[("n_targets", &[3])]);
    assert_eq!(last(trees), (280, Shape::tokens(7, 3)));
    let kinds = [("classlabels_int64s", &[4, 5, 6, 7][..])];
    let scores = Builder::new(&[7, 40]).split("TreeEnsembleClassifier", &["x"], &["kind", "s"], &kinds);
    let relu = scores.node("Relu", &["s"], "y", &[]);
    assert_eq!(relu.operators().last().map(String::as_str), Some("Relu 1x7x4"));
}

#[test]
fn models_without_layers_visit_what_they_hold_for_each_row() {
    let visited = |kind: &str, attributes: &[(&str, &[i64])]| {
        let graph = Builder::new(&[7, 40]).node(kind, &["x"], "y", attributes).import().unwrap().graph;
        match &graph.nodes()[0].operator {
            Operator::Generic(generic) => generic.visited(),
            other => panic!("{other}"),
        }
    };
    // Four trees of 1,023 nodes over all 40 features, ten comparisons deep, make one pass.
    let features: Vec<i64> = (0..4 * 1023).map(|node| node % 40).collect();
    let trees: [(&str, &[i64]); 2] = [("tree_roots", &[0; 4]), ("nodes_featureids", &features)];
    assert_eq!(visited("TreeEnsemble", &trees), 7 * 4 * 10);
    assert_eq!(visited("SVMRegressor", &[("n_supports", &[12])]), 7 * 40 * 12);
    assert_eq!(visited("LinearRegressor", &[("targets", &[3])]), 7 * 40 * 3);
}

#[test]
fn masks_are_compared_and_chosen_by_without_copies() {
    let model = Builder::new(&[8, 500, 500])
        .weights("limits", &[500, 1])
        .scalar("least", -1e9)
        .node("Greater", &["x", "limits"], "mask", &[])
        .node("Where", &["mask", "x", "least"], "y", &[]);
    let wanted = ["generic element-wise -> 8x1x500x500"; 2];
    assert_eq!(model.operators(), wanted);
}

#[test]
fn an_output_that_is_an_input_becomes_a_copy() {
    let model = Builder::new(&[6, 4]).node("Identity", &["x"], "y", &[]);
    assert_eq!(model.operators(), ["generic movement -> 1x6x4"]);
}

#[test]
fn unread_inputs_need_no_dimensions_and_results_without_extents_are_rejected() {
    let windows = Builder::new(&[6, 4]).node("Col2Im", &["x"], "y", &[]);
    let error = windows.import().unwrap_err();
    assert!(matches!(&error, ImportError::Node { kind, .. } if kind == "Col2Im"), "{error}");
    let model = Builder::new(&[0, 4]).weights("w", &[2, 3]).node("Relu", &["w"], "y", &[]);
    assert_eq!(described(&model.import().unwrap().graph).len(), 1);
}

#[test]
fn the_least_and_the_largest_of_known_numbers_are_known() {
    for (kind, wanted) in [("ReduceMin", 20), ("ReduceMax", 50)] {
        let model = Builder::new(&[50, 64])
            .integers("most", &[20])
            .node("Shape", &["x"], "rows", &[("start", &[0]), ("end", &[1])])
            .node("Concat", &["most", "rows"], "both", &[("axis", &[0])])
            .node(kind, &["both"], "count", &[("keepdims", &[1])])
            .split("TopK", &["x", "count"], &["y", "at"], &[("axis", &[0])]);
        assert_eq!(last(model).1, Shape::tokens(wanted, 64));
    }
}

#[test]
fn one_of_known_numbers_may_differ_from_the_others() {
    for (at, wanted) in [(0, Shape::tokens(20, 6)), (-1, Shape::tokens(5, 24))] {
        let model = Builder::new(&[5, 6])
            .integers("at", &[at])
            .integers("depth", &[2])
            .integers("values", &[1, 4])
            .integers("two", &[2])
            .node("OneHot", &["at", "depth", "values"], "chosen", &[])
            .node("Reshape", &["chosen", "two"], "copies", &[])
            .node("Tile", &["x", "copies"], "y", &[]);
        let graph = model.import().unwrap().graph;
        assert_eq!(graph.nodes().last().unwrap().operator.output(), wanted);
    }
}

#[test]
fn a_recurrent_layer_of_other_features_than_its_weights_or_states_is_refused() {
    let model = |features: i64, state: i64| {
        Builder::new(&[20, 3, 8])
            .weights("w", &[1, 64, 8])
            .weights("r", &[1, 64, 16])
            .weights("cell", &[1, 3, state])
            .node("LSTM", &["x", "w", "r", "", "", "", "cell"], "y", &[("hidden_size", &[features])])
            .import()
    };
    assert!(model(16, 16).is_ok());
    let error = |features, state| model(features, state).unwrap_err().to_string();
    assert_eq!(
        error(16, 32),
        "LSTM.y (LSTM) is invalid: its initial state cell has 32 features, expected 16"
    );
    assert_eq!(error(8, 16), "LSTM.y (LSTM) is invalid: r is for 16 features, and hidden_size is 8");
}

#[test]
fn vectors_are_concatenated_with_one_thread_per_element() {
    let model = Builder::new(&[3000]).node("Relu", &["x"], "a", &[]).node(
        "Concat",
        &["a", "a"],
        "y",
        &[("axis", &[0])],
    );
    assert_eq!(model.operators(), ["Relu 1x1x3000", "reshape -> 1x3000x1", "concat -> 1x6000x1"]);
}

#[test]
fn a_reduction_of_everything_moves_nothing() {
    let model = Builder::new(&[1, 8, 40, 40]).node("ReduceMax", &["x"], "y", &[("keepdims", &[0])]);
    assert_eq!(model.operators(), ["generic reduction -> 1x1x1"]);
}

#[test]
fn comparisons_of_shapes_are_known() {
    // The larger of the two extents.
    let model = Builder::new(&[6, 9])
        .integers("rows", &[0])
        .integers("columns", &[1])
        .integers("one", &[1])
        .node("Shape", &["x"], "extents", &[])
        .node("Gather", &["extents", "rows"], "a", &[])
        .node("Gather", &["extents", "columns"], "b", &[])
        .node("Greater", &["a", "b"], "mask", &[])
        .node("Where", &["mask", "a", "b"], "larger", &[])
        .node("TopK", &["x", "larger"], "y", &[]);
    let imported = model.import().unwrap();
    let [node] = imported.graph.nodes() else { panic!("shapes are known") };
    assert!(matches!(&node.operator, Operator::Generic(generic) if generic.output == Shape::tokens(6, 9)));
}

#[test]
fn convolutions_of_volumes_of_batches_and_with_given_weights_have_their_products() {
    let volume = Builder::new(&[2, 3, 8, 10, 10])
        .weights("w", &[16, 3, 3, 5, 5])
        .node("Conv", &["x", "w"], "y", &[("strides", &[2, 1, 1])])
        .import()
        .unwrap();
    // Three positions along the depth, each of 6x6 pixels.
    assert_eq!(volume.graph.macs(), 2 * 3 * 36 * 16 * 3 * 75);
    assert_eq!(described(&volume.graph)[0], "generic movement -> 6x10x10x9");
    assert_eq!(described(&volume.graph)[1], "conv3d 3x5x5 6x10x10x3 -> 6x6x6x16");
    let Operator::Conv2d(conv) = &volume.graph.nodes()[1].operator else { panic!("no convolution") };
    assert_eq!(conv.slices, Some(3), "the movement is only how images do it");
    let given = Builder::new(&[2, 4, 9]).weights("kept", &[8, 4, 3]).node("Relu", &["kept"], "w", &[]).node(
        "Conv",
        &["x", "w"],
        "y",
        &[],
    );
    assert_eq!(given.import().unwrap().graph.macs(), 2 * 7 * 8 * 4 * 3);
}

#[test]
fn a_deformable_convolution_is_a_gather_at_its_offsets_and_a_convolution() {
    let model = Builder::new(&[1, 4, 9, 9])
        .weights("bias", &[8])
        .weights("o", &[18, 4, 3, 3])
        .weights("w", &[8, 2, 3, 3])
        .node("Conv", &["x", "o"], "offsets", &[("pads", &[1; 4])])
        .node("DeformConv", &["x", "w", "offsets", "bias"], "y", &[("pads", &[1; 4]), ("group", &[2])]);
    let imported = model.import().unwrap();
    assert_eq!(
        described(&imported.graph),
        ["conv2d 3x3 9x9x4 -> 9x9x18", "generic gather -> 9x9x36", "grouped conv2d 1x1 9x9x36 -> 9x9x8"]
    );
    assert_eq!(imported.graph.nodes()[1].inputs.len(), 2, "the image and the offsets");
    assert_eq!(imported.graph.parameters(), 18 * 4 * 9 + 8 * 2 * 9 + 8);
    assert_eq!(imported.approximated.len(), 1);
}

#[test]
fn a_transposed_convolution_of_any_kind_multiplies_each_pixel_by_all_weights() {
    let model = Builder::new(&[1, 8, 5, 5]).weights("w", &[8, 4, 3, 3]).node(
        "ConvTranspose",
        &["x", "w"],
        "y",
        &[("strides", &[2, 2]), ("group", &[2])],
    );
    let imported = model.import().unwrap();
    assert_eq!(imported.graph.macs(), 25 * 8 * 4 * 9);
    assert_eq!(imported.graph.nodes().last().unwrap().operator.output(), Shape::image(11, 11, 8));
}

#[test]
fn a_reduction_over_channels_moves_nothing() {
    let tokens = Builder::new(&[1, 50, 64]).node("ReduceL2", &["x"], "y", &[("axes", &[-1])]);
    assert_eq!(tokens.operators(), ["generic reduction -> 1x50x1"]);
    let image = Builder::new(&[1, 16, 8, 8]).node("ReduceMax", &["x"], "y", &[("axes", &[1])]);
    assert_eq!(last(image), (1024, Shape::image(8, 8, 1)));
    let pixels = Builder::new(&[1, 16, 8, 8]).node("ReduceMean", &["x"], "y", &[("axes", &[2, 3])]);
    assert_eq!(pixels.operators(), ["mean -> 1x1x16"]);
    let volume = Builder::new(&[2, 3, 4, 8, 8])
        .weights("w", &[16, 3, 1, 1, 1])
        .node("Conv", &["x", "w"], "a", &[])
        .node("GlobalAveragePool", &["a"], "y", &[]);
    assert_eq!(volume.operators().last().map(String::as_str), Some("mean -> 2x1x1x16"));
}

#[test]
fn kv_caches_have_the_layout_that_their_products_read() {
    // One head per batch, as some exporters write attention.
    let model = Builder::new(&[8, 1, 199, 64])
        .weights("new", &[8, 1, 1, 64])
        .weights("scores", &[8, 1, 1, 200])
        .node("Concat", &["x", "new"], "all", &[("axis", &[2])])
        .node("Softmax", &["scores"], "softmax", &[])
        .node("MatMul", &["softmax", "all"], "y", &[]);
    let found = model.operators();
    assert!(!found.iter().any(|name| name.starts_with("reshape")), "{found:?}");
}

#[test]
fn a_transposed_convolution_of_few_channels_has_its_own_multiply_adds() {
    for (channels, operator) in [(2, "conv2d 1x1 4x5x3 -> 4x5x18"), (4, "conv2d 2x2 4x5x3 -> 4x5x9")] {
        let model = Builder::new(&[1, 3, 4, 5]).weights("w", &[3, channels, 3, 3]);
        let attributes: &[(&str, &[i64])] =
            &[("strides", &[2, 2]), ("pads", &[1, 1, 1, 1]), ("output_padding", &[1, 1])];
        let graph = model.node("ConvTranspose", &["x", "w"], "y", attributes).import().unwrap().graph;
        assert_eq!(graph.macs(), 20 * 9 * 3 * channels.unsigned_abs());
        assert_eq!(described(&graph)[0], operator);
    }
}
