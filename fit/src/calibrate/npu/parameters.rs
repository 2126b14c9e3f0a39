//! The parameters of compiled graphs: the prior of each, and the speeds of a chip that scale it.
//!
//! The prior deviations are those between the Hexagon NPUs of four Snapdragons (`data/aihub`),
//! chosen before the fits that use them; the centres are in `expected.toml`.

use super::Known;
use crate::calibrate::gpu::Fitted;
use crate::calibrate::least_squares::{Posterior, log_deviation};
use coexec_sim::device::npu::compiled::CompiledGraphs;
use coexec_sim::input::from_toml;
use coexec_sim::statistics::{VALUE_DIGITS, rounded};
use coexec_sim::{Basis, Quantity};

/// Gain of 8-bit integers over floats of the vector unit, relative to that of products: near the value
/// of a free fit on `data/aihub`.
const VECTOR_OVER_PRODUCTS: f64 = 0.87;

/// A speed of a chip relative to its base, which scales several parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speed {
    /// Multiply-accumulates in 16-bit floats.
    FloatProducts,
    /// Multiply-accumulates with integers.
    IntegerProducts,
    /// The vector unit, and layout changes.
    Vector,
    /// The memory.
    Memory,
    /// Costs that do not depend on an operator's extents.
    FixedCosts,
}

/// The keys of the speeds, in the order of [`Speed`].
const SPEEDS: [&str; 5] =
    ["float_product_speed", "integer_product_speed", "vector_speed", "memory_speed", "fixed_cost_speed"];

/// Prior standard deviations of the logarithms of a chip's speeds.
#[derive(Clone, Copy)]
struct Deviations {
    /// Of what is common to them.
    common: f64,
    /// Of each from what is common.
    own: f64,
}

/// Of a chip relative to another. What is common is mostly its generation and clock. Of 0.1, 0.2 and 0.3, the own
/// deviation predicts the other families best where one of three Snapdragons is fitted to 3, 9 or 20 models relative
/// to another.
const OF_OTHER_CHIP: Deviations = Deviations { common: 0.5, own: 0.2 };

/// Of a chip relative to an earlier fit of it. A model is 10 to 20 % off where the chip is known, which says little
/// about the chip. Each of three Snapdragons, fitted to half of its models of `data/aihub` and again to 1 to 12 more,
/// predicts the others up to 0.5 points worse than before, in the mean over five draws; with the deviations above, 2 to
/// 11 points worse after one more model.
const OF_THIS_CHIP: Deviations = Deviations { common: 0.03, own: 0.03 };

impl Speed {
    /// The speed's own of values in the order of [`SPEEDS`].
    fn of<T>(self, values: &[T]) -> &T {
        &values[self as usize]
    }
}

/// A fitted parameter.
pub(super) struct Parameter {
    key: &'static str,
    /// Prior standard deviation of its logarithm.
    deviation: f64,
    /// The speeds that scale it, each with its exponent; -1 for a cost, which falls with speed.
    speeds: &'static [(Speed, f64)],
    of: fn(&mut CompiledGraphs) -> Option<&mut Quantity>,
}

macro_rules! parameter {
    ($key:ident, $deviation:expr, $speeds:expr) => {
        Parameter {
            key: stringify!($key),
            deviation: $deviation,
            speeds: $speeds,
            of: |compiled| Some(&mut compiled.$key),
        }
    };
    ($table:ident.$key:ident, $deviation:expr, $speeds:expr) => {
        Parameter {
            key: concat!(stringify!($table), ".", stringify!($key)),
            deviation: $deviation,
            speeds: $speeds,
            of: |compiled| Some(&mut compiled.$table.as_mut()?.$key),
        }
    };
}

const COST: &[(Speed, f64)] = &[(Speed::FixedCosts, -1.0)];
const VECTOR: &[(Speed, f64)] = &[(Speed::Vector, 1.0)];
const MEMORY: &[(Speed, f64)] = &[(Speed::Memory, 1.0)];
const PRODUCTS: &[(Speed, f64)] = &[(Speed::FloatProducts, 1.0)];
/// Factors relative to the rate for floats.
const INTEGERS: &[(Speed, f64)] = &[(Speed::IntegerProducts, 1.0), (Speed::FloatProducts, -1.0)];

