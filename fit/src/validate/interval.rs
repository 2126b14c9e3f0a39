//! The 90 % interval of a prediction.
//!
//! The standard deviation of a predicted log time has a part that remains even next to
//! measured launches, and one that grows with the distance from them: the residual of the
//! equations and the uncertainty of their parameters. Both are scaled so that 90 % of the
//! cross-validated errors lie within (split conformal prediction, with scores normalised by
//! the deviation). Not responsible for: that scaling (`calibrate::gpu`).

use nalgebra::{DMatrix, DVector};

use coexec_sim::Layer;
use coexec_sim::device::gpu::{Gpu, KernelTable, TableSpread};
use coexec_sim::kernel::gpu::{correction, execute};
use coexec_sim::kernel::{Execution, Unsupported};

/// Step of a log parameter in numerical derivatives: 1 %, far above the rounding to
/// picoseconds.
const STEP: f64 = 0.01;

/// What the deviation of a prediction depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Uncertainty {
    /// The table of the kernel.
    pub(crate) table: KernelTable,
    /// Similarity to the nearest point of the learned residual; 0 without one.
    pub(crate) similarity: f64,
    /// Variance of the log time due to the uncertainty of the parameters.
    pub(crate) parameter_variance: f64,
    /// Prediction of the equations alone, in microseconds.
    pub(crate) physics_us: f64,
}

impl Uncertainty {
    /// Standard deviation of the log time, for the deviations of a table near to and far from
    /// its measured launches.
    pub(crate) fn deviation(&self, near: f64, far: f64) -> f64 {
        let apart = 1.0 - self.similarity * self.similarity;
        (near * near + apart * (far * far + self.parameter_variance)).sqrt()
    }
}

/// The uncertainties of a GPU's predictions, prepared once for many layers.
#[derive(Clone, Debug)]
pub(crate) struct Uncertainties<'a> {
    gpu: &'a Gpu,
    physics: Gpu,
    tables: Vec<Covariance>,
}

/// The covariance of the log parameters of a table.
#[derive(Clone, Debug)]
struct Covariance {
    table: KernelTable,
    /// Indices in the table's list of parameters, in the order of the matrix.
    places: Vec<usize>,
    matrix: DMatrix<f64>,
}

impl<'a> Uncertainties<'a> {
    /// The uncertainties of `gpu`, whose parameters have the covariances of `spreads`.
    pub(crate) fn new<'b>(gpu: &'a Gpu, spreads: impl Iterator<Item = &'b TableSpread>) -> Self {
        let mut physics = gpu.without_residual();
        let tables = spreads.filter_map(|spread| Covariance::of(spread, &mut physics)).collect();
        Self { gpu, physics, tables }
    }

    /// The uncertainty of the prediction of `layer`.
    ///
    /// # Errors
    /// The profile lacks the layer's kernel.
    pub(crate) fn of(&mut self, layer: &Layer) -> Result<Uncertainty, Unsupported> {
        let Execution { phases, detail: launch } = execute(layer, &self.physics)?;
        let table = launch.kernel.table();
        let similarity = correction(layer, &launch, self.gpu).map_or(0.0, |found| found.similarity);
        let physics = &mut self.physics;
        let parameter_variance = self
            .tables
            .iter()
            .find(|known| known.table == table)
            .map_or(0.0, |known| known.variance(layer, physics));
        Ok(Uncertainty { table, similarity, parameter_variance, physics_us: phases.duration().as_micros() })
    }
}

impl Covariance {
    /// None where the profile no longer has all parameters of the entry.
    fn of(spread: &TableSpread, gpu: &mut Gpu) -> Option<Self> {
        let keys: Vec<&str> =
            gpu.parameters_mut(spread.table)?.quantities.into_iter().map(|(key, _)| key).collect();
        let place = |wanted: &String| keys.iter().position(|key| key == wanted);
        let places = spread.parameters.iter().map(place).collect::<Option<Vec<usize>>>()?;
        let matrix = DMatrix::from_fn(places.len(), places.len(), |row, column| {
            let values = spread.covariance.get(row.max(column));
            values.and_then(|values| values.get(row.min(column))).copied().unwrap_or_default()
        });
        Some(Self { table: spread.table, places, matrix })
    }

    /// Variance of the log time of `layer`, to first order.
    fn variance(&self, layer: &Layer, gpu: &mut Gpu) -> f64 {
        let slopes = self.places.iter().map(|&place| slope(gpu, (self.table, place), layer));
        let gradient = DVector::from_iterator(self.places.len(), slopes);
        // Rounded entries may make the matrix slightly indefinite.
        gradient.dot(&(&self.matrix * &gradient)).max(0.0)
    }
}

