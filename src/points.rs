//! Points: predictions paired with measurements, and their files.

use std::collections::BTreeSet;
use std::path::Path;

use coexec_fit::csv_rows;
use coexec_fit::validate::point::{self, Point};
use coexec_fit::validate::score::{error, is_in, worst};
use coexec_sim::Text;

use crate::output::listed;
use crate::{Column, Failure, OutputFile, Result, or_dash, output};

/// The points of a file whose groups' names start with `prefix`.
pub(crate) fn read(path: &Path, prefix: &str) -> Result<Vec<Point>> {
    let all = point::of_csv(&Text::read(path)?)?;
    let points: Vec<Point> = all.iter().filter(|point| is_in(point, prefix)).cloned().collect();
    if points.is_empty() {
        return Err(missing_group(path, prefix, all.into_iter().map(|point| point.group.to_string())));
    }
    Ok(points)
}

/// The failure if no point is in a group with the prefix.
pub(crate) fn missing_group(path: &Path, prefix: &str, groups: impl Iterator<Item = String>) -> Failure {
    let known: BTreeSet<String> = groups.collect();
    let place = path.display();
    if known.is_empty() {
        return Failure::usage(
            format!("{place} contains no points"),
            "give a file with rows that `coexec validate --points` wrote",
        );
    }
    Failure::usage(
        format!("--group is {prefix:?}, but nothing in {place} is in such a group"),
        format!("the groups are {}", listed(known)),
    )
}

/// The file of `points`.
pub(crate) fn file(path: &Path, points: &[Point]) -> Result<OutputFile> {
    OutputFile::encoded(path, csv_rows::write(points))
}

/// The columns of a table of points.
pub(crate) const COLUMNS: [Column<Point>; 7] = [
    ("group", |point| point.group.to_string()),
    ("network", |point| point.network.clone()),
    ("layer or network", |point| point.what.clone()),
    ("measured", |point| format!("{:.1} us", point.measured_us)),
    ("predicted", |point| format!("{:.1} us", point.predicted_us)),
    ("error", |point| format!("{:+.1} %", 100.0 * error(point))),
    ("kernel", |point| or_dash(point.kernel.as_ref())),
];

/// Prints the `count` points with the largest errors.
pub(crate) fn show_worst(points: &[Point], count: usize) {
    let worst = worst(points, count);
    if !worst.is_empty() {
        output::line("\nworst predictions\n");
        let (header, rows) = output::cells(&COLUMNS, worst);
        output::table(&header, rows);
    }
}
