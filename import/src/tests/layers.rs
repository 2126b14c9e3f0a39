//! Recurrent layers, attention, einsum, norms and conditionals.

use prost::Message;

use super::{Builder, described};
use crate::onnx::messages::{AttributeProto, GraphProto, ModelProto, NodeProto, ValueInfoProto};
use crate::{ImportOptions, ModelFormat, import};
use coexec_sim::workload::{NodeId, Shape, Source};
use coexec_sim::{DataType, Operator};

fn multiply_adds(model: Builder) -> u64 {
    model.import().unwrap().graph.macs()
}

#[test]
fn a_recurrent_layer_is_a_linear_layer_of_all_steps_and_what_is_left_of_each() {
    // Two directions of 20 steps, batch 3, 8 features in and 16 out.
    let model = Builder::new(&[20, 3, 8])
        .weights("w", &[2, 64, 8])
        .weights("r", &[2, 64, 16])
        .weights("b", &[2, 128])
        .node("LSTM", &["x", "w", "r", "b"], "y", &[("hidden_size", &[16])])
        .import()
        .unwrap();
    assert_eq!(model.graph.macs(), 2 * 20 * 3 * 64 * (8 + 16));
    let steps = described(&model.graph).into_iter().filter(|name| name.starts_with("recurrent"));
    assert_eq!(steps.collect::<Vec<String>>(), ["recurrent 3x20 steps of 4 gates of 16"; 2]);
    // A plain layer has one gate.
    let plain = Builder::new(&[20, 3, 8]).weights("w", &[1, 16, 8]).weights("r", &[1, 16, 16]).node(
        "RNN",
        &["x", "w", "r"],
        "y",
        &[],
    );
    assert_eq!(multiply_adds(plain), 20 * 3 * 16 * (8 + 16));
    let last = Builder::new(&[20, 3, 8])
        .weights("w", &[1, 48, 8])
        .weights("r", &[1, 48, 16])
        .split("GRU", &["x", "w", "r"], &["", "last"], &[("hidden_size", &[16])])
        .node("Relu", &["last"], "y", &[]);
    assert_eq!(described(&last.import().unwrap().graph).last().unwrap(), "Relu 3x1x1x16");
}

#[test]
fn heads_that_share_keys_and_values_are_rows_of_one_product() {
    // Eight query heads on two key heads, 5 tokens after 7 past ones, 16 features per head.
    let model = Builder::new(&[1, 5, 128])
        .weights("k", &[1, 5, 32])
        .weights("v", &[1, 5, 32])
        .weights("past_k", &[1, 2, 7, 16])
        .weights("past_v", &[1, 2, 7, 16])
        .node(
            "GroupQueryAttention",
            &["x", "k", "v", "past_k", "past_v"],
            "y",
            &[("num_heads", &[8]), ("kv_num_heads", &[2])],
        );
    let imported = model.import().unwrap();
    assert_eq!(imported.graph.macs(), 2 * 8 * 5 * 12 * 16);
    let products = described(&imported.graph).into_iter().filter(|name| name.starts_with("matmul"));
    let wanted = ["matmul 2x [20, 16] x [16, 12]", "matmul 2x [20, 12] x [12, 16]"];
    assert_eq!(products.collect::<Vec<String>>(), wanted);
}

#[test]
fn attention_has_its_query_key_and_value_in_one_tensor_or_as_weights() {
    let packed = Builder::new(&[1, 5, 192]).node("MultiHeadAttention", &["x"], "y", &[("num_heads", &[4])]);
    assert_eq!(multiply_adds(packed), 2 * 4 * 5 * 5 * 16);
    let projected = Builder::new(&[1, 5, 32]).weights("w", &[32, 192]).weights("b", &[192]).node(
        "Attention",
        &["x", "w", "b"],
        "y",
        &[("num_heads", &[4])],
    );
    assert_eq!(multiply_adds(projected), 5 * 32 * 192 + 2 * 4 * 5 * 5 * 16);
    let onnx = Builder::new(&[2, 4, 5, 16]).weights("k", &[2, 4, 9, 16]).weights("v", &[2, 4, 9, 24]).node(
        "Attention",
        &["x", "k", "v"],
        "y",
        &[],
    );
    assert_eq!(multiply_adds(onnx), 2 * 4 * 5 * 9 * (16 + 24));
}

