//! Operations without a row in the GPU table of the mobile-ml-benchmark data set,
//! recovered from the numbers that kernel names skip.
//!
//! Responsible for: the number of operations missing before a row, and the side of its
//! input before padding (CPU model, recovery of hidden operations). Not for: the operators
//! assumed in their place, which differ between CPU and GPU. Invariant: rows are given in
//! the order of the table.

use std::collections::BTreeSet;

use super::benchmark_gpu::operators::LINK;
use super::benchmark_gpu::{FUSED_KERNEL, KERNEL_SUFFIX};
use super::benchmark_table::Table;
use coexec_sim::{InputError, Operator};

/// Side of the images that all networks of the data set read.
const IMAGE_SIDE: u32 = 224;
/// Most rows that padding adds to an image. A side that is larger by more comes from an
/// operation without a row.
const MAX_PADDED_ROWS: u32 = 8;
/// Rows that the smallest padded window, 3x3, adds to a side.
const MIN_PADDED_ROWS: u32 = 2;
/// Most operations without a row between two rows; the data set has at most six.
const MAX_HIDDEN: u32 = 64;

/// The column whose kernel names link the most functions: the most informative phone, as
/// Winograd and merged kernels name fewer.
///
/// # Errors
/// The table names no kernels.
pub(super) fn most_linked_column(table: &Table<'_>) -> Result<usize, InputError> {
    let links = |column: usize| -> usize {
        let names = table.records.iter().filter_map(|(_, record)| record.get(column));
        names.map(|name| name.matches(LINK).count()).sum()
    };
    let is_kernel = |column: &usize| table.header[*column].ends_with(KERNEL_SUFFIX);
    // `max_by_key` returns the last of equals, which is the first column once reversed.
    let most = (0..table.header.len()).rev().filter(is_kernel).max_by_key(|&column| links(column));
    most.map_or_else(|| table.needed(KERNEL_SUFFIX), Ok)
}

/// The gap between a row and the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    /// Side of the row's input before its padding.
    pub(super) side: u32,
    /// Whether the row's input is a padded one of that side.
    pub(super) padded: bool,
    /// Number of operations without a row, not counting the padding.
    pub(super) missing: u32,
}

/// State after the rows of a network so far.
#[derive(Clone, Debug)]
pub(super) struct Gaps {
    /// Sides of the tensors so far.
    sides: BTreeSet<u32>,
    /// Number of the next operation in the graph, if none is missing.
    next: u32,
}

impl Default for Gaps {
    fn default() -> Self {
        Self { sides: BTreeSet::from([IMAGE_SIDE]), next: 0 }
    }
}

impl Gaps {
    /// The gap before `operator`, which reads an image of `input_side` (padding included)
    /// and runs as the kernel of that name.
    ///
    /// # Errors
    /// The name has no number, or too many operations are missing.
    pub(super) fn before(
        &mut self,
        operator: &Operator,
        input_side: u32,
        kernel: &str,
    ) -> Result<Gap, String> {
        let numbers: Vec<u32> = kernel.split(LINK).flat_map(numbers).collect();
        let (Some(&first), Some(&last)) = (numbers.first(), numbers.last()) else {
            return Err(format!("the kernel {kernel:?} names no operation of the graph"));
        };
        let mut gap = Gap { side: input_side, padded: false, missing: first.saturating_sub(self.next) };
        self.next = self.next.max(last.saturating_add(1));
        if operator.window().is_some() && input_side > 1 && !self.sides.contains(&input_side) {
            let before = self.sides.range(..input_side).next_back();
            let unpadded = before.copied().unwrap_or(input_side.saturating_sub(MIN_PADDED_ROWS));
            // The padding has a number too.
            gap.missing = gap.missing.saturating_sub(1);
            if input_side - unpadded <= MAX_PADDED_ROWS {
                gap = Gap { side: unpadded, padded: true, ..gap };
            }
        }
        if gap.missing > MAX_HIDDEN {
            return Err(format!("{} operations are missing before {kernel:?}", gap.missing));
        }
        if !matches!(operator, Operator::Mean(_) | Operator::Linear(_)) {
            self.sides.insert(operator.output().height);
        }
        Ok(gap)
    }
}

/// The number at the end of a name: `relu_2`. A merged kernel has the numbers of all
/// operations that it merges.
fn numbers(name: &str) -> Vec<u32> {
    match name.strip_prefix(FUSED_KERNEL) {
        Some(merged) => merged.split('_').filter_map(|digits| digits.parse().ok()).collect(),
        None => name.rsplit_once('_').and_then(|(_, digits)| digits.parse().ok()).into_iter().collect(),
    }
}