/// Derivative of the log time of `layer` by the log parameter at `place` in the list of `table`; 0
/// where there is no such parameter or time. The GPU is unchanged afterwards.
pub(crate) fn slope(gpu: &mut Gpu, (table, place): (KernelTable, usize), layer: &Layer) -> f64 {
    let Some(value) = parameter(gpu, table, place).map(|value| *value) else { return 0.0 };
    let mut log_at = |log_factor: f64| {
        if let Some(moved) = parameter(gpu, table, place) {
            *moved = value * log_factor.exp();
        }
        execute(layer, gpu).map_or(0.0, |execution| execution.phases.duration().as_micros().ln())
    };
    let slope = (log_at(STEP) - log_at(-STEP)) / (2.0 * STEP);
    if let Some(moved) = parameter(gpu, table, place) {
        *moved = value;
    }
    if slope.is_finite() { slope } else { 0.0 }
}

fn parameter(gpu: &mut Gpu, table: KernelTable, place: usize) -> Option<&mut f64> {
    let quantity = gpu.parameters_mut(table)?.quantities.into_iter().nth(place)?.1;
    Some(&mut quantity.value)
}

/// The 90 % interval around a prediction, in its unit; none where its table has no spread.
pub(crate) fn around(predicted: f64, uncertainty: &Uncertainty, spreads: &[TableSpread]) -> Option<[f64; 2]> {
    let spread = spreads.iter().find(|spread| spread.table == uncertainty.table)?;
    let half_width = spread.quantile * uncertainty.deviation(spread.near, spread.far);
    Some([predicted * (-half_width).exp(), predicted * half_width.exp()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use coexec_sim::Calibration;
    use coexec_sim::workload::{DataType, Linear, Operator};

    fn pixel4() -> Gpu {
        coexec_sim::input::from_toml(include_str!("../../../sim/tests/golden/gpu_pixel4.toml")).unwrap()
    }

    fn layer() -> Layer {
        let linear = Linear { rows: 1, input_features: 1024, output_features: 1000, bias: true };
        Layer::new(Operator::Linear(linear), DataType::F32)
    }

    fn calibration(launch_variance: f64) -> Calibration {
        Calibration {
            source: "test".to_owned(),
            gpu_table: vec![TableSpread {
                table: KernelTable::FullyConnected,
                near: 0.02,
                far: 0.05,
                quantile: 2.0,
                parameters: vec!["launch_us".to_owned()],
                covariance: vec![vec![launch_variance]],
            }],
            ..Calibration::default()
        }
    }

    /// The 90 % interval of the time of `layer` alone, in microseconds.
    fn interval(layer: &Layer, gpu: &Gpu, calibration: &Calibration) -> Option<[f64; 2]> {
        let predicted_us = execute(layer, gpu).ok()?.phases.duration().as_micros();
        let uncertainty = Uncertainties::new(gpu, calibration.gpu_table.iter()).of(layer).ok()?;
        around(predicted_us, &uncertainty, &calibration.gpu_table)
    }

    #[test]
    fn without_a_residual_the_interval_holds_both_spreads() {
        let gpu = pixel4();
        let time = execute(&layer(), &gpu).unwrap().phases.duration().as_micros();
        let [low, high] = interval(&layer(), &gpu, &calibration(0.0)).unwrap();
        let half_width = 2.0 * 0.02_f64.hypot(0.05);
        assert!(
            ((high / time).ln() - half_width).abs() < 1e-9 && ((time / low).ln() - half_width).abs() < 1e-9
        );
    }

    #[test]
    fn an_uncertain_launch_widens_the_interval_by_its_part_of_the_time() {
        let gpu = pixel4();
        let time = execute(&layer(), &gpu).unwrap().phases.duration().as_micros();
        let part = gpu.fully_connected.launch_us.value / time;
        let [_, high] = interval(&layer(), &gpu, &calibration(0.3)).unwrap();
        let expected = 2.0 * (0.02_f64.powi(2) + 0.05_f64.powi(2) + 0.3 * part * part).sqrt();
        assert!(((high / time).ln() - expected).abs() < 1e-3, "{} {expected}", (high / time).ln());
    }

    #[test]
    fn a_kernel_without_cross_validated_errors_has_no_interval() {
        assert_eq!(interval(&layer(), &pixel4(), &Calibration::default()), None);
    }
}
