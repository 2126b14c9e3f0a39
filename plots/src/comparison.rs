//! Predictions beside their measurements: what figures of accuracy share.
//!
//! Responsible for: refusing points that cannot be drawn, groups and their looks
//! and legend. Not for: the error figures, which `coexec_sim::validate` computes.

use std::collections::BTreeMap;

use coexec_sim::units::Picos;
use coexec_sim::validate::point::Point;
use coexec_sim::validate::{Group, figures};

use crate::PlotError;
use crate::legend::{Row, Sample};
use crate::marker::Look;

/// Most groups a legend names.
const MOST_NAMED: usize = 30;
/// Largest error a legend shows, in percent.
const LARGEST_SHOWN: f64 = 9999.0;
/// Shortest time that is drawn: a step of simulated time, in microseconds.
const SHORTEST_US: f64 = 1e-6;
/// Part of the measured time within which a prediction counts as close, as in
/// the error figures.
pub(crate) const CLOSE: f64 = 0.10;

/// Predictions beside their measurements, under a title.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison<'a> {
    /// First line above the plot.
    pub title: &'a str,
    /// Second line, with less weight; may be empty.
    pub subtitle: &'a str,
    /// The predictions, in any order.
    pub points: &'a [Point],
}

/// The points of one group.
pub(crate) struct PointGroup<'a> {
    pub(crate) name: &'a str,
    pub(crate) look: Look,
    pub(crate) points: Vec<&'a Point>,
}

impl PointGroup<'_> {
    /// The errors of its predictions.
    pub(crate) fn figures(&self) -> Group {
        error_figures(self.points.iter().copied())
    }
}

/// The errors of predictions.
pub(crate) fn error_figures<'a>(points: impl Iterator<Item = &'a Point>) -> Group {
    let pairs: Vec<(f64, f64)> = points.map(|point| (point.predicted_us, point.measured_us)).collect();
    figures("", &pairs)
}

/// Signed error of a prediction, in percent of the measured time.
pub(crate) fn error_percent(predicted_us: f64, measured_us: f64) -> f64 {
    100.0 * (predicted_us / measured_us - 1.0)
}

impl<'a> Comparison<'a> {
    /// Checks that there is a point and that every point can be drawn.
    pub(crate) fn check(&self) -> Result<(), PlotError> {
        if self.points.is_empty() {
            return Err(PlotError::NoPoints { title: self.title.to_owned() });
        }
        self.points.iter().try_for_each(check)
    }

    /// The points by group, in the order of their names.
    pub(crate) fn groups(&self) -> Vec<PointGroup<'a>> {
        group(self.points.iter())
    }
}

/// The points by group, in the order of their names.
pub(crate) fn group<'a>(points: impl Iterator<Item = &'a Point>) -> Vec<PointGroup<'a>> {
    let mut groups: BTreeMap<&str, Vec<&Point>> = BTreeMap::new();
    for point in points {
        groups.entry(&point.group).or_default().push(point);
    }
    let names: Vec<&str> = groups.keys().copied().collect();
    let looks = Look::of_groups(&names);
    groups.into_iter().zip(looks).map(|((name, points), look)| PointGroup { name, look, points }).collect()
}

/// The points in the order they are drawn: small groups over large ones, and of
/// a group those the fit had not seen over the others.
pub(crate) fn drawing_order<'a>(groups: &[PointGroup<'a>]) -> Vec<(Look, &'a Point)> {
    let mut by_size: Vec<&PointGroup<'_>> = groups.iter().collect();
    by_size.sort_by_key(|group| std::cmp::Reverse(group.points.len()));
    let points = |unseen: bool| {
        by_size.iter().flat_map(move |group| {
            let wanted = group.points.iter().filter(move |point| point.unseen == unseen);
            wanted.map(|&point| (group.look, point))
        })
    };
    points(false).chain(points(true)).collect()
}

