//! Learning curves: how well convolutions of shapes nobody measured are predicted,
//! by the number of measured ones a fit has seen.
//!
//! Responsible for: which runs a fit sees, and the error of its predictions of the
//! others. Not for: the fits, which the caller hands in. Invariants: the networks
//! predicted are in no fit, and of their layers only those count whose shape is in no
//! other network; every fit of a curve predicts the same layers.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::calibrate::Progress;
use crate::calibrate::gpu::{self, calibrate};
use crate::csv_rows;
use crate::measure::{GpuRun, draw, family};
use crate::validate::gpu::validate;
use crate::validate::score::score;
use coexec_sim::{Gpu, InputError, KernelTable, Operator, Text};

/// Name of the series of the model linear in FLOPs.
pub const FLOPS_LINEAR: &str = "FLOPs-linear";

/// The error after one fit to few runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearningPoint {
    /// What was fitted.
    pub series: String,
    /// Runs the fit saw.
    pub rows: usize,
    /// Which random choice of that many runs, from 0.
    pub draw: usize,
    /// MAPE of the layers kept out.
    pub mape_percent: f64,
}

/// One curve: fits of the kernel tables of a GPU.
#[derive(Clone, Debug)]
pub struct Series<'a> {
    /// Name.
    pub name: String,
    /// The GPU, whose values are the prior's centre.
    pub centre: &'a Gpu,
    /// Whether what the equations leave is learned, too.
    pub residual: bool,
    /// How so many runs are chosen out of a random half, where they are not just the first of it.
    pub choose: Option<Choose>,
}

/// Chooses so many of some runs of a GPU.
pub type Choose = fn(&Gpu, &[GpuRun], usize) -> Vec<GpuRun>;

impl Series<'_> {
    /// The runs of a choice, as they are or chosen from its pool.
    fn runs(&self, choice: &Choice) -> Vec<GpuRun> {
        match self.choose {
            Some(choose) if !choice.pool.is_empty() => choose(self.centre, &choice.pool, choice.runs.len()),
            Some(_) | None => choice.runs.clone(),
        }
    }

    /// The GPU fitted to `runs`.
    fn fit(&self, runs: &[GpuRun]) -> Gpu {
        let correctable = if self.residual { KernelTable::ALL.to_vec() } else { Vec::new() };
        let options =
            gpu::Options { source: "learning curve".to_owned(), folds: 0, seed: 0, correctable, anew: true };
        calibrate(self.centre, runs, &options, &|_, _| ()).gpu
    }
}

/// Which fits to make.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Family of operations, as [`family`] names it.
    pub family: &'static str,
    /// Networks kept out of every fit.
    pub held_out: usize,
    /// Numbers of runs to fit to; of those that are no fewer than there are, one fit to all.
    pub rows: Vec<usize>,
    /// Random choices of each number of runs.
    pub draws: usize,
    /// Seed of the networks kept out and of the choices.
    pub seed: u64,
}

impl Default for Options {
    /// The learning curve of the GPU model's paper trail: 20 networks kept out, 10 to
    /// 300 rows, three draws of each, and all of them.
    fn default() -> Self {
        let rows = vec![10, 30, 100, 300, usize::MAX];
        Self { family: "conv2d", held_out: 20, rows, draws: 3, seed: 0 }
    }
}