#[test]
fn packed_weights_are_a_linear_layer_of_their_attributes() {
    let model = Builder::new(&[1, 5, 64]).weights("packed", &[96, 2, 16]).weights("scales", &[192]).node(
        "MatMulNBits",
        &["x", "packed", "scales"],
        "y",
        &[("K", &[64]), ("N", &[96]), ("bits", &[4])],
    );
    let imported = model.import().unwrap();
    assert_eq!(described(&imported.graph), ["linear 5x64 -> 96"]);
    assert_eq!(imported.graph.data_type(), DataType::W4A16);
}

#[test]
fn sums_over_named_axes_are_matrix_products() {
    let of = |equation: &str, other: &[i64]| {
        let model = Builder::new(&[2, 5, 16]).weights("w", other).node("Einsum", &["x", "w"], "y", &[]);
        multiply_adds(with_equation(model, equation))
    };
    assert_eq!(of("bij,jk->bik", &[16, 7]), 2 * 5 * 16 * 7);
    assert_eq!(of("bij, bkj -> bki", &[2, 7, 16]), 2 * 5 * 16 * 7);
    assert_eq!(of("...j,...kj", &[2, 5, 7, 16]), 2 * 5 * 16 * 7);
    // The axis that only the first operand has is summed first.
    assert_eq!(of("bij,jk->bk", &[16, 7]), 2 * 16 * 7);
}

/// A model whose last node is an einsum.
fn with_equation(mut model: Builder, equation: &str) -> Builder {
    let node = model.0.node.last_mut().unwrap();
    let s = equation.as_bytes().to_vec().into();
    node.attribute.push(AttributeProto { name: "equation".into(), s, ..AttributeProto::default() });
    model
}

#[test]
fn products_of_activations_know_which_axis_is_of_images_and_which_of_heads() {
    let of = |model: Builder| {
        let graph = model.import().unwrap().graph;
        let products = graph.nodes().iter().filter_map(|node| match &node.operator {
            Operator::MatMul(product) => Some([product.images, product.batch]),
            _ => None,
        });
        products.collect::<Vec<[u32; 2]>>()
    };
    let squared = |extents: &[i64]| of(Builder::new(extents).node("MatMul", &["x", "x"], "y", &[]));
    assert_eq!(squared(&[16, 16]), [[1, 1]]);
    assert_eq!(squared(&[1, 16, 16]), [[1, 1]]);
    assert_eq!(squared(&[12, 16, 16]), [[12, 1]], "three axes have no heads");
    assert_eq!(squared(&[1, 12, 16, 16]), [[1, 12]]);
    assert_eq!(squared(&[2, 12, 16, 16]), [[1, 24]], "reshapes put them into one image");
    let scores = |extents: &[i64], equation| {
        of(with_equation(Builder::new(extents).node("Einsum", &["x", "x"], "y", &[]), equation))
    };
    assert_eq!(scores(&[2, 12, 16, 16], "bhqd,bhkd->bhqk"), [[1, 24]]);
    assert_eq!(scores(&[2, 16, 12, 16], "bqhd,bkhd->bhqk"), [[1, 24]]);
}

#[test]
fn a_norm_of_groups_of_channels_leaves_the_image_where_it_is() {
    let groups = [("num_groups", &[2][..])];
    let one_node = Builder::new(&[1, 8, 4, 4]).node("GroupNormalization", &["x"], "y", &groups);
    assert_eq!(one_node.operators(), ["Layer norm 4x4x8"]);
    let spelled_out = |back: &[i64], image: &str| {
        let model = Builder::new(&[1, 8, 4, 4])
            .node("Sigmoid", &["x"], "of unknown extents", &[])
            .integers("grouped", &[0, 2, -1])
            .integers("image", back)
            .weights("ones", &[2])
            .weights("scale", &[8, 1, 1])
            .weights("shift", &[8, 1, 1])
            .node("Reshape", &[image, "grouped"], "a", &[])
            .node("InstanceNormalization", &["a", "ones", "ones"], "b", &[])
            .node("Reshape", &["b", "image"], "c", &[])
            .node("Mul", &["c", "scale"], "d", &[])
            .node("Add", &["d", "shift"], "y", &[]);
        model.operators()
    };
    assert_eq!(spelled_out(&[1, 8, 4, 4], "x"), ["Layer norm 4x4x8"]);
    assert_eq!(spelled_out(&[1, 8, 4, 4], "of unknown extents"), ["Sigmoid 4x4x8", "Layer norm 4x4x8"]);
    assert!(spelled_out(&[1, 8, 2, 8], "x").len() > 1, "the image has other extents afterwards");
}

