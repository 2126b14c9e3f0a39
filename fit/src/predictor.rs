//! Latency predictors of other work, fitted to the same runs as coexec's models.
//!
//! Responsible for: the predictor of `CoDL` (MobiSys'22, section 5.2), in which equation 3
//! counts how often a kernel runs its basic unit and a linear model of `(H, W, IC, OC)` gives
//! the time of one; a variant with a launch time, which equation 3 lacks ([`Launch`]); and a
//! variant for whole networks, where only these are timed. Not for: the simulator's own
//! models, or error figures (`validate`). Invariant: a prediction depends only on counts and
//! on the runs of its fit; no fitted parameter of a device profile enters.

mod units;

use std::collections::HashMap;

use nalgebra::{DMatrix, DVector};

use crate::measure::grouped;
pub use units::{Implementation, Job, KernelName, MAX_STEPS};

/// Terms of the linear model of a basic unit's time: a constant, H, W, IC and OC.
const TERMS: usize = 5;

/// Damping of the normal equations (ridge), relative to each unknown's own curvature. It shares
/// evenly between coefficients that the runs do not distinguish (H and W of square feature maps).
const DAMPING: f64 = 1e-9;

/// The same where only whole networks are timed. Their time is linear in the same coefficients, but
/// a few tens of networks must determine about as many unknowns. The windows of a kernel therefore
/// share coefficients, and those that stay undetermined are damped. The paper trains on operators.
const NETWORK_DAMPING: f64 = 1e-3;

/// Whether a time per launch is fitted too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launch {
    /// Equation 3 as published: a kernel's time is that of its basic units.
    None,
    /// Plus a constant per implementation, as small kernels need.
    Fitted,
}

impl Launch {
    /// Number of unknowns of an implementation in addition to those of its basic units.
    fn unknowns(self) -> usize {
        usize::from(self == Self::Fitted)
    }
}

/// The predictor of `CoDL`: for each kernel implementation, equation 3 with the time of
/// its basic units fitted.
#[derive(Clone, Debug, Default)]
pub struct CodlPredictor {
    of_implementation: HashMap<Implementation, Regression>,
    /// Fallback for an implementation with too few runs: all windows and tiles of a kernel together.
    of_kernel: HashMap<Implementation, Regression>,
}

impl CodlPredictor {
    /// Fits the predictor to jobs and their measured microseconds.
    pub fn fit(launch: Launch, runs: impl IntoIterator<Item = (Job, f64)>) -> Self {
        let runs: Vec<(Job, f64)> = runs.into_iter().collect();
        let by = |implementation: fn(&Implementation) -> Implementation| {
            let keyed = runs.iter().map(|run| (implementation(&run.0.implementation), run.clone()));
            let fit = |(key, runs): (_, Vec<_>)| Some((key, Regression::of_kernel(launch, &runs)?));
            grouped(keyed).into_iter().filter_map(fit).collect()
        };
        Self { of_implementation: by(Implementation::clone), of_kernel: by(Implementation::of_any_shape) }
    }

    /// Predicted time of a job, in microseconds; none for a kernel with too few runs.
    pub fn predict(&self, job: &Job) -> Option<f64> {
        let of_kernel = || self.of_kernel.get(&job.implementation.of_any_shape());
        let regression = self.of_implementation.get(&job.implementation).or_else(of_kernel)?;
        Some(regression.predict(std::slice::from_ref(job)))
    }
}

/// Equation 3 summed over the operators of a run: a linear model in the times of the basic
/// units of each step of their kernels.
#[derive(Clone, Debug)]
pub struct Regression {
    /// First column of each step of a kernel.
    columns: HashMap<(Implementation, usize), usize>,
    launch: Launch,
    /// Microseconds per launch where that is fitted, then [`TERMS`] per step, in microseconds per unit.
    coefficients: DVector<f64>,
}

impl Regression {
    /// Fits networks, each as the jobs of its operators and its measured microseconds. None where
    /// there are no networks, or their jobs have no units.
    pub fn of_networks(runs: &[(Vec<Job>, f64)]) -> Option<Self> {
        let runs = runs.iter().map(|(jobs, measured_us)| (jobs.as_slice(), *measured_us));
        Self::fit(Launch::None, NETWORK_DAMPING, &runs.collect::<Vec<_>>())
    }

