//! File formats, and damaged files.

use proptest::prelude::*;

use super::{Builder, described};
use crate::{ImportOptions, Imported, ImportedScenario, ModelFormat, Replacement, import};
use coexec_sim::workload::{GenericKind, Shape};
use coexec_sim::{DataType, Operator, Overrides, Scenario, Text};

/// Small convolutional network with an attention layer, converted by TensorFlow 2.21 as described in
/// `tests/inputs/README.md`.
const TINY: &[u8] = include_bytes!("../../tests/inputs/tiny.tflite");
/// A signal's spectrum and its rectified values, with dynamic batch and signal length.
const OPEN: &[u8] = include_bytes!("../../tests/inputs/open.tflite");
/// Scores of six places, and TensorFlow Lite's custom operator that picks the best two of them.
const DETECTIONS: &[u8] = include_bytes!("../../tests/inputs/detections.tflite");
/// Two signatures, prefill and decode, each with one product in 4 bits and one in floats.
const SIGNATURES: &[u8] = include_bytes!("../../tests/inputs/signatures.tflite");
/// Dilated convolutions of images and of a row, written with `SPACE_TO_BATCH_ND` and `BATCH_TO_SPACE_ND`.
const DILATED: &[u8] = include_bytes!("../../tests/inputs/dilated.tflite");
const TINY_INT8: &[u8] = include_bytes!("../../tests/inputs/tiny_int8.tflite");

fn tflite(bytes: &[u8]) -> Imported {
    import(ModelFormat::TfLite, "tiny", bytes.to_vec(), &ImportOptions::default()).unwrap()
}

#[test]
fn dynamic_axes_of_tflite_files_except_the_first_must_be_set() {
    let with = |dimensions: &[(&str, u32)]| {
        let dimensions = dimensions.iter().map(|&(name, extent)| (name.to_owned(), extent)).collect();
        let options = ImportOptions { dimensions, ..ImportOptions::default() };
        import(ModelFormat::TfLite, "open", OPEN.to_vec(), &options)
    };
    let error = with(&[]).unwrap_err();
    assert!(error.help().ends_with("--dim signal.2=N"), "{error}");
    let help = with(&[("signal.2", 64), ("batch", 4)]).unwrap_err().help();
    assert!(help.starts_with("its open dimensions are signal.2, signal.0 (1 unless set; "), "{help}");
    // The spectrum's extents are inferred, since those in the file are placeholders.
    let elements = |imported: Imported| imported.graph.nodes()[0].operator.output().elements();
    assert_eq!(elements(with(&[("signal.2", 64)]).unwrap()), 33);
    assert_eq!(elements(with(&[("signal.2", 64), ("signal.0", 4)]).unwrap()), 4 * 33);
}

#[test]
fn pixels_that_are_dealt_to_images_are_a_dilated_convolution() {
    let graph = tflite(DILATED).graph;
    let dilated = graph.nodes().iter().filter_map(|node| match &node.operator {
        Operator::Conv2d(conv) => Some((conv.window.dilation, conv.output())),
        _ => None,
    });
    let row = Shape::image(1, 20, 8);
    let found: Vec<_> = dilated.collect();
    assert_eq!(found, [([2, 2], Shape::image(12, 12, 8)), ([4, 4], Shape::image(4, 4, 8)), ([1, 4], row)]);
    assert!(!graph.nodes().iter().any(|node| matches!(node.operator, Operator::Generic(_))));
    assert_eq!(graph.macs(), (12 * 12 * 9 * 4 + 4 * 4 * 9 * 8 + 20 * 3 * 4) * 8);
}