#[test]
fn a_pooling_by_windows_of_one_element_has_places_too() {
    let model = Builder::new(&[1, 8, 4, 4])
        .split("MaxPool", &["x"], &["y", "places"], &[("kernel_shape", &[1, 1])])
        .node("Mul", &["y", "places"], "z", &[]);
    assert_eq!(model.operators(), ["generic movement -> 4x4x8", "Multiply 4x4x8"]);
}

#[test]
fn a_dynamic_scale_is_part_of_the_following_product() {
    let model = Builder::new(&[1, 5, 64])
        .weights("w", &[64, 8])
        .scalar("s", 0.5)
        .split("DynamicQuantizeLinear", &["x"], &["q", "scale", "zero"], &[])
        .node("MatMulInteger", &["q", "w", "zero"], "a", &[])
        .node("Mul", &["scale", "s"], "b", &[])
        .node("Mul", &["a", "b"], "y", &[]);
    let imported = model.import().unwrap();
    assert_eq!(imported.graph.data_type(), DataType::I8Dynamic);
    assert_eq!(described(&imported.graph), ["linear 5x64 -> 8"]);
}

#[test]
fn dynamically_quantised_constants_have_a_scale() {
    let model = Builder::new(&[5, 64])
        .weights("w", &[64, 8])
        .weights("places", &[5, 64])
        .split("DynamicQuantizeLinear", &["places"], &["q", "scale", "zero"], &[])
        .node("Mul", &["q", "scale"], "a", &[])
        .node("Add", &["x", "a"], "b", &[])
        .node("MatMul", &["b", "w"], "y", &[]);
    assert_eq!(model.operators(), ["Add 1x5x64", "linear 5x64 -> 8"]);
}

#[test]
fn numbers_in_16_bits_are_read() {
    let mut model = Builder::new(&[1, 8, 4, 4]).half_weights("scales", &[4]);
    // 1, 1, 1.5 and 2.
    model.0.initializer[0].int32_data = vec![0x3c00, 0x3c00, 0x3e00, 0x4000];
    let model = model.node("Resize", &["x", "", "scales"], "y", &[]);
    assert_eq!(model.operators(), ["resize -> 6x8x8"]);
}

#[test]
fn quantised_tensors_are_joined_without_their_scales() {
    let model = Builder::new(&[1, 8, 4, 4]).scalar("scale", 1.0).scalar("zero", 0.0).node(
        "QLinearConcat",
        &["scale", "zero", "x", "scale", "zero", "x", "scale", "zero"],
        "y",
        &[("axis", &[1])],
    );
    assert_eq!(model.operators(), ["concat -> 4x4x16"]);
}