    /// Fits jobs of one kernel and their measured microseconds; none for fewer runs than unknowns.
    fn of_kernel(launch: Launch, runs: &[(Job, f64)]) -> Option<Self> {
        let unknowns = launch.unknowns() + TERMS * runs.first()?.0.units.len();
        let alone = runs.iter().map(|(job, measured_us)| (std::slice::from_ref(job), *measured_us));
        (runs.len() >= unknowns).then(|| Self::fit(launch, DAMPING, &alone.collect::<Vec<_>>()))?
    }

    /// Damped least squares on the relative error.
    fn fit(launch: Launch, damping: f64, runs: &[(&[Job], f64)]) -> Option<Self> {
        let mut columns = HashMap::new();
        for (step, _) in runs.iter().flat_map(|(jobs, _)| *jobs).flat_map(steps) {
            let next = launch.unknowns() + TERMS * columns.len();
            columns.entry(step).or_insert(next);
        }
        let mut rows = DMatrix::zeros(runs.len(), launch.unknowns() + TERMS * columns.len());
        let fitted = Self { columns, launch, coefficients: DVector::zeros(0) };
        for (row, (jobs, measured_us)) in runs.iter().enumerate() {
            for (column, value) in fitted.terms(jobs) {
                rows[(row, column)] += value / measured_us;
            }
        }
        let coefficients = (!rows.is_empty()).then(|| solve(&rows, damping))??;
        Some(Self { coefficients, ..fitted })
    }

    /// Predicted time of these jobs, in microseconds, at least 0. Kernels that do not occur in the
    /// fitted runs add nothing.
    pub fn predict(&self, jobs: &[Job]) -> f64 {
        let terms = self.terms(jobs).into_iter();
        terms.map(|(column, value)| self.coefficients[column] * value).sum::<f64>().max(0.0)
    }

    /// Columns and the jobs' values in them: 1 for a launch where that is fitted, and the units of
    /// each step times each of its terms.
    fn terms(&self, jobs: &[Job]) -> Vec<(usize, f64)> {
        let mut terms = Vec::new();
        for job in jobs {
            terms.extend((0..self.launch.unknowns()).map(|column| (column, 1.0)));
            for (step, units) in steps(job) {
                let Some(&first) = self.columns.get(&step) else { continue };
                let of_step = [1.0].into_iter().chain(job.features).map(|term| units * term);
                terms.extend((first..).zip(of_step));
            }
        }
        terms
    }
}

/// The steps of a job's kernel, independent of window and tile, with their units.
fn steps(job: &Job) -> impl Iterator<Item = ((Implementation, usize), f64)> {
    let kernel = job.implementation.of_any_shape();
    job.units.iter().enumerate().map(move |(step, units)| ((kernel.clone(), step), *units))
}

/// Coefficients for which each row of `rows`, which hold predicted over measured time per unit
/// coefficient, sums to nearly 1: least squares on the relative error, with `damping` relative to
/// each unknown's own curvature.
fn solve(rows: &DMatrix<f64>, damping: f64) -> Option<DVector<f64>> {
    let unknowns = rows.ncols();
    // The coefficient of a column of zeros stays 0.
    let scale = |norm: f64| if norm > 0.0 { norm } else { 1.0 };
    let scale: Vec<f64> = rows.column_iter().map(|column| scale(column.norm())).collect();
    let mut normal = rows.transpose() * rows;
    for (row, column) in (0..unknowns).flat_map(|row| (0..unknowns).map(move |column| (row, column))) {
        normal[(row, column)] /= scale[row] * scale[column];
    }
    for index in 0..unknowns {
        normal[(index, index)] += damping;
    }
    let mut right = rows.row_sum_tr();
    for (value, scale) in right.iter_mut().zip(&scale) {
        *value /= scale;
    }
    let mut coefficients = normal.cholesky()?.solve(&right);
    for (value, scale) in coefficients.iter_mut().zip(&scale) {
        *value /= scale;
    }
    coefficients.iter().all(|value| value.is_finite()).then_some(coefficients)
}