/// A row for each group, with the cells that `cells` makes, and one for all where
/// there is more than one group.
pub(crate) fn group_rows(groups: &[PointGroup<'_>], cells: impl Fn(&Group) -> Vec<String>) -> Vec<Row> {
    let mut rows: Vec<Row> = groups
        .iter()
        .take(MOST_NAMED)
        .map(|group| Row {
            sample: Sample::Marker { look: group.look, filled: true },
            name: group.name.to_owned(),
            cells: cells(&group.figures()),
        })
        .collect();
    if groups.len() > MOST_NAMED {
        rows.push(Row::key(Sample::None, &format!("and {} more groups", groups.len() - MOST_NAMED)));
    }
    if groups.len() > 1 {
        let all = error_figures(groups.iter().flat_map(|group| group.points.iter().copied()));
        rows.push(Row { sample: Sample::None, name: "all".to_owned(), cells: cells(&all) });
    }
    rows
}

/// What filled and hollow markers mean, where both occur.
pub(crate) fn seen_keys(groups: &[PointGroup<'_>]) -> Vec<Row> {
    let points = || groups.iter().flat_map(|group| &group.points);
    if points().all(|point| point.unseen) || !points().any(|point| point.unseen) {
        return Vec::new();
    }
    let look = Look::NEUTRAL;
    vec![
        Row::key(Sample::Marker { look, filled: true }, "not seen by the fit"),
        Row::key(Sample::Marker { look, filled: false }, "seen by the fit"),
    ]
}

/// Whether markers are filled: of points the fit had not seen, and all where it
/// had seen all.
pub(crate) fn filled(groups: &[PointGroup<'_>]) -> impl Fn(&Point) -> bool + use<> {
    let any_unseen = groups.iter().flat_map(|group| &group.points).any(|point| point.unseen);
    move |point| point.unseen || !any_unseen
}

/// Percent for a legend: one decimal where that tells more.
pub(crate) fn percent(value: f64) -> String {
    if value > LARGEST_SHOWN {
        return format!("> {LARGEST_SHOWN} %");
    }
    let decimals = usize::from(value.abs() < 99.95);
    // Adding zero turns a negative zero into zero.
    format!("{:.decimals$} %", value + 0.0)
}

fn check(point: &Point) -> Result<(), PlotError> {
    let longest = Picos(u64::MAX).as_micros();
    let refuse = |key: &str, value: f64, expected: &str| {
        Err(PlotError::BadPoint {
            what: format!("{} of {}", point.what, point.network),
            found: format!("{key} is {value}"),
            expected: expected.to_owned(),
        })
    };
    for (key, value) in [("measured_us", point.measured_us), ("predicted_us", point.predicted_us)] {
        if !(SHORTEST_US..=longest).contains(&value) {
            return refuse(key, value, "a time from 1 ps to the longest that is simulated");
        }
    }
    let others = [
        ("physics_us", Some(point.physics_us)),
        ("low_us", point.low_us),
        ("high_us", point.high_us),
        ("flops_linear_us", point.flops_linear_us),
        ("codl_us", point.codl_us),
        ("codl_launch_us", point.codl_launch_us),
        ("waves_per_unit", point.waves_per_unit),
    ];
    for (key, value) in others {
        let value = value.unwrap_or_default();
        if !(-longest..=longest).contains(&value) {
            return refuse(key, value, "a finite number within simulated time");
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A point of a group.
    pub(crate) fn point(group: &str, measured_us: f64, predicted_us: f64) -> Point {
        Point {
            group: group.to_owned(),
            network: "net".to_owned(),
            what: "layer".to_owned(),
            measured_us,
            predicted_us,
            physics_us: predicted_us,
            ..Point::default()
        }
    }

    fn refusal(point: Point) -> String {
        let comparison = Comparison { title: "here", subtitle: "", points: &[point] };
        comparison.check().unwrap_err().to_string()
    }

    #[test]
    fn a_point_that_cannot_be_drawn_is_refused_by_name() {
        for (measured, predicted, key) in [
            (0.0, 1.0, "measured_us"),
            (f64::NAN, 1.0, "measured_us"),
            (1.0, f64::INFINITY, "predicted_us"),
            (1.0, -1.0, "predicted_us"),
            (1e300, 1.0, "measured_us"),
        ] {
            let message = refusal(point("gpu/conv2d", measured, predicted));
            assert!(message.contains("layer of net") && message.contains(key), "{message}");
        }
        let message = refusal(Point { low_us: Some(f64::NAN), ..point("gpu/conv2d", 1.0, 1.0) });
        assert!(message.contains("low_us"), "{message}");
    }

    #[test]
    fn no_points_are_refused_with_the_title() {
        let error = Comparison { title: "here", subtitle: "", points: &[] }.check().unwrap_err();
        assert!(error.to_string().contains("here"), "{error}");
    }

    #[test]
    fn small_groups_are_drawn_over_large_ones_and_unseen_points_over_seen() {
        let unseen = Point { unseen: true, ..point("large", 2.0, 2.0) };
        let points = [unseen, point("small", 1.0, 1.0), point("large", 3.0, 3.0), point("large", 4.0, 4.0)];
        let order: Vec<f64> =
            drawing_order(&group(points.iter())).iter().map(|(_, point)| point.measured_us).collect();
        assert_eq!(order, [3.0, 4.0, 1.0, 2.0]);
    }

    #[test]
    fn a_legend_names_so_many_groups_and_counts_the_others() {
        let points: Vec<Point> = (0..40).map(|index| point(&format!("g{index:02}"), 1.0, 1.0)).collect();
        let rows = group_rows(&group(points.iter()), |figures| vec![figures.n.to_string()]);
        assert_eq!(rows[MOST_NAMED].name, "and 10 more groups");
        assert_eq!(rows[MOST_NAMED + 1].cells, ["40"]);
    }
}
