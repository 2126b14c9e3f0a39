//! Invalid scenario and profile files are refused with file, line and key.

use std::fs::{self, File};
use std::time::{Duration, Instant};

use crate::{Outcome, coexec_in, words};

const PIXEL4: &str = include_str!("../../device-profiles/pixel4.toml");

/// Runs `explore` on a scenario, or on a profile, with that content; an existing
/// plan file must stay unchanged.
fn explore(content: &[u8], is_profile: bool) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("bad.toml"), content).unwrap();
    fs::write(folder.path().join("plan.toml"), "old").unwrap();
    let line = if is_profile { "vit-b32-fc1 --device bad.toml" } else { "bad.toml" };
    let outcome = coexec_in(folder.path(), words(&format!("explore {line} --out plan.toml --json")));
    if outcome.status != 0 {
        assert_eq!(fs::read_to_string(folder.path().join("plan.toml")).unwrap(), "old");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no temporary file is left");
    outcome
}

/// Asserts that the Pixel 4's profile with `from` replaced by `to` is refused at that line.
fn profile_refused(from: &str, to: &str, expected: &[&str]) {
    let at = PIXEL4.find(from).unwrap();
    let line = PIXEL4[..at].matches('\n').count() + 1;
    let outcome = explore(PIXEL4.replacen(from, to, 1).as_bytes(), true);
    outcome.assert_refused(&[&format!("bad.toml:{line}:")]);
    outcome.assert_refused(expected);
}

#[test]
fn a_profile_with_an_unknown_key_is_refused() {
    profile_refused("simd_width", "simd_widht", &["unknown field `simd_widht`", "expected one of"]);
    profile_refused("clock_mhz = 2840.0", "clock_ghz = 2.84", &["unknown field `clock_ghz`", "clock_mhz"]);
}

#[test]
fn a_profile_with_an_impossible_value_is_refused() {
    let clock = "clock_mhz = 2840.0";
    for value in ["-2840.0", "0", "nan", "inf", "-inf", "1e308", "1e-300", "1e-10", "1e10"] {
        let key = ["cpu.cluster[0].clock_mhz is ", "a number above 0"];
        profile_refused(clock, &format!("clock_mhz = {value}"), &key);
    }
    profile_refused(clock, "clock_mhz = \"2840\"", &["expected a number or { value, source, ci95 }"]);
    profile_refused(
        "launch_us = 19.4",
        "launch_us = 1e308",
        &["gpu.winograd.launch_us is ", "from 0 to 1e9"],
    );
    profile_refused(
        "cores = 1",
        "cores = 4294967295",
        &["cpu.cluster[0].cores is 4294967295", "from 1 to 256"],
    );
    profile_refused("cores = 1", "cores = 0", &["cpu.cluster[0].cores is 0"]);
    profile_refused("cores = 1", "cores = 1.5", &["floating point `1.5`", "a whole number"]);
    profile_refused("compute_units = 2", "compute_units = 4294967295", &["gpu.compute_units is 4294967295"]);
    profile_refused("cpu_percent = 0.3", "cpu_percent = 101", &["jitter.cpu_percent is 101"]);
}

#[test]
fn a_profile_without_sources_is_refused() {
    let source = "source = \"LPDDR4X-2133, 64 bit: 34.1 GB/s by its interface\"";
    profile_refused(source, "source = \" \"", &["memory.source is nothing"]);
    let outcome = explore(PIXEL4.replacen(source, "", 1).as_bytes(), true);
    outcome.assert_refused(&["missing field `source`"]);
}

#[test]
fn a_truncated_profile_is_refused() {
    for part in 1..8 {
        let outcome = explore(&PIXEL4.as_bytes()[..PIXEL4.len() * part / 8], true);
        outcome.assert_refused(&["bad.toml:"]);
    }
}

