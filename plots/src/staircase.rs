//! The staircase figure: time a loop iteration against work-groups, in which the
//! occupancy rounds of a GPU show as steps.

use std::collections::BTreeMap;

use coexec_sim::validate::point::Point;
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::area::Place;
use crate::comparison::{Comparison, error_figures, percent};
use crate::legend::{Legend, Row, Sample};
use crate::marker::{Look, Pen};
use crate::page::Page;
use crate::palette::{ORANGE, VERMILION};
use crate::panel::{Panel, left_room};
use crate::scale::{Axis, Quantity};
use crate::sheet::{Drawn, Figure, render, sheet};
use crate::{Format, PlotError, line};

/// Width and height of the plot, in figure pixels.
const PLOT: (f64, f64) = (560.0, 400.0);
const LINE_WIDTH: f64 = 1.5;
/// Half the length of the bar of a prediction, and its width.
const BAR: f64 = 6.0;
const BAR_WIDTH: f64 = 1.0;

/// The launches a staircase shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launches<'a> {
    /// Their kernel.
    pub kernel: &'a str,
    /// Texels of a thread's tile.
    pub tile_size: u32,
    /// Fewest trips of the main loop: in few trips, what a launch costs besides
    /// hides the steps.
    pub least_iterations: u32,
}

/// A launch.
struct Launch {
    groups: u32,
    /// Measured and predicted time of an iteration, in microseconds.
    measured_us: f64,
    predicted_us: f64,
}

struct Layout {
    page: Page,
    panel: Panel,
    launches: Vec<Launch>,
}

/// Draws time over loop iterations against work-groups, both logarithmic, as the
/// bytes of a file in `format`: a marker for each measured launch of those that
/// `shown` names, and the predictions as a stair through their median at each
/// number of work-groups.
///
/// # Errors
///
/// [`PlotError::NoPoints`] where no point is such a launch;
/// [`PlotError::BadPoint`] for a point whose times are not finite and above 0;
/// [`PlotError::Draw`] and [`PlotError::Encode`] where a library refuses.
pub fn staircase(
    comparison: &Comparison<'_>,
    shown: &Launches<'_>,
    format: Format,
) -> Result<Vec<u8>, PlotError> {
    render(&lay_out(comparison, shown)?, format)
}

fn lay_out(comparison: &Comparison<'_>, shown: &Launches<'_>) -> Result<Layout, PlotError> {
    comparison.check()?;
    let is_shown = |point: &&Point| {
        point.kernel.as_deref() == Some(shown.kernel)
            && point.tile_size == Some(shown.tile_size)
            && point.iterations.is_some_and(|iterations| iterations >= shown.least_iterations)
    };
    let points = || comparison.points.iter().filter(is_shown);
    let launches: Vec<Launch> = points().filter_map(launch).collect();
    if launches.is_empty() {
        return Err(PlotError::NoPoints { title: comparison.title.to_owned() });
    }
    let figures = error_figures(points());
    let key = |sample, name: &str, cell: String| Row { sample, name: name.to_owned(), cells: vec![cell] };
    let legend = Legend {
        head: format!("{}, tile of {}", shown.kernel, shown.tile_size),
        columns: vec![""],
        rows: vec![
            key(Sample::Marker { look: MEASURED, filled: true }, "measured", format!("n {}", figures.n)),
            key(Sample::Line(BAR_COLOUR, BAR_WIDTH), "predicted", String::new()),
            key(Sample::Line(PREDICTED, LINE_WIDTH), "median prediction", String::new()),
            key(Sample::None, "MAPE", percent(figures.mape_percent)),
            key(Sample::None, "within 10 %", percent(figures.within_10_percent)),
        ],
        keys: Vec::new(),
    };
    let (title, subtitle) = (comparison.title.to_owned(), comparison.subtitle.to_owned());
    let groups = launches.iter().map(|launch| f64::from(launch.groups));
    let times = launches.iter().flat_map(|launch| [launch.measured_us, launch.predicted_us]);
    let x = Axis::logarithmic("work-groups", groups, Quantity::Number);
    let y = Axis::logarithmic("time over loop iterations", times, Quantity::Micros);
    let page = Page { title, subtitle, legend, left_room: left_room(&y), plot_size: PLOT };
    Ok(Layout { panel: Panel { area: page.plot(), x, y }, page, launches })
}

/// Looks of what is measured and what is predicted.
const MEASURED: Look = Look::FIRST;
const PREDICTED: RGBColor = VERMILION;
/// Paler than the stair, which lies over the bars' ends.
const BAR_COLOUR: RGBColor = ORANGE;

/// The launch of a point that has work-groups and iterations.
fn launch(point: &Point) -> Option<Launch> {
    let groups = point.groups.filter(|&groups| groups > 0)?;
    let iterations = f64::from(point.iterations.filter(|&iterations| iterations > 0)?);
    let (measured_us, predicted_us) = (point.measured_us / iterations, point.predicted_us / iterations);
    Some(Launch { groups, measured_us, predicted_us })
}

/// The median prediction at each number of work-groups.
fn medians(launches: &[Launch]) -> Vec<(u32, f64)> {
    let mut by_groups: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for launch in launches {
        by_groups.entry(launch.groups).or_default().push(launch.predicted_us);
    }
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    by_groups.into_iter().map(|(groups, times)| (groups, median(times))).collect()
}

impl Figure for Layout {
    fn size(&self) -> (u32, u32) {
        self.page.size()
    }

    fn draw<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let sheet = sheet(root);
        self.page.draw(&sheet)?;
        self.panel.draw_grid(&sheet)?;
        line::draw(&sheet, self.stair(), PREDICTED, LINE_WIDTH)?;
        for launch in &self.launches {
            let (middle, row) = self.panel.place(f64::from(launch.groups), launch.predicted_us);
            line::draw(&sheet, [(middle - BAR, row), (middle + BAR, row)], BAR_COLOUR, BAR_WIDTH)?;
        }
        let pen = Pen::for_points(self.launches.len());
        for launch in &self.launches {
            let place = self.panel.place(f64::from(launch.groups), launch.measured_us);
            pen.draw(&sheet, place, MEASURED, true)?;
        }
        self.panel.draw_axes(&sheet)
    }
}

impl Layout {
    /// The corners of the stair: it keeps a level until the next number of
    /// work-groups that is predicted.
    fn stair(&self) -> Vec<Place> {
        let mut corners: Vec<Place> = Vec::new();
        for (groups, us) in medians(&self.launches) {
            let place = self.panel.place(f64::from(groups), us);
            if let Some(&(_, level)) = corners.last() {
                corners.push((place.0, level));
            }
            corners.push(place);
        }
        corners
    }
}

#[cfg(test)]
mod tests;
