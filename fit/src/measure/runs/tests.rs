mod strategies;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use coexec_sim::Bytes;
use coexec_sim::device::{Direction, LinkTransfer};
use coexec_sim::workload::{Function, Linear, Mean, Operator, Shape};

use strategies::{any_operator, functions, processors};

fn text(content: String) -> Text {
    Text { name: "runs.csv".into(), content }
}

/// Text with all characters that CSV and TOML quote.
const QUOTED_TEXT: &str = "[a-z0-9 ,;:'\"{}=\\[\\]\\\\\n\r\u{e9}]{0,12}[a-z0-9]";

fn repetitions() -> impl Strategy<Value = Vec<Repetition>> {
    vec((1e-3..1e9_f64, any::<bool>()), 1..5).prop_map(|times| {
        let repetition = |(number, (measured_us, outlier)): (usize, (f64, bool))| Repetition {
            number: number as u32,
            measured_us,
            outlier,
        };
        times.into_iter().enumerate().map(repetition).collect()
    })
}

/// Any measurement, with an empty id.
fn any_measurement() -> impl Strategy<Value = Measurement> {
    let operator = option::of((QUOTED_TEXT, any_operator(), functions()));
    let data_type = prop::sample::select(vec![DataType::F32, DataType::F16, DataType::I8, DataType::W4A16]);
    let synchronisation = option::of(prop::sample::select(vec![Mechanism::SvmPolling, Mechanism::EventWait]));
    let dispatch = option::of((any::<[u32; 3]>(), any::<[u32; 3]>()));
    let cells = (QUOTED_TEXT, option::of(QUOTED_TEXT), option::of(QUOTED_TEXT));
    let parts = (operator, data_type, processors(), synchronisation, dispatch, repetitions(), cells);
    parts.prop_map(|(operator, data_type, processor, synchronisation, dispatch, repetitions, cells)| {
        let (network, kernel, fingerprint) = cells;
        let layer = |operator, linked: Vec<Function>| Layer {
            operator,
            linked: linked.into_iter().collect(),
            data_type,
        };
        Measurement {
            run: String::new(),
            network,
            operator: operator.map(|(name, operator, linked)| (name, layer(operator, linked))),
            data_type,
            processor,
            synchronisation,
            kernel,
            dispatch: dispatch.map(|(grid, work_group)| Dispatch { grid, work_group }),
            fingerprint,
            repetitions,
            line: 0,
        }
    })
}

fn measurements() -> impl Strategy<Value = Vec<Measurement>> {
    vec(any_measurement(), 0..6).prop_map(|mut measurements| {
        for (index, measurement) in measurements.iter_mut().enumerate() {
            measurement.run = format!("run {index}");
        }
        measurements
    })
}

fn conditions(measurements: &[Measurement]) -> Vec<Fingerprint> {
    let ids: std::collections::BTreeSet<&String> =
        measurements.iter().filter_map(|measurement| measurement.fingerprint.as_ref()).collect();
    ids.into_iter().map(|id| Fingerprint { id: id.clone(), ..fingerprint() }).collect()
}