#[test]
fn a_file_that_is_no_text_of_ours_is_refused() {
    let binary: Vec<u8> = (0..=255).cycle().take(4096).collect();
    for is_profile in [false, true] {
        explore(b"", is_profile).assert_refused(&["bad.toml:1:1: missing field"]);
        explore(&binary, is_profile).assert_refused(&["bad.toml is not UTF-8 text", "offset 128"]);
        explore(&[0; 4096], is_profile).assert_refused(&["bad.toml:1:"]);
        explore(b"title", is_profile).assert_refused(&["bad.toml:1:"]);
        explore(b"{\"title\": 1}", is_profile).assert_refused(&["bad.toml:1:"]);
    }
}

#[test]
fn nesting_of_any_depth_is_refused_without_a_stack_overflow() {
    let depth = 200_000;
    for content in [
        format!("title = {}", "[".repeat(depth)),
        format!("title = {}{}", "[".repeat(depth), "]".repeat(depth)),
        format!("title = {}", "{ a = ".repeat(depth)),
        format!("{}a = 1", "a.".repeat(depth)),
        format!("[{}a]", "a.".repeat(depth)),
    ] {
        for is_profile in [false, true] {
            let outcome = explore(content.as_bytes(), is_profile);
            outcome.assert_refused(&["bad.toml:1:"]);
            assert!(outcome.stderr.len() < 2_000, "a line nobody reads is not shown");
        }
    }
}

#[test]
fn a_huge_file_is_refused_before_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    File::create(folder.path().join("huge.toml")).unwrap().set_len(100 << 30).unwrap();
    let start = Instant::now();
    for line in ["explore huge.toml", "explore vit-b32-fc1 --device huge.toml", "devices huge.toml"] {
        coexec_in(folder.path(), words(line)).assert_refused(&["huge.toml has more than", "8 MiB"]);
    }
    let line = "simulate vit-b32-fc1 --plan huge.toml";
    coexec_in(folder.path(), words(line)).assert_refused(&["huge.toml has more than"]);
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn unreadable_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("folder.toml")).unwrap();
    for (name, why) in [("folder.toml", "directory"), ("missing.toml", "No such file")] {
        for line in ["explore NAME", "explore vit-b32-fc1 --device NAME", "simulate vit-b32-fc1 --plan NAME"]
        {
            let outcome = coexec_in(folder.path(), words(&line.replace("NAME", name)));
            outcome.assert_refused(&[&format!("cannot read {name}"), why, "check the path"]);
        }
    }
}

#[test]
fn a_configuration_of_a_language_model_is_told_from_a_scenario() {
    explore(b"{ \"model_type\": \"qwen2\" }", false)
        .assert_refused(&["bad.toml:1:1: a scenario is TOML", "`[language_model]`"]);
}

/// Asserts that a scenario of those operators, one per line, is refused.
fn scenario_refused(operators: &[&str], expected: &[&str]) {
    let mut text = "title = \"bad\"\n".to_owned();
    for operator in operators {
        text.push_str("[[operator]]\n");
        text.push_str(operator);
        text.push('\n');
    }
    let outcome = explore(text.as_bytes(), false);
    outcome.assert_refused(&["bad.toml:"]);
    outcome.assert_refused(expected);
}

#[test]
fn a_scenario_with_an_unknown_key_is_refused() {
    explore(b"title = \"x\"\nnetwrok = \"resnet18\"", false)
        .assert_refused(&["bad.toml:2:1: unknown field `netwrok`"]);
    scenario_refused(
        &["name = \"a\"\nlinear = { row = 1, input_features = 8, output_features = 8 }"],
        &["bad.toml:4:12: unknown field `row`"],
    );
}

