//! The error figures of points, with baselines to compare them to.
//!
//! Responsible for: the groups of points, and for each the errors without the learned residual, of
//! the baselines and of `CoDL`'s predictor, the measurement noise, and the coverage of the
//! intervals. Not for: predictions. Invariant: the figures are a function of the points alone.

use serde::Serialize;

use coexec_sim::ProcessorKind;
use coexec_sim::device::calibration::{ErrorGroup, Which};

use super::point::Point;
use super::{Group, figures};
use crate::measure::grouped;

/// The error figures of a group, with those of its baselines.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scored {
    /// The errors of the predictions.
    #[serde(flatten)]
    pub group: Group,
    /// MAPE of the same profile without its learned residual; none where it has none.
    pub physics_mape_percent: Option<f64>,
    /// MAPE of the FLOPs-linear baseline, fitted to the seen runs of the group; none where a
    /// point has no such prediction.
    pub flops_linear_mape_percent: Option<f64>,
    /// Percentage of its predictions within 10 %, which `CoDL` calls accuracy (MobiSys'22, Table 3).
    pub flops_linear_within_10_percent: Option<f64>,
    /// Spearman's rank correlation of predicted and measured times; none for fewer than three
    /// points, or where all predictions or all measurements are equal.
    pub rank_correlation: Option<f64>,
    /// MAPE of a roofline; none where a point has no such prediction.
    pub roofline_mape_percent: Option<f64>,
    /// Percentage of its predictions within 10 %.
    pub roofline_within_10_percent: Option<f64>,
    /// MAPE of `CoDL`'s predictor (MobiSys'22, section 5.2), fitted to the same runs;
    /// none where a point has no such prediction.
    pub codl_mape_percent: Option<f64>,
    /// Percentage of its predictions within 10 %.
    pub codl_within_10_percent: Option<f64>,
    /// MAPE of the same with a fitted launch time.
    pub codl_launch_mape_percent: Option<f64>,
    /// Percentage of its predictions within 10 %.
    pub codl_launch_within_10_percent: Option<f64>,
    /// Mean deviation of repeated measurements, in percent of the measured time, over the points
    /// with a known deviation: a model's error is not expected to be lower. None without such points.
    pub repeat_noise_percent: Option<f64>,
    /// Percentage of points whose measured time is in their 90 % interval, of those with an
    /// interval; none without such points.
    pub interval_coverage_percent: Option<f64>,
}

/// The error figures by group, worst first. GPU groups are split into `gpu/<family>/all` and,
/// for points that the fit has not seen, `gpu/<family>/unseen`; other groups keep their names.
pub fn score(points: &[Point]) -> Vec<Scored> {
    let mut groups = grouped(points.iter().map(|point| (&point.group, point)));
    groups.sort_by_cached_key(|(group, _)| group.to_string());
    let mut scored = Vec::new();
    for (group, all) in groups {
        match group.clone() {
            ErrorGroup::On { processor: processor @ ProcessorKind::Gpu, what, runs: None } => {
                let of = |runs| ErrorGroup::On { processor, what: what.clone(), runs: Some(runs) };
                let unseen: Vec<&Point> = all.iter().filter(|point| point.unseen).copied().collect();
                scored.push(Scored::of(of(Which::All), &all));
                if !unseen.is_empty() {
                    scored.push(Scored::of(of(Which::Unseen), &unseen));
                }
            }
            // Other groups are not split into seen and unseen.
            other => scored.push(Scored::of(other, &all)),
        }
    }
    scored.sort_by(|a, b| b.group.mape_percent.total_cmp(&a.group.mape_percent));
    scored
}

