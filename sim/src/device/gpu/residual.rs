//! The learned correction of a GPU's kernel tables: what the latency equations
//! leave, smoothed over similar launches (kernel ridge regression).
//!
//! Responsible for: the schema, its checks, and the correction at a launch's
//! features. Not for: the features of a launch (`kernel::gpu`) or the fit
//! (`calibrate::gpu`). Invariant: far from every point the correction vanishes,
//! and it never leaves [`LOG_FACTOR_RANGE`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::VariantArray;

use super::KernelTable;
use crate::device::Checker;
use crate::device::check::repeated;

/// Largest logarithm of a correction either way, a factor of 1.8: what the physics
/// misses by more is an outlier that no neighbour should inherit. The fit clips
/// the residuals it learns from to the same range.
pub const LOG_FACTOR_RANGE: f64 = 0.6;

/// Units of a point's coordinate in one length scale.
const UNITS_PER_LENGTH_SCALE: f64 = 100.0;

/// Squared distance, in units of a coordinate, up to which a launch is a point's own:
/// what rounding the coordinates of every feature to whole units makes at most.
const OWN_SQUARED_DISTANCE: f32 = 0.25 * Feature::ALL.len() as f32;

/// Most points of a table; a prediction visits each.
const MOST_POINTS: usize = 2000;

/// Largest weight of a point: opposite neighbours may cancel, but not without end.
const LARGEST_WEIGHT: f64 = 1e3;

/// Length scales a feature may have.
const LENGTH_SCALES: [f64; 2] = [1e-3, 1e6];

/// A count of a launch by which launches are similar. "log" is to base 2.
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
    /// Log of the trips of a thread's loop.
    Iterations,
    /// Log of the work-groups per compute unit.
    GroupsPerUnit,
    /// Rows of the window; inputs of a concatenation.
    Window,
    /// Vertical stride.
    Stride,
    /// 1 for a convolution that is a matrix product, else 0.
    Trivial,
    /// 1 where a sum or product of tensors is linked.
    LinkedOperand,
    /// 1 where an activation function is linked.
    LinkedActivation,
    /// Log of the texels of a thread's tile.
    TileTexels,
    /// Log of the slices of a thread's tile.
    TileSlices,
    /// Log of the threads of a work-group.
    GroupThreads,
    /// Log of the waves of a work-group.
    GroupWaves,
    /// Groups per compute unit, less its whole part: how unevenly units are loaded.
    UnevenGroups,
    /// Part of a full round's waves that the last round has; 0 without a limit.
    LastRoundFill,
    /// Log of the waves of the fullest compute unit in the last round.
    LastRoundWaves,
    /// Part by which the output's pixels fall short of whole waves of 32.
    MissingPixels,
    /// Log of launched over needed threads.
    IdleThreads,
    /// Work-groups per compute unit beyond a multiple of four, as a part of four.
    GroupRemainder,
    /// Output slices beyond a multiple of four, as a part of four.
    OutputSliceRemainder,
    /// Input slices beyond a multiple of four, as a part of four.
    InputSliceRemainder,
    /// Input slices beyond a multiple of sixteen, as a part of sixteen.
    InputBlockRemainder,
}

impl Feature {
    /// Every feature, in the order of the array that holds their values.
    pub const ALL: &[Self] = Self::VARIANTS;
}

/// The values of a launch's features, in the order of [`Feature::ALL`].
pub type Features = [f64; Feature::ALL.len()];

/// What was learned of the launches that the equations miss.
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
    /// The features that count.
    pub features: Vec<Feature>,
    /// Change of each feature that makes launches dissimilar, in its unit.
    pub length_scales: Vec<f64>,
    /// Weight of each point, in logarithms of a time.
    pub weights: Vec<f64>,
    /// The points: features in hundredths of their length scale.
    pub points: Points,
    /// What the launch of each point, but none beside it, takes beyond the sum, in
    /// logarithms of a time: repeated runs tell it from noise. Empty for nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own: Vec<f64>,
}

/// Points that are compared side by side, for the compiler to use vector registers.
const BLOCK: usize = 8;

/// Sums of a distance that run side by side. Which coordinates are added in which order decides the last
/// bit of a prediction.
const LANES: usize = 4;

const MOST_LANES: usize = Feature::ALL.len().div_ceil(LANES);

/// Coordinates of a launch: one for each feature that counts, and zeros.
type Coordinates = [[f32; LANES]; MOST_LANES];

/// Points, and the same once more as they are compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "Vec<Vec<i16>>", into = "Vec<Vec<i16>>")]
#[schemars(with = "Vec<Vec<i16>>")]
pub struct Points {
    rows: Vec<Vec<i16>>,
    /// Of each block of points, for each feature the coordinates of all its points; filled up with zeros
    /// to whole blocks and whole lanes.
    blocks: Vec<[[f32; BLOCK]; LANES]>,
}