#[test]
fn a_scenario_has_one_workload_and_names_what_exists() {
    explore(b"title = \"x\"", false).assert_refused(&["no workload", "exactly one of network"]);
    explore(b"title = \"x\"\nnetwork = \"vit-b32\"\noperator_set = \"codl-conv\"", false)
        .assert_refused(&["more than one workload"]);
    explore(b"title = \"x\"\noperator = []", false).assert_refused(&["bad.toml:2:", "no operators"]);
    explore(b"title = \"x\"\nnetwork = \"resnet99\"", false).assert_refused(&["bad.toml:2:11: network is"]);
    explore(b"title = \"x\"\nnetwork = \"vit-b32\"\ndevice = \"pixel9\"", false)
        .assert_refused(&["bad.toml:3:10:", "no device profile named \"pixel9\""]);
    explore(b"title = \"x\"\nnetwork = \"vit-b32\"\nthreads = 9", false)
        .assert_refused(&["bad.toml:3:11: threads is 9", "at most 8"]);
    explore(b"title = \"x\"\nnetwork = \"vit-b32\"\nstep = 0", false)
        .assert_refused(&["bad.toml:3:8: step is 0"]);
    explore(b"title = \"x\"\nnetwork = \"vit-b32\"\nbatch = 0", false)
        .assert_refused(&["bad.toml:3:9: batch is 0", "at least 1"]);
    explore(b"title = \"x\"\nnetwork = \"vit-b32\"\nseed = 3", false)
        .assert_refused(&["bad.toml:3:8: seed is of requests", "[[application]]"]);
}

#[test]
fn a_key_that_the_workload_does_not_use_is_refused() {
    let language =
        "title = \"x\"\ndevice = \"snapdragon-8gen3\"\nKEY\n[language_model]\nmodel = \"llama3.2-1b\"";
    for key in [
        "data_type = \"f16\"",
        "threads = 2",
        "library = \"ruy\"",
        "measure = \"operators\"",
        "step = 4",
        "effort = \"quick\"",
        "pipeline = { depth = 2, host_gap_us = 1 }",
    ] {
        let name = key.split(' ').next().unwrap();
        let expected = ["bad.toml:3:", &*format!("{name} is not of a language model"), "`weights`"];
        explore(language.replace("KEY", key).as_bytes(), false).assert_refused(&expected);
    }
    let twice = language.replace("KEY", "strategy = \"gpu-only\"") + "\nstrategy = \"cpu-only\"";
    explore(twice.as_bytes(), false).assert_refused(&["bad.toml:3:", "strategy is also in [language_model]"]);
    let network = b"title = \"x\"\nnetwork = \"vit-b32\"\n[[input]]\nname = \"i\"\nextent = [1, 2, 2, 3]";
    explore(network, false).assert_refused(&["bad.toml:3:", "input is of operators", "[[operator]]"]);
    for key in ["effort = \"quick\"", "pipeline = { depth = 2, host_gap_us = 1 }"] {
        let set = format!("title = \"x\"\noperator_set = \"codl-conv\"\n{key}");
        explore(set.as_bytes(), false).assert_refused(&["bad.toml:3:", "is not of a set of operators"]);
    }
}

#[test]
fn a_scenario_has_at_least_one_thread() {
    explore(b"title = \"x\"\nnetwork = \"resnet18\"\nthreads = 0", false).assert_refused(&[
        "bad.toml:3:",
        "threads is 0",
        "at least 1",
    ]);
}

#[test]
fn a_batch_that_mixes_images_names_what_does_and_says_what_to_do() {
    let scenario =
        b"title = \"x\"\nbatch = 2\n[[input]]\nname = \"x\"\nextent = [2, 8, 8, 4]\n[[operator]]\n\
        name = \"one\"\nfrom = [\"x\"]\nslice = { dimension = \"batch\", first = 0, count = 1 }";
    explore(scenario, false).assert_refused(&[
        "bad.toml:2:",
        "one (slice)",
        "export the model with that batch",
    ]);
}

#[test]
fn an_operator_that_no_processor_of_a_device_computes_is_not_promised_another_processor() {
    explore(b"title = \"x\"\nnetwork = \"resnet18\"\ndevice = \"tpu-v4\"\ndata_type = \"i8\"", false)
        .assert_refused(&["has no table `xnnpack_i8`", "choose another device", "data_type in a scenario"]);
}