#[cfg(test)]
mod tests {
    use super::*;
    use coexec_sim::device::profile::Profile;
    use coexec_sim::kernel::cpu::{CoreSet, Library};
    use coexec_sim::workload::{Conv2d, DataType, Layer, Linear, Operator, Shape, Window};

    fn convolution(side: u32, channels: u32, output_channels: u32, window: u32) -> Layer {
        let conv = Conv2d::new(Shape::image(side, side, channels), output_channels, Window::same(window));
        Layer::new(Operator::Conv2d(conv), DataType::F32)
    }

    fn jobs(window: u32) -> Vec<Job> {
        const CHANNELS: [u32; 4] = [16, 48, 96, 160];
        let profile = Profile::load("pixel4").unwrap();
        let gpu = profile.gpu.as_ref().unwrap();
        let mut jobs = Vec::new();
        for side in [7, 14, 20, 28, 40] {
            for input in CHANNELS {
                for output in CHANNELS {
                    jobs.push(Job::on_gpu(&convolution(side, input, output, window), gpu).unwrap());
                }
            }
        }
        jobs
    }

    /// The job as if one tile computed all shapes.
    fn of_one_tile(mut job: Job) -> Job {
        job.implementation.tile = None;
        job
    }

    #[test]
    fn a_time_that_follows_equation_3_is_learned_exactly() {
        let time = |job: &Job| job.units[0] * (0.5 + 0.01 * job.features[2]);
        let (seen, unseen): (Vec<_>, Vec<_>) =
            jobs(5).into_iter().map(of_one_tile).enumerate().partition(|(index, _)| index % 2 == 0);
        let predictor =
            CodlPredictor::fit(Launch::None, seen.into_iter().map(|(_, job)| (job.clone(), time(&job))));
        for (_, job) in unseen {
            let predicted = predictor.predict(&job).unwrap();
            assert!((predicted / time(&job) - 1.0).abs() < 1e-3, "{job:?}: {predicted}");
        }
    }

    #[test]
    fn a_launch_time_is_learned_where_it_is_asked_for() {
        let time = |job: &Job| 30.0 + 0.5 * job.units[0];
        let runs = || jobs(5).into_iter().map(|job| (job.clone(), time(&job)));
        let worst = |predictor: &CodlPredictor| {
            let errors = runs().map(|(job, us)| (predictor.predict(&job).unwrap() / us - 1.0).abs());
            errors.fold(0.0, f64::max)
        };
        assert!(worst(&CodlPredictor::fit(Launch::Fitted, runs())) < 1e-3);
        assert!(worst(&CodlPredictor::fit(Launch::None, runs())) > 0.1);
    }

    #[test]
    fn a_window_with_too_few_runs_is_predicted_with_the_other_windows_of_its_kernel() {
        let wide = jobs(5).into_iter().map(|job| (job, 100.0));
        let rare = jobs(7).into_iter().take(2).map(|job| (job, 200.0));
        let predictor = CodlPredictor::fit(Launch::None, wide.chain(rare));
        assert!(predictor.predict(&jobs(7)[9]).is_some());
        assert!(CodlPredictor::fit(Launch::None, []).predict(&jobs(5)[0]).is_none());
    }

    #[test]
    fn a_winograd_convolution_is_three_kernels() {
        let profile = Profile::load("pixel4").unwrap();
        let job = Job::on_gpu(&convolution(56, 128, 128, 3), profile.gpu.as_ref().unwrap()).unwrap();
        assert_eq!(job.units.len(), 3);
    }

    fn on_cores(features: u32) -> Job {
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
            (1..12).map(|index| vec![on_cores(16 * index), on_cores(8 * index + 32)]).collect();
        let runs: Vec<(Vec<Job>, f64)> =
            networks.into_iter().map(|jobs| (jobs.clone(), micros(&jobs))).collect();
        let predictor = Regression::of_networks(&runs).unwrap();
        let unseen = [on_cores(80), on_cores(100), on_cores(120)];
        let error = predictor.predict(&unseen) / micros(&unseen) - 1.0;
        assert!(error.abs() < 0.05, "{error}");
    }

    #[test]
    fn without_networks_there_is_no_regression() {
        assert!(Regression::of_networks(&[]).is_none());
    }
}