#[test]
fn a_converted_network_has_the_layers_it_was_written_with() {
    let imported = tflite(TINY);
    let operators = described(&imported.graph);
    // Tokens that are the pixels of an image stay one: their linear layers are pointwise convolutions.
    let wanted = [
        "conv2d 3x3 16x16x3 -> 8x8x8",
        "Relu6 8x8x8",
        "depthwise conv2d 3x3 8x8x8 -> 8x8x8",
        "HardSwish 8x8x8",
        "conv2d 1x1 8x8x8 -> 8x8x8",
        "concat -> 8x8x16",
        "pool -> 4x4x16",
        "mean -> 1x1x16",
        "conv2d 1x1 1x1x16 -> 1x1x16",
        "Sigmoid 1x1x16",
        "Multiply 4x4x16",
        "LayerInSteps norm 4x4x16",
        "conv2d 1x1 4x4x16 -> 4x4x16",
        "conv2d 1x1 4x4x16 -> 4x4x16",
        "reshape -> 16x2x8",
        "transpose 16x2x8 -> 2x1x16x8",
        "reshape -> 16x2x8",
        "transpose 16x2x8 -> 2x1x8x16",
        "matmul 2x [16, 8] x [8, 16]",
        "Multiply 2x1x16x16",
        "softmax -> 2x1x16x16",
        "conv2d 1x1 4x4x16 -> 4x4x16",
        "reshape -> 16x2x8",
        "transpose 16x2x8 -> 2x1x16x8",
        "matmul 2x [16, 16] x [16, 8]",
        "transpose 2x1x16x8 -> 16x2x8",
        "reshape -> 1x16x16",
        "linear 16x16 -> 16",
        "reshape -> 4x4x16",
        "Add 4x4x16",
        "conv2d 1x1 4x4x16 -> 4x4x32",
        "Gelu 4x4x32",
        "conv2d 1x1 4x4x32 -> 4x4x16",
        "mean -> 1x1x16",
        "linear 1x16 -> 10",
        "softmax -> 1x1x10",
    ];
    assert_eq!(operators, wanted);
    assert_eq!(imported.graph.data_type(), DataType::F32);
    assert!(imported.skipped.is_empty() && imported.approximated.is_empty());
}

#[test]
fn detection_post_processing_is_one_search_and_copies_of_its_results() {
    let graph = tflite(DETECTIONS).graph;
    let found: Vec<(Option<GenericKind>, usize, Shape)> = graph
        .nodes()
        .iter()
        .map(|node| {
            let kind = match &node.operator {
                Operator::Generic(generic) => Some(generic.kind),
                _ => None,
            };
            (kind, node.inputs.len(), node.operator.output())
        })
        .collect();
    let (search, moved) = (Some(GenericKind::Search), Some(GenericKind::Movement));
    let wanted = [
        (None, 1, Shape::tokens(6, 3)),
        // From places, scores and anchors: boxes; then classes, scores and their number.
        (search, 3, Shape::tokens(2, 4)),
        (moved, 1, Shape::tokens(1, 2)),
        (moved, 1, Shape::tokens(1, 2)),
        (moved, 1, Shape::tokens(1, 1)),
    ];
    assert_eq!(found, wanted);
    // Other custom operators are unknown.
    let mut other = DETECTIONS.to_vec();
    let name = other.windows(16).position(|bytes| bytes == b"TFLite_Detection").unwrap();
    other[name..name + 6].copy_from_slice(b"My_Own");
    let refused = import(ModelFormat::TfLite, "m", other, &ImportOptions::default()).unwrap_err();
    assert!(refused.to_string().contains("CUSTOM My_Own_Detection_PostProcess"), "{refused}");
}

#[test]
fn a_quantised_network_is_the_same_in_integers() {
    let (float, quantised) = (tflite(TINY), tflite(TINY_INT8));
    assert_eq!(quantised.graph.data_type(), DataType::I8);
    assert_eq!(quantised.graph.macs(), float.graph.macs());
}

#[test]
fn local_response_norms_go_over_channels_in_both_formats() {
    let onnx = Builder::new(&[1, 8, 6, 4]).node("LRN", &["x"], "y", &[("size", &[5])]).bytes();
    let imported = import(ModelFormat::Onnx, "m", onnx, &ImportOptions::default()).unwrap();
    assert_eq!(described(&imported.graph), ["local response norm -> 6x4x8"]);
    // The same network with HARD_SWISH replaced in both fields that hold its code.
    let mut bytes = TINY.to_vec();
    bytes.iter_mut().rev().filter(|byte| **byte == 117).take(2).for_each(|byte| *byte = 13);
    assert_eq!(described(&tflite(&bytes).graph)[3], "local response norm -> 8x8x8");
}

#[test]
fn files_of_other_formats_are_rejected() {
    for format in [ModelFormat::Onnx, ModelFormat::TfLite] {
        for bytes in [&b""[..], b"title = 'no model'", &[0xff; 64], &[0; 64]] {
            let error = import(format, "m", bytes.to_vec(), &ImportOptions::default()).unwrap_err();
            assert!(error.to_string().contains("is no"), "{error}");
        }
    }
}

