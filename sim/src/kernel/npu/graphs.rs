//! Static graphs: the row counts for which they exist, and the cost of compiling another.
//!
//! An NPU runs only graphs compiled for static shapes. The weights' extents are fixed by
//! the network; the number of rows (tokens) is not known in advance, so an engine either
//! covers it with precompiled graphs of standard sizes or compiles a graph while the user
//! waits (`HeteroInfer`, sections 4.2.2 and 5.3.2).

use crate::device::SystolicArrays;
use crate::units::Picos;

/// Time to compile a network's graphs for `rows` rows (tokens).
pub fn graph_preparation(npu: &SystolicArrays, rows: u32) -> Picos {
    let preparation = &npu.graph_preparation;
    Picos::from_micros(preparation.base_us.value + f64::from(rows) * preparation.per_row_us.value)
}

/// The graphs that cover a number of rows, as numbers of graphs and the rows of each: full ones of the
/// largest size and, if rows remain, one of the smallest size that holds them.
pub(super) fn cover(rows: u64, sizes: &[u32]) -> [(u64, u64); 2] {
    let Some(largest) = sizes.last().copied().map(u64::from) else { return [(1, rows), (0, 0)] };
    let remainder = rows % largest;
    let last = sizes.iter().copied().map(u64::from).find(|&size| size >= remainder);
    [(rows / largest, largest), last.filter(|_| remainder > 0).map_or((0, 0), |last| (1, last))]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [u32; 6] = [32, 64, 128, 256, 512, 1024];

    #[test]
    fn rows_are_padded_to_one_larger_graph_rather_than_split_over_several() {
        assert_eq!(cover(525, &SIZES), [(0, 1024), (1, 1024)]);
    }
}
