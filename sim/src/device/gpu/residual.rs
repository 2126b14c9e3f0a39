//! The residual model of a GPU's kernel tables: residuals of the latency equations,
//! smoothed over similar launches (kernel ridge regression).
//!
//! Responsible for: the schema, its checks, and the correction at a launch's
//! features. Not for: the features of a launch (`kernel::gpu`) or the fit
//! (`calibrate::gpu`). Invariant: far from every point the correction vanishes,
//! and it stays within ±[`LOG_FACTOR_RANGE`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::VariantArray;

use super::KernelTable;
use crate::device::Checker;
use crate::device::check::repeated;

/// Bound on the absolute logarithm of a correction, a factor of 1.8: a larger residual is an
/// outlier that should not affect its neighbours. The fit clips its residuals to the same range.
pub const LOG_FACTOR_RANGE: f64 = 0.6;

/// Units of a point's integer coordinate per length scale.
const UNITS_PER_LENGTH_SCALE: f64 = 100.0;

/// Squared distance, in coordinate units, up to which a launch is identical to a point's:
/// the largest that rounding every coordinate to whole units produces.
const SAME_LAUNCH_SQUARED_DISTANCE: f32 = 0.25 * Feature::ALL.len() as f32;

/// Maximum points of a table; a prediction visits each.
const MAX_POINTS: usize = 2000;

/// Bound on the absolute weight of a point: weights of opposite sign may cancel, but not without limit.
const MAX_WEIGHT: f64 = 1e3;

/// Valid range of a length scale.
const LENGTH_SCALES: [f64; 2] = [1e-3, 1e6];

/// A feature of a launch, in which similarity between launches is measured. "Log" is to base 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[derive(Serialize, Deserialize, JsonSchema, VariantArray)]
#[serde(rename_all = "kebab-case")]
pub enum Feature {
    /// Log of the bytes of the inputs.
    InputBytes,
    /// Log of the bytes of the output.
    OutputBytes,
    /// Log of the bytes of the weights.
    WeightBytes,
    /// Log of a thread's loop iterations.
    Iterations,
    /// Log of the work-groups per compute unit.
    GroupsPerUnit,
    /// Rows of the window; inputs of a concatenation.
    Window,
    /// Vertical stride.
    Stride,
    /// 0 for depthwise convolutions and convolutions with a window loop, else 1.
    Trivial,
    /// 1 if an addition, multiplication or other binary function is linked, else 0.
    LinkedOperand,
    /// 1 if an activation is linked, else 0.
    LinkedActivation,
    /// Log of the texels of a thread's tile.
    TileTexels,
    /// Log of the slices of a thread's tile.
    TileSlices,
    /// Log of the threads of a work-group.
    GroupThreads,
    /// Log of the waves of a work-group.
    GroupWaves,
    /// Fractional part of the groups per compute unit: load imbalance between units.
    UnevenGroups,
    /// Waves of the last round as a fraction of a full round's; 0 without an occupancy limit.
    LastRoundFill,
    /// Log of the waves of the fullest compute unit in the last round.
    LastRoundWaves,
    /// Lanes left empty when the output's pixels are padded to waves of 32, relative to
    /// the pixels; at most 1.
    MissingPixels,
    /// Log of launched threads over threads inside the grid.
    IdleThreads,
    /// Work-groups per compute unit modulo 4, divided by 4.
    GroupRemainder,
    /// Output slices modulo 4, divided by 4.
    OutputSliceRemainder,
    /// Input slices modulo 4, divided by 4.
    InputSliceRemainder,
    /// Input slices modulo 16, divided by 16.
    InputBlockRemainder,
}

impl Feature {
    /// Every feature, in the order of the array that holds their values.
    pub const ALL: &[Self] = Self::VARIANTS;
}

/// The values of a launch's features, in the order of [`Feature::ALL`].
pub type Features = [f64; Feature::ALL.len()];

/// Residual model of a GPU's latency equations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Residual {
    /// The runs it was learned from.
    pub source: String,
    /// One entry per kernel table that it corrects.
    #[serde(default)]
    pub table: Vec<ResidualTable>,
}