/// A conditional between a product and a function of `read`.
fn choice(condition: &str, read: &str, write: &str) -> NodeProto {
    let branch = |name: &str, node: NodeProto| {
        let output = vec![ValueInfoProto { name: "z".into(), r#type: None }];
        let g = Some(GraphProto { node: vec![node], output, ..GraphProto::default() });
        AttributeProto { name: name.into(), g, ..AttributeProto::default() }
    };
    let node = |op_type: &str, input: &[&str], output: &str| NodeProto {
        op_type: op_type.into(),
        input: input.iter().map(|&name| name.to_owned()).collect(),
        output: vec![output.into()],
        ..NodeProto::default()
    };
    NodeProto {
        attribute: vec![
            branch("then_branch", node("Relu", &[read], "z")),
            branch("else_branch", node("MatMul", &["x", "w"], "z")),
        ],
        ..node("If", &[condition], write)
    }
}

fn chosen(model: Builder, choices: &[NodeProto]) -> Vec<String> {
    let mut file = ModelProto::decode(&model.bytes()[..]).unwrap();
    let graph = file.graph.as_mut().unwrap();
    graph.node.extend_from_slice(choices);
    graph.output = vec![ValueInfoProto { name: "y".into(), r#type: None }];
    let options = ImportOptions::default();
    described(&import(ModelFormat::Onnx, "m", file.encode_to_vec(), &options).unwrap().graph)
}

#[test]
fn a_branch_is_the_one_that_runs_or_the_larger() {
    let model = |second: i64| {
        Builder::new(&[5, 64])
            .weights("w", &[64, 64])
            .integers("rows", &[5])
            .node("Shape", &["x"], "extents", &[("start", &[0]), ("end", &[second])])
            .node("Equal", &["extents", "rows"], "known", &[])
            .node("Greater", &["x", "x"], "computed", &[])
    };
    assert_eq!(chosen(model(1), &[choice("known", "x", "y")]), ["Relu 1x5x64"]);
    // The condition is computed as well.
    let larger = ["generic element-wise -> 1x5x64", "linear 5x64 -> 64"];
    assert_eq!(chosen(model(1), &[choice("computed", "x", "y")]), larger);
    // What the first conditional does is no work of a branch of the second that reads its result.
    let two = [choice("computed", "x", "r"), choice("computed", "r", "y")];
    assert_eq!(chosen(model(1), &two), larger);
}

#[test]
fn a_question_mark_does_not_name_a_dimension() {
    let open = || {
        let mut model = Builder::new(&[1, 3, 0, 0]).node("Relu", &["x"], "y", &[]);
        for dim in &mut model.0.input[0]
            .r#type
            .as_mut()
            .unwrap()
            .tensor_type
            .as_mut()
            .unwrap()
            .shape
            .as_mut()
            .unwrap()
            .dim
        {
            dim.dim_param = dim.dim_param.take().map(|_| "?".to_owned());
        }
        model
    };
    assert!(open().import_with(&[("?", 8)]).is_err());
    let imported = open().import_with(&[("x.2", 8), ("x.3", 16)]).unwrap();
    assert_eq!(described(&imported.graph), ["Relu 8x16x3"]);
}

#[test]
fn nodes_may_be_in_any_order() {
    let mut model = Builder::new(&[5, 64]).weights("w", &[64, 8]).node("Relu", &["x"], "a", &[]).node(
        "MatMul",
        &["a", "w"],
        "y",
        &[],
    );
    model.0.node.reverse();
    let mut file = ModelProto::decode(&model.bytes()[..]).unwrap();
    file.graph.as_mut().unwrap().output = vec![ValueInfoProto { name: "y".into(), r#type: None }];
    let options = ImportOptions::default();
    let imported = import(ModelFormat::Onnx, "m", file.encode_to_vec(), &options).unwrap();
    assert_eq!(described(&imported.graph), ["Relu 1x5x64", "linear 5x64 -> 8"]);
}

#[test]
fn a_pool_wider_than_its_image_takes_all_of_it_where_positions_are_rounded_up() {
    let of = |ceil: i64| {
        let window: &[(&str, &[i64])] =
            &[("kernel_shape", &[640, 640]), ("strides", &[640, 640]), ("ceil_mode", &[ceil])];
        Builder::new(&[1, 320, 7, 7]).node("AveragePool", &["x"], "y", window).import()
    };
    assert_eq!(described(&of(1).unwrap().graph), ["pool -> 1x1x320"]);
    assert!(of(0).unwrap_err().to_string().contains("a window larger than its input"));
}

#[test]
fn the_computed_addend_of_a_product_is_kept() {
    let model = Builder::new(&[4, 24]).weights("w", &[24, 48]).weights("b", &[48]).weights("r", &[48, 48]);
    let model = model.node("Gemm", &["x", "w", "b"], "a", &[]).node("Relu", &["a"], "c", &[]);
    // One value per element is added; one per column is a bias.
    let whole = model.clone().node("Gemm", &["c", "r", "a"], "y", &[]).import().unwrap().graph;
    assert_eq!(described(&whole)[2..], ["linear 4x48 -> 48", "Add 1x4x48"]);
    assert!(whole.nodes()[3].inputs.contains(&Source::Node(NodeId(0))));
    let model = model.weights("m", &[4, 48]).node("Gemm", &["c", "r", "m"], "y", &[]);
    assert_eq!(described(&model.import().unwrap().graph)[3..], ["Add 1x4x48"]);
    let nothing = Builder::new(&[4, 24]).weights("w", &[24, 48]).weights("m", &[4, 48]);
    let nothing = nothing.node("Gemm", &["x", "w", "m"], "y", &[("beta", &[0])]);
    assert_eq!(nothing.operators(), ["linear 4x24 -> 48"]);
    let given = Builder::new(&[1, 8, 4, 4]).weights("w", &[8, 8, 1, 1]);
    let given = given.node("GlobalAveragePool", &["x"], "p", &[]).integers("s", &[8]);
    let given = given.node("Reshape", &["p", "s"], "b", &[]).node("Conv", &["x", "w", "b"], "y", &[]);
    assert!(
        described(&given.import().unwrap().graph)[0].starts_with("mean"),
        "the producer of a bias is kept"
    );
}

#[test]
fn empty_operands_give_empty_results_and_max_pools_give_indices() {
    let model =
        Builder::new(&[1, 6, 84]).integers("from", &[84]).integers("to", &[84]).integers("axis", &[2]);
    let model = model.node("Slice", &["x", "from", "to", "axis"], "masks", &[]);
    let model = model.node("ReduceMax", &["x"], "best", &[]).integers("one", &[1]);
    let model =
        model.node("Cast", &["best"], "place", &[("to", &[7])]).node("Reshape", &["place", "one"], "k", &[]);
    let model = model.node("Gather", &["masks", "k"], "chosen", &[("axis", &[1])]);
    let model = model.node("Gather", &["x", "k"], "boxes", &[("axis", &[1])]);
    let model = model.node("Concat", &["boxes", "chosen"], "y", &[("axis", &[2])]);
    assert!(model.import().is_ok());
    let window: [(&str, &[i64]); 2] = [("kernel_shape", &[2, 2]), ("strides", &[2, 2])];
    let model = Builder::new(&[1, 8, 4, 4]).split("MaxPool", &["x"], &["p", "places"], &window);
    let model = model.node("Cast", &["places"], "f", &[("to", &[1])]).node("Add", &["p", "f"], "y", &[]);
    assert_eq!(model.operators().len(), 3);
}

#[test]
fn a_transposed_convolution_multiplies_each_input_pixel_by_each_tap() {
    for kernel in [1_i64, 2, 3, 4, 5] {
        let pads = [0, 0, 0, 0].map(|_| (kernel - 1) / 2);
        let open = 2 + 2 * ((kernel - 1) / 2) - kernel;
        let attributes: [(&str, &[i64]); 4] = [
            ("kernel_shape", &[kernel, kernel]),
            ("strides", &[2, 2]),
            ("pads", &pads),
            ("output_padding", &[open, open]),
        ];
        let model = Builder::new(&[1, 16, 8, 8]).weights("w", &[16, 36, kernel, kernel]);
        let model = model.node("ConvTranspose", &["x", "w"], "y", &attributes);
        let graph = model.import().unwrap().graph;
        assert_eq!(graph.macs(), 8 * 8 * 16 * 36 * (kernel * kernel) as u64, "{kernel}");
        assert_eq!(graph.nodes().last().unwrap().operator.output(), Shape::image(16, 16, 36), "{kernel}");
    }
}

#[test]
fn shared_weights_count_once_however_they_are_transposed() {
    let model = Builder::new(&[5, 8])
        .weights("w", &[8, 8])
        .weights("other", &[8, 8])
        .weights("b", &[8])
        .node("MatMul", &["x", "w"], "a", &[])
        .node("MatMul", &["a", "w"], "m", &[])
        .node("Add", &["m", "b"], "c", &[])
        .node("Transpose", &["w"], "t", &[])
        .node("MatMul", &["c", "t"], "d", &[])
        .node("MatMul", &["d", "other"], "y", &[]);
    let imported = model.import().unwrap();
    let shares: Vec<bool> = imported.graph.nodes().iter().map(|node| node.shares_weights).collect();
    assert_eq!(shares, [false, true, true, false]);
    assert_eq!(imported.graph.parameters(), 2 * 64);
}
