//! Points: predictions beside their measurements, and their files.

use std::path::Path;

use coexec_fit::csv_rows;
use coexec_fit::validate::point::{self, Point};
use coexec_fit::validate::score::{error, is_in, worst};
use coexec_sim::Text;

use crate::failure::Failure;
use crate::output::{self, OutputFile};

/// Points of a file, of the groups whose names begin with `prefix`.
pub(crate) fn read(path: &Path, prefix: &str) -> Result<Vec<Point>, Failure> {
    let all = point::of_csv(&Text::read(path)?)?;
    let points: Vec<Point> = all.iter().filter(|point| is_in(point, prefix)).cloned().collect();
    if points.is_empty() {
        let groups = all.iter().map(|point| point.group.as_str());
        return Err(no_group(&path.display().to_string(), prefix, groups));
    }
    Ok(points)
}

/// The failure where nothing is in a group of that prefix.
pub(crate) fn no_group<'a>(place: &str, prefix: &str, groups: impl Iterator<Item = &'a str>) -> Failure {
    let mut known: Vec<&str> = groups.collect();
    known.sort_unstable();
    known.dedup();
    if known.is_empty() {
        return Failure::usage(
            format!("{place} holds no point"),
            "give a file with rows that `coexec validate --points` wrote",
        );
    }
    Failure::usage(
        format!("--group is {prefix:?}, but nothing in {place} is in such a group"),
        format!("the groups are {}", known.join(", ")),
    )
}

/// The file of `points`.
pub(crate) fn file(path: &Path, points: &[Point]) -> Result<OutputFile, Failure> {
    OutputFile::encoded(path, csv_rows::write(points))
}

/// Header of [`cells`].
pub(crate) const HEADER: [&str; 7] =
    ["group", "network", "layer or network", "measured", "predicted", "error", "kernel"];

/// A point as the row of a table.
pub(crate) fn cells(point: &Point) -> Vec<String> {
    vec![
        point.group.clone(),
        point.network.clone(),
        point.what.clone(),
        format!("{:.1} us", point.measured_us),
        format!("{:.1} us", point.predicted_us),
        format!("{:+.1} %", 100.0 * error(point)),
        point.kernel.clone().unwrap_or_else(|| "-".to_owned()),
    ]
}

/// Prints the `count` points that are furthest off.
pub(crate) fn show_worst(points: &[Point], count: usize) {
    let worst = worst(points, count);
    if !worst.is_empty() {
        output::line("\nworst predictions\n");
        output::table(&HEADER, worst.into_iter().map(cells));
    }
}
