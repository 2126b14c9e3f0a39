//! Constant folding: values of nodes whose operands are constant.
//!
//! Responsible for: the few functions by which models compute shapes. Not for: the extents of results, which
//! `convert/extents.rs` infers, or selecting and reordering elements, which `convert.rs` does for all tensors.

use super::convert::{Conversion, axis, join, unsound};
use super::model::{Arithmetic, Comparison, Constant, Elemental, Reduction, as_extent};
use coexec_sim::workload::MAX_ELEMENTS;

/// A reduction of all numbers.
pub(super) fn reduction(reduction: Reduction, numbers: &[f64]) -> f64 {
    match reduction {
        Reduction::Product => numbers.iter().product(),
        Reduction::Max => numbers.iter().copied().fold(f64::MIN, f64::max),
        Reduction::Min => numbers.iter().copied().fold(f64::MAX, f64::min),
        Reduction::Sum => numbers.iter().sum(),
        Reduction::Mean => numbers.iter().sum::<f64>() / numbers.len().max(1) as f64,
    }
}

/// A function of a number; `None` for functions that shape computations do not use.
pub(super) fn function(elemental: Elemental, number: f64) -> Option<f64> {
    match elemental {
        Elemental::Floor => Some(number.floor()),
        Elemental::Ceil => Some(number.ceil()),
        Elemental::Truncate => Some(number.trunc()),
        Elemental::Negate => Some(-number),
        Elemental::Not => Some(truth(number == 0.0)),
        Elemental::Square => Some(number * number),
        Elemental::Sqrt => Some(number.sqrt()),
        Elemental::Reciprocal => Some(number.recip()),
        Elemental::ReciprocalSqrt => Some(number.sqrt().recip()),
        Elemental::Known(_)
        | Elemental::Clip
        | Elemental::Erf
        | Elemental::Cheap
        | Elemental::Transcendental => None,
    }
}

/// Arithmetic on operands that broadcast to `extents`; `None` stands for an operand that is not constant.
pub(super) fn calculated(
    arithmetic: Arithmetic,
    extents: Vec<u32>,
    operands: &[Option<&Constant>],
) -> Constant {
    // ONNX truncates integer division towards zero. Shapes are integers unless they were cast.
    let mut all = operands.iter().flatten().flat_map(|operand| operand.numbers.iter().flatten());
    let is_whole = all.all(|number| number.fract() == 0.0);
    let of = |a: f64, b: f64| match arithmetic {
        Arithmetic::Add | Arithmetic::Mean => a + b,
        Arithmetic::Subtract => a - b,
        Arithmetic::Multiply => a * b,
        Arithmetic::Divide if is_whole && b != 0.0 => (a / b).trunc(),
        Arithmetic::Divide | Arithmetic::DivideFloats => a / b,
        Arithmetic::FloorDivide => (a / b).floor(),
        Arithmetic::Power => a.powf(b),
        Arithmetic::Maximum => a.max(b),
        Arithmetic::Minimum => a.min(b),
        Arithmetic::SquaredDifference => (a - b) * (a - b),
        Arithmetic::Prelu => a.max(0.0) + b * a.min(0.0),
        Arithmetic::Modulo => (a % b + b) % b,
        Arithmetic::Comparison(comparison) => truth(match comparison {
            Comparison::Equal => is_equal(a, b),
            Comparison::NotEqual => !is_equal(a, b),
            Comparison::Greater => a > b,
            Comparison::GreaterOrEqual => a >= b,
            Comparison::Less => a < b,
            Comparison::LessOrEqual => a <= b,
            Comparison::And => a != 0.0 && b != 0.0,
            Comparison::Or => a != 0.0 || b != 0.0,
            Comparison::Xor => (a != 0.0) != (b != 0.0),
        }),
    };
    let joined = |left: Option<f64>, right: Option<f64>| match (left, right) {
        (Some(left), Some(right)) => Some(of(left, right)),
        (Some(one), None) | (None, Some(one)) => determined_by(arithmetic, one),
        (None, None) => None,
    };
    let parts = if arithmetic == Arithmetic::Mean { operands.len() as f64 } else { 1.0 };
    Constant::built(extents, |place| {
        let all = operands.iter().map(|operand| (*operand)?.at(place)).reduce(joined)??;
        Some(all / parts)
    })
}

/// The result of a logical connective that one operand determines, whatever the other is.
fn determined_by(arithmetic: Arithmetic, one: f64) -> Option<f64> {
    let Arithmetic::Comparison(comparison) = arithmetic else { return None };
    let is_determined =
        (comparison == Comparison::And && one == 0.0) || (comparison == Comparison::Or && one != 0.0);
    is_determined.then(|| truth(one != 0.0))
}

fn is_equal(one: f64, other: f64) -> bool {
    (one - other).abs() < f64::EPSILON
}

fn truth(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

/// Elements of a constant along an axis, at the indices in another.
pub(super) fn gathered(from: &Constant, indices: &Constant, along: i64) -> Conversion<Constant> {
    let along = axis(along, from.extents.len())?;
    let extent = i64::from(from.extents[along]);
    let count = as_extent(indices.elements());
    let part = match indices.integers() {
        Some(mut places) => {
            for place in &mut places {
                *place = if *place < 0 { place.saturating_add(extent).max(0) } else { *place };
            }
            if places.iter().any(|&place| place >= extent) {
                return unsound("an index is out of range");
            }
            from.picked(along, count, |place| places[place] as usize)
        }
        None => Constant { numbers: None, ..from.clone() },
    };
    let mut extents = from.extents.clone();
    extents.splice(along..=along, indices.extents.iter().copied());
    Ok(Constant { extents, ..part })
}

/// The second of `values` where the position along an axis is the index in `places`, the first elsewhere.
pub(super) fn one_hot(extents: Vec<u32>, along: usize, places: &Constant, values: &Constant) -> Constant {
    let depth = f64::from(extents[along]);
    Constant::built(extents, |place| {
        let mut outer = place.to_vec();
        let at = outer.remove(along) as f64;
        let wanted = places.at(&outer)?;
        let wanted = if wanted < 0.0 { wanted + depth } else { wanted };
        values.numbers.as_ref()?.get(usize::from((at - wanted).abs() < f64::EPSILON)).copied()
    })
}

/// Concatenates constants along an axis, or stacks them along a new one.
pub(super) fn joined(mut parts: Vec<Constant>, along: i64, is_new: bool) -> Conversion<Constant> {
    let mut place = 0;
    for part in &mut parts {
        place = axis(along, part.extents.len() + usize::from(is_new))?;
        if is_new {
            part.extents.insert(place, 1);
        }
    }
    let extents = join::joined_extents(parts.iter().map(|part| &part.extents[..]), place)?;
    let extent = |part: &Constant| part.extents[place] as usize;
    let ends = parts.iter().scan(0, |end, part| {
        *end += extent(part);
        Some(*end)
    });
    let ends: Vec<usize> = ends.collect();
    let number = |at: &[usize]| {
        let mut at = at.to_vec();
        let index = ends.partition_point(|&end| end <= at[place]);
        at[place] -= ends.get(index)? - extent(&parts[index]);
        parts[index].at(&at)
    };
    Ok(Constant::built(extents, number))
}

/// Number of elements from `start` up to but excluding `limit`, `step` apart.
pub(super) fn range([start, limit, step]: [f64; 3]) -> Conversion<u32> {
    let count = ((limit - start) / step).ceil().max(0.0);
    if !count.is_finite() || count > MAX_ELEMENTS as f64 {
        return unsound("a range is infinite or too long");
    }
    Ok(as_extent(count as u64))
}
