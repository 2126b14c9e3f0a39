//! Nodes that are computed now: all they read is constant.
//!
//! Responsible for: the few functions by which models compute their shapes, on
//! numbers; for weights, whose numbers are not kept, the extents. Not for: what only
//! picks or reorders elements, which `convert.rs` does with every tensor.

use super::convert::reduce::{reduced, reduced_axes};
use super::convert::{Step, axis, elementwise::broadcast, join, unknown, unsound};
use super::model::{Arithmetic, Constant, Elemental, Reduction, Work, as_extent};
use coexec_sim::workload::MAX_ELEMENTS;

/// Operands of a node, as far as they are there.
type Operands<'a> = [Option<&'a Constant>];

/// What `work` writes for constant operands.
pub(super) fn fold(work: &Work, operands: &Operands<'_>) -> Step<Constant> {
    match work {
        Work::ConstantOfShape(number) => Ok(Constant::built(extents_in(operands, 0)?, |_| Some(*number))),
        Work::Range => range(operands),
        Work::Where => choose(operands),
        Work::Concat { axis, is_new } => joined(given(operands), *axis, *is_new),
        Work::Arithmetic(arithmetic) => {
            let first = needed(operands, 0)?.clone();
            let others = operands[1..].iter().flatten();
            others.copied().try_fold(first, |sum, other| calculated(*arithmetic, &sum, other))
        }
        Work::Gather { axis } => gathered(needed(operands, 0)?, needed(operands, 1)?, *axis),
        Work::Expand => {
            let from = needed(operands, 0)?;
            let extents = broadcast(&from.extents, &extents_in(operands, 1)?)?;
            Ok(Constant::built(extents, |place| from.at(place)))
        }
        // A mask, whose numbers do not matter.
        Work::Scatter => Ok(Constant { numbers: None, ..needed(operands, 0)?.clone() }),
        Work::Function(elemental) => {
            let from = needed(operands, 0)?;
            Ok(Constant::built(from.extents.clone(), |place| function(*elemental, from.at(place)?)))
        }
        Work::Reduce { reduction, keep } => {
            reduction_of(*reduction, needed(operands, 0)?, operands.get(1).copied().flatten(), *keep)
        }
        Work::Convolution { .. }
        | Work::TransposedConvolution { .. }
        | Work::Product { .. }
        | Work::Pool { .. }
        | Work::GlobalPool(_)
        | Work::AlongAxis { .. }
        | Work::SkipNorm { .. }
        | Work::BatchNorm
        | Work::Reshape(_)
        | Work::Transpose
        | Work::Slice(_)
        | Work::Split { .. }
        | Work::Pad
        | Work::Tile
        | Work::Resize(_)
        | Work::BlockRearrangement { .. }
        | Work::Shape { .. }
        | Work::Size
        | Work::Identity
        | Work::Generic { .. }
        | Work::Linear { .. }
        | Work::Recurrent { .. }
        | Work::Attention(_)
        | Work::LinearAttention(_)
        | Work::Einsum(_)
        | Work::GroupNorm { .. }
        | Work::EmbeddingNorm
        | Work::Choice
        | Work::List(_)
        | Work::Rounds(_)
        | Work::Unknown(_) => unknown("it computes with constants alone, in a way that is not known"),
    }
}

/// A reduction over axes.
fn reduction_of(
    reduction: Reduction,
    from: &Constant,
    over: Option<&Constant>,
    keep: bool,
) -> Step<Constant> {
    let axes = &reduced_axes(over, from.extents.len())?;
    let numbers = from.numbers.as_ref().filter(|_| axes.len() == from.extents.len()).map(|numbers| {
        vec![match reduction {
            Reduction::Product => numbers.iter().product(),
            Reduction::Max => numbers.iter().copied().fold(f64::MIN, f64::max),
            Reduction::Min => numbers.iter().copied().fold(f64::MAX, f64::min),
            Reduction::Sum => numbers.iter().sum(),
            Reduction::Mean => numbers.iter().sum::<f64>() / numbers.len().max(1) as f64,
        }]
    });
    Ok(Constant { extents: reduced(&from.extents, axes, keep), numbers })
}

/// Those that are there.
fn given(operands: &Operands<'_>) -> Vec<Constant> {
    operands.iter().copied().flatten().cloned().collect()
}

fn needed<'a>(operands: &Operands<'a>, operand: usize) -> Step<&'a Constant> {
    match operands.get(operand).copied().flatten() {
        Some(constant) => Ok(constant),
        None => unsound(format!("it has no operand {operand}")),
    }
}

/// Extents that an operand holds.
fn extents_in(operands: &Operands<'_>, operand: usize) -> Step<Vec<u32>> {
    match needed(operands, operand)?.integers() {
        Some(numbers) => Ok(numbers.into_iter().map(as_extent).collect()),
        None => unknown("extents that are not read"),
    }
}

