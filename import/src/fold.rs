//! Nodes that are computed now: all they read is constant.
//!
//! Responsible for: the few functions by which models compute their shapes, on
//! numbers; for weights, whose numbers are not kept, the extents. Not for: more.

use super::convert::shapes::{permutation, reshaped_extents};
use super::convert::{Step, axes, axis, elementwise::broadcast, rows, unknown, unsound};
use super::model::{
    Arithmetic, Constant, Elemental, MAX_NUMBERS, Reduction, Slicing, SplitAxis, SplitSizes, Work, as_extent,
    elements,
};
use coexec_sim::workload::MAX_ELEMENTS;

/// What `work` writes for constant operands.
pub(super) fn fold(work: &Work, operands: &[Option<&Constant>], writes: usize) -> Step<Vec<Constant>> {
    if let Work::Split { axis, sizes, squeeze } = work {
        return split(operands, *axis, sizes, *squeeze, writes);
    }
    let constant = match work {
        Work::ConstantOfShape(number) => filled(extents_in(operands, 0)?, *number)?,
        Work::Range => range(operands)?,
        Work::Where => choose(operands)?,
        Work::Concat { axis } => joined(operands, *axis, false)?,
        Work::Stack { axis } => joined(operands, *axis, true)?,
        Work::Arithmetic(arithmetic) => calculated(*arithmetic, needed(operands, 0)?, needed(operands, 1)?)?,
        Work::Gather { axis } => gathered(needed(operands, 0)?, needed(operands, 1)?, *axis)?,
        Work::Expand => {
            let from = needed(operands, 0)?;
            let extents = broadcast(&from.extents, &extents_in(operands, 1)?)?;
            let zeros = filled(extents, 0.0)?;
            calculated(Arithmetic::Add, from, &zeros)?
        }
        _ => one(work, needed(operands, 0)?, operands)?,
    };
    Ok(vec![constant])
}

/// Nodes of one operand.
fn one(work: &Work, from: &Constant, operands: &[Option<&Constant>]) -> Step<Constant> {
    Ok(match work {
        Work::Identity => from.clone(),
        // A mask, whose numbers do not matter.
        Work::Scatter => Constant { numbers: None, ..from.clone() },
        Work::Function(elemental) => {
            let numbers = from.numbers.as_ref().and_then(|numbers| {
                numbers.iter().map(|&number| function(*elemental, number)).collect::<Option<Vec<f64>>>()
            });
            Constant { numbers, ..from.clone() }
        }
        Work::Transpose(written) => {
            let order =
                permutation(written.as_deref(), operands.get(1).copied().flatten(), from.extents.len())?;
            transposed(from, &order)
        }
        Work::Reshape(reshaping) => {
            let extents = reshaped_extents(reshaping, operands.get(1).copied().flatten(), &from.extents)?;
            Constant { extents, ..from.clone() }
        }
        Work::Slice(slicing) => sliced(slicing, from, operands)?,
        Work::Reduce { reduction, axes: which, keep } => {
            let which = axes(which, operands.get(1).copied().flatten(), from.extents.len())?;
            reduced(*reduction, from, which, *keep)
        }
        _ => return unknown("it computes with constants alone, in a way that is not known"),
    })
}

fn sliced(slicing: &Slicing, from: &Constant, operands: &[Option<&Constant>]) -> Step<Constant> {
    let (ranges, extents) = rows::ranges(slicing, operands, &from.extents)?;
    let mut part = from.clone();
    for range in ranges {
        let (first, count) = (range.first as usize, range.count as usize);
        let step = range.step.unsigned_abs() as usize;
        let place = |place: usize| {
            if range.step > 0 {
                first.saturating_add(place.saturating_mul(step))
            } else {
                first + count - 1 - place
            }
        };
        part = picked(&part, range.axis, range.count, (0..count).map(place));
    }
    Ok(Constant { extents, ..part })
}

/// A reduction over axes, or over all where they are none.
fn reduced(reduction: Reduction, from: &Constant, which: Option<Vec<usize>>, keep: bool) -> Constant {
    let rank = from.extents.len();
    let reduced = which.filter(|reduced| !reduced.is_empty()).unwrap_or_else(|| (0..rank).collect());
    let extents = (0..rank)
        .filter(|axis| keep || !reduced.contains(axis))
        .map(|axis| if reduced.contains(&axis) { 1 } else { from.extents[axis] })
        .collect();
    let numbers = from.numbers.as_ref().filter(|_| reduced.len() == rank).map(|numbers| {
        vec![match reduction {
            Reduction::Product => numbers.iter().product(),
            Reduction::Max => numbers.iter().copied().fold(f64::MIN, f64::max),
            Reduction::Sum => numbers.iter().sum(),
            Reduction::Mean => numbers.iter().sum::<f64>() / numbers.len().max(1) as f64,
        }]
    });
    Constant { extents, numbers }
}

