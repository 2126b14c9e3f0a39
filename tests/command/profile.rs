//! Profiles of unmeasured devices.

use std::collections::BTreeMap;

use coexec_sim::{Calibration, Profile};

use crate::{coexec, coexec_in, words};

#[test]
fn a_phone_s_name_is_enough_for_a_plan_with_its_interval_and_what_it_rests_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    let file = file.to_str().unwrap();
    let unknown = coexec(words(&format!("profile new --soc pixel-70-pro --out {file}")));
    unknown.assert_refused(&["--soc pixel-70-pro: there is no such system-on-chip or phone"]);
    let text = coexec(["profile", "new", "--soc", "Pixel 7 Pro", "--out", file]).stdout;
    for expected in
        ["Tensor G2: CPU 2xX1@2.85", "GPU mali-g710mp7@848", "gpu/end_to_end/unseen", "NPU not known"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let answer = coexec(words(&format!("explore mobilenet-v2 --device {file} --effort quick --json"))).json();
    let [low, high] = [0, 1].map(|end| answer["trust"]["interval_ps"][end].as_f64().unwrap());
    let latency = answer["prediction"]["latency_ps"].as_f64().unwrap();
    assert!(low < latency && latency < high && high > 1.5 * low, "{low} {latency} {high}");
    let basis = |processor: &str| {
        let known = answer["known"].as_array().unwrap();
        known.iter().find(|known| known["processor"] == processor).unwrap()["basis"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!([basis("cpu"), basis("gpu")], ["scaled", "transferred"]);
    let text = coexec(words(&format!("simulate resnet18 --device {file} --strategy gpu-only"))).stdout;
    assert!(text.contains("GPU transferred (off by 29 %)"), "{text}");
}

#[test]
fn parts_of_a_specification_take_the_place_of_what_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    let file = file.to_str().unwrap();
    let gpu = "adreno-750@1000";
    coexec(["profile", "new", "--soc", "Snapdragon 8 Gen 3", "--gpu", gpu, "--out", file, "--json"]).json();
    let content = std::fs::read_to_string(file).unwrap();
    assert!(content.contains("clock_mhz = { value = 1000.0"), "{content}");
    assert!(content.contains("name = \"mine\""), "{content}");
    let text = coexec(words("profile new")).stdout;
    assert!(text.contains("Dimensity 9400") && text.contains("vivo X200 Pro"), "{text}");
    let systems = coexec(words("profile new --json")).json();
    assert!(systems.as_array().unwrap().iter().any(|system| system["soc"] == "Dimensity 9400"), "{systems}");
}

#[test]
fn a_system_is_found_without_blanks_and_its_bundled_profile_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for (soc, found) in [("snapdragon-8gen3", "Snapdragon 8 Gen 3"), ("pixel4", "Snapdragon 855")] {
        let outcome = coexec_in(folder.path(), words(&format!("profile new --soc {soc} --out mine.toml")));
        assert!(outcome.stdout.contains(found), "{}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.stderr.contains(&format!("is bundled: --device {soc}")), "{}", outcome.stderr);
    }
    let other = "profile new --soc dimensity-9300 --gpu none --npu none --cpu 1xX4@3.4 --out mine.toml";
    let other = coexec_in(folder.path(), words(other));
    assert!(other.status == 0 && !other.stderr.contains("is bundled"), "{}", other.stderr);
    let bundled = coexec_in(folder.path(), words("profile new --soc xiaomi9 --out mine.toml"));
    bundled.assert_refused(&["is bundled: --device xiaomi9", "no such system-on-chip"]);
    for (out, why) in [(".", "not a regular file"), ("-", "name of a file")] {
        let line = format!("profile new --soc pixel-5 --out {out}");
        coexec_in(folder.path(), words(&line)).assert_refused(&[&format!("cannot write {out}"), why]);
    }
}

#[test]
fn half_a_specification_and_one_of_no_device_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |given: &str, words: &[&str]| {
        let line = format!("profile new {given} --out mine.toml");
        coexec_in(folder.path(), crate::words(&line)).assert_refused(words);
        assert!(!folder.path().join("mine.toml").exists(), "{given}");
    };
    let slow_first = "--cpu 1xX1@2.2,3xA78@2.9 --memory lpddr5x-4800x64";
    refused(slow_first, &["--cpu is 1xX1@2.2,3xA78@2.9", "fastest first"]);
    refused("--soc pixel-9", &["did you mean \"Google Pixel 9 Pro\"?"]);
    refused("--cpu 4xA720@3", &["neither --memory nor --soc"]);
    refused("--memory lpddr5x-4800x64 --json", &["neither --cpu nor --soc"]);
    refused("--gpu adreno-750@903", &["neither --cpu and --memory nor --soc"]);
    let without_cores = "--cpu 4xA720@3 --gpu mali-g720@1300 --memory lpddr5x-4800x64";
    refused(without_cores, &["a GPU with its number of cores, as mali-g720mc7@1300"]);
    refused(
        "--soc dimensity-9400 --without galaxy-a03s,galaxy-s10,iphone-xs,iphone7,mi8se,pixel4",
        &["every measured device", "keep at least one"],
    );
    for (cpu, gpu, memory) in [
        ("4xA720@0.0001", "adreno-750@903", "lpddr5x-4800x64"),
        ("4xA720@1e6", "adreno-750@903", "lpddr5x-4800x64"),
        ("0xA720@3", "adreno-750@903", "lpddr5x-4800x64"),
        ("4xA720@3", "adreno-750@1e9", "lpddr5x-4800x64"),
        ("4xA720@3", "adreno-750@903", "lpddr5x-1e9x64"),
        ("4xA720@3", "adreno-750@903", "lpddr5x-4800x1e9"),
    ] {
        refused(&format!("--cpu {cpu} --gpu {gpu} --memory {memory}"), &["expected", " to "]);
    }
}