fn function(elemental: Elemental, number: f64) -> Option<f64> {
    match elemental {
        Elemental::Floor => Some(number.floor()),
        Elemental::Ceil => Some(number.ceil()),
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

fn calculated(arithmetic: Arithmetic, left: &Constant, right: &Constant) -> Step<Constant> {
    let extents = broadcast(&left.extents, &right.extents)?;
    // ONNX divides whole numbers towards zero; shapes have no others.
    let mut numbers = [left, right].into_iter().flat_map(|operand| operand.numbers.iter().flatten());
    let whole = numbers.all(|number| number.fract() == 0.0);
    let of = |a: f64, b: f64| {
        Some(match arithmetic {
            Arithmetic::Add => a + b,
            Arithmetic::Subtract => a - b,
            Arithmetic::Multiply => a * b,
            Arithmetic::Divide if whole && b != 0.0 => (a / b).trunc(),
            Arithmetic::Divide => a / b,
            Arithmetic::Power => a.powf(b),
            Arithmetic::Maximum => a.max(b),
            Arithmetic::Minimum => a.min(b),
            Arithmetic::SquaredDifference => (a - b) * (a - b),
            Arithmetic::Prelu => a.max(0.0) + b * a.min(0.0),
            Arithmetic::Equal => truth((a - b).abs() < f64::EPSILON),
            Arithmetic::Greater => truth(a > b),
            Arithmetic::GreaterOrEqual => truth(a >= b),
            Arithmetic::Less => truth(a < b),
            Arithmetic::LessOrEqual => truth(a <= b),
            Arithmetic::And => truth(a != 0.0 && b != 0.0),
            Arithmetic::Or => truth(a != 0.0 || b != 0.0),
            Arithmetic::Xor => truth((a != 0.0) != (b != 0.0)),
            Arithmetic::Modulo => a.rem_euclid(b),
        })
    };
    Ok(Constant::built(extents, |place| match (left.at(place), right.at(place)) {
        (Some(left), Some(right)) => of(left, right),
        (Some(one), None) | (None, Some(one)) => decided(arithmetic, one),
        (None, None) => None,
    }))
}

/// What a condition is that one operand decides, whatever the other holds.
pub(super) fn decided(arithmetic: Arithmetic, one: f64) -> Option<f64> {
    let is_decided =
        (arithmetic == Arithmetic::And && one == 0.0) || (arithmetic == Arithmetic::Or && one != 0.0);
    is_decided.then(|| truth(one != 0.0))
}

fn truth(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

fn gathered(from: &Constant, indices: &Constant, along: i64) -> Step<Constant> {
    let along = axis(along, from.extents.len())?;
    let extent = i64::from(from.extents[along]);
    let count = as_extent(indices.elements());
    let part = match indices.integers() {
        Some(mut places) => {
            for place in &mut places {
                *place = if *place < 0 { place.saturating_add(extent).max(0) } else { *place };
            }
            if places.iter().any(|&place| place >= extent) {
                return unsound("a look-up behind the end");
            }
            from.picked(along, count, |place| places[place] as usize)
        }
        None => Constant { numbers: None, ..from.clone() },
    };
    let mut extents = from.extents.clone();
    extents.splice(along..=along, indices.extents.iter().copied());
    Ok(Constant { extents, ..part })
}

/// Constants one after the other along an axis, perhaps a new one.
pub(super) fn joined(mut parts: Vec<Constant>, along: i64, is_new: bool) -> Step<Constant> {
    let mut place = 0;
    for part in &mut parts {
        place = axis(along, part.extents.len() + usize::from(is_new))?;
        if is_new {
            part.extents.insert(place, 1);
        }
    }
    let extents = join::joined_extents(parts.iter().map(|part| &part.extents[..]), place)?;
    let number = |at: &[usize]| {
        let mut at = at.to_vec();
        let part = parts.iter().find(|part| {
            let extent = part.extents[place] as usize;
            let is_inside = at[place] < extent;
            at[place] -= if is_inside { 0 } else { extent };
            is_inside
        });
        part?.at(&at)
    };
    Ok(Constant::built(extents, number))
}

fn range(operands: &Operands<'_>) -> Step<Constant> {
    let number = |operand: usize| {
        needed(operands, operand).map(|constant| constant.numbers.as_ref()?.first().copied())
    };
    let (Some(start), Some(limit), Some(step)) = (number(0)?, number(1)?, number(2)?) else {
        return unknown("a range whose bounds are not read");
    };
    let count = ((limit - start) / step).ceil().max(0.0);
    if !count.is_finite() || count > MAX_ELEMENTS as f64 {
        return unsound("a range without an end");
    }
    let extents = vec![as_extent(count as u64)];
    Ok(Constant::built(extents, |place| Some(start + place[0] as f64 * step)))
}

fn choose(operands: &Operands<'_>) -> Step<Constant> {
    let (which, yes, no) = (needed(operands, 0)?, needed(operands, 1)?, needed(operands, 2)?);
    let extents = broadcast(&which.extents, &broadcast(&yes.extents, &no.extents)?)?;
    let number = |place: &[usize]| if which.at(place)? == 0.0 { no.at(place) } else { yes.at(place) };
    Ok(Constant::built(extents, number))
}