#[test]
fn operators_that_do_not_chain_are_refused() {
    scenario_refused(
        &[
            "name = \"a\"\nlinear = { rows = 50, input_features = 768, output_features = 100 }",
            "name = \"b\"\nlinear = { rows = 50, input_features = 101, output_features = 10 }",
        ],
        &["bad.toml:6:8: b reads 1x50x101 but a writes 1x50x100", "dimensions agree"],
    );
    scenario_refused(
        &["name = \"a\"\nfrom = [\"b\"]\nlinear = { rows = 1, input_features = 8, output_features = 8 }"],
        &["operator[0].from[0] is \"b\"", "the name of an operator above"],
    );
    scenario_refused(
        &["name = \"a\"\nsoftmax = true"],
        &["operator[0].name", "takes its extent from its input"],
    );
    scenario_refused(&["name = \"a\""], &["an operator of no kind"]);
}

#[test]
fn dimensions_at_the_limits_are_refused_without_overflow() {
    let most = u32::MAX;
    let linear = |rows: u32, input: u32, output: u32| {
        format!(
            "name = \"a\"\nlinear = {{ rows = {rows}, input_features = {input}, output_features = {output} }}"
        )
    };
    scenario_refused(&[&linear(0, 8, 8)], &["rows is 0"]);
    scenario_refused(&[&linear(8, 8, 0)], &["output features is 0"]);
    scenario_refused(&[&linear(most, most, most)], &["rows is 4294967295, expected at most"]);
    scenario_refused(&[&linear(1 << 24, 1 << 24, 1)], &["the input has"]);
    scenario_refused(&[&linear(1 << 20, 1 << 20, 1 << 20)], &["steps, expected at most"]);
    let conv = |rest: &str| {
        format!("name = \"a\"\nconv2d = {{ input = [64, 64, 16], output_channels = 16, {rest} }}")
    };
    for (rest, expected) in [
        ("kernel = [0, 3]", "kernel is 0"),
        ("kernel = [65, 3]", "the window covers 65 rows"),
        ("kernel = [4294967295, 1]", "kernel is 4294967295"),
        ("kernel = [3, 3], stride = [0, 1]", "stride is 0"),
        ("kernel = [3, 3], stride = [4294967295, 1]", "stride is 4294967295"),
        ("kernel = [3, 3], dilation = [4294967295, 1]", "dilation is 4294967295"),
        ("kernel = [16777216, 1], dilation = [16777216, 1]", "the window covers"),
        ("kernel = [3, 3], groups = 0", "groups is 0"),
        ("kernel = [3, 3], groups = 4294967295", "groups"),
        ("kernel = [3, 3], groups = 3", "do not divide into 3 groups"),
        ("kernel = [3, 3], padding = { top = 4294967295, bottom = 1, left = 0, right = 0 }", "padding is"),
        (
            "kernel = [1, 1], padding = { top = 16777216, bottom = 16777216, left = 0, right = 0 }",
            "output extent",
        ),
    ] {
        scenario_refused(&[&conv(rest)], &[expected]);
    }
    scenario_refused(
        &[
            "name = \"a\"\ndepthwise_conv2d = { input = [8, 8, 16777216], kernel = [1, 1], multiplier = 4294967295 }",
        ],
        &["expected at most"],
    );
    scenario_refused(
        &[
            "name = \"a\"\nconv2d = { input = [4294967295, 4294967295, 4294967295], output_channels = 1, kernel = [1, 1] }",
        ],
        &["height is 4294967295"],
    );
    scenario_refused(
        &["name = \"a\"\nlinear = { rows = 4294967296, input_features = 8, output_features = 8 }"],
        &["4294967296", "a whole number"],
    );
    scenario_refused(
        &["name = \"a\"\nlinear = { rows = -1, input_features = 8, output_features = 8 }"],
        &["-1", "a whole number"],
    );
}

#[test]
fn a_run_of_more_than_a_day_is_refused() {
    let slow = PIXEL4.replace("launch_us = 19.4", "launch_us = 1e9").replacen(
        "multiply_accumulate_ns = 0.049296",
        "multiply_accumulate_ns = 1e9",
        1,
    );
    assert_eq!(explore(slow.as_bytes(), true).status, 0, "a launch of 1,000 s is slow, but no error");
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("slow.toml"), slow).unwrap();
    let line = "explore vit-b32-fc1 --device slow.toml --strategy cpu-only --threads 1";
    coexec_in(folder.path(), words(line)).assert_refused(&["takes more than a day", "rates of the profile"]);
}
