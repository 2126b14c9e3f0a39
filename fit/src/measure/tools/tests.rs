use super::*;
use coexec_sim::Profile;

fn inputs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inputs")
}

fn pixel4() -> Cpu {
    Profile::load("pixel4").unwrap().cpu
}

#[test]
fn nodes_that_onnx_runtime_merged_are_found_again_in_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let graph = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/aihub/graphs/squeezenet1_1.onnx");
    std::fs::copy(graph, folder.path().join("squeezenet1_1.onnx")).unwrap();
    for name in results(&inputs(), Tool::OnnxRuntime).unwrap() {
        let name = name.file_name().unwrap();
        if name.to_string_lossy().starts_with("squeezenet1_1") {
            std::fs::copy(inputs().join(name), folder.path().join(name)).unwrap();
        }
    }
    let runs = read(folder.path(), Tool::OnnxRuntime, &pixel4()).unwrap();
    let (whole, parts): (Vec<_>, Vec<_>) = runs.cpu.iter().partition(|run| run.network == "squeezenet1_1");
    let [whole] = whole[..] else { panic!("{whole:?}") };
    assert_eq!(whole.what.core_set, "1large");
    // 26 convolutions, three pools and a mean, eight joins; the reorder of channels and the flatten are
    // not in the model.
    assert_eq!(parts.len(), 38);
    let reasons: Vec<&str> = runs.left_out.iter().map(|row| row.reason.as_str()).collect();
    assert_eq!(reasons, ["an operator that is not in the model as it was imported"; 2]);
    let sum: f64 = parts.iter().map(|run| run.measured_us).sum();
    assert!((0.9..1.0).contains(&(sum / whole.measured_us)), "{sum} of {whole:?}");
}

#[test]
fn threads_are_counted_and_parts_on_accelerators_refused() {
    let node = |provider: &str, stats: &str| {
        format!(
            r#"[{{"cat":"Node","name":"a_kernel_time","dur":5,"args":{{"provider":"{provider}",
            "output_type_shape":[{{"float":[1,2,3]}}],"thread_scheduling_stats":{stats}}}}},{{"cat":"Session","name":"model_run","dur":9}}]"#
        )
    };
    let stats = r#"{"main_thread":{},"sub_threads":{"1":{},"2":{}}}"#;
    let found = onnx_runtime::of_profile(&node("CPUExecutionProvider", stats)).unwrap();
    let operator = OfNode { node: "a".to_owned(), elements: Some(6), multiplies: false, micros: 5.0 };
    assert_eq!((found.threads, found.micros, found.operators), (3, 9.0, vec![operator]));
    let error = onnx_runtime::of_profile(&node("QNNExecutionProvider", stats)).unwrap_err();
    assert!(error.contains("QNNExecutionProvider"), "{error}");
    assert!(onnx_runtime::of_profile("[{\"cat\":").unwrap_err().contains("is not a profile"));
}

#[test]
fn networks_of_ncnn_are_the_bundled_ones_on_what_they_ran() {
    let runs = read(&inputs().join("benchncnn.txt"), Tool::Ncnn, &pixel4()).unwrap();
    let cpu: Vec<(&str, DataType, f64)> =
        runs.cpu.iter().map(|run| (run.network.as_str(), run.what.data_type, run.measured_us)).collect();
    let expected = [
        ("mobilenet-v2", DataType::F32, 98_090.0),
        ("resnet18", DataType::F32, 300_990.0),
        ("resnet18", DataType::I8, 309_700.0),
        ("resnet50", DataType::F32, 985_630.0),
        ("resnet50", DataType::I8, 757_890.0),
    ];
    assert_eq!(cpu, expected);
    let gpu: Vec<(&str, f64)> =
        runs.gpu_networks.iter().map(|run| (run.network.as_str(), run.measured_us)).collect();
    assert_eq!(gpu, [("resnet18", 734_780.0), ("resnet50", 1_501_490.0)]);
    let because = |reason: &str| runs.left_out.iter().filter(|row| row.reason.contains(reason)).count();
    assert_eq!((because("small cores"), because("squeezenet is not in the folder")), (3, 2));
}

#[test]
fn a_standalone_function_is_not_attributed_to_the_convolution_before_it() {
    let graph = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/aihub/graphs/squeezenet1_1.onnx");
    let model = import(&graph).unwrap();
    let event =
        |node: &str, multiplies| OfNode { node: node.to_owned(), elements: None, multiplies, micros: 5.0 };
    let [conv, relu] = ["/features/features.0/Conv", "/features/features.1/Relu"];
    let of = |operators: &[OfNode]| {
        let (times, others) = model.timed(operators);
        (times.iter().map(|(_, micros)| *micros).collect::<Vec<f64>>(), others.len())
    };
    assert_eq!(of(&[event(relu, false)]), (vec![], 1));
    assert_eq!(of(&[event(relu, true)]), (vec![5.0], 0));
    assert_eq!(of(&[event(conv, true), event(relu, false)]), (vec![10.0], 0));
}