pub(super) const PARAMETERS: [Parameter; 24] = [
    parameter!(graph_us, 0.5, COST),
    parameter!(operator_us, 0.7, COST),
    parameter!(matrix_us, 0.7, COST),
    parameter!(group_us, 0.5, COST),
    parameter!(image_pixel_ns, 0.7, COST),
    parameter!(normalised_pixel_ns, 0.2, COST),
    parameter!(multiply_accumulates_per_ns, 0.3, PRODUCTS),
    parameter!(volume_multiply_accumulates_per_ns, 0.3, PRODUCTS),
    parameter!(on_chip_gbps, 0.5, VECTOR),
    parameter!(layout_change_gbps, 0.7, VECTOR),
    parameter!(token_gbps, 0.7, VECTOR),
    parameter!(nonlinear_elements_per_ns, 0.5, VECTOR),
    parameter!(large_resize_elements_per_ns, 0.5, VECTOR),
    parameter!(channel_reduction_elements_per_ns, 0.3, VECTOR),
    parameter!(gathered_elements_per_ns, 0.5, VECTOR),
    parameter!(bandwidth_gbps, 0.15, MEMORY),
    parameter!(one_row_bandwidth_gbps, 0.3, MEMORY),
    parameter!(spill_factor, 0.5, &[]),
    parameter!(integer.product_rate_factor, 0.3, INTEGERS),
    parameter!(integer.volume_rate_factor, 0.15, INTEGERS),
    parameter!(integer.fixed_cost_factor, 0.4, &[]),
    Parameter {
        key: "integer.matrix_us",
        deviation: 0.5,
        speeds: COST,
        of: |compiled| compiled.integer.as_mut()?.matrix_us.as_mut(),
    },
    parameter!(integer.batch_norm_elements_per_ns, 0.5, VECTOR),
    parameter!(integer_weights.product_rate_factor, 0.3, INTEGERS),
];

/// The log factor of a chip's speeds on a parameter.
fn scaled_log(parameter: &Parameter, coordinates: &[f64]) -> f64 {
    parameter.speeds.iter().map(|(speed, power)| power * speed.of(coordinates)).sum()
}

/// The posterior of a parameter that a chip's speeds scale, whose value in the base has an interval of its own; the
/// covariance of speeds is neglected.
fn scaled(
    parameter: &Parameter,
    coordinates: &[f64],
    known: &[Posterior],
    ci95: Option<[f64; 2]>,
) -> Posterior {
    let of_base = ci95.map_or(0.0, log_deviation);
    let of_speed = |(speed, power): &(Speed, f64)| power * speed.of(known).deviation;
    let deviation = parameter.speeds.iter().map(of_speed).fold(of_base, f64::hypot);
    Posterior { log: scaled_log(parameter, coordinates), deviation, informed: true }
}

/// The starting point of a fit, and its parameters.
pub(super) struct Setting {
    base: CompiledGraphs,
    /// Prior of the five speeds, if these are fitted rather than each parameter.
    speeds: Option<Deviations>,
    /// Parameters that the base has.
    present: Vec<&'static Parameter>,
}

impl Setting {
    /// From the known rates, or from those expected of any NPU. Tables for integers are added where there
    /// are runs with integers.
    pub(super) fn of(known: Known<'_>, has_integers: bool, has_integer_weights: bool) -> Self {
        let CompiledGraphs { integer, integer_weights, .. } = expected();
        let mut start = known.rates().cloned().unwrap_or_else(|| CompiledGraphs {
            integer: None,
            integer_weights: None,
            ..expected()
        });
        if has_integers || has_integer_weights {
            start.integer = start.integer.or(integer);
        }
        if has_integer_weights {
            start.integer_weights = start.integer_weights.or(integer_weights);
        }
        let mut probe = start.clone();
        let present = PARAMETERS.iter().filter(|parameter| (parameter.of)(&mut probe).is_some()).collect();
        let speeds = match known {
            Known::Maker => None,
            Known::OtherChip(_) => Some(OF_OTHER_CHIP),
            Known::ThisChip(_) => Some(OF_THIS_CHIP),
        };
        Self { base: start, speeds, present }
    }

    /// Prior deviations of the fitted parameters' log ratios to the base.
    pub(super) fn deviations(&self) -> Vec<f64> {
        if let Some(Deviations { common, own }) = self.speeds {
            return SPEEDS.map(|_| common.hypot(own)).to_vec();
        }
        self.present.iter().map(|parameter| parameter.deviation).collect()
    }

    /// The coordinates of the base: the log ratio of each parameter, and behind those of speeds the
    /// logarithm of what is common to them.
    pub(super) fn start(&self) -> Vec<f64> {
        vec![0.0; if self.speeds.is_some() { SPEEDS.len() + 1 } else { self.present.len() }]
    }

    /// How far coordinates are from the prior, in standard deviations.
    pub(super) fn away_from_prior(&self, coordinates: &[f64]) -> Vec<f64> {
        if let (Some(deviations), [speeds @ .., common]) = (self.speeds, coordinates) {
            let own = speeds.iter().map(|speed| (speed - common) / deviations.own);
            return own.chain([common / deviations.common]).collect();
        }
        coordinates.iter().zip(&self.present).map(|(log, parameter)| log / parameter.deviation).collect()
    }

