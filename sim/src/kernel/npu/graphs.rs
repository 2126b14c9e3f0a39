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

/// The graphs that cover a number of rows: `full` of the largest size and, if rows remain,
/// one of the smallest size that holds them.
#[derive(Clone, Copy)]
pub(super) struct Cover {
    pub(super) full: u64,
    pub(super) largest: u64,
    pub(super) last: Option<u64>,
}

impl Cover {
    pub(super) fn of(rows: u64, sizes: &[u32]) -> Self {
        let Some(&largest) = sizes.last() else {
            return Self { full: 1, largest: rows, last: None };
        };
        let largest = u64::from(largest);
        let remainder = rows % largest;
        let last = sizes.iter().map(|&size| u64::from(size)).find(|&size| size >= remainder);
        Self { full: rows / largest, largest, last: last.filter(|_| remainder > 0) }
    }

    pub(super) fn graphs(self) -> u64 {
        self.full + u64::from(self.last.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [u32; 6] = [32, 64, 128, 256, 512, 1024];

    #[test]
    fn rows_are_padded_to_one_larger_graph_rather_than_split_over_several() {
        let cover = Cover::of(525, &SIZES);
        assert_eq!((cover.graphs(), cover.last), (1, Some(1024)));
    }
}
