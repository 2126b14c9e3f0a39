//! What stands on axes: units of time and the labels of ticks.

use plotters::coord::ranged1d::Ranged;
use plotters::coord::types::RangedCoordf64;
use plotters::data::float::pretty_print_float;

/// The unit of a time axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TimeUnit {
    pub(crate) symbol: &'static str,
    /// Microseconds in one.
    pub(crate) micros: f64,
}

impl TimeUnit {
    /// The unit in which a time of this many microseconds reads well.
    pub(crate) fn for_micros(micros: f64) -> Self {
        // As the display of simulated time does: milliseconds from 10 ms on.
        if micros >= 1e7 {
            Self { symbol: "s", micros: 1e6 }
        } else if micros >= 1e4 {
            Self { symbol: "ms", micros: 1e3 }
        } else {
            Self { symbol: "µs", micros: 1.0 }
        }
    }

    /// A time with its unit, for a label: four digits or so.
    pub(crate) fn show(self, micros: f64) -> String {
        let value = micros / self.micros;
        let decimals = if value >= 100.0 { 1 } else { 2 };
        format!("{value:.decimals$} {}", self.symbol)
    }
}

/// Labels for the ticks of an axis from `low` to `high` with at most `most`
/// ticks: all with the decimals that the finest of them needs.
pub(crate) fn tick_labels((low, high): (f64, f64), most: usize) -> impl Fn(&f64) -> String {
    let ticks = RangedCoordf64::from(low..high).key_points(most);
    let decimals =
        |tick: &f64| pretty_print_float(*tick, false).split_once('.').map_or(0, |(_, part)| part.len());
    let decimals = ticks.iter().map(decimals).max().unwrap_or(0);
    // Adding zero turns a negative zero into zero.
    move |tick| format!("{:.decimals$}", tick + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_one_axis_have_the_same_decimals() {
        let label = tick_labels((19.8, 22.4), 8);
        assert_eq!([label(&20.0), label(&20.5)], ["20.0", "20.5"]);
        assert_eq!(tick_labels((0.0, 379.0), 8)(&350.0), "350");
        assert_eq!(tick_labels((0.0, 1.0), 8)(&(0.1 + 0.2)), "0.3");
    }

    #[test]
    fn times_show_in_the_unit_a_reader_expects() {
        assert_eq!(TimeUnit::for_micros(379.04).show(379.04), "379.0 µs");
        assert_eq!(TimeUnit::for_micros(83_300.0).show(83_300.0), "83.30 ms");
        assert_eq!(TimeUnit::for_micros(2e7).show(2e7), "20.00 s");
    }
}