    /// The log ratio of the parameter at `index` to its base.
    fn log(&self, index: usize, parameter: &Parameter, coordinates: &[f64]) -> f64 {
        if self.speeds.is_some() { scaled_log(parameter, coordinates) } else { coordinates[index] }
    }

    /// The rates at these coordinates.
    pub(super) fn at(&self, coordinates: &[f64]) -> CompiledGraphs {
        let mut compiled = self.base.clone();
        for (index, parameter) in self.present.iter().enumerate() {
            let factor = self.log(index, parameter, coordinates).exp();
            if let Some(quantity) = (parameter.of)(&mut compiled) {
                quantity.value *= factor;
            }
        }
        if self.speeds.is_some() {
            compiled.taps_per_ns.value *= Speed::Vector.of(coordinates).exp();
            for of_language in of_language(&mut compiled) {
                of_language.value *= Speed::Memory.of(coordinates).exp();
            }
        }
        tie(&mut compiled, self.speeds.is_some());
        compiled
    }

    /// The rounded rates at these coordinates, with source and intervals.
    pub(super) fn rounded_at(
        &self,
        coordinates: &[f64],
        known: &[Posterior],
        source: &str,
    ) -> CompiledGraphs {
        let mut compiled = self.at(coordinates);
        for (index, parameter) in self.present.iter().enumerate() {
            let Some(quantity) = (parameter.of)(&mut compiled) else { continue };
            let one = match self.speeds {
                // No speed scales it: it stays the base's.
                Some(_) if parameter.speeds.is_empty() => continue,
                Some(_) => scaled(parameter, coordinates, known, quantity.ci95),
                None => known[index],
            };
            let centre = quantity.value / one.log.exp();
            let (value, ci95) = one.value(centre);
            *quantity = Quantity { value, source: Some("fit".to_owned()), ci95: Some(ci95) };
        }
        tie(&mut compiled, self.speeds.is_some());
        compiled.taps_per_ns.value = rounded(compiled.taps_per_ns.value, VALUE_DIGITS);
        for of_language in of_language(&mut compiled).filter(|_| self.speeds.is_some()) {
            let value = rounded(of_language.value, VALUE_DIGITS);
            let source = Some("derived: the prior's, by the memory's fitted speed".to_owned());
            *of_language = Quantity { value, source, ci95: None };
        }
        source.clone_into(&mut compiled.source);
        compiled.basis = Basis::Measured;
        if let Some(integer) = &mut compiled.integer {
            let tied =
                [Some(&mut integer.vector_rate_factor), integer.channel_reduction_rate_factor.as_mut()];
            for quantity in tied.into_iter().flatten() {
                quantity.value = rounded(quantity.value, VALUE_DIGITS);
            }
            source.clone_into(&mut integer.source);
        }
        if let Some(weights) = &mut compiled.integer_weights {
            source.clone_into(&mut weights.source);
        }
        compiled
    }

    /// The fitted parameters with their intervals: the speeds, or each parameter.
    pub(super) fn fitted(&self, known: &[Posterior]) -> Vec<Fitted> {
        if self.speeds.is_some() {
            let speeds = SPEEDS.iter().zip(known);
            return speeds.map(|(key, known)| Fitted::of(key, 1.0, *known)).collect();
        }
        let mut base = self.base.clone();
        let value = |(parameter, known): (&&Parameter, &Posterior)| {
            let base = (parameter.of)(&mut base)?.value;
            Some(Fitted::of(parameter.key, base, *known))
        };
        self.present.iter().zip(known).filter_map(value).collect()
    }
}

/// The bandwidths of language models' steps, which the times of other models do not inform.
fn of_language(compiled: &mut CompiledGraphs) -> impl Iterator<Item = &mut Quantity> {
    [&mut compiled.token_bandwidth_gbps, &mut compiled.prompt_bandwidth_gbps].into_iter().flatten()
}

/// Sets the values that are derived from others.
fn tie(compiled: &mut CompiledGraphs, keeps_vector: bool) {
    let Some(integer) = &mut compiled.integer else { return };
    if !keeps_vector {
        integer.vector_rate_factor.value = VECTOR_OVER_PRODUCTS * integer.product_rate_factor.value;
        if let Some(factor) = &mut integer.channel_reduction_rate_factor {
            factor.value = integer.vector_rate_factor.value;
        }
    }
    if let Some(weights) = &mut compiled.integer_weights {
        weights.batch_norm_elements_per_ns = integer.batch_norm_elements_per_ns.clone();
    }
}

/// The rates expected of any NPU: the centres of the priors.
pub(super) fn expected() -> CompiledGraphs {
    from_toml(include_str!("expected.toml")).expect("the table is part of the program, and a test reads it")
}
