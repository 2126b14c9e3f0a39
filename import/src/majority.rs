//! The prevailing number format.

use coexec_sim::DataType;

/// The format with the most elements; ties go to the last one in `order`. A format may occur several times in
/// `counts`. `None` where there are no elements.
pub(super) fn most<const N: usize>(
    order: [DataType; N],
    counts: impl IntoIterator<Item = (DataType, u64)>,
) -> Option<DataType> {
    let mut totals = order.map(|format| (format, 0_u64));
    for (format, count) in counts {
        for (_, total) in totals.iter_mut().filter(|total| total.0 == format) {
            // The extents of a damaged file may be arbitrarily large.
            *total = total.saturating_add(count);
        }
    }
    totals.into_iter().filter(|total| total.1 > 0).max_by_key(|total| total.1).map(|total| total.0)
}
