//! How an NPU's static graphs cover the rows of a product.

use arrayvec::ArrayVec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::SystolicArrays;

/// Most graphs that the NPU executes one after another for one product.
pub const MAX_GRAPHS: usize = 64;

/// Rows of the graphs that compute one product, in order.
pub type GraphRows = ArrayVec<u32, MAX_GRAPHS>;

/// How static graphs cover a number of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GraphCover {
    /// As many full graphs of the largest size as fit, then the smallest graph that holds the rest.
    #[default]
    Padded,
    /// Full graphs, largest first; only a rest below the smallest size is padded.
    Pieces,
    /// Graphs of this many rows, the last one padded.
    Chunks(u32),
}

impl GraphCover {
    /// Rows of the graphs that compute `rows` rows on `npu`; `None` if there would be more than
    /// [`MAX_GRAPHS`], or the NPU has no graph of that size.
    pub fn graphs(self, rows: u32, npu: &SystolicArrays) -> Option<GraphRows> {
        let sizes = npu.graph_sizes.as_slice();
        let is_decoded = rows == 1 && npu.decode.is_some();
        let (Some(&smallest), Some(&largest), false) = (sizes.first(), sizes.last(), is_decoded) else {
            return Some(GraphRows::from_iter([rows]));
        };
        let mut graphs = GraphRows::new();
        let mut left = rows;
        while left > 0 {
            let filled = sizes.iter().rev().copied().find(|&size| size <= left);
            let next = match self {
                Self::Padded if left >= largest => largest,
                Self::Padded => sizes.iter().copied().find(|&size| size >= left)?,
                Self::Pieces => filled.unwrap_or(smallest),
                Self::Chunks(size) if sizes.contains(&size) => size,
                Self::Chunks(_) => return None,
            };
            graphs.try_push(next).ok()?;
            left = left.saturating_sub(next);
        }
        Some(graphs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::profile::Profile;

    fn npu() -> SystolicArrays {
        Profile::load("snapdragon-8gen3").unwrap().npu.unwrap().systolic.unwrap()
    }

    fn graphs(cover: GraphCover, rows: u32) -> Vec<u32> {
        cover.graphs(rows, &npu()).unwrap().to_vec()
    }

    #[test]
    fn three_hundred_rows_are_padded_to_512_or_cut_in_256_32_and_a_padded_32() {
        assert_eq!(graphs(GraphCover::Padded, 300), [512]);
        assert_eq!(graphs(GraphCover::Pieces, 300), [256, 32, 32]);
        assert_eq!(graphs(GraphCover::Chunks(256), 300), [256, 256]);
    }

    #[test]
    fn more_rows_than_the_largest_graph_take_several() {
        assert_eq!(graphs(GraphCover::Padded, 1787), [1024, 1024]);
        assert_eq!(graphs(GraphCover::Pieces, 1787), [1024, 512, 128, 64, 32, 32]);
    }

    #[test]
    fn a_missing_size_of_graph_covers_nothing() {
        assert_eq!(GraphCover::Chunks(100).graphs(300, &npu()), None);
        assert_eq!(GraphCover::Chunks(32).graphs(1 << 20, &npu()), None, "too many");
    }
}
