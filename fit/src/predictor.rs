//! Latency predictors of other work, fitted on the same runs as ours.
//!
//! Responsible for: the predictor of `CoDL` (MobiSys'22, section 5.2): equation 3 counts
//! how often a kernel runs its basic unit, and a linear model of `(H, W, IC, OC)` says how
//! long one takes; the same with a launch time, which equation 3 has not (`Launch`); and
//! the same of whole networks, where runs tell no more (`networks`). Not for: the
//! simulator's own models, or error figures (`validate`).
//! Invariant: a prediction depends on the runs it was fitted on and on counts alone; no
//! parameter of a device profile that was fitted enters.

pub mod networks;
mod units;

use std::collections::HashMap;

use nalgebra::{DMatrix, DVector};

pub use units::{Implementation, Job, KernelName, MAX_STEPS};

/// Terms of the linear model of a basic unit's time: a constant, H, W, IC and OC.
const TERMS: usize = 5;

/// Damping of the normal equations, as a part of each unknown's own curvature: what
/// runs do not tell apart (square feature maps: H and W) is shared evenly.
const DAMPING: f64 = 1e-9;

/// Whether a time per launch is fitted, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launch {
    /// Equation 3 as it is published: a kernel's time is that of its basic units.
    None,
    /// A constant for each implementation besides, as small kernels need.
    Fitted,
}

impl Launch {
    /// Unknowns of an implementation besides those of its basic units.
    fn unknowns(self) -> usize {
        usize::from(self == Self::Fitted)
    }
}

/// The predictor of `CoDL`: for each kernel implementation, equation 3 with the time of
/// its basic units fitted.
#[derive(Clone, Debug, Default)]
pub struct CodlPredictor {
    of_implementation: HashMap<Implementation, Regression>,
    /// Where an implementation has too few runs: all windows and tiles of the kernel together.
    of_kernel: HashMap<Implementation, Regression>,
}

impl CodlPredictor {
    /// Fits jobs and their measured microseconds, with equation 3 as it is published.
    pub fn fit(runs: impl IntoIterator<Item = (Job, f64)>) -> Self {
        Self::fit_with(Launch::None, runs)
    }

    /// Fits jobs and their measured microseconds.
    pub fn fit_with(launch: Launch, runs: impl IntoIterator<Item = (Job, f64)>) -> Self {
        let mut by_implementation: HashMap<Implementation, Vec<(Job, f64)>> = HashMap::new();
        let mut by_kernel: HashMap<Implementation, Vec<(Job, f64)>> = HashMap::new();
        for (job, measured_us) in runs {
            by_kernel.entry(job.implementation.of_any_shape()).or_default().push((job.clone(), measured_us));
            by_implementation.entry(job.implementation.clone()).or_default().push((job, measured_us));
        }
        let fit = |(implementation, runs): (Implementation, Vec<(Job, f64)>)| {
            Some((implementation, Regression::fit(launch, &runs)?))
        };
        Self {
            of_implementation: by_implementation.into_iter().filter_map(fit).collect(),
            of_kernel: by_kernel.into_iter().filter_map(fit).collect(),
        }
    }

    /// Time of a job, in microseconds; none for a kernel that too few runs show.
    pub fn predict(&self, job: &Job) -> Option<f64> {
        let of_kernel = || self.of_kernel.get(&job.implementation.of_any_shape());
        let regression = self.of_implementation.get(&job.implementation).or_else(of_kernel)?;
        Some(regression.predict(job))
    }
}

/// Time of the basic units of one kernel implementation.
#[derive(Clone, Debug)]
struct Regression {
    /// Microseconds a launch where that is fitted, then [`TERMS`] a step of the job, in
    /// microseconds a unit.
    coefficients: DVector<f64>,
    launch: Launch,
}

impl Regression {
    /// Least squares of the relative error; none for fewer runs than unknowns.
    fn fit(launch: Launch, runs: &[(Job, f64)]) -> Option<Self> {
        let unknowns = launch.unknowns() + TERMS * runs.first()?.0.units.len();
        if runs.len() < unknowns {
            return None;
        }
        let rows = DMatrix::from_fn(runs.len(), unknowns, |row, column| {
            let (job, measured_us) = &runs[row];
            job.column(launch, column) / measured_us
        });
        Some(Self { coefficients: solve(&rows, DAMPING)?, launch })
    }

    /// A linear model knows no bound: what it says below nothing is nothing.
    fn predict(&self, job: &Job) -> f64 {
        let terms = self.coefficients.iter().enumerate();
        terms.map(|(column, value)| value * job.column(self.launch, column)).sum::<f64>().max(0.0)
    }
}

/// Coefficients of `rows` whose sum is nearest to 1: least squares of the relative error,
/// `damping` as a part of each unknown's own curvature.
fn solve(rows: &DMatrix<f64>, damping: f64) -> Option<DVector<f64>> {
    let unknowns = rows.ncols();
    // What no run shows has no scale, and stays at nothing.
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

impl Job {
    /// A column of the regression: one for the launch where it is fitted, else the units of a
    /// step times one of its terms.
    fn column(&self, launch: Launch, column: usize) -> f64 {
        let Some(column) = column.checked_sub(launch.unknowns()) else { return 1.0 };
        let term = match column % TERMS {
            0 => 1.0,
            feature => self.features[feature - 1],
        };
        self.units[column / TERMS] * term
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coexec_sim::device::profile::Profile;
    use coexec_sim::workload::{Conv2d, DataType, Layer, Operator, Shape, Window};

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

    /// As if one kernel computed all shapes.
    fn of_one_tile(mut job: Job) -> Job {
        job.implementation.tile = None;
        job
    }

    #[test]
    fn a_time_that_follows_equation_3_is_learned_exactly() {
        let time = |job: &Job| job.units[0] * (0.5 + 0.01 * job.features[2]);
        let (seen, unseen): (Vec<_>, Vec<_>) =
            jobs(5).into_iter().map(of_one_tile).enumerate().partition(|(index, _)| index % 2 == 0);
        let predictor = CodlPredictor::fit(seen.into_iter().map(|(_, job)| (job.clone(), time(&job))));
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
        assert!(worst(&CodlPredictor::fit_with(Launch::Fitted, runs())) < 1e-3);
        assert!(worst(&CodlPredictor::fit(runs())) > 0.1);
    }

    #[test]
    fn a_window_with_too_few_runs_is_predicted_with_the_other_windows_of_its_kernel() {
        let wide = jobs(5).into_iter().map(|job| (job, 100.0));
        let rare = jobs(7).into_iter().take(2).map(|job| (job, 200.0));
        let predictor = CodlPredictor::fit(wide.chain(rare));
        assert!(predictor.predict(&jobs(7)[9]).is_some());
        assert!(CodlPredictor::fit([]).predict(&jobs(5)[0]).is_none());
    }

    #[test]
    fn a_winograd_convolution_is_three_kernels() {
        let profile = Profile::load("pixel4").unwrap();
        let job = Job::on_gpu(&convolution(56, 128, 128, 3), profile.gpu.as_ref().unwrap()).unwrap();
        assert_eq!(job.units.len(), 3);
    }
}
