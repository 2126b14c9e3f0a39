//! `CoDL`'s predictor where only whole networks are timed.
//!
//! The time of a network is the sum of those of its operators, each by equation 3, and so
//! linear in the same coefficients. Tens of networks cannot tell windows apart, so the
//! windows of a kernel share theirs, and what the networks leave open is damped. The
//! paper trains on operators; this is what its form is worth with less.
//! Invariant: the coefficients depend on the networks fitted alone.

use std::collections::HashMap;

use nalgebra::{DMatrix, DVector};

use super::{Implementation, Job, Launch, TERMS, solve};

/// Damping of the normal equations, as a part of each unknown's own curvature: a few tens
/// of networks have to tell as many unknowns.
const DAMPING: f64 = 1e-3;

/// Equation 3 summed over the operators of a network.
#[derive(Clone, Debug)]
pub struct NetworkPredictor {
    /// Where the terms of a step of a kernel begin.
    columns: HashMap<(Implementation, usize), usize>,
    coefficients: DVector<f64>,
}

impl NetworkPredictor {
    /// Fits networks, as the jobs of their operators, and their measured microseconds; none
    /// where there are no networks, or their jobs have no units.
    pub fn fit(runs: &[(Vec<Job>, f64)]) -> Option<Self> {
        let mut columns = HashMap::new();
        for step in runs.iter().flat_map(|(jobs, _)| jobs).flat_map(steps) {
            let next = TERMS * columns.len();
            columns.entry(step).or_insert(next);
        }
        let mut rows = DMatrix::zeros(runs.len(), TERMS * columns.len());
        for (row, (jobs, measured_us)) in runs.iter().enumerate() {
            for (column, value) in sums(&columns, jobs) {
                rows[(row, column)] += value / measured_us;
            }
        }
        (!rows.is_empty()).then(|| solve(&rows, DAMPING))?.map(|coefficients| Self { columns, coefficients })
    }

    /// Time of a network with those jobs, in microseconds, as far as its kernels occur in
    /// the networks fitted.
    pub fn predict(&self, jobs: &[Job]) -> f64 {
        let terms = sums(&self.columns, jobs);
        terms.into_iter().map(|(column, value)| self.coefficients[column] * value).sum::<f64>().max(0.0)
    }
}

/// The kernel of a job, whatever its shapes, and each of its steps.
fn steps(job: &Job) -> impl Iterator<Item = (Implementation, usize)> {
    let kernel = job.implementation.of_any_shape();
    (0..job.units.len()).map(move |step| (kernel.clone(), step))
}

/// Columns and what the jobs add to them.
fn sums(columns: &HashMap<(Implementation, usize), usize>, jobs: &[Job]) -> Vec<(usize, f64)> {
    let mut terms = Vec::new();
    for job in jobs {
        for (step, key) in steps(job).enumerate() {
            let Some(&first) = columns.get(&key) else { continue };
            let of_step = TERMS * step..TERMS * (step + 1);
            terms.extend((first..).zip(of_step).map(|(column, own)| (column, job.column(Launch::None, own))));
        }
    }
    terms
}

#[cfg(test)]
mod tests {
    use super::*;
    use coexec_sim::device::profile::Profile;
    use coexec_sim::kernel::cpu::{CoreSet, Library};
    use coexec_sim::workload::{DataType, Layer, Linear, Operator};

    fn job(features: u32) -> Job {
        let profile = Profile::load("pixel4").unwrap();
        let cores = CoreSet::fastest(&profile.cpu, 2).unwrap();
        let linear =
            Linear { rows: 64, input_features: features, output_features: 2 * features, bias: false };
        let layer = Layer::new(Operator::Linear(linear), DataType::F32);
        Job::on_cpu(&layer, &profile.cpu, &cores, Library::Ruy).unwrap()
    }

    #[test]
    fn operators_that_were_never_timed_alone_are_learned_from_networks() {
        let micros = |jobs: &[Job]| jobs.iter().map(|job| 0.25 * job.units[1]).sum::<f64>();
        let networks: Vec<Vec<Job>> =
            (1..12).map(|index| vec![job(16 * index), job(8 * index + 32)]).collect();
        let runs: Vec<(Vec<Job>, f64)> =
            networks.into_iter().map(|jobs| (jobs.clone(), micros(&jobs))).collect();
        let predictor = NetworkPredictor::fit(&runs).unwrap();
        let unseen = [job(80), job(100), job(120)];
        let error = predictor.predict(&unseen) / micros(&unseen) - 1.0;
        assert!(error.abs() < 0.05, "{error}");
    }

    #[test]
    fn nothing_is_said_without_networks() {
        assert!(NetworkPredictor::fit(&[]).is_none());
    }
}