/// Fits each series to random choices of the convolutions in `runs` and predicts
/// those of networks kept out. The points come series by series, the FLOPs-linear
/// model last, by rising rows and draws.
/// `progress` is told how many fits are done, and of how many.
///
/// No point where there are no more networks than are kept out.
pub fn learning_curve(
    runs: &[GpuRun],
    series: &[Series<'_>],
    options: &Options,
    progress: Progress<'_>,
) -> Vec<LearningPoint> {
    let Split { fit, predict } = Split::of(runs, options);
    if predict.is_empty() {
        return Vec::new();
    }
    let choices = choices(&fit, options);
    let jobs: Vec<(&Series<'_>, &Choice)> =
        series.iter().flat_map(|series| choices.iter().map(move |choice| (series, choice))).collect();
    let done = AtomicUsize::new(0);
    let of_job = |(series, choice): &(&Series<'_>, &Choice)| {
        let runs = series.runs(choice);
        let validation = validate(&series.fit(&runs), None, &predict, Some(&runs));
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
        let scored = score(&validation.points).into_iter().next();
        let mape_percent = scored.as_ref().map_or(f64::NAN, |scored| scored.group.mape_percent);
        let linear = scored.and_then(|scored| scored.flops_linear_mape_percent);
        let (rows, draw) = (choice.runs.len(), choice.draw);
        let point = |series: &str, mape_percent| {
            let series = series.to_owned();
            LearningPoint { series, rows, draw, mape_percent }
        };
        (point(&series.name, mape_percent), linear.map(|mape_percent| point(FLOPS_LINEAR, mape_percent)))
    };
    let (mut points, linear): (Vec<_>, Vec<_>) = jobs.par_iter().map(of_job).unzip();
    // The model linear in FLOPs is the same beside every series.
    points.extend(linear.into_iter().take(choices.len()).flatten());
    points
}

/// The convolutions a fit may see, and those it is to predict.
struct Split {
    fit: Vec<GpuRun>,
    predict: Vec<GpuRun>,
}

impl Split {
    fn of(runs: &[GpuRun], options: &Options) -> Self {
        let networks = runs.iter().map(|run| run.network.as_str());
        let unseen = draw::networks(networks, options.held_out, options.seed);
        let (fit, held_out): (Vec<GpuRun>, Vec<GpuRun>) = runs
            .iter()
            .filter(|run| family(&run.what.operator) == Some(options.family))
            .cloned()
            .partition(|run| !unseen.contains(run.network.as_str()));
        let seen: HashSet<&Operator> = fit.iter().map(|run| &run.what.operator).collect();
        let predict = held_out.into_iter().filter(|run| !seen.contains(&run.what.operator)).collect();
        Self { predict: if fit.is_empty() { Vec::new() } else { predict }, fit }
    }
}

/// A random choice of the runs a fit may see.
struct Choice {
    draw: usize,
    runs: Vec<GpuRun>,
    /// Half of all, from which a series may choose; none where all are seen.
    pool: Vec<GpuRun>,
}

fn choices(fit: &[GpuRun], options: &Options) -> Vec<Choice> {
    let sizes: BTreeSet<usize> = options.rows.iter().map(|&rows| rows.min(fit.len())).collect();
    let mut choices: Vec<Choice> = Vec::new();
    for rows in sizes {
        if rows == fit.len() {
            choices.push(Choice { draw: 0, runs: fit.to_vec(), pool: Vec::new() });
            continue;
        }
        for draw in 0..options.draws {
            // A stream of its own for each draw: a larger choice contains the smaller one.
            let shuffled = draw::shuffled(fit, options.seed, 1 + draw as u64);
            let first = |count: usize| shuffled.iter().take(count).copied().cloned().collect();
            choices.push(Choice { draw, runs: first(rows), pool: first(fit.len() / 2) });
        }
    }
    choices
}

/// Parses the points of a file of CSV.
///
/// # Errors
/// The first row that is no point, with its line.
pub fn of_csv(text: &Text) -> Result<Vec<LearningPoint>, InputError> {
    let help = "give a file with columns series, rows, draw and mape_percent";
    csv_rows::read(text, help, |point: &LearningPoint| {
        let is_percentage = point.mape_percent >= 0.0 && point.mape_percent.is_finite();
        let problem = || format!("the error of {} after {} rows is no percentage", point.series, point.rows);
        (!is_percentage).then(problem)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::gpu::predict;
    use coexec_sim::workload::{Conv2d, DataType, Layer, Padding, Shape, Window};

    fn pixel4() -> Gpu {
        coexec_sim::input::from_toml(include_str!("../../../sim/tests/golden/gpu_pixel4.toml")).unwrap()
    }

    /// Convolutions of six networks, as `gpu` would run them; each network has shapes
    /// of its own and one that all have.
    fn runs(gpu: &Gpu) -> Vec<GpuRun> {
        let mut runs = Vec::new();
        for network in 0..6_u32 {
            for channels in [16, 32 + 8 * network, 80 + 8 * network, 128 + 8 * network] {
                let conv = Conv2d::new(
                    Shape::image(28, 28, channels),
                    2 * channels,
                    Window::valid(1).padding(Padding::symmetric(0, 0)),
                );
                let layer = Layer::new(Operator::Conv2d(conv), DataType::F32);
                let measured_us = predict(&layer, gpu).unwrap();
                runs.push(GpuRun {
                    network: format!("network{network}"),
                    what: layer,
                    measured_us,
                    deviation_us: None,
                    line: 1,
                });
            }
        }
        runs
    }

    fn options() -> Options {
        Options { held_out: 2, rows: vec![8, 4, 100], draws: 2, seed: 3, ..Options::default() }
    }

    #[test]
    fn a_prior_that_is_the_truth_needs_no_runs() {
        let gpu = pixel4();
        let series = [Series { name: "physics".into(), centre: &gpu, residual: false, choose: None }];
        let points = learning_curve(&runs(&gpu), &series, &options(), &|_, _| ());
        let physics: Vec<&LearningPoint> = points.iter().filter(|point| point.series == "physics").collect();
        assert_eq!(physics.iter().map(|point| point.rows).collect::<Vec<_>>(), [4, 4, 8, 8, 16]);
        assert!(physics.iter().all(|point| point.mape_percent < 0.5), "{physics:?}");
        let linear = points.iter().filter(|point| point.series == FLOPS_LINEAR).count();
        assert_eq!(linear, physics.len());
    }

    #[test]
    fn more_runs_bring_a_wrong_prior_closer() {
        let gpu = pixel4();
        let mut wrong = gpu.clone();
        wrong.conv_generic.launch_us.value *= 5.0;
        wrong.conv_generic.latency_us.value /= 5.0;
        let series = [Series { name: "physics".into(), centre: &wrong, residual: false, choose: None }];
        let points = learning_curve(
            &runs(&gpu),
            &series,
            &Options { rows: vec![1, usize::MAX], ..options() },
            &|_, _| (),
        );
        assert!(points[2].mape_percent < 0.3 * points[0].mape_percent, "{points:?}");
    }

    #[test]
    fn no_fit_sees_a_network_or_a_shape_that_is_predicted() {
        let all = runs(&pixel4());
        let Split { fit, predict } = Split::of(&all, &options());
        assert_eq!((fit.len(), predict.len()), (16, 6));
        for run in &predict {
            assert!(fit.iter().all(|other| other.network != run.network));
            assert!(fit.iter().all(|other| other.what.operator != run.what.operator));
        }
        assert!(Split::of(&all, &Options { held_out: 6, ..options() }).predict.is_empty());
    }

    #[test]
    fn what_is_written_reads_back() {
        let points =
            vec![LearningPoint { series: "physics, best".into(), rows: 30, draw: 1, mape_percent: 8.25 }];
        let content = csv_rows::write(&points).unwrap();
        assert_eq!(of_csv(&Text { name: "curve.csv".into(), content: content.clone() }).unwrap(), points);
        let bad = content.replace("8.25", "inf");
        assert!(of_csv(&Text { name: "curve.csv".into(), content: bad }).is_err());
    }
}