fn fingerprint() -> Fingerprint {
    Fingerprint {
        id: "a".into(),
        device: "a phone".into(),
        tool_version: "0.1.0".into(),
        driver: Some("a \"driver\"".into()),
        temperature_c: Some(31.5),
        ..Fingerprint::default()
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back(measurements in measurements()) {
        let fingerprints = conditions(&measurements);
        let beside = fingerprints_to_toml(&fingerprints).unwrap();
        let beside = fingerprints_of_toml(&Text { name: "runs.fingerprints.toml".into(), content: beside }).unwrap();
        prop_assert_eq!(&beside, &fingerprints);
        let mut read = parse(&text(to_csv(&measurements).unwrap()), beside).unwrap();
        read.measurements.iter_mut().for_each(|measurement| measurement.line = 0);
        prop_assert_eq!(read, RunTable { measurements, fingerprints, ..RunTable::default() });
    }

    #[test]
    fn no_text_makes_the_reader_panic(rows in "[a-z0-9,\"{}=\\[\\]\n.:;+/x-]{0,200}", cut in 0_usize..400) {
        let _ = parse(&text(format!("{}\n{rows}", COLUMNS.join(","))), Vec::new());
        let mut whole = to_csv(&[linear("a", ExecutedOn::Gpu, &[1.0, 2.0])]).unwrap();
        whole.truncate(whole.floor_char_boundary(cut));
        let _ = parse(&text(whole), Vec::new());
    }
}

/// A run of a linear layer with these times.
fn linear(run: &str, processor: ExecutedOn, times: &[f64]) -> Measurement {
    let linear = Linear { rows: 50, input_features: 768, output_features: 3072, bias: true };
    let layer = Layer {
        linked: [Function::Relu, Function::Silu].into_iter().collect(),
        ..Layer::new(Operator::Linear(linear), DataType::F32)
    };
    let repetition = |(number, &measured_us): (usize, &f64)| Repetition {
        number: number as u32,
        measured_us,
        outlier: false,
    };
    Measurement {
        operator: Some(("fc1".into(), layer)),
        repetitions: times.iter().enumerate().map(repetition).collect(),
        line: 2,
        ..Measurement::new(run.into(), "vit-b32", DataType::F32, processor)
    }
}

fn whole(run: &str, network: &str, cores: &str, time: f64) -> Measurement {
    Measurement {
        network: network.into(),
        operator: None,
        ..linear(run, ExecutedOn::Cpu(cores.into()), &[time])
    }
}

#[test]
fn the_columns_are_those_of_a_row() {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.serialize(Row::default()).unwrap();
    let written = String::from_utf8(writer.into_inner().unwrap()).unwrap();
    assert_eq!(written.lines().next().unwrap(), COLUMNS.join(","));
}

#[test]
fn a_row_is_written_as_a_person_would() {
    let split = ExecutedOn::Split { axis: Axis::Channels, cores: "1large".into(), cpu: 1016, gpu: 2056 };
    let run = Measurement { synchronisation: Some(Mechanism::SvmPolling), ..linear("r1", split, &[41.5]) };
    assert_eq!(
        to_csv(&[run]).unwrap().lines().nth(1).unwrap(),
        "r1,vit-b32,\"{ name = \"\"fc1\"\", linear = { rows = 50, input_features = 768, output_features = \
         3072 } }\",,relu;silu,f32,1large:1016+gpu:2056,svm-polling,,,0,41.5,false,"
    );
}

#[test]
fn the_median_excludes_marked_outliers_and_counts_them() {
    let mut run = linear("a", ExecutedOn::Gpu, &[10.0, 30.0, 12.0, 11.0]);
    run.repetitions[1].outlier = true;
    let mut disturbed = linear("b", ExecutedOn::Gpu, &[10.0]);
    disturbed.repetitions[0].outlier = true;
    let table = RunTable { measurements: vec![run, disturbed], ..RunTable::default() };
    let sorted = table.by_processor();
    assert_eq!((sorted.gpu.len(), table.outliers()), (1, 2));
    assert!((sorted.gpu[0].measured_us - 11.0).abs() < 1e-12);
    assert!(sorted.left_out[0].reason.contains("outlier"), "{:?}", sorted.left_out);
}

#[test]
fn a_layer_alone_on_the_cpu_is_a_network_of_its_passes() {
    let cores = || ExecutedOn::Cpu("1large".into());
    let measurements = vec![linear("a", cores(), &[10.0, 12.0]), linear("b", cores(), &[11.0])];
    let sorted = RunTable { measurements, ..RunTable::default() }.by_processor();
    assert_eq!(sorted.cpu.len(), 2);
    assert_eq!(sorted.cpu[0].network, sorted.cpu[1].network);
    // The relu is free; the swish after it is a pass of its own.
    assert_eq!(sorted.cpu[0].what.layers.len(), 2);
    assert!((sorted.cpu[0].deviation_us.unwrap() - 2.0_f64.sqrt()).abs() < 1e-12);
    assert_eq!(sorted.cpu[1].deviation_us, None);
}

#[test]
fn layers_with_equal_outputs_but_different_inputs_are_distinguished() {
    let mean = |run: &str, side: u32| {
        let operator = Operator::Mean(Mean { input: Shape::image(side, side, 32) });
        let measurement = linear(run, ExecutedOn::Cpu("1large".to_owned()), &[1.0]);
        Measurement {
            operator: Some(("mean".to_owned(), Layer::new(operator, DataType::F32))),
            ..measurement
        }
    };
    let measurements = vec![mean("a", 112), mean("b", 7), mean("c", 7)];
    let sorted = RunTable { measurements, ..RunTable::default() }.by_processor();
    let names: Vec<&str> = sorted.cpu[..2].iter().map(|run| run.network.as_str()).collect();
    assert_eq!(names, ["mean -> 1x1x32", "mean -> 1x1x32 of 7x7x32"]);
    assert_eq!(sorted.cpu[1].network, sorted.cpu[2].network);
}

#[test]
fn a_whole_network_is_a_bundled_one_or_a_scenario_next_to_the_runs() {
    let folder = std::env::temp_dir().join(format!("coexec-runs-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let scenario = "title = \"two layers\"\n[[operator]]\nname = \"a\"\nlinear = { rows = 1, input_features = 8, \
                    output_features = 8 }\n[[operator]]\nname = \"b\"\nfunction = \"gelu\"\n";
    std::fs::write(folder.join("mine.toml"), scenario).unwrap();
    let runs = ["mobilenet-v2", "mine", "mine.toml", "../mine", "other"]
        .map(|name| whole(name, name, "1large", 5.0));
    std::fs::write(folder.join("runs.csv"), to_csv(&runs).unwrap()).unwrap();
    let table = read(&folder).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let found: Vec<(&str, bool)> =
        table.networks.iter().map(|(name, layers)| (name.as_str(), layers.len() > 50)).collect();
    assert_eq!(found, [("mobilenet-v2", true), ("mine", false), ("mine.toml", false)]);
    let sorted = table.by_processor();
    assert_eq!((sorted.cpu.len(), sorted.cpu[1].what.layers.len()), (5, 2));
    let on_gpu = Measurement { processor: ExecutedOn::Gpu, ..whole("g", "mine", "", 7.0) };
    let by_host = Measurement { synchronisation: Some(Mechanism::EventWait), ..on_gpu.clone() };
    let sorted = RunTable { measurements: vec![on_gpu, by_host], ..table }.by_processor();
    let [on_gpu, by_host] = &sorted.gpu_networks[..] else { panic!("{sorted:?}") };
    // The function is linked to the layer: one launch.
    assert_eq!((on_gpu.what.launches.len(), on_gpu.measured_us), (1, 7.0));
    assert!(on_gpu.what.copies.is_empty());
    let eight_numbers = LinkTransfer::whole(Bytes(32));
    let around = [Direction::ToGpu, Direction::ToHost].map(|direction| (eight_numbers, direction));
    assert_eq!(by_host.what.copies, around);
}

#[test]
fn cut_operators_are_not_single_processor_runs_and_planned_ones_are_named() {
    let split = ExecutedOn::Split { axis: Axis::Channels, cores: "1large".into(), cpu: 8, gpu: 3064 };
    let planned = linear("b", ExecutedOn::Plan("p.toml".into()), &[1.0]);
    let measurements = vec![linear("a", split.clone(), &[1.0, 3.0]), planned];
    let sorted = RunTable { measurements, ..RunTable::default() }.by_processor();
    assert!(sorted.gpu.is_empty() && sorted.cpu.is_empty());
    assert_eq!((&sorted.host_timed[0].what.ran, sorted.host_timed[0].measured_us), (&split, 2.0));
    assert!(sorted.left_out[0].reason.contains("no plan p.toml"), "{:?}", sorted.left_out);
}

#[test]
fn a_row_that_cannot_be_used_says_its_line_and_why() {
    let good = to_csv(&[linear("a", ExecutedOn::Gpu, &[1.0])]).unwrap();
    let row = good.lines().nth(1).unwrap();
    for (from, to, reason) in [
        (",1.0,", ",soon,", "measured_us: invalid float literal"),
        (",1.0,", ",-1.0,", "expected microseconds from"),
        (",1.0,", ",inf,", "expected microseconds from"),
        (",gpu,", ",,", "the processor is \"\""),
        (",gpu,", ",1large:0+gpu:4,", "the processor is"),
        (",gpu,", ",1large:8+npu:4,", "the processor is"),
        (",gpu,", ",plan:,", "the processor is"),
        (",f32,", ",f33,", "unknown variant `f33`, expected one of `f32`"),
        (",false,", ",no,", "outlier"),
        (",,,0,", ",,8x8x8,0,", "no / between grid and work-group"),
        (",,,0,", ",,8x8/1x1x1,0,", "three numbers"),
        (",false,", ",false,x", "no fingerprint \"x\""),
        ("rows = 50", "rows = 0", "rows is 0"),
        ("rows = 50", "row = 50", "unknown field `row`"),
        ("}\",,", "\",,", "not an inline table"),
        ("}\",,", "}\",1x1x1x5,", "the operator reads 1x1x50x768"),
        ("}\",,", "}\",1x1x5,", "is not an extent"),
        ("relu;silu", "relu;swish", "unknown variant `swish`"),
        ("relu;silu", "add;add;add;add;add;add;add", "more functions are linked"),
        ("a,vit-b32,", ",vit-b32,", "no id"),
        ("a,vit-b32,", "a,b,vit-b32,", "15 cells, expected 14"),
    ] {
        assert!(row.contains(from), "{from} in {row}");
        let sound = row.replacen("a,", "sound,", 1);
        let bad = format!("{}\n{sound}\n{}\n", COLUMNS.join(","), row.replacen(from, to, 1));
        let table = parse(&text(bad), Vec::new()).unwrap();
        assert_eq!((table.measurements.len(), table.left_out.len()), (1, 1), "{to}: {table:?}");
        assert_eq!(table.left_out[0].line, 3, "{to}");
        assert!(table.left_out[0].reason.contains(reason), "{to}: {}", table.left_out[0].reason);
    }
}

#[test]
fn rows_of_one_run_agree_and_count_on() {
    let good = to_csv(&[linear("a", ExecutedOn::Gpu, &[1.0, 2.0])]).unwrap();
    let lines: Vec<&str> = good.lines().collect();
    assert_eq!(lines[2], "a,,,,,,,,,,1,2,false,", "values of the first row are not repeated");
    let second = lines[1].replace(",0,1.0,", ",1,2.0,");
    let with = |second: &str| parse(&text([lines[0], lines[1], second].join("\n")), Vec::new()).unwrap();
    assert_eq!(with(&second), with(lines[2]), "they may be repeated");
    for (second, reason) in [
        (lines[2].replace(",1,2,", ",0,2,"), "repetition 0 of run a is duplicated"),
        (second.replace(",gpu,", ",npu,"), "the processor of run a differs from that on line 2"),
        (
            lines[2].replace("a,,", "b,,"),
            "the row continues run \"b\" (its network is empty), but no complete row of that run precedes it",
        ),
        ("a,1".to_owned(), "2 cells, expected 14"),
    ] {
        let table = with(&second);
        assert_eq!(table.measurements[0].repetitions.len(), 1);
        assert_eq!(table.left_out[0], SkippedRow { line: 3, reason: reason.into() });
    }
}

#[test]
fn a_header_of_other_columns_is_refused() {
    for header in [
        "run,network",
        &COLUMNS.join(",").replace("outlier", "outliers"),
        "",
        &format!("{},run", COLUMNS.join(",")),
    ] {
        let error = parse(&text(header.to_owned()), Vec::new()).unwrap_err();
        assert!(error.help().contains("measured_us"), "{error}");
    }
}

#[test]
fn a_table_of_fingerprints_names_each_once() {
    let twice = fingerprints_to_toml(&[fingerprint(), fingerprint()]).unwrap();
    for (content, expected) in [
        (twice, "an id of its own"),
        ("[[fingerprint]]\nid = \"a\"\n".to_owned(), "device"),
        ("[[fingerprint]]\nid = \"a\"\ndevice = \"d\"\ntool_version = \"1\"\nmood = 1\n".to_owned(), "mood"),
    ] {
        let error = fingerprints_of_toml(&Text { name: "f.toml".into(), content }).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}
