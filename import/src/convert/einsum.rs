//! Einsum equations as matrix products.

use std::collections::HashSet;

use super::product::split_matrix;
use super::{Conversion, Converter, unknown, unsound};
use crate::model::{SourceNode, as_extent, elements};
use crate::view::View;
use coexec_sim::workload::GenericKind;

/// The label of an axis: a letter, or a number above all letters for axes of an ellipsis.
type Label = u32;

/// First label of an ellipsis' axes, which are counted from the last.
const DOTS: Label = 0x11_0000;

/// Maximum number of operands of an equation; the work grows with its square.
const MAX_TERMS: usize = 64;

/// A tensor with the labels of its axes.
struct Term {
    view: View,
    labels: Vec<Label>,
    /// Whether it is constant.
    trained: bool,
}

impl Converter<'_> {
    pub(super) fn einsum(&mut self, node: &SourceNode, equation: &str) -> Conversion<View> {
        let sides = equation.split_once("->");
        let (left, right) = sides.map_or((equation, None), |(left, right)| (left, Some(right)));
        let mut terms = Vec::new();
        for (operand, text) in left.split(',').enumerate() {
            if operand == MAX_TERMS {
                return unknown(format!("an equation of more than {MAX_TERMS} operands"));
            }
            let view = self.view(node, operand)?;
            let labels = labels(text, view.extents.len())?;
            let trained = self.constant(node, operand).is_some();
            terms.push(Term { view, labels, trained });
        }
        let wanted = wanted(&terms, right)?;
        let mut terms = terms.into_iter();
        let Some(mut product) = terms.next() else { return unsound("an equation without operands") };
        let mut rest: Vec<Term> = terms.collect();
        rest.reverse();
        while let Some(next) = rest.pop() {
            let later = rest.iter().flat_map(|term| &term.labels);
            let kept: HashSet<Label> = wanted.iter().chain(later).copied().collect();
            product = self.contracted(product, next, &kept)?;
        }
        let kept: HashSet<Label> = wanted.iter().copied().collect();
        let product = self.summed(product, |label| kept.contains(&label))?;
        let place = |label: &Label| product.labels.iter().position(|other| other == label);
        let Some(permutation) = wanted.iter().map(place).collect::<Option<Vec<usize>>>() else {
            return unsound("an axis of the result that no operand has");
        };
        if permutation.len() != product.labels.len() {
            return unsound("an axis of the result twice");
        }
        Ok(product.view.transposed(&permutation))
    }

    /// The sum over axes that are not kept, and the diagonal of repeated ones.
    fn summed(&mut self, term: Term, is_kept: impl Fn(Label) -> bool) -> Conversion<Term> {
        let mut labels = Vec::new();
        let mut extents = Vec::new();
        for (&label, &extent) in term.labels.iter().zip(&term.view.extents) {
            if is_kept(label) && !labels.contains(&label) {
                labels.push(label);
                extents.push(extent);
            }
        }
        if labels.len() == term.labels.len() {
            return Ok(term);
        }
        let view = self.like(&term.view, extents);
        let once = (GenericKind::Reduction, 1);
        let source = self.emit_generic(".sum", once, &[term.view.source], view.shape)?;
        Ok(Term { view: View { source, ..view }, labels, trained: false })
    }

    /// The product of two terms, contracted over their common axes that are not kept.
    fn contracted(&mut self, left: Term, right: Term, kept: &HashSet<Label>) -> Conversion<Term> {
        let has = |term: &Term| term.labels.iter().copied().collect::<HashSet<Label>>();
        let (in_left, in_right) = (has(&left), has(&right));
        let left = self.summed(left, |label| kept.contains(&label) || in_right.contains(&label))?;
        let right = self.summed(right, |label| kept.contains(&label) || in_left.contains(&label))?;
        let pick = |term: &Term, test: &dyn Fn(Label) -> bool| -> Vec<Label> {
            term.labels.iter().copied().filter(|&label| test(label)).collect()
        };
        let batch = pick(&left, &|label| in_right.contains(&label) && kept.contains(&label));
        let inner = pick(&left, &|label| in_right.contains(&label) && !kept.contains(&label));
        let rows = pick(&left, &|label| !in_right.contains(&label));
        let columns = pick(&right, &|label| !in_left.contains(&label));
        let (first, first_extents) = grouped(&left, [&batch, &rows, &inner])?;
        let (second, second_extents) = grouped(&right, [&batch, &inner, &columns])?;
        let view = if right.trained && batch.is_empty() {
            let (_, [depth, outputs]) = split_matrix(&second)?;
            self.linear(&first, depth, outputs, false)?
        } else {
            self.multiplied(&first, &second)?
        };
        let extents = [&first_extents[0][..], &first_extents[1][..], &second_extents[2][..]].concat();
        Ok(Term { view: view.reshaped(extents), labels: [batch, rows, columns].concat(), trained: false })
    }
}

/// A term transposed into three groups of axes, with each of the last two groups merged into one axis; and the
/// extents of the groups.
fn grouped(term: &Term, groups: [&Vec<Label>; 3]) -> Conversion<(View, [Vec<u32>; 3])> {
    let place = |label: &Label| term.labels.iter().position(|other| other == label).unwrap_or_default();
    let permutation: Vec<usize> = groups.iter().flat_map(|group| group.iter().map(place)).collect();
    if permutation.len() != term.labels.len() {
        return unknown("an axis that is named twice");
    }
    let extents =
        groups.map(|group| group.iter().map(|label| term.view.extents[place(label)]).collect::<Vec<u32>>());
    let [batch, matrix @ ..] = &extents;
    let joined =
        batch.iter().copied().chain(matrix.each_ref().map(|axes| as_extent(elements(axes)))).collect();
    Ok((term.view.transposed(&permutation).reshaped(joined), extents))
}

/// The labels of an operand's axes.
fn labels(text: &str, rank: usize) -> Conversion<Vec<Label>> {
    let letters = text.chars().filter(|letter| letter.is_alphabetic()).count();
    let mut labels = Vec::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        if letter.is_alphabetic() {
            labels.push(Label::from(letter));
        } else if let Some(after) = rest.strip_prefix("..").filter(|_| letter == '.') {
            rest = after;
            labels.extend((0..rank.saturating_sub(letters)).rev().map(|place| DOTS + place as u32));
        } else if letter != ' ' {
            return unsound(format!("the character {letter:?} in its equation"));
        }
    }
    if labels.len() != rank {
        return unsound(format!("{} labels for {rank} axes", labels.len()));
    }
    Ok(labels)
}

/// The labels of the result's axes: those in the equation, or else the axes of the ellipsis, then all
/// letters that occur once, in alphabetical order.
fn wanted(terms: &[Term], stated: Option<&str>) -> Conversion<Vec<Label>> {
    let all: Vec<Label> = terms.iter().flat_map(|term| term.labels.iter().copied()).collect();
    let mut dots: Vec<Label> = all.iter().copied().filter(|&label| label >= DOTS).collect();
    dots.sort_unstable();
    dots.dedup();
    if let Some(stated) = stated {
        let letters = stated.chars().filter(|letter| letter.is_alphabetic()).count();
        return labels(stated, letters + if stated.contains("...") { dots.len() } else { 0 });
    }
    let mut once: Vec<Label> = all.iter().copied().filter(|&label| label < DOTS).collect();
    once.retain(|label| all.iter().filter(|&other| other == label).count() == 1);
    once.sort_unstable();
    dots.reverse();
    Ok([dots, once].concat())
}
