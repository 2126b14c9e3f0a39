//! `run` under plans: those that are written, and those that it finds.

use std::fs;

use coexec_fit::measure::runs::read;

use super::run::{ANY_SPREAD, folder, has_device};
use crate::{coexec_in, words};

#[test]
fn a_stream_of_batches_runs_under_the_plan_that_explore_finds() {
    if !has_device() {
        return;
    }
    let folder = folder();
    let stream = "title = \"batches\"\ndevice = \"pixel4\"\nnetwork = \"vit-b32-mlp\"\n";
    let pipeline = "[pipeline]\ndepth = 2\nhost_gap_us = 500.0\n";
    fs::write(folder.path().join("single.toml"), stream).unwrap();
    fs::write(folder.path().join("stream.toml"), format!("{stream}{pipeline}")).unwrap();
    let explored = |name: &str| {
        let line = format!("explore {name}.toml --threads 1 --nominal --json");
        coexec_in(folder.path(), words(&line)).json()["plan"]["operator"].clone()
    };
    assert_ne!(
        explored("stream"),
        explored("single"),
        "the shortest period and latency have different plans"
    );
    let line = format!(
        "run stream.toml --device pixel4 --threads 1 --repetitions 5 --time-limit 1 --out runs.csv --json {ANY_SPREAD}"
    );
    assert!(coexec_in(folder.path(), words(&line)).json()["stream"].is_object());
    let simulated = "simulate stream.toml --plan runs.plan.toml --json";
    let simulated = coexec_in(folder.path(), words(simulated)).json();
    let explored = coexec_in(folder.path(), words("explore stream.toml --threads 1 --nominal --json")).json();
    assert_eq!(simulated["stream"]["period_ps"], explored["period_ps"]);
}

#[test]
fn a_plan_that_cuts_an_operator_is_run_as_written() {
    if !has_device() {
        return;
    }
    let folder = folder();
    let plan = "scenario = \"small\"\ndevice = \"pixel4\"\nsynchronisation = \"event-wait\"\n\
                [[operator]]\nname = \"fc\"\npartition = \"output-channels\"\nshares = [\n\
                { processor = \"cpu\", cores = \"1large\", channels = 16 },\n\
                { processor = \"gpu\", channels = 32 },\n]\n";
    fs::write(folder.path().join("cut.toml"), plan).unwrap();
    let line = format!(
        "run small.toml --device pixel4 --threads 1 --plan cut.toml --repetitions 5 --out runs.csv --json {ANY_SPREAD}"
    );
    let document = coexec_in(folder.path(), words(&line)).json();
    let variants = document["variants"].as_array().unwrap();
    let cut = variants.iter().find(|variant| variant["is_plan"] == true).unwrap();
    assert_eq!(cut["processor"], "1large:16+gpu:32");
    assert!(cut["memory"].is_string() && cut["synchronisation"].is_string(), "{cut}");
    fs::write(folder.path().join("cut.toml"), plan.replace("16 }", "18 }").replace("32 }", "30 }")).unwrap();
    let outcome = coexec_in(folder.path(), words(&line));
    assert_eq!(outcome.status, 1, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("after 18 channels"), "{}", outcome.stderr);
}

