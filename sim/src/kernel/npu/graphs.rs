//! Static graphs: which row counts have one, and what making another costs.
//!
//! An NPU runs only graphs that were compiled for a shape. The weights' extents are
//! those of the network; the rows (tokens) are not known beforehand, so an engine
//! keeps graphs of standard sizes and covers any other count with them, or makes a
//! graph while the user waits (`HeteroInfer`, sections 4.2.2 and 5.3.2).

use crate::device::npu::SystolicArrays;
use crate::units::Picos;

/// The graphs of a network that lie ready, by their rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphCache {
    /// Ascending.
    ready: Vec<u32>,
    /// Whether there is a graph for every row count.
    complete: bool,
}

impl GraphCache {
    /// The standard sizes of `npu`, made before the first request.
    pub fn standard(npu: &SystolicArrays) -> Self {
        Self { ready: npu.graph_sizes.clone(), complete: npu.graph_sizes.is_empty() }
    }

    /// Nothing has been made yet.
    pub fn empty() -> Self {
        Self { ready: Vec::new(), complete: false }
    }

    /// Whether graphs for exactly `rows` rows lie ready.
    pub fn has(&self, rows: u32) -> bool {
        self.complete || self.ready.binary_search(&rows).is_ok()
    }

    /// Makes the graphs for exactly `rows` rows where they are missing, and keeps
    /// them. Returns what that takes.
    pub fn prepare(&mut self, npu: &SystolicArrays, rows: u32) -> Picos {
        match self.ready.binary_search(&rows) {
            Err(place) if !self.complete => {
                self.ready.insert(place, rows);
                graph_preparation(npu, rows)
            }
            _ => Picos::ZERO,
        }
    }
}

/// What making a network's graphs for `rows` rows (tokens) takes.
pub fn graph_preparation(npu: &SystolicArrays, rows: u32) -> Picos {
    let preparation = &npu.graph_preparation;
    Picos::from_micros(preparation.base_us.value + f64::from(rows) * preparation.per_row_us.value)
}

/// Standard sizes that cover `rows` rows one after another, largest first, the last
/// one padded: how `NPU-pipe` runs a length without a graph (`HeteroInfer`, section
/// 5.3.2). Without sizes, the rows themselves.
pub fn pieces(rows: u32, sizes: &[u32]) -> Vec<u32> {
    let mut left = rows;
    let mut pieces = Vec::new();
    for &size in sizes.iter().rev().filter(|&&size| size > 0) {
        pieces.extend(std::iter::repeat_n(size, (left / size) as usize));
        left %= size;
    }
    if left > 0 {
        pieces.push(sizes.first().copied().unwrap_or(left));
    }
    pieces
}

/// The graphs that cover a number of rows: `full` of the largest size and, where
/// rows remain, one of the smallest size that takes them.
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
    fn a_length_between_sizes_is_piped_largest_size_first() {
        // HeteroInfer, section 4.2.2: 300 tokens are 256 and 44.
        assert_eq!(pieces(300, &SIZES), [256, 32, 32]);
        assert_eq!(pieces(525, &SIZES), [512, 32]);
        assert_eq!(pieces(2048, &SIZES), [1024, 1024]);
        assert_eq!(pieces(300, &[]), [300]);
        assert_eq!(pieces(0, &SIZES), [0_u32; 0]);
    }

    #[test]
    fn pieces_cover_every_row_with_less_than_one_smallest_graph_to_spare() {
        for rows in 1..2_500 {
            let covered: u32 = pieces(rows, &SIZES).iter().sum();
            assert!((rows..rows + SIZES[0]).contains(&covered), "{rows} rows: {covered}");
        }
    }

    #[test]
    fn a_cover_pads_to_one_graph_where_a_pipe_would_run_several() {
        let cover = Cover::of(525, &SIZES);
        assert_eq!((cover.graphs(), cover.last), (1, Some(1024)));
    }
}
