use super::*;
use coexec_sim::workload::{GraphBuilder, Shape, Window};

const HEADER: &str = "model,component,family,graph,chip,chipset,device,os,runtime,precision,precision_raw,time_us,\
                      mem_min_bytes,mem_max_bytes,unit,layers_npu,layers_gpu,layers_cpu,tool_versions,date,origin,\
                      input_checked,job_id,commit\n";

/// A row: graph, chip, runtime, precision, time, unit, date, origin, whether checked, job.
fn row(cells: [&str; 10]) -> String {
    let [graph, chip, runtime, precision, time, unit, date, origin, checked, job] = cells;
    format!(
        "m,M,cnn,{graph},{chip},c,Phone,Android,{runtime},{precision},{precision},{time},0,0,{unit},1,0,0,qairt=2,{date},{origin},{checked},{job},abc\n"
    )
}

fn graph(name: &str) -> Result<Graph, String> {
    if name == "broken" {
        return Err("the graph broken is not imported".to_owned());
    }
    let mut builder = GraphBuilder::new(name, DataType::F32);
    let input = builder.input(Shape::tokens(1, 64));
    builder.linear(input, 32);
    builder.build().map_err(|error| error.to_string())
}

fn table(rows: &[[&str; 10]], chip: &str) -> Result<Runs<OnUnit>, InputError> {
    let content = HEADER.to_owned() + &rows.iter().map(|&cells| row(cells)).collect::<String>();
    parse(&Text { name: "measurements.csv".into(), content }, chip, graph)
}

fn groups(rows: &[[&str; 10]]) -> Vec<(String, f64)> {
    let runs = table(rows, "a").unwrap().runs;
    runs.into_iter().map(|run| (run.what.group().to_string(), run.measured_us)).collect()
}

#[test]
fn a_model_counts_once_and_other_runtimes_are_distinguished() {
    let found = groups(&[
        ["g", "a", "onnx", "float", "4", "npu", "2026-01-01", "head", "head spec", "j1"],
        ["g", "a", "tflite", "float", "3", "npu", "2026-01-01", "head", "head spec", "j2"],
        ["g", "a", "qnn_dlc", "float", "1", "npu", "2025-01-01", "head", "head spec", "j3"],
        ["g", "a", "qnn_dlc", "float", "2", "npu", "2026-01-01", "head", "head spec", "j4"],
        ["g", "a", "qnn_dlc", "w8a8", "5", "npu", "2026-01-01", "head", "head spec", "j5"],
        ["g", "a", "tflite", "float", "6", "gpu", "2026-01-01", "head", "head spec", "j6"],
        ["g", "b", "qnn_dlc", "float", "7", "npu", "2026-01-01", "head", "head spec", "j7"],
    ]);
    let wanted = [
        ("npu/onnx/float", 4.0),
        ("npu/tflite/float", 3.0),
        ("npu/end_to_end/float", 2.0),
        ("npu/end_to_end/w8a8", 5.0),
        ("gpu/end_to_end/float", 6.0),
    ];
    assert_eq!(found, wanted.map(|(group, time)| (group.to_owned(), time)));
}

#[test]
fn the_present_state_and_a_checked_input_come_before_the_runtime() {
    let found = groups(&[
        ["g", "a", "qnn_dlc", "float", "1", "npu", "2026-09-01", "history", "head spec", "j1"],
        ["g", "a", "qnn_context_binary", "float", "2", "npu", "2026-01-01", "head", "no", "j2"],
        ["g", "a", "onnx", "float", "3", "npu", "2026-01-01", "head", "head spec", "j3"],
        ["g", "a", "voice_ai", "float", "4", "npu", "2026-02-01", "head", "head spec", "j4"],
    ]);
    assert_eq!(found[2], ("npu/end_to_end/float".to_owned(), 3.0));
    assert_eq!(found.iter().filter(|(group, _)| group.contains("end_to_end")).count(), 1);
}

#[test]
fn what_is_not_used_says_why() {
    let good = ["g", "a", "qnn_dlc", "float", "1", "npu", "2026-01-01", "head", "head spec", "j1"];
    let with = |place: usize, cell: &'static str, job: &'static str| {
        let mut cells = good;
        (cells[place], cells[9]) = (cell, job);
        cells
    };
    let rows = [
        good,
        good,
        with(0, "", "j2"),
        with(5, "mixed", "j3"),
        with(2, "unheard", "j4"),
        with(3, "w8a16_mixed_fp16", "j5"),
        with(4, "soon", "j6"),
        with(0, "broken", "j7"),
        with(0, "../g", "j8"),
        with(6, "2025-01-01", "j9"),
    ];
    let table = table(&rows, "a").unwrap();
    assert_eq!(table.runs.len(), 1);
    let lines: Vec<u64> = table.left_out.iter().map(|row| row.line).collect();
    assert_eq!(lines, (3..=11).collect::<Vec<u64>>());
    for (row, word) in table.left_out.iter().zip([
        "copy",
        "no graph",
        "several units",
        "unheard",
        "mixed",
        "soon",
        "broken",
        "not a name",
        "another time",
    ]) {
        assert!(row.reason.contains(word), "{row:?}");
    }
}

#[test]
fn an_npu_computes_floating_point_in_16_bits() {
    let rows = [["g", "a", "tflite", "float", "1", "npu", "", "head", "head spec", "j1"]];
    let npu = table(&rows, "a").unwrap().runs.remove(0).what;
    assert_eq!(npu.network.graph.data_type(), DataType::F16);
    assert_eq!(npu.network.stages[0].layer.data_type, DataType::F16);
    assert_eq!((npu.family.as_str(), npu.job.as_str()), ("cnn", "j1"));
    assert_eq!(Format::Float.data_type(ProcessorKind::Cpu), DataType::F32);
}

#[test]
fn an_unknown_chip_lists_the_known_ones_and_a_table_names_its_missing_column() {
    let rows = [["g", "a", "tflite", "float", "1", "npu", "", "head", "head spec", "j1"]];
    let error = table(&rows, "c").unwrap_err();
    assert!(error.help().ends_with("measurements.csv: a"), "{}", error.help());
    let text = Text { name: "m.csv".into(), content: "model,graph\nm,g\n".into() };
    let error = parse(&text, "a", graph).unwrap_err();
    assert!(error.to_string().contains("missing field"), "{error}");
}

#[test]
fn the_pictures_of_models_whose_code_normalises_are_normalised() {
    let nodes = |name: &str| {
        let mut builder = GraphBuilder::new(name, DataType::F32);
        let picture = builder.input(Shape::image(32, 32, 3));
        builder.conv(picture, 8, Window::same(3));
        normalisation::with_normalisation(name, builder.build().unwrap()).unwrap().nodes().len()
    };
    let bare = nodes("yolov8_det");
    for name in ["resnet50", "sam2__encoder"] {
        assert_eq!(nodes(name), bare + 2, "{name}");
    }
    for name in ["resnet50_large", "googlenet", "any"] {
        assert_eq!(nodes(name), bare, "{name}");
    }
}