#[test]
fn a_plan_that_cuts_along_the_height_is_run_as_written() {
    if !has_device() {
        return;
    }
    let folder = folder();
    let plan = "scenario = \"small\"\ndevice = \"pixel4\"\nsynchronisation = \"svm-polling\"\n\
                [[operator]]\nname = \"fc\"\npartition = \"height\"\nshares = [\n\
                { processor = \"cpu\", cores = \"1large\", rows = 5 },\n\
                { processor = \"gpu\", rows = 7 },\n]\n";
    fs::write(folder.path().join("cut.toml"), plan).unwrap();
    let line = format!(
        "run small.toml --device pixel4 --threads 1 --plan cut.toml --repetitions 5 --out runs.csv --json {ANY_SPREAD}"
    );
    let document = coexec_in(folder.path(), words(&line)).json();
    let variants = document["variants"].as_array().unwrap();
    let cut = variants.iter().find(|variant| variant["is_plan"] == true).unwrap();
    assert_eq!(cut["processor"], "1large:5rows+gpu:7rows");
    assert!(cut["predicted_us"].as_f64().unwrap() > 0.0, "{cut}");
    let table = read(&folder.path().join("runs.csv")).unwrap();
    assert_eq!(table.left_out.len(), 0, "it reads back: {:?}", table.left_out);
    fs::write(folder.path().join("cut.toml"), plan.replace("rows = 7", "rows = 8")).unwrap();
    let outcome = coexec_in(folder.path(), words(&line));
    assert_eq!(outcome.status, 1, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("add up to the 12 output rows"), "{}", outcome.stderr);
}

#[test]
fn an_operator_in_three_parts_is_recorded_with_its_plan() {
    if !has_device() {
        return;
    }
    let folder = folder();
    let cpu = "{ processor = \"cpu\", cores = \"1large\", ";
    let gpu = "{ processor = \"gpu\", ";
    let rows = format!("{cpu} rows = 4 }}, {gpu} rows = 4 }}, {cpu} rows = 4 }}");
    let both = format!(
        "{cpu} rows = 4, channels = 48 }}, {gpu} rows = 8, channels = 32 }}, {cpu} rows = 8, channels = 16 }}"
    );
    for (partition, shares) in [("height", rows), ("rows-and-channels", both)] {
        let plan = format!(
            "scenario = \"small\"\ndevice = \"pixel4\"\nsynchronisation = \"event-wait\"\n[[operator]]\n\
             name = \"fc\"\npartition = \"{partition}\"\nshares = [{shares}]\n"
        );
        fs::write(folder.path().join("parts.toml"), plan).unwrap();
        let line = format!(
            "run small.toml --device pixel4 --threads 1 --plan parts.toml --repetitions 5 --out runs.csv {ANY_SPREAD}"
        );
        let stdout = coexec_in(folder.path(), words(&line)).stdout;
        assert!(stdout.contains("plan:runs.plan.toml"), "{stdout}");
        assert!(stdout.contains("from the host's call until it sees the end"), "{stdout}");
        let validated =
            coexec_in(folder.path(), words("validate --profile pixel4 --json --runs runs.csv")).json();
        assert_eq!(validated["unusable"].as_array().unwrap().len(), 0, "{validated}");
        assert!(validated["groups"].as_array().unwrap().iter().any(|group| group["name"] == "split/linear"));
        fs::remove_file(folder.path().join("runs.plan.toml")).unwrap();
    }
}

#[test]
fn a_plan_for_more_cores_than_there_are_ends_with_status_4() {
    const CORES: usize = 8;
    if std::thread::available_parallelism().unwrap().get() >= CORES {
        return;
    }
    let folder = folder();
    let plan = "scenario = \"small\"\ndevice = \"h200\"\nsynchronisation = \"event-wait\"\n[[operator]]\n\
                name = \"fc\"\npartition = \"none\"\nshares = [{ processor = \"cpu\", cores = \"8large\" }]\n";
    fs::write(folder.path().join("all.toml"), plan).unwrap();
    let line = format!(
        "run small.toml --device h200 --cores 1large --plan all.toml --repetitions 5 --out runs.csv {ANY_SPREAD}"
    );
    let outcome = coexec_in(folder.path(), words(&line).chain(["--quiet"]));
    assert_eq!(outcome.status, 4, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("not run: fc on 8large, the plan:"), "{}", outcome.stdout);
    assert!(read(&folder.path().join("runs.csv")).unwrap().measurements.len() == 1);
    let outcome = coexec_in(folder.path(), words(&line).chain(["--json"]));
    let document: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!((outcome.status, &document["left_out"][0]["is_plan"]), (4, &true.into()), "{document}");
}
