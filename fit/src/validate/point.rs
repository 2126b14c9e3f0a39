//! One prediction and its measurement, as a row of a CSV file: the data of plots and
//! error figures.
//!
//! Responsible for: the record and its file. Not for: the predictions (`gpu`, `host`,
//! `cpu`) or the error figures (`score`). Invariant: written points read back as the same
//! points.

use serde::{Deserialize, Serialize};

use crate::csv_rows;
use crate::measure::Run;
use coexec_sim::device::calibration::ErrorGroup;
use coexec_sim::{InputError, Text};

/// A prediction and the run that it predicts. Times are in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// `gpu/<family>`, `cpu/<core set>/<float|quant>`, `split/<operator>`,
    /// `host_to_host/<operator>` or `cut/all`; for whole networks under a plan `plan/end_to_end`,
    /// compiled by a runtime `<npu|gpu|cpu>/<end_to_end|runtime>/<format>`; for language models
    /// followed by `/<first_token|next_token>`.
    pub group: ErrorGroup,
    /// Network of the run.
    pub network: String,
    /// The layer, or the network again where the run is a whole inference.
    pub what: String,
    /// Whether the fit has not seen this layer, or this network where the run is a whole
    /// inference.
    pub unseen: bool,
    /// Measured time.
    pub measured_us: f64,
    /// Measurement noise: for a layer with several runs, the distance from their median; for
    /// a network, the standard deviation of its repetitions.
    pub deviation_us: Option<f64>,
    /// Predicted time.
    pub predicted_us: f64,
    /// Prediction of the same profile without its learned residual.
    pub physics_us: f64,
    /// Lower end of the 90 % interval.
    pub low_us: Option<f64>,
    /// Upper end of the 90 % interval.
    pub high_us: Option<f64>,
    /// Prediction of the FLOPs-linear baseline, fitted to the same runs; for whole networks
    /// compiled by a runtime, to the other networks of the group.
    pub flops_linear_us: Option<f64>,
    /// Prediction of a roofline, fitted to the other networks of the group.
    pub roofline_us: Option<f64>,
    /// Prediction of `CoDL`'s predictor, fitted to the same runs.
    pub codl_us: Option<f64>,
    /// The same with a fitted launch time, which `CoDL`'s equation 3 lacks.
    pub codl_launch_us: Option<f64>,
    /// Kernel of a GPU launch.
    pub kernel: Option<String>,
    /// Work-groups of a GPU launch.
    pub groups: Option<u32>,
    /// Waves of a GPU launch per compute unit.
    pub waves_per_unit: Option<f64>,
    /// Iterations of the main loop of a GPU launch.
    pub iterations: Option<u32>,
    /// Texels in a thread's tile of a GPU launch.
    pub tile_size: Option<u32>,
    /// Bytes of inputs, outputs and weights.
    pub bytes: Option<u64>,
}

impl Point {
    /// The prediction of `run`, without an interval and marked as seen.
    pub(crate) fn of<W>(run: &Run<W>, group: ErrorGroup, what: String, predicted_us: f64) -> Self {
        Self {
            group,
            network: run.network.clone(),
            what,
            measured_us: run.measured_us,
            deviation_us: run.deviation_us,
            predicted_us,
            physics_us: predicted_us,
            ..Self::default()
        }
    }

    /// The point with the 90 % interval around its prediction, if any.
    pub(crate) fn within(self, interval: impl FnOnce(f64) -> Option<[f64; 2]>) -> Self {
        let [low_us, high_us] = interval(self.predicted_us).map_or([None; 2], |ends| ends.map(Some));
        Self { low_us, high_us, ..self }
    }
}

/// Parses points from CSV.
///
/// # Errors
/// The first row that is not a valid point, with its line.
pub fn of_csv(text: &Text) -> Result<Vec<Point>, InputError> {
    csv_rows::read(text, "give a file that `coexec validate --points` wrote", |point: &Point| {
        let is_sound = point.measured_us > 0.0 && point.predicted_us > 0.0;
        (!is_sound).then(|| format!("{} of {}: a time is not above 0", point.what, point.network))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point() -> Point {
        Point {
            group: "gpu/conv2d".into(),
            network: "net, the second".into(),
            what: "conv2d 3x3 56x56x24 -> 144".into(),
            unseen: true,
            measured_us: 100.0,
            predicted_us: 98.5,
            physics_us: 91.0,
            low_us: Some(90.0),
            groups: Some(35),
            ..Point::default()
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        let points = vec![point(), Point { low_us: None, unseen: false, ..point() }];
        let content = csv_rows::write(&points).unwrap();
        assert_eq!(of_csv(&Text { name: "points.csv".into(), content }).unwrap(), points);
    }

    #[test]
    fn an_invalid_row_is_refused_with_its_line() {
        let content = csv_rows::write(&[point()]).unwrap().replace("98.5", "soon");
        let error = of_csv(&Text { name: "points.csv".into(), content }).unwrap_err();
        assert_eq!(error.to_string(), "points.csv:2:1: predicted_us: invalid float literal");
        let content = csv_rows::write(&[Point { measured_us: 0.0, ..point() }]).unwrap();
        assert!(of_csv(&Text { name: "points.csv".into(), content }).is_err());
    }
}
