//! Whole inferences on six phones' GPUs, mobile-ml-benchmark data set, predicted by
//! fits of kernels and host path that had not seen their networks.

use coexec_sim::calibrate::gpu::prior::{Phone, Prior};
use coexec_sim::calibrate::gpu::{Options, calibrate};
use coexec_sim::calibrate::host::{fit, held_out};
use coexec_sim::device::profile::Profile;
use coexec_sim::measure::{benchmark_gpu, benchmark_gpu_network};
use coexec_sim::validate::score::score;

/// A phone of the data set, and the largest MAPE of whole inferences, in percent.
const PHONES: [(&str, f64); 6] =
    [("pixel4", 4.0), ("s10", 7.0), ("mi8se", 4.0), ("a03s", 4.0), ("iphone7", 4.0), ("iphonexs", 4.0)];

/// Part of the inferences that 90 % intervals hold, in percent.
const COVERAGE: std::ops::RangeInclusive<f64> = 85.0..=95.0;

#[test]
fn inferences_of_networks_kept_out_are_predicted_on_six_phones() {
    let Some(folder) = crate::data() else { return };
    if !crate::is_optimised() {
        return;
    }
    for (name, limit) in &PHONES {
        let profile = Profile::load(name).unwrap();
        let runs = benchmark_gpu::read(&folder, name).unwrap().runs;
        let networks = benchmark_gpu_network::read(&folder, name).unwrap().networks;
        let own = Phone { gpu: profile.gpu.as_ref().unwrap(), memory: &profile.memory };
        let centre = Prior::Hardware.centre(own, &runs).unwrap();
        // The residual makes little difference to a sum of launches.
        let options = Options { source: "test".to_owned(), folds: 5, seed: 0, residual: false };
        let kernels = calibrate(&centre, &runs, &options, &|_| ());
        let held_out = held_out(&kernels.folds, &networks, "test");
        let scored = &score(&held_out.points)[0];
        let (mape, coverage) = (scored.group.mape_percent, scored.interval_coverage_percent.unwrap());
        let host = fit(&kernels.gpu, &networks, "test").unwrap();
        println!("{name:9} {mape:.2} % (limit {limit}), {coverage:.0} % in interval; {:?}", host.host);
        assert_eq!(held_out.points.len(), networks.len());
        assert!(mape < *limit, "{name}: {mape} %");
        assert!(COVERAGE.contains(&coverage), "{name}: {coverage} %");
        assert!(host.converged);
    }
}
