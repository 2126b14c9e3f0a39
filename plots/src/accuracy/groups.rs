//! Groups of predictions: their looks, markers and legend rows.

use std::collections::BTreeMap;

use coexec_fit::validate::figures;
use coexec_fit::validate::point::Point;

use super::percent;
use crate::{Figure, GREY, Look, Mark, Row, Shape, looks};

/// Most groups a legend names.
const MAX_NAMED_GROUPS: usize = 30;

/// The points of one group.
pub(super) struct Named<'a> {
    pub(super) name: String,
    pub(super) look: Look,
    pub(super) points: Vec<&'a Point>,
}

/// The points by group, in the order of their names.
pub(super) fn grouped<'a>(points: impl Iterator<Item = &'a Point>) -> Vec<Named<'a>> {
    let mut groups: BTreeMap<String, Vec<&Point>> = BTreeMap::new();
    for point in points {
        groups.entry(point.group.to_string()).or_default().push(point);
    }
    let looks = looks(&groups.keys().map(String::as_str).collect::<Vec<_>>());
    let named = groups.into_iter().zip(looks);
    named.map(|((name, points), look)| Named { name, look, points }).collect()
}

/// Adds a marker for each point: small groups over large ones, and points unseen by the fit over the
/// others, which are hollow.
pub(super) fn add_markers(figure: &mut Figure, groups: &[Named<'_>]) {
    let mut by_size: Vec<&Named<'_>> = groups.iter().collect();
    by_size.sort_by_key(|group| std::cmp::Reverse(group.points.len()));
    let any_unseen = points(groups).any(|point| point.unseen);
    for unseen in [false, true] {
        for group in &by_size {
            let (colour, shape) = group.look;
            let mark = Mark::Markers { shape, is_filled: unseen || !any_unseen };
            let shown = group.points.iter().filter(|point| point.unseen == unseen);
            let places = shown.map(|point| (point.measured_us, point.predicted_us));
            figure.add("", mark, colour, places.collect());
        }
    }
}

fn points<'a>(groups: &'a [Named<'_>]) -> impl Iterator<Item = &'a Point> {
    groups.iter().flat_map(|group| group.points.iter().copied())
}

/// A legend row for each group, one for all if there are several groups, and the meaning of filled and
/// hollow markers if both occur.
pub(super) fn rows(groups: &[Named<'_>]) -> Vec<Row> {
    let cells = |name: &str, of: &mut dyn Iterator<Item = &Point>| -> Vec<String> {
        let pairs: Vec<(f64, f64)> = of.map(|point| (point.predicted_us, point.measured_us)).collect();
        let figures = figures("", &pairs);
        let [mape, within] = [figures.mape_percent, figures.within_10_percent].map(percent);
        vec![name.to_owned(), figures.n.to_string(), mape, within]
    };
    let filled = |shape| Mark::Markers { shape, is_filled: true };
    let mut rows: Vec<Row> = Vec::new();
    for group in groups.iter().take(MAX_NAMED_GROUPS) {
        let ((colour, shape), cells) = (group.look, cells(&group.name, &mut group.points.iter().copied()));
        rows.push(Row { sample: Some((filled(shape), colour)), cells });
    }
    if groups.len() > MAX_NAMED_GROUPS {
        let note = format!("and {} more groups", groups.len() - MAX_NAMED_GROUPS);
        rows.push(Row { sample: None, cells: vec![note] });
    }
    if groups.len() > 1 {
        rows.push(Row { sample: None, cells: cells("all", &mut points(groups)) });
    }
    if points(groups).any(|point| point.unseen) && points(groups).any(|point| !point.unseen) {
        let hollow = Mark::Markers { shape: Shape::Circle, is_filled: false };
        rows.push(Row::of(filled(Shape::Circle), GREY, &["not seen by the fit"]));
        rows.push(Row::of(hollow, GREY, &["seen by the fit"]));
    }
    rows
}