fn needed<'a>(operands: &[Option<&'a Constant>], operand: usize) -> Step<&'a Constant> {
    match operands.get(operand).copied().flatten() {
        Some(constant) => Ok(constant),
        None => unsound(format!("it has no operand {operand}")),
    }
}

/// Extents that an operand holds.
fn extents_in(operands: &[Option<&Constant>], operand: usize) -> Step<Vec<u32>> {
    match needed(operands, operand)?.integers() {
        Some(numbers) => Ok(numbers.into_iter().map(as_extent).collect()),
        None => unknown("extents that are not read"),
    }
}

/// So many equal numbers.
fn filled(extents: Vec<u32>, number: f64) -> Step<Constant> {
    let count = elements(&extents);
    if count > MAX_ELEMENTS {
        return unsound("a constant is too large");
    }
    let numbers = (count <= MAX_NUMBERS as u64).then(|| vec![number; count as usize]);
    Ok(Constant { extents, numbers })
}

fn function(elemental: Elemental, number: f64) -> Option<f64> {
    Some(match elemental {
        Elemental::Floor => number.floor(),
        Elemental::Ceil => number.ceil(),
        Elemental::Negate => -number,
        Elemental::Square => number * number,
        Elemental::Sqrt => number.sqrt(),
        Elemental::Reciprocal => number.recip(),
        Elemental::ReciprocalSqrt => number.sqrt().recip(),
        _ => return None,
    })
}

fn calculated(arithmetic: Arithmetic, left: &Constant, right: &Constant) -> Step<Constant> {
    let extents = broadcast(&left.extents, &right.extents)?;
    let count = elements(&extents);
    let is_read = arithmetic != Arithmetic::Compare && count <= MAX_NUMBERS as u64;
    let (Some(a), Some(b), true) = (&left.numbers, &right.numbers, is_read) else {
        return Ok(Constant { extents, numbers: None });
    };
    // ONNX divides whole numbers towards zero; shapes have no others.
    let whole = a.iter().chain(b).all(|number| number.fract() == 0.0);
    let of = |a: f64, b: f64| match arithmetic {
        Arithmetic::Add => a + b,
        Arithmetic::Subtract => a - b,
        Arithmetic::Multiply => a * b,
        Arithmetic::Divide if whole && b != 0.0 => (a / b).trunc(),
        Arithmetic::Divide => a / b,
        Arithmetic::Power => a.powf(b),
        Arithmetic::Maximum => a.max(b),
        Arithmetic::Minimum => a.min(b),
        Arithmetic::SquaredDifference => (a - b) * (a - b),
        Arithmetic::Equal => f64::from(u8::from((a - b).abs() < f64::EPSILON)),
        Arithmetic::Compare => f64::NAN,
        Arithmetic::Modulo => a.rem_euclid(b),
    };
    let numbers = (0..count as usize)
        .map(|index| {
            Some(of(
                *a.get(source(index, &extents, &left.extents))?,
                *b.get(source(index, &extents, &right.extents))?,
            ))
        })
        .collect();
    Ok(Constant { extents, numbers })
}

/// Index in a tensor of `from` of the element that is broadcast to `index` in `to`.
fn source(index: usize, to: &[u32], from: &[u32]) -> usize {
    let (mut rest, mut stride, mut place) = (index, 1, 0);
    for back in 1..=to.len() {
        let extent = to[to.len() - back] as usize;
        let at = rest % extent.max(1);
        rest /= extent.max(1);
        if let Some(axis) = from.len().checked_sub(back) {
            let own = from[axis] as usize;
            place += if own == 1 { 0 } else { at * stride };
            stride *= own;
        }
    }
    place
}

fn transposed(from: &Constant, order: &[usize]) -> Constant {
    let extents: Vec<u32> = order.iter().map(|&axis| from.extents[axis]).collect();
    let numbers = from.numbers.as_ref().and_then(|numbers| {
        let mut strides = vec![1_usize; from.extents.len()];
        for axis in (1..from.extents.len()).rev() {
            strides[axis - 1] = strides[axis] * from.extents[axis] as usize;
        }
        let at = |index: usize| {
            let (mut rest, mut place) = (index, 0);
            for axis in (0..extents.len()).rev() {
                let extent = (extents[axis] as usize).max(1);
                place += (rest % extent) * strides[order[axis]];
                rest /= extent;
            }
            numbers.get(place).copied()
        };
        (0..numbers.len()).map(at).collect()
    });
    Constant { extents, numbers }
}

/// Elements of an axis, at those places.
fn picked(from: &Constant, along: usize, count: u32, places: impl Iterator<Item = usize>) -> Constant {
    let mut extents = from.extents.clone();
    let extent = extents[along] as usize;
    extents[along] = count;
    let total = elements(&extents);
    let numbers = from.numbers.as_ref().filter(|_| total <= MAX_NUMBERS as u64).and_then(|numbers| {
        let places: Vec<usize> = places.collect();
        let inner = elements(&from.extents[along + 1..]) as usize;
        let outer = elements(&from.extents[..along]) as usize;
        let mut kept = Vec::with_capacity(total as usize);
        for row in 0..outer {
            for &place in &places {
                let start = (row * extent + place) * inner;
                kept.extend_from_slice(numbers.get(start..start + inner)?);
            }
        }
        Some(kept)
    });
    Constant { extents, numbers }
}

