//! Plans of little regret, with errors of 10 % per processor and of synchronisation.

use coexec_sim::device::Profile;
use coexec_sim::explore::advice::{Regret, Robust, robust};
use coexec_sim::explore::{SearchOptions, Strategy, explore};
use coexec_sim::kernel::Library;
use coexec_sim::simulate::{Errors, Measure, Simulator};
use coexec_sim::workload::{fuse, network};

/// The nominal plan and the robust one, on CPU and GPU.
fn of((name, device): (&str, &str), regret: Regret) -> Robust {
    let device = Profile { npu: None, ..Profile::load(device).unwrap() };
    let stages = fuse(&network(name).unwrap());
    let mut simulator = Simulator::new(&device, Library::Xnnpack).measuring(Measure::Inference);
    let options = SearchOptions { strategy: Strategy::Optimal, ..SearchOptions::on(&device) };
    let answer = explore(&mut simulator, &stages, &options).unwrap();
    robust(&mut simulator, (&stages, &options), &answer, (&Errors::common(10.0), regret)).unwrap()
}

#[test]
fn robust_plans_have_less_regret_than_nominal_ones() {
    // Limit of the p95 regret, in percent of the nominal plan's.
    let cases = [(("mobilenet-v2", "pixel4"), 65.0), (("resnet50", "oneplus11"), 50.0)];
    for (case, limit) in cases {
        let Robust { chosen, nominal, .. } = of(case, Regret::P95);
        assert!(100.0 * chosen.p95_percent <= limit * nominal.p95_percent, "{case:?}");
        assert!(chosen.mean_percent <= 1.1 * nominal.mean_percent, "{case:?}");
    }
    let Robust { chosen, nominal, .. } = of(cases[0].0, Regret::Mean);
    assert!(chosen.mean_percent < nominal.mean_percent);
}
