//! The bundled profiles and runs of probed machines.

use std::path::Path;

use coexec_sim::device::profile::Profile;

use crate::{coexec, words};

/// For held-out layers: the largest MAPE, and the least share within 10 %, both in percent.
const MAX_MAPE_PERCENT: f64 = 10.0;
const MIN_WITHIN_PERCENT: f64 = 85.0;
/// Least fraction of layers within 10 % on a machine whose cores are shared with other guests.
const MIN_CLOSE_ON_SHARED_MACHINE: f64 = 0.8;
/// Least percentage of the best speedup that choosing by prediction reaches, as in `EPEW'25`.
const MIN_REACHED_PERCENT: f64 = 94.0;

fn runs(name: &str) -> String {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("device-profiles/runs").join(name);
    runs.to_string_lossy().into_owned()
}

#[test]
fn the_h200_is_predicted_on_hundreds_of_layers_that_no_fit_saw() {
    let calibration = Profile::load("h200").unwrap().calibration.unwrap();
    let mut layers = 0;
    for family in ["fully_connected", "conv2d", "depthwise_conv2d"] {
        let name = format!("gpu/{family}/unseen");
        let error = calibration.error.iter().find(|error| error.name.to_string() == name).unwrap();
        assert!(error.mape_percent < MAX_MAPE_PERCENT, "{error:?}");
        assert!(error.within_10_percent > MIN_WITHIN_PERCENT, "{error:?}");
        layers += error.n;
    }
    assert!(layers >= 300, "{layers}");
}

#[test]
fn cores_used_as_a_gpu_are_predicted_within_a_tenth_on_average() {
    let calibration = Profile::load("xeon-pocl").unwrap().calibration.unwrap();
    let families = ["fully_connected", "conv2d", "depthwise_conv2d"].map(|family| {
        let name = format!("gpu/{family}/unseen");
        calibration.error.iter().find(|error| error.name.to_string() == name).unwrap()
    });
    for error in families {
        assert!(error.mape_percent < MAX_MAPE_PERCENT, "{error:?}");
    }
    let layers: usize = families.iter().map(|error| error.n).sum();
    let close: f64 = families.iter().map(|error| error.n as f64 * error.within_10_percent / 100.0).sum();
    assert!(layers >= 300 && close / layers as f64 > MIN_CLOSE_ON_SHARED_MACHINE, "{families:?}");
}

#[test]
fn choosing_a_cut_by_prediction_comes_close_to_the_best_that_was_measured() {
    let file = runs("xeon-pocl-cuts.csv");
    let line = words("validate --profile xeon-pocl --json --quiet --runs").chain([file.as_str()]);
    let document = coexec(line).json();
    let choices = &document["choices"];
    assert!(choices["operators"].as_u64().unwrap() >= 60, "{choices}");
    let reached = choices["reached_percent"].as_f64().unwrap();
    assert!(reached > MIN_REACHED_PERCENT, "{choices}");
    assert!(reached > choices["uncut_percent"].as_f64().unwrap(), "better than never to cut: {choices}");
    let cut = document["groups"].as_array().unwrap().iter().find(|group| group["name"] == "split/linear");
    assert!(cut.unwrap()["mape_percent"].as_f64().unwrap() < 20.0, "{document}");
}
