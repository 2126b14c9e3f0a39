use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::*;
use coexec_sim::device::check::Checker;

/// A memory of 60 GB/s, for one client and for several.
fn memory() -> Memory {
    Memory {
        capacity_gb: None,
        streams: None,
        source: "test".to_owned(),
        peak_bandwidth_gbps: Quantity::plain(60.0),
        concurrent_bandwidth_gbps: vec![Quantity::plain(60.0)],
        interference: Vec::new(),
    }
}

fn interference(client: &str, values: [f64; PARAMETERS]) -> Interference {
    table(client, values.map(Quantity::plain), "made up")
}

/// A GPU that loses half its bandwidth as the CPU's traffic rises from 10 to 30 GB/s, and a CPU that
/// mostly waits longer.
fn truth() -> [Interference; 2] {
    [interference("gpu", [10.0, 30.0, 36.0, 17.0, 1.03]), interference("cpu", [5.0, 25.0, 30.0, 20.0, 1.12])]
}

/// Each client at six demands under nine levels of the other's traffic, timed by `curves`
/// with log errors of standard deviation `noise`.
fn measured(curves: &[Interference], noise: f64) -> Vec<CoRun> {
    let sharing = predict::Sharing::new(&memory(), curves);
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut runs = Vec::new();
    for (client, others) in [("gpu", "cpu"), ("cpu", "gpu")] {
        for level in 0..9_u32 {
            for demand in 1..=6_u32 {
                let run = CoRun {
                    client: client.to_owned(),
                    own_gbps: 6.0 * f64::from(demand),
                    streams: 1,
                    others: others.to_owned(),
                    others_gbps: 4.5 * f64::from(level),
                    others_streams: 1,
                    level,
                    slowdown: 1.0,
                };
                let error: f64 = StandardNormal.sample(&mut random);
                runs.push(CoRun { slowdown: sharing.slowdown(&run) * (noise * error).exp(), ..run });
            }
        }
    }
    runs
}

fn checked(fit: &Interference) {
    let mut checker = Checker::default();
    Memory { interference: vec![fit.clone()], ..memory() }.check(&mut checker);
    assert_eq!(checker.violations, []);
}

#[test]
fn the_curves_that_made_the_runs_are_found() {
    for noise in [0.0, 0.02] {
        let runs = measured(&truth(), noise);
        let fits = fit(&runs, "made runs");
        assert_eq!(fits.len(), 2);
        for (fit, made) in fits.iter().zip(["cpu", "gpu"]) {
            let made = truth().into_iter().find(|table| table.client == made).unwrap();
            checked(fit);
            let own: Vec<&CoRun> = runs.iter().filter(|run| run.client == fit.client).collect();
            let errors =
                own.iter().map(|run| (predict::by_curve(&curve(fit), run) / run.slowdown - 1.0).abs());
            assert!(errors.sum::<f64>() / (own.len() as f64) < 0.01 + noise, "{fit:?}");
            for (found, made) in [
                (&fit.saturation_gbps, &made.saturation_gbps),
                (&fit.crowded_gbps, &made.crowded_gbps),
                (&fit.crowded_slowdown_factor, &made.crowded_slowdown_factor),
            ] {
                assert!((found.value / made.value - 1.0).abs() < 0.15, "{found:?}, made with {made:?}");
            }
        }
    }
}

#[test]
fn held_out_levels_are_predicted_where_max_min_sharing_errs() {
    let errors = held_out(&memory(), &measured(&truth(), 0.03));
    assert_eq!(errors.iter().map(|error| error.client.as_str()).collect::<Vec<_>>(), ["cpu", "gpu"]);
    for error in &errors {
        assert_eq!(error.runs, 54);
        // 3 % of noise is a mean error of 2.4 %.
        assert!(error.error_percent < 4.0, "{errors:?}");
        assert!(error.plain_error_percent > 2.5 * error.error_percent, "{errors:?}");
    }
}

#[test]
fn runs_of_max_min_sharing_leave_little_for_a_curve_to_err_in() {
    for error in held_out(&memory(), &measured(&[], 0.01)) {
        assert!(error.plain_error_percent < 1.0 && error.error_percent < 6.0, "{error:?}");
    }
}

#[test]
fn few_runs_or_impossible_ones_make_no_curve() {
    let runs = measured(&truth(), 0.0);
    assert_eq!(fit(&[], "runs"), []);
    assert_eq!(fit(&runs[..MIN_RUNS - 1], "runs"), []);
    // Without other traffic there is nothing to fit.
    assert_eq!(fit(&vec![runs[0].clone(); MIN_RUNS], "runs"), []);
    let broken: Vec<CoRun> = runs.iter().map(|run| CoRun { slowdown: f64::NAN, ..run.clone() }).collect();
    assert_eq!(fit(&broken, "runs"), []);
    assert_eq!(held_out(&memory(), &broken), []);
}