impl From<Vec<Vec<i16>>> for Points {
    fn from(rows: Vec<Vec<i16>>) -> Self {
        let width = rows.first().map_or(0, Vec::len).div_ceil(LANES);
        let mut blocks = vec![[[0.0; BLOCK]; LANES]; rows.len().div_ceil(BLOCK) * width];
        for (index, row) in rows.iter().enumerate() {
            let block = blocks[index / BLOCK * width..][..width].as_flattened_mut();
            // What is longer than the others is refused when its table is checked.
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
    /// Point by point.
    pub fn rows(&self) -> &[Vec<i16>] {
        &self.rows
    }

    fn count_blocks(&self) -> usize {
        self.rows.len().div_ceil(BLOCK)
    }

    /// Of the points of a block to `query`, in hundredths of length scales. Compiled as [`alike`] is.
    #[inline(never)]
    fn squared_distances(&self, block: usize, query: &Coordinates) -> [f32; BLOCK] {
        let width = self.blocks.len() / self.count_blocks();
        let mut sums = [[0.0_f32; BLOCK]; LANES];
        for (index, columns) in self.blocks[block * width..][..width].iter().enumerate() {
            let Some(query) = query.get(index) else { break };
            for lane in 0..LANES {
                for point in 0..BLOCK {
                    let apart = columns[lane][point] - query[lane];
                    sums[lane][point] += apart * apart;
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

/// A correction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Correction {
    /// Logarithm of the factor on the time.
    pub log_factor: f64,
    /// Similarity to the nearest point: 1 at one, 0 far from all.
    pub similarity: f64,
}

impl Residual {
    /// Of tables with where they are from; none without any.
    pub fn of_tables<'a>(parts: impl IntoIterator<Item = (&'a str, Vec<ResidualTable>)>) -> Option<Self> {
        let parts = parts.into_iter().filter(|(_, tables)| !tables.is_empty());
        let (sources, tables): (Vec<&str>, Vec<Vec<ResidualTable>>) = parts.unzip();
        (!tables.is_empty())
            .then(|| Self { source: sources.join("; other kernels "), table: tables.concat() })
    }

    /// The correction of launches of `table`.
    pub fn of(&self, table: KernelTable) -> Option<&ResidualTable> {
        self.table.iter().find(|entry| entry.table == table)
    }

    /// Notes every value that cannot be.
    pub(crate) fn check(&self, checker: &mut Checker) {
        checker.sourced(&self.source);
        checker.each("table", &self.table, ResidualTable::check);
        for (_, entry) in repeated(&self.table, |entry| entry.table) {
            checker.violation("table", entry.table.key(), "each kernel table once");
        }
    }
}

impl ResidualTable {
    /// The point of a launch with these features.
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
            let alike = alike(&squared_distances);
            for (index, weight) in weights.iter().enumerate() {
                let squared_distance = squared_distances[index];
                log_factor += weight * alike[index];
                nearest = if squared_distance < nearest { squared_distance } else { nearest };
                if squared_distance <= OWN_SQUARED_DISTANCE {
                    log_factor += self.own.get(block * BLOCK + index).copied().unwrap_or_default();
                }
            }
        }
        let log_factor = log_factor.clamp(-LOG_FACTOR_RANGE, LOG_FACTOR_RANGE);
        Correction { log_factor, similarity: alike(&[nearest; BLOCK])[0] }
    }

    /// Features in hundredths of their length scale.
    fn coordinates(&self, features: &Features) -> Coordinates {
        let mut coordinates = [[0.0; LANES]; MOST_LANES];
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
        if count > MOST_POINTS {
            checker.violation("points", count, format!("at most {MOST_POINTS} points"));
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
            if let Some(value) = values.iter().find(|value| value.is_nan() || value.abs() > LARGEST_WEIGHT) {
                checker.violation(key, value, format!("numbers from -{LARGEST_WEIGHT} to {LARGEST_WEIGHT}"));
            }
        }
    }
}

/// Similarity of launches at squared distances in hundredths of length scales. On its own it is compiled to
/// vector registers, inside what asks for it not.
#[inline(never)]
fn alike(squared_distances: &[f32; BLOCK]) -> [f64; BLOCK] {
    let mut alike = [0.0; BLOCK];
    for (alike, &squared_distance) in alike.iter_mut().zip(squared_distances) {
        *alike = similarity(f64::from(squared_distance) / (UNITS_PER_LENGTH_SCALE * UNITS_PER_LENGTH_SCALE));
    }
    alike
}

/// Similarity of launches at a squared distance in length scales.
pub fn similarity(squared_distance: f64) -> f64 {
    (1.0 + 0.5 * squared_distance).recip()
}

#[cfg(test)]
mod tests;