impl Scored {
    fn of(name: ErrorGroup, points: &[&Point]) -> Self {
        let errors = |of: fn(&Point) -> Option<f64>| {
            let pairs: Option<Vec<(f64, f64)>> =
                points.iter().map(|point| Some((of(point)?, point.measured_us))).collect();
            pairs.map(|pairs| figures("", &pairs))
        };
        let mape = |group: &Option<Group>| group.as_ref().map(|group| group.mape_percent);
        let close = |group: &Option<Group>| group.as_ref().map(|group| group.within_10_percent);
        let physics = errors(|point| Some(point.physics_us));
        let [flops_linear, codl] = [errors(|point| point.flops_linear_us), errors(|point| point.codl_us)];
        let roofline = errors(|point| point.roofline_us);
        let codl_launch = errors(|point| point.codl_launch_us);
        let pairs: Vec<(f64, f64)> =
            points.iter().map(|point| (point.predicted_us, point.measured_us)).collect();
        // A prediction that equals the physics to the bit contains no residual.
        let has_residual =
            points.iter().any(|point| point.physics_us.to_bits() != point.predicted_us.to_bits());
        Self {
            group: figures(name, &pairs),
            physics_mape_percent: mape(&physics).filter(|_| has_residual),
            flops_linear_mape_percent: mape(&flops_linear),
            flops_linear_within_10_percent: close(&flops_linear),
            rank_correlation: rank_correlation(&pairs),
            roofline_mape_percent: mape(&roofline),
            roofline_within_10_percent: close(&roofline),
            codl_mape_percent: mape(&codl),
            codl_within_10_percent: close(&codl),
            codl_launch_mape_percent: mape(&codl_launch),
            codl_launch_within_10_percent: close(&codl_launch),
            repeat_noise_percent: repeat_noise_percent(points),
            interval_coverage_percent: coverage_percent(points.iter().copied()),
        }
    }
}

/// Spearman's rank correlation of pairs; equal values share their mean rank.
fn rank_correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.len() < 3 {
        return None;
    }
    let ranks = |of: fn(&(f64, f64)) -> f64| -> Vec<f64> {
        let mut order: Vec<usize> = (0..pairs.len()).collect();
        order.sort_by(|&one, &other| of(&pairs[one]).total_cmp(&of(&pairs[other])));
        let mut ranks = vec![0.0; pairs.len()];
        let mut first = 0;
        for equal in order.chunk_by(|&one, &other| of(&pairs[one]).total_cmp(&of(&pairs[other])).is_eq()) {
            for &index in equal {
                ranks[index] = first as f64 + (equal.len() - 1) as f64 / 2.0;
            }
            first += equal.len();
        }
        ranks
    };
    let (left, right) = (ranks(|pair| pair.0), ranks(|pair| pair.1));
    let middle = (pairs.len() - 1) as f64 / 2.0;
    let covariance = |one: &[f64], other: &[f64]| -> f64 {
        one.iter().zip(other).map(|(a, b)| (a - middle) * (b - middle)).sum()
    };
    let spread = (covariance(&left, &left) * covariance(&right, &right)).sqrt();
    (spread > 0.0).then(|| covariance(&left, &right) / spread)
}

/// Mean deviation of the measurements relative to their times, over the points where it is known.
fn repeat_noise_percent(points: &[&Point]) -> Option<f64> {
    let parts: Vec<f64> =
        points.iter().filter_map(|point| Some(point.deviation_us? / point.measured_us)).collect();
    (!parts.is_empty()).then(|| 100.0 * parts.iter().sum::<f64>() / parts.len() as f64)
}

/// Percentage of points whose measured time lies in their 90 % interval, of those with an
/// interval; none without such points.
pub fn coverage_percent<'a>(points: impl Iterator<Item = &'a Point>) -> Option<f64> {
    let (mut within, mut count) = (0_u32, 0_u32);
    for point in points {
        let (Some(low), Some(high)) = (point.low_us, point.high_us) else { continue };
        count += 1;
        within += u32::from((low..=high).contains(&point.measured_us));
    }
    (count > 0).then(|| 100.0 * f64::from(within) / f64::from(count))
}

/// Whether a point is in the group of that name, or in one whose name starts with it:
/// `gpu/conv2d`, `gpu/conv2d/unseen`, `cpu/1large`.
pub fn is_in(point: &Point, prefix: &str) -> bool {
    let name = point.group.to_string();
    let of = |suffix: &str| prefix.strip_suffix(suffix).is_some_and(|group| name == group);
    name.starts_with(prefix) || of("/all") || (point.unseen && of("/unseen"))
}

/// The `count` points with the largest relative error, worst first.
pub fn worst(points: &[Point], count: usize) -> Vec<&Point> {
    let mut sorted: Vec<&Point> = points.iter().collect();
    sorted.sort_by(|a, b| error(b).abs().total_cmp(&error(a).abs()));
    sorted.truncate(count);
    sorted
}

