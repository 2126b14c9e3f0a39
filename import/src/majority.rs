//! The number format that most elements have.

use coexec_sim::DataType;

/// Of formats with so many elements each, perhaps said several times, the one that most have; of equals the one that is
/// last in `order`. None where nothing has any.
pub(super) fn most<const N: usize>(
    order: [DataType; N],
    counts: impl IntoIterator<Item = (DataType, u64)>,
) -> Option<DataType> {
    let mut totals = order.map(|format| (format, 0_u64));
    for (format, count) in counts {
        for (_, total) in totals.iter_mut().filter(|total| total.0 == format) {
            // A damaged file's extents may be anything.
            *total = total.saturating_add(count);
        }
    }
    totals.into_iter().filter(|total| total.1 > 0).max_by_key(|total| total.1).map(|total| total.0)
}