/// Relative tolerance: mathematical functions round differently on other machines, and fits amplify
/// that.
const MARGIN: f64 = 1e-3;

/// Asserts that two values are equal, up to the rounding of numbers.
fn assert_alike(made: &toml::Value, bundled: &toml::Value, path: &str) {
    match (made, bundled) {
        (toml::Value::Float(made), toml::Value::Float(bundled)) => {
            assert!((made - bundled).abs() <= MARGIN * bundled.abs(), "{path}: {made} for {bundled}");
        }
        (toml::Value::Table(made), toml::Value::Table(bundled)) => {
            assert!(made.keys().eq(bundled.keys()), "{path}");
            made.iter().for_each(|(key, value)| assert_alike(value, &bundled[key], &format!("{path}.{key}")));
        }
        (toml::Value::Array(made), toml::Value::Array(bundled)) => {
            assert_eq!(made.len(), bundled.len(), "{path}");
            made.iter().zip(bundled).for_each(|(made, bundled)| assert_alike(made, bundled, path));
        }
        (made, bundled) => assert_eq!(made, bundled, "{path}"),
    }
}

#[test]
fn the_command_that_a_bundled_profile_names_makes_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut compared = 0;
    for bundled in Profile::bundled().unwrap() {
        let source = bundled.calibration.as_ref().map_or("", |Calibration { source, .. }| source.as_str());
        let Some(command) = source.strip_prefix("made by `coexec ").and_then(|rest| rest.split('`').next())
        else {
            continue;
        };
        let file = folder.path().join(format!("{}.toml", bundled.name));
        coexec(words(&format!("{command} --out {}", file.display())));
        let made = Profile::load(file.to_str().unwrap()).unwrap();
        // GPUs are fitted to predictions of measured GPUs, and later rules for large strides and for few
        // pixels changed those: the parameters trade off, but the predictions are nearly the same.
        let table = |profile| toml::Value::try_from(Profile { gpu: None, ..profile }).unwrap();
        let on_gpu = |device: &str| {
            let line = format!("simulate resnet50 --device {device} --strategy gpu-only --json");
            coexec(words(&line)).json()["prediction"]["latency_ps"].as_f64().unwrap()
        };
        let apart = on_gpu(file.to_str().unwrap()) / on_gpu(&bundled.name) - 1.0;
        assert!(apart.abs() < 0.01, "{}: {apart}", bundled.name);
        let (made, bundled) = (table(made), table(bundled));
        assert_alike(&made, &bundled, "profile");
        compared += 1;
    }
    assert!(compared >= 7, "{compared}");
}

