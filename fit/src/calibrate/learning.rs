//! Learning curves: the error on layers of unseen shapes against the number of runs in the fit.
//!
//! Responsible for: which runs a fit sees, and its error on the held-out layers. Not for:
//! the fit itself (`gpu`). Invariants: no fit sees a held-out network; of the held-out
//! networks only layers count whose shape no other network has; every fit of a curve
//! predicts the same layers.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::calibrate::Progress;
use crate::calibrate::gpu::calibrate;
use crate::csv_rows;
use crate::measure::{GpuRun, draw, family};
use crate::validate::gpu::validate;
use crate::validate::score::score;
use coexec_sim::{Gpu, InputError, KernelTable, Operator, Text};

/// Name of the series of the baseline that is linear in FLOPs.
pub const FLOPS_LINEAR: &str = "FLOPs-linear";

/// Held-out error of one fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearningPoint {
    /// Name of the series, which states what was fitted.
    pub series: String,
    /// Number of runs in the fit.
    pub rows: usize,
    /// Index of the random draw of that many runs, from 0.
    pub draw: usize,
    /// MAPE of the held-out layers.
    pub mape_percent: f64,
}

/// One curve: fits of the kernel tables of a GPU.
#[derive(Clone, Debug)]
pub struct Series<'a> {
    /// Name.
    pub name: String,
    /// The GPU, whose values are the prior's centre.
    pub centre: &'a Gpu,
    /// Whether a correction of the equations' residuals is learned too.
    pub residual: bool,
    /// Experimental design that selects the runs from a random half of them; none to draw them at
    /// random.
    pub choose: Option<Choose>,
}

/// Selects the given number of runs of a GPU from a pool.
pub type Choose = fn(&Gpu, &[GpuRun], usize) -> Vec<GpuRun>;

impl Series<'_> {
    /// The runs to fit: those of the random draw, or as many selected from its pool.
    fn runs(&self, choice: &Choice) -> Vec<GpuRun> {
        match self.choose {
            Some(choose) if !choice.pool.is_empty() => choose(self.centre, &choice.pool, choice.runs.len()),
            Some(_) | None => choice.runs.clone(),
        }
    }

    /// The GPU fitted to `runs`.
    fn fit(&self, runs: &[GpuRun]) -> Gpu {
        let correctable = if self.residual { KernelTable::ALL } else { &[] };
        let how = super::Options { correctable, from_scratch: true, ..super::Options::of("learning curve") };
        calibrate(self.centre, runs, &how, &|_, _| ()).gpu
    }
}

/// Which fits to make.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Family of operations, as [`family`] names it.
    pub family: &'static str,
    /// Number of networks held out of every fit.
    pub held_out: usize,
    /// Numbers of runs to fit. All that reach the number of available runs become one fit of all of
    /// them.
    pub rows: Vec<usize>,
    /// Random draws for each number of runs.
    pub draws: usize,
    /// Seed of the held-out networks and of the draws.
    pub seed: u64,
}

impl Default for Options {
    /// The learning curve of the GPU model's study: 20 networks held out, three draws
    /// each of 10 to 300 rows, and one fit of all rows.
    fn default() -> Self {
        let rows = vec![10, 30, 100, 300, usize::MAX];
        Self { family: "conv2d", held_out: 20, rows, draws: 3, seed: 0 }
    }
}

/// Fits each series to random draws of the runs of one family of operations and predicts
/// those of the held-out networks. The points are ordered by series (the FLOPs-linear
/// baseline last), rows and draw.
///
/// Empty where no network is left to fit, or no held-out layer has an unseen shape.
pub fn learning_curve(
    runs: &[GpuRun],
    series: &[Series<'_>],
    options: &Options,
    progress: Progress<'_>,
) -> Vec<LearningPoint> {
    let (fit, predict) = split(runs, options);
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
    // Each series yields a FLOPs-linear baseline fitted to its runs; that of the first is kept.
    points.extend(linear.into_iter().take(choices.len()).flatten());
    points
}

/// The runs that a fit may see, and the held-out runs of unseen shapes.
fn split(runs: &[GpuRun], options: &Options) -> (Vec<GpuRun>, Vec<GpuRun>) {
    let networks = runs.iter().map(|run| run.network.as_str());
    let unseen = draw::networks(networks, options.held_out, options.seed);
    let of_family = runs.iter().filter(|run| family(&run.what.operator) == Some(options.family)).cloned();
    let (fit, held_out): (Vec<GpuRun>, Vec<GpuRun>) =
        of_family.partition(|run| !unseen.contains(run.network.as_str()));
    let seen: HashSet<&Operator> = fit.iter().map(|run| &run.what.operator).collect();
    let is_unseen = |run: &GpuRun| !fit.is_empty() && !seen.contains(&run.what.operator);
    let predict = held_out.into_iter().filter(is_unseen).collect();
    (fit, predict)
}

/// A random draw of the runs that a fit may see.
struct Choice {
    draw: usize,
    runs: Vec<GpuRun>,
    /// A random half of all runs, from which a series may select; empty where the fit sees all.
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
            // Each draw has a random stream of its own, so its larger choices contain its smaller ones.
            let shuffled = draw::shuffled(fit, options.seed, 1 + draw as u64);
            let first = |count: usize| shuffled.iter().take(count).copied().cloned().collect();
            choices.push(Choice { draw, runs: first(rows), pool: first(fit.len() / 2) });
        }
    }
    choices
}

/// Parses learning points from CSV.
///
/// # Errors
/// The first row that is not a valid point, with its line.
pub fn of_csv(text: &Text) -> Result<Vec<LearningPoint>, InputError> {
    let help = "give a file with columns series, rows, draw and mape_percent";
    csv_rows::read(text, help, |point: &LearningPoint| {
        let is_percentage = point.mape_percent >= 0.0 && point.mape_percent.is_finite();
        let problem =
            || format!("the error of {} after {} rows is not a percentage", point.series, point.rows);
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

    /// Convolutions of six networks, timed by the model of `gpu`. Each network has three
    /// shapes of its own and one that all networks share.
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
        let (fit, predict) = split(&all, &options());
        assert_eq!((fit.len(), predict.len()), (16, 6));
        for run in &predict {
            assert!(fit.iter().all(|other| other.network != run.network));
            assert!(fit.iter().all(|other| other.what.operator != run.what.operator));
        }
        let (_, predict) = split(&all, &Options { held_out: 6, ..options() });
        assert!(predict.is_empty());
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