fn gathered(from: &Constant, indices: &Constant, along: i64) -> Step<Constant> {
    let along = axis(along, from.extents.len())?;
    let extent = i64::from(from.extents[along]);
    let count = as_extent(indices.elements());
    let places = indices.integers().map(|numbers| {
        let at = |number: i64| if number < 0 { number.saturating_add(extent) } else { number };
        numbers.into_iter().map(at).map(|number| usize::try_from(number).unwrap_or(0)).collect::<Vec<_>>()
    });
    let mut part = match places {
        Some(places) => {
            if places.iter().any(|&place| place as i64 >= extent) {
                return unsound("a look-up behind the end");
            }
            picked(from, along, count, places.into_iter())
        }
        None => Constant { numbers: None, ..from.clone() },
    };
    let mut extents = from.extents.clone();
    extents.splice(along..=along, indices.extents.iter().copied());
    part.extents = extents;
    Ok(part)
}

fn joined(operands: &[Option<&Constant>], along: i64, stack: bool) -> Step<Constant> {
    let parts: Vec<&Constant> = operands.iter().copied().flatten().collect();
    let Some(first) = parts.first() else { return unsound("nothing to join") };
    let rank = first.extents.len();
    let along = axis(along, rank + usize::from(stack))?;
    let mut extents = first.extents.clone();
    if stack {
        extents.insert(along, parts.len() as u32);
    } else {
        if parts.iter().any(|part| part.extents.len() != rank) {
            return unsound("constants of another number of axes are joined");
        }
        let total = parts.iter().map(|part| u64::from(part.extents[along])).sum::<u64>();
        extents[along] = as_extent(total);
    }
    let outer = elements(&first.extents[..along]) as usize;
    let total = elements(&extents);
    let known = total <= MAX_NUMBERS as u64 && parts.iter().all(|part| part.numbers.is_some());
    let numbers = known.then(|| {
        let mut kept = Vec::with_capacity(total as usize);
        for row in 0..outer {
            for part in &parts {
                let numbers = part.numbers.as_deref().unwrap_or_default();
                let each = numbers.len() / outer.max(1);
                kept.extend(numbers.iter().skip(row * each).take(each));
            }
        }
        kept
    });
    let numbers = numbers.filter(|numbers| numbers.len() as u64 == total);
    Ok(Constant { extents, numbers })
}

fn split(
    operands: &[Option<&Constant>],
    along: SplitAxis,
    sizes: &SplitSizes,
    squeeze: bool,
    writes: usize,
) -> Step<Vec<Constant>> {
    let (from, along) = match along {
        SplitAxis::Written(along) => (needed(operands, 0)?, along),
        SplitAxis::Operand(operand) => {
            let axis = needed(operands, operand)?.integers().and_then(|numbers| numbers.first().copied());
            (needed(operands, usize::from(operand == 0))?, axis.unwrap_or(0))
        }
    };
    let along = axis(along, from.extents.len())?;
    let sizes = match sizes {
        SplitSizes::Equal => None,
        SplitSizes::Written(sizes) => Some(sizes.clone()),
        SplitSizes::Operand(operand) => {
            operands.get(*operand).copied().flatten().and_then(Constant::integers)
        }
    };
    let mut first = 0;
    let mut parts = Vec::new();
    for count in rows::part_sizes(sizes, from.extents[along], writes)? {
        let mut part = picked(from, along, count, first..first + count as usize);
        if squeeze {
            part.extents.remove(along);
        }
        parts.push(part);
        first += count as usize;
    }
    Ok(parts)
}

fn range(operands: &[Option<&Constant>]) -> Step<Constant> {
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
    let numbers = (count <= MAX_NUMBERS as f64)
        .then(|| (0..count as u32).map(|n| start + f64::from(n) * step).collect());
    Ok(Constant { extents, numbers })
}

fn choose(operands: &[Option<&Constant>]) -> Step<Constant> {
    let (which, yes, no) = (needed(operands, 0)?, needed(operands, 1)?, needed(operands, 2)?);
    let extents = broadcast(&which.extents, &broadcast(&yes.extents, &no.extents)?)?;
    let count = elements(&extents);
    let (Some(w), Some(y), Some(n), true) =
        (&which.numbers, &yes.numbers, &no.numbers, count <= MAX_NUMBERS as u64)
    else {
        return Ok(Constant { extents, numbers: None });
    };
    let numbers = (0..count as usize)
        .map(|index| {
            let holds = *w.get(source(index, &extents, &which.extents))? != 0.0;
            let (numbers, from) = if holds { (y, &yes.extents) } else { (n, &no.extents) };
            numbers.get(source(index, &extents, from)).copied()
        })
        .collect();
    Ok(Constant { extents, numbers })
}