/// The correction of one kernel table.
///
/// ```text
/// similarity_i = 1 / (1 + sum over features ((feature / length_scale - point_i / 100)^2) / 2)
/// factor = exp(sum over points (weight_i * similarity_i) + own_i, at point i itself)
/// ```
///
/// The similarity is the rational quadratic kernel of Rasmussen and Williams
/// (2006), equation 4.19, with alpha 1: a mixture of length scales.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResidualTable {
    /// The kernel table it corrects.
    pub table: KernelTable,
    /// Features used by this table.
    pub features: Vec<Feature>,
    /// Length scale of each feature, in the feature's unit.
    pub length_scales: Vec<f64>,
    /// Weight of each point, as a natural logarithm of a time ratio.
    pub weights: Vec<f64>,
    /// The points: features in hundredths of their length scale.
    pub points: Points,
    /// Extra logarithm for the exact launch of each point, not shared with its neighbours:
    /// repeated runs distinguish it from noise. Empty for none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own: Vec<f64>,
}

/// Points whose distances are computed together, so that the compiler vectorises the loop.
const BLOCK: usize = 8;

/// Independent partial sums of a squared distance. The order of summation is fixed, since
/// it decides the last bit of a prediction.
const LANES: usize = 4;

const MAX_LANE_ROWS: usize = Feature::ALL.len().div_ceil(LANES);

/// Coordinates of a launch: one for each feature of the table, padded with zeros.
type Coordinates = [[f32; LANES]; MAX_LANE_ROWS];

/// Points row by row, and transposed into blocks for vectorised comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "Vec<Vec<i16>>", into = "Vec<Vec<i16>>")]
#[schemars(with = "Vec<Vec<i16>>")]
pub struct Points {
    rows: Vec<Vec<i16>>,
    /// For each block of points and each feature, the coordinates of the block's points;
    /// padded with zeros to whole blocks and whole lanes.
    blocks: Vec<[[f32; BLOCK]; LANES]>,
}

impl From<Vec<Vec<i16>>> for Points {
    fn from(rows: Vec<Vec<i16>>) -> Self {
        let width = rows.first().map_or(0, Vec::len).div_ceil(LANES);
        let mut blocks = vec![[[0.0; BLOCK]; LANES]; rows.len().div_ceil(BLOCK) * width];
        for (index, row) in rows.iter().enumerate() {
            let block = blocks[index / BLOCK * width..][..width].as_flattened_mut();
            // Rows of other lengths are rejected when the table is checked.
            for (column, &coordinate) in block.iter_mut().zip(row) {
                column[index % BLOCK] = f32::from(coordinate);
            }
        }
        Self { rows, blocks }
    }
}

impl From<Points> for Vec<Vec<i16>> {
    fn from(points: Points) -> Self {
        points.rows
    }
}

impl Points {
    /// Coordinates of each point.
    pub fn rows(&self) -> &[Vec<i16>] {
        &self.rows
    }

    fn count_blocks(&self) -> usize {
        self.rows.len().div_ceil(BLOCK)
    }

    /// Squared distances of a block's points to `query`, in hundredths of length scales.
    /// Not inlined, for the same reason as [`similarities`].
    #[inline(never)]
    fn squared_distances(&self, block: usize, query: &Coordinates) -> [f32; BLOCK] {
        let width = self.blocks.len() / self.count_blocks();
        let mut sums = [[0.0_f32; BLOCK]; LANES];
        for (index, columns) in self.blocks[block * width..][..width].iter().enumerate() {
            let Some(query) = query.get(index) else { break };
            for lane in 0..LANES {
                for point in 0..BLOCK {
                    let difference = columns[lane][point] - query[lane];
                    sums[lane][point] += difference * difference;
                }
            }
        }
        let mut squared_distances = [0.0; BLOCK];
        for point in 0..BLOCK {
            squared_distances[point] = (sums[0][point] + sums[1][point]) + (sums[2][point] + sums[3][point]);
        }
        squared_distances
    }
}

/// The correction of one launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Correction {
    /// Natural logarithm of the factor on the time.
    pub log_factor: f64,
    /// Similarity to the nearest point: 1 at a point, towards 0 far from all.
    pub similarity: f64,
}

impl Residual {
    /// Joins tables of several sources; `None` if there are no tables.
    pub fn of_tables<'a>(parts: impl IntoIterator<Item = (&'a str, Vec<ResidualTable>)>) -> Option<Self> {
        let parts = parts.into_iter().filter(|(_, tables)| !tables.is_empty());
        let (sources, tables): (Vec<&str>, Vec<Vec<ResidualTable>>) = parts.unzip();
        (!tables.is_empty())
            .then(|| Self { source: sources.join("; other kernels "), table: tables.concat() })
    }

    /// The entry for launches of `table`, if any.
    pub fn of(&self, table: KernelTable) -> Option<&ResidualTable> {
        self.table.iter().find(|entry| entry.table == table)
    }

    /// Records every invalid value.
    pub(crate) fn check(&self, checker: &mut Checker) {
        checker.sourced(&self.source);
        checker.each("table", &self.table, ResidualTable::check);
        for (_, entry) in repeated(&self.table, |entry| entry.table) {
            checker.violation("table", entry.table.key(), "each kernel table once");
        }
    }
}

