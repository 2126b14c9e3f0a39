//! The error figures of points, beside those of the models they are to beat.
//!
//! Responsible for: the groups of points, and what each group's errors would be
//! without the residual and with a model linear in FLOPs. Not for: predictions.

use serde::Serialize;

use super::point::Point;
use super::{Group, figures};

/// The errors of a group of points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The errors of the predictions.
    #[serde(flatten)]
    pub group: Group,
    /// MAPE of the same profile without its residual; none where there is none.
    pub physics_mape_percent: Option<f64>,
    /// MAPE of the model linear in FLOPs; none where a point has no such prediction.
    pub flops_linear_mape_percent: Option<f64>,
    /// Points whose measured time is in the 90 % interval; none where a point has none.
    pub interval_coverage_percent: Option<f64>,
}

/// The points by group, worst first: `gpu/<family>/all` and, of what the fit had not
/// seen, `gpu/<family>/unseen`; other groups as they are called.
pub fn compare(points: &[Point]) -> Vec<Compared> {
    let mut names: Vec<&str> = points.iter().map(|point| point.group.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let mut compared = Vec::new();
    for name in names {
        let all: Vec<&Point> = points.iter().filter(|point| point.group == name).collect();
        if !name.starts_with("gpu/") {
            compared.push(Compared::of(name.to_owned(), &all));
            continue;
        }
        let unseen: Vec<&Point> = all.iter().filter(|point| point.unseen).copied().collect();
        compared.push(Compared::of(format!("{name}/all"), &all));
        if !unseen.is_empty() {
            compared.push(Compared::of(format!("{name}/unseen"), &unseen));
        }
    }
    compared.sort_by(|a, b| b.group.mape_percent.total_cmp(&a.group.mape_percent));
    compared
}

impl Compared {
    fn of(name: String, points: &[&Point]) -> Self {
        let mape = |of: fn(&Point) -> Option<f64>| {
            let pairs: Option<Vec<(f64, f64)>> =
                points.iter().map(|point| Some((of(point)?, point.measured_us))).collect();
            pairs.map(|pairs| figures("", &pairs).mape_percent)
        };
        let is_inside = |point: &&Point| Some((point.low_us?..=point.high_us?).contains(&point.measured_us));
        let inside: Option<Vec<bool>> = points.iter().map(is_inside).collect();
        let coverage = |inside: Vec<bool>| {
            100.0 * inside.iter().filter(|&&inside| inside).count() as f64 / inside.len() as f64
        };
        let pairs: Vec<(f64, f64)> =
            points.iter().map(|point| (point.predicted_us, point.measured_us)).collect();
        // A prediction to the bit that of the physics has no residual in it.
        let has_residual =
            points.iter().any(|point| point.physics_us.to_bits() != point.predicted_us.to_bits());
        Self {
            group: figures(name, &pairs),
            physics_mape_percent: mape(|point| Some(point.physics_us)).filter(|_| has_residual),
            flops_linear_mape_percent: mape(|point| point.flops_linear_us),
            interval_coverage_percent: inside.map(coverage),
        }
    }
}

/// Whether a point is in the group of that name, or in one whose name begins so:
/// `gpu/conv2d`, `gpu/conv2d/unseen`, `cpu/1large`.
pub fn is_in(point: &Point, prefix: &str) -> bool {
    let of = |suffix: &str| prefix.strip_suffix(suffix).is_some_and(|group| point.group == group);
    point.group.starts_with(prefix) || of("/all") || (point.unseen && of("/unseen"))
}

/// The points that are furthest off, worst first.
pub fn worst(points: &[Point], count: usize) -> Vec<&Point> {
    let mut sorted: Vec<&Point> = points.iter().collect();
    sorted.sort_by(|a, b| error(b).abs().total_cmp(&error(a).abs()));
    sorted.truncate(count);
    sorted
}

/// Predicted over measured time, less one.
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
        let compared = compare(&points);
        let found: Vec<(&str, usize)> =
            compared.iter().map(|compared| (compared.group.name.as_str(), compared.group.n)).collect();
        assert_eq!(found, [("gpu/conv2d/unseen", 1), ("gpu/conv2d/all", 2), ("cpu/1large/float", 1)]);
        assert!(compared.iter().all(|compared| compared.physics_mape_percent.is_none()));
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
        let both = compare(&[with.clone(), covered]);
        assert!((both[0].physics_mape_percent.unwrap() - 20.0).abs() < 1e-9);
        assert!((both[0].flops_linear_mape_percent.unwrap() - 50.0).abs() < 1e-9);
        assert!((both[0].interval_coverage_percent.unwrap() - 50.0).abs() < 1e-9);
        let one_lacks = compare(&[with, point("gpu/mean", false, 97.0)]);
        assert_eq!(one_lacks[0].flops_linear_mape_percent, None);
        assert_eq!(one_lacks[0].interval_coverage_percent, None);
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
    fn the_worst_points_come_first() {
        let points = [95.0, 130.0, 60.0].map(|predicted| point("gpu/mean", false, predicted));
        let found: Vec<f64> = worst(&points, 2).iter().map(|point| point.predicted_us).collect();
        assert_eq!(found, [60.0, 130.0]);
    }
}