#[test]
fn the_npu_is_the_named_one_or_none_and_unverified_values_widen_errors() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    let file = file.to_str().unwrap();
    let made = |options: &str| {
        coexec(words(&format!("profile new --soc apple-m4 {options} --out {file}")));
        Profile::load(file).unwrap()
    };
    let known = made("");
    assert_eq!(known.npu.as_ref().unwrap().name, "Apple ane-m4");
    assert!(made("--npu none").npu.is_none());
    assert_ne!(made("--npu hexagon-8-series").npu, known.npu);
    let unknown = coexec(words(&format!("profile new --soc apple-m4 --npu ane-m9 --out {file}")));
    unknown.assert_refused(&["there is no NPU named \"ane-m9\""]);
    let percent = |profile: &Profile| {
        let errors = &profile.calibration.as_ref().unwrap().error;
        let group = errors.iter().find(|group| group.name == "gpu/end_to_end/unseen".into());
        group.unwrap().mape_percent
    };
    let verified = percent(&known);
    let uncertain = percent(&made("--gpu apple-a18-pro@1450"));
    assert!((uncertain - verified.hypot(20.0)).abs() < 0.01, "{verified} {uncertain}");
}

/// The values of `[npu.compiled]`, the tables in it included.
fn compiled_rates(device: &str) -> BTreeMap<String, f64> {
    fn collect(rates: &mut BTreeMap<String, f64>, path: &str, table: &toml::Table) {
        for (key, value) in table {
            let path = format!("{path}.{key}");
            let number = value.as_float().or_else(|| value.get("value")?.as_float());
            match (number, value.as_table()) {
                (Some(number), _) => drop(rates.insert(path, number)),
                (None, Some(table)) => collect(rates, &path, table),
                (None, None) => {}
            }
        }
    }
    let compiled = Profile::load(device).unwrap().npu.unwrap().compiled.unwrap();
    let mut rates = BTreeMap::new();
    collect(&mut rates, "", toml::Value::try_from(compiled).unwrap().as_table().unwrap());
    rates
}

#[test]
fn npus_without_runs_are_scaled_by_the_rules_of_the_readme_of_profiles() {
    // Chip, the chip it is scaled from, the factors of rates, memory and fixed costs, and that of the bandwidths in
    // language models; none where they are fitted.
    for (device, base, own, language) in [
        ("snapdragon-8elite", "snapdragon-8gen3", Some([1.45, 1.104, 1.0 / 1.45]), None),
        ("snapdragon-8gen3", "snapdragon-8elite", None, Some(1.0 / 1.104)),
        ("snapdragon-8elite-gen5", "snapdragon-8elite", Some([1.37, 1.0, 1.0 / 1.37]), Some(1.0)),
        ("snapdragon-7gen4", "oneplus11", Some([0.5, 0.5, 1.0]), Some(0.5)),
        ("snapdragon-x-elite", "oneplus11", Some([1.0, 1.418, 1.0]), Some(1.418)),
    ] {
        let (scaled, base) = (compiled_rates(device), compiled_rates(base));
        assert!(scaled.keys().eq(base.keys()), "{device}");
        for (key, &value) in &scaled {
            let factor = match key.as_str() {
                key if key.ends_with("_factor") => Some(1.0),
                key if key.ends_with("_bytes") => None,
                ".token_bandwidth_gbps" | ".prompt_bandwidth_gbps" => language,
                key if key.ends_with("bandwidth_gbps") => own.map(|[_, memory, _]| memory),
                key if key.ends_with("_per_ns") || key.ends_with("_gbps") => own.map(|[rate, ..]| rate),
                _ => own.map(|[.., cost]| cost),
            };
            let Some(factor) = factor else { continue };
            let off = value / (base[key] * factor) - 1.0;
            assert!(off.abs() < 2e-3, "{device}: {key} is {value}, {off} off");
        }
    }
}