impl ResidualTable {
    /// The coordinates of a launch with these features, rounded to a point's integers.
    pub fn point(&self, features: &Features) -> Vec<i16> {
        let coordinates = self.coordinates(features);
        coordinates.as_flattened()[..self.features.len().min(Feature::ALL.len())]
            .iter()
            .map(|&coordinate| coordinate.round() as i16)
            .collect()
    }

    /// The correction of a launch with these features.
    pub fn correction(&self, features: &Features) -> Correction {
        let query = self.coordinates(features);
        let (mut log_factor, mut nearest) = (0.0_f64, f32::INFINITY);
        for (block, weights) in self.weights.chunks(BLOCK).enumerate().take(self.points.count_blocks()) {
            let squared_distances = self.points.squared_distances(block, &query);
            let similarities = similarities(&squared_distances);
            for (index, weight) in weights.iter().enumerate() {
                let squared_distance = squared_distances[index];
                log_factor += weight * similarities[index];
                nearest = if squared_distance < nearest { squared_distance } else { nearest };
                if squared_distance <= SAME_LAUNCH_SQUARED_DISTANCE {
                    log_factor += self.own.get(block * BLOCK + index).copied().unwrap_or_default();
                }
            }
        }
        let log_factor = log_factor.clamp(-LOG_FACTOR_RANGE, LOG_FACTOR_RANGE);
        Correction { log_factor, similarity: similarities(&[nearest; BLOCK])[0] }
    }

    /// Features in hundredths of their length scale.
    fn coordinates(&self, features: &Features) -> Coordinates {
        let mut coordinates = [[0.0; LANES]; MAX_LANE_ROWS];
        let slots = coordinates.as_flattened_mut().iter_mut();
        for ((slot, feature), scale) in slots.zip(&self.features).zip(&self.length_scales) {
            *slot = (features[*feature as usize] / scale * UNITS_PER_LENGTH_SCALE) as f32;
        }
        coordinates
    }

    fn check(&self, checker: &mut Checker) {
        let (width, count) = (self.features.len(), self.points.rows.len());
        if repeated(&self.features, |&feature| feature).next().is_some() {
            checker.violation("features", "a feature twice", "each feature at most once");
        }
        let [low, high] = LENGTH_SCALES;
        if let Some(scale) = self.length_scales.iter().find(|scale| !(low..=high).contains(*scale)) {
            checker.violation("length_scales", scale, format!("numbers from {low} to {high}"));
        }
        if count > MAX_POINTS {
            checker.violation("points", count, format!("at most {MAX_POINTS} points"));
        }
        let odd = self.points.rows.iter().find(|point| point.len() != width);
        let own = if self.own.is_empty() { count } else { self.own.len() };
        for (key, found, expected, what) in [
            ("length_scales", self.length_scales.len(), width, "features"),
            ("points", odd.map_or(width, Vec::len), width, "features"),
            ("weights", self.weights.len(), count, "points"),
            ("own", own, count, "points"),
        ] {
            if found != expected {
                let expected = format!("one for each of {expected} {what}");
                checker.violation(key, format!("{found} values"), expected);
            }
        }
        for (key, values) in [("weights", &self.weights), ("own", &self.own)] {
            if let Some(value) = values.iter().find(|value| value.is_nan() || value.abs() > MAX_WEIGHT) {
                checker.violation(key, value, format!("numbers from -{MAX_WEIGHT} to {MAX_WEIGHT}"));
            }
        }
    }
}

/// Similarities at squared distances in hundredths of length scales. The loop is
/// vectorised only if it is not inlined into the caller.
#[inline(never)]
fn similarities(squared_distances: &[f32; BLOCK]) -> [f64; BLOCK] {
    let mut similarities = [0.0; BLOCK];
    for (slot, &squared_distance) in similarities.iter_mut().zip(squared_distances) {
        *slot = similarity(f64::from(squared_distance) / (UNITS_PER_LENGTH_SCALE * UNITS_PER_LENGTH_SCALE));
    }
    similarities
}

/// Similarity of two launches at a squared distance in length scales.
pub fn similarity(squared_distance: f64) -> f64 {
    (1.0 + 0.5 * squared_distance).recip()
}

#[cfg(test)]
mod tests;