/// A model with many kinds of nodes.
fn onnx() -> Vec<u8> {
    Builder::new(&[1, 8, 8, 8])
        .weights("w", &[8, 8, 3, 3])
        .weights("fc", &[8, 16])
        .integers("rows", &[1, -1, 8])
        .integers("pads", &[0, 0, 1, 1, 0, 0, 1, 1])
        .integers("sizes", &[1, 8, 16, 16])
        .integers("from", &[1])
        .integers("to", &[7])
        .integers("axis", &[2])
        .integers("copies", &[1, 2, 1])
        .scalar("half", 0.5)
        .node("Pad", &["x", "pads"], "a", &[])
        .node("Conv", &["a", "w"], "b", &[("strides", &[1, 1])])
        .node("Resize", &["b", "", "", "sizes"], "c", &[])
        .node("MaxPool", &["c"], "d", &[("kernel_shape", &[2, 2]), ("strides", &[2, 2]), ("ceil_mode", &[1])])
        .node("Slice", &["d", "from", "to", "axis"], "e", &[])
        .node("Transpose", &["e"], "f", &[("perm", &[0, 2, 3, 1])])
        .node("Reshape", &["f", "rows"], "g", &[])
        .node("Tile", &["g", "copies"], "h", &[])
        .node("MatMul", &["h", "fc"], "i", &[])
        .node("Mul", &["i", "half"], "j", &[])
        .node("Softmax", &["j"], "k", &[("axis", &[1])])
        .node("ReduceMean", &["k"], "y", &[("axes", &[1])])
        .bytes()
}

#[test]
fn the_model_that_is_mutated_is_sound() {
    assert!(import(ModelFormat::Onnx, "m", onnx(), &ImportOptions::default()).is_ok());
}

#[test]
fn no_truncated_file_makes_it_panic() {
    for (format, bytes) in [(ModelFormat::Onnx, onnx()), (ModelFormat::TfLite, TINY.to_vec())] {
        for length in (0..bytes.len()).step_by(1 + bytes.len() / 512) {
            let options = ImportOptions { skip_unknown: length % 2 == 0, ..ImportOptions::default() };
            let _ = import(format, "m", bytes[..length].to_vec(), &options);
        }
    }
}

proptest! {
    #[test]
    fn no_flipped_bytes_make_it_panic(
        flips in prop::collection::vec((any::<u32>(), any::<u8>()), 1..12),
        which in 0..3_u8,
        skip_unknown in any::<bool>(),
    ) {
        let (format, mut bytes) = match which {
            0 => (ModelFormat::Onnx, onnx()),
            1 => (ModelFormat::TfLite, TINY.to_vec()),
            _ => (ModelFormat::TfLite, TINY_INT8.to_vec()),
        };
        let length = bytes.len() as u32;
        for (place, value) in flips {
            bytes[(place % length) as usize] = value;
        }
        let _ = import(format, "m", bytes, &ImportOptions { skip_unknown, ..ImportOptions::default() });
    }
}

#[test]
fn a_written_scenario_is_the_one_that_runs_whatever_names_the_model_has() {
    let folder = std::env::temp_dir().join(format!("coexec-import-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("tiny.tflite");
    std::fs::write(&path, TINY).unwrap();
    let mut imported = ImportedScenario::load(&path, &ImportOptions::default()).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let name = "a\ntitle = \"another\"";
    imported.file.title = name.to_owned();
    let replacement = Replacement { node: name.into(), kind: name.into(), instead: name.into() };
    imported.model.skipped.push(replacement);
    let text = Text { name: "tiny.toml".into(), content: imported.to_toml().unwrap() };
    let written = Scenario::parse("tiny", &text, &Overrides::default()).unwrap();
    assert_eq!(written.title, name);
    assert_eq!(written, imported.file.resolve("tiny", &text, &Overrides::default()).unwrap());
}

#[test]
fn the_requested_signature_of_a_file_is_imported() {
    // The weights are stored after the tables, those of the first product in 4 bits.
    let read = |signature: Option<&str>| {
        let options = ImportOptions { signature: signature.map(str::to_owned), ..ImportOptions::default() };
        import(ModelFormat::TfLite, "m", SIGNATURES.to_vec(), &options)
    };
    for (name, rows) in [("prefill_16", 16), ("decode", 1)] {
        let graph = read(Some(name)).unwrap().graph;
        assert_eq!(graph.macs(), rows * (64 * 64 + 64 * 8), "{name}");
        let own: Vec<Option<DataType>> = graph.nodes().iter().map(|node| node.data_type).collect();
        assert_eq!((graph.data_type(), own), (DataType::I4Dynamic, vec![None, None, Some(DataType::F32)]));
    }
    for refused in [None, Some("encode")] {
        let error = read(refused).unwrap_err();
        let message = format!("{error}; {}", error.help());
        assert!(message.contains("prefill_16, decode"), "{message}");
    }
}
