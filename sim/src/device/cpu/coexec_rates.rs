//! Rates of coexec's own CPU kernels: the cost of each unit of work on one core.
//!
//! Responsible for: the schema, and the rates as a list by unit of work. Not for:
//! counting an operator's units (`kernel::cpu::coexec`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::{Basis, Quantity};

/// Declares the rates: each with its documentation, its key in the profile and the unit of
/// work that it prices.
macro_rules! rates {
    ($($(#[doc = $what:literal])+ $key:ident: $unit:ident,)+) => {
        /// A unit of work of coexec's own kernels.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(clippy::doc_markdown, reason = "the profile's schema shows the same text")]
        pub enum CoexecUnit {
            $($(#[doc = $what])+ $unit,)+
        }

        impl CoexecUnit {
            /// All units, in the order of [`CoexecRates::rates`].
            pub const ALL: [Self; [$(Self::$unit),+].len()] = [$(Self::$unit),+];

            /// Key of the unit's rate in the profile.
            pub fn key(self) -> &'static str {
                match self {
                    $(Self::$unit => stringify!($key),)+
                }
            }
        }

        /// Rates of coexec's own kernels on one core, in 32-bit floating point.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct CoexecRates {
            /// Where the table's values come from.
            pub source: String,
            /// Evidence behind the values.
            #[serde(default)]
            pub basis: Basis,
            $($(#[doc = $what])+ pub $key: Quantity,)+
            /// Weight bytes of a product up to which the core's caches hold them; each byte beyond
            /// costs `far_weight_byte_ns`.
            pub near_weight_bytes: Quantity,
            /// Waking a worker thread for one parallel region and waiting for it, in
            /// microseconds.
            pub fork_us: Quantity,
            /// Additional time for each further worker, in microseconds.
            pub further_thread_us: Quantity,
            /// Relative slowdown of parallel work per further thread of the cluster: a factor of
            /// `1 + contention_factor * (threads - 1)`.
            pub contention_factor: Quantity,
            /// Relative extra time of the cluster's slowest thread over the fastest for the same
            /// work (clocks, neighbours, distant data); the others are evenly spaced between.
            pub straggler_factor: Quantity,
        }

        impl CoexecRates {
            /// The rates in nanoseconds, in the order of [`CoexecUnit::ALL`].
            pub fn rates(&self) -> [f64; CoexecUnit::ALL.len()] {
                [$(self.$key.value),+]
            }
        }
    };
}

rates! {
    /// One multiply-accumulate of a product, padded to whole tiles.
    multiply_accumulate_ns: MultiplyAccumulate,
    /// One call of the micro-kernel: one tile, one block of the depth.
    tile_call_ns: TileCall,
    /// Extra time of a call that continues the sums of an earlier block of the depth.
    continued_call_ns: ContinuedCall,
    /// Computing the input pointer of one pixel for one position of a window.
    window_pointer_ns: WindowPointer,
    /// Copying one pixel's results of a partial tile.
    edge_pixel_ns: EdgePixel,
    /// Copying one input that would conflict with others in the cache.
    copied_input_ns: CopiedInput,
    /// Writing one result of a product.
    product_output_ns: ProductOutput,
    /// Starting one block of a product's division.
    block_ns: Block,
    /// One weight of a product with one row, padded to whole panels.
    vector_weight_ns: VectorWeight,
    /// One byte of a product's weights beyond `near_weight_bytes`.
    far_weight_byte_ns: FarWeightByte,
    /// One output pixel of a depthwise convolution or a pooling.
    window_pixel_ns: WindowPixel,
    /// Four vectors of channels at one position of a depthwise window.
    depthwise_chunk_ns: DepthwiseChunk,
    /// One more vector of channels at one position of a depthwise window.
    depthwise_vector_ns: DepthwiseVector,
    /// One remaining channel, short of a vector, at one position of a depthwise window.
    depthwise_lane_ns: DepthwiseLane,
    /// One byte of a depthwise convolution that misses the first-level cache.
    depthwise_beyond_l1_byte_ns: DepthwiseBeyondL1Byte,
    /// Four vectors of channels at one position of a pooling window.
    pool_chunk_ns: PoolChunk,
    /// One more vector of channels at one position of a pooling window.
    pool_vector_ns: PoolVector,
    /// One remaining channel, short of a vector, at one position of a pooling window.
    pool_lane_ns: PoolLane,
    /// Four vectors of channels at one pixel of a mean.
    mean_chunk_ns: MeanChunk,
    /// One more vector of channels at one pixel of a mean.
    mean_vector_ns: MeanVector,
    /// One remaining channel, short of a vector, at one pixel of a mean.
    mean_lane_ns: MeanLane,
    /// One output pixel of any other operator.
    pixel_ns: Pixel,
    /// One element of an addition, multiplication or clamp, or of a pass of a norm.
    element_ns: Element,
    /// One element of a function of several such operations: hard swish, hard sigmoid.
    activation_element_ns: ActivationElement,
    /// One element of a function with an exponential.
    exponential_element_ns: ExponentialElement,
    /// Copying one element: concatenation, slice, packing of an operand.
    copied_element_ns: CopiedElement,
    /// Copying one element from a place apart from its neighbour's: a transpose of channels.
    strided_element_ns: StridedElement,
    /// One byte of the tensors that a function, a mean or a copy streams through.
    streamed_byte_ns: StreamedByte,
    /// One byte that misses the second-level cache, except in products of many rows.
    beyond_l2_byte_ns: BeyondL2Byte,
    /// Dispatching one operator.
    operator_ns: Operator,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::check::Checker;

    fn fitted() -> CoexecRates {
        crate::input::from_toml(include_str!("../../../tests/golden/coexec_rates.toml")).unwrap()
    }

    #[test]
    fn rates_are_in_the_order_of_their_units() {
        let mut table = toml::Table::try_from(fitted()).unwrap();
        for (index, unit) in CoexecUnit::ALL.into_iter().enumerate() {
            table.insert(unit.key().to_owned(), (index as f64).into());
        }
        let table: CoexecRates = table.try_into().unwrap();
        for (index, unit) in CoexecUnit::ALL.into_iter().enumerate() {
            assert_eq!(unit as usize, index);
            assert!((table.rates()[unit as usize] - index as f64).abs() < f64::EPSILON);
        }
        assert!((table.operator_ns.value - (CoexecUnit::Operator as usize) as f64).abs() < f64::EPSILON);
    }

    #[test]
    fn a_rate_below_zero_is_named() {
        let mut table = fitted();
        table.edge_pixel_ns.value = -1.0;
        table.straggler_factor.value = 40.0;
        let mut checker = Checker::default();
        checker.values(&table);
        let keys: Vec<String> = checker.violations.into_iter().map(|violation| violation.key).collect();
        assert_eq!(keys, ["edge_pixel_ns", "straggler_factor"]);
    }
}