/// Relative error: predicted over measured time, minus one.
pub fn error(point: &Point) -> f64 {
    point.predicted_us / point.measured_us - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(group: &str, unseen: bool, predicted_us: f64) -> Point {
        Point {
            group: group.into(),
            network: "net".into(),
            what: "layer".into(),
            unseen,
            measured_us: 100.0,
            predicted_us,
            physics_us: predicted_us,
            ..Point::default()
        }
    }

    #[test]
    fn groups_come_worst_first_and_unseen_layers_have_their_own() {
        let points = [
            point("gpu/conv2d", true, 110.0),
            point("gpu/conv2d", false, 104.0),
            point("cpu/1large/float", true, 101.0),
        ];
        let scored = score(&points);
        let found: Vec<(String, usize)> =
            scored.iter().map(|scored| (scored.group.name.to_string(), scored.group.n)).collect();
        assert_eq!(
            found,
            [("gpu/conv2d/unseen", 1), ("gpu/conv2d/all", 2), ("cpu/1large/float", 1)]
                .map(|(name, n)| (name.to_owned(), n))
        );
        assert!(scored.iter().all(|scored| scored.physics_mape_percent.is_none()));
    }

    #[test]
    fn baselines_and_coverage_count_where_every_point_has_them() {
        let with = Point {
            physics_us: 80.0,
            flops_linear_us: Some(150.0),
            low_us: Some(95.0),
            high_us: Some(99.0),
            ..point("gpu/mean", false, 97.0)
        };
        let covered = Point { high_us: Some(100.0), ..with.clone() };
        let both = score(&[with.clone(), covered]);
        assert!((both[0].physics_mape_percent.unwrap() - 20.0).abs() < 1e-9);
        assert!((both[0].flops_linear_mape_percent.unwrap() - 50.0).abs() < 1e-9);
        assert!((both[0].interval_coverage_percent.unwrap() - 50.0).abs() < 1e-9);
        let one_lacks = score(&[with, point("gpu/mean", false, 97.0)]);
        assert_eq!(one_lacks[0].flops_linear_mape_percent, None);
        assert_eq!(one_lacks[0].interval_coverage_percent, Some(0.0));
    }

    #[test]
    fn only_points_with_an_interval_count_for_its_coverage() {
        let point = |measured_us, low_us, high_us| Point { measured_us, low_us, high_us, ..Point::default() };
        let points =
            [point(1.0, Some(0.5), Some(1.0)), point(2.0, Some(0.5), Some(1.0)), point(3.0, None, None)];
        assert_eq!(coverage_percent(points.iter()), Some(50.0));
        assert_eq!(coverage_percent(points[2..].iter()), None);
    }

    #[test]
    fn the_repeat_noise_is_of_the_points_that_were_measured_again() {
        let point = |deviation_us| Point { deviation_us, ..point("gpu/mean", false, 97.0) };
        let scored = score(&[point(Some(1.0)), point(Some(3.0)), point(None)]);
        assert!((scored[0].repeat_noise_percent.unwrap() - 2.0).abs() < 1e-9);
        assert_eq!(score(&[point(None)])[0].repeat_noise_percent, None);
    }

    #[test]
    fn a_prefix_names_a_family_a_processor_or_the_unseen_layers() {
        let seen = point("gpu/conv2d", false, 1.0);
        for prefix in ["", "gpu", "gpu/conv2d", "gpu/conv2d/all"] {
            assert!(is_in(&seen, prefix), "{prefix}");
        }
        for prefix in ["cpu", "gpu/conv2d/unseen", "gpu/conv2d/al", "conv2d"] {
            assert!(!is_in(&seen, prefix), "{prefix}");
        }
        assert!(is_in(&point("gpu/conv2d", true, 1.0), "gpu/conv2d/unseen"));
    }

    #[test]
    fn the_order_is_judged_by_ranks_alone() {
        let found = |pairs: &[(f64, f64)]| rank_correlation(pairs);
        assert_eq!(found(&[(1.0, 10.0), (2.0, 11.0)]), None);
        assert_eq!(found(&[(1.0, 5.0), (1.0, 6.0), (1.0, 7.0)]), None);
        let close = |one: Option<f64>, other: f64| assert!((one.unwrap() - other).abs() < 1e-9, "{one:?}");
        close(found(&[(1.0, 10.0), (2.0, 11.0), (300.0, 12.0)]), 1.0);
        close(found(&[(3.0, 10.0), (2.0, 11.0), (1.0, 12.0)]), -1.0);
        // One pair of neighbours the wrong way round: 1 - 6 * 2 / (4 * 15).
        close(found(&[(1.0, 1.0), (3.0, 2.0), (2.0, 3.0), (4.0, 4.0)]), 0.8);
    }

    #[test]
    fn the_worst_points_come_first() {
        let points = [95.0, 130.0, 60.0].map(|predicted| point("gpu/mean", false, predicted));
        let found: Vec<f64> = worst(&points, 2).iter().map(|point| point.predicted_us).collect();
        assert_eq!(found, [60.0, 130.0]);
    }
}
