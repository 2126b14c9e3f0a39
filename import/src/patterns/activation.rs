//! Recognises decomposed GELU, swish and hard swish.
//!
//! All are products of `x` and a function of `x`. The match starts at the error function,
//! the sigmoid or the clip, goes backwards over element-wise nodes to `x`, and forwards to
//! the product.

use std::iter::successors;

use super::super::model::{Arithmetic, Elemental, Model, SourceNode, TensorId, Work};
use super::{Links, computed, constant_elements, is_elementwise, result};
use coexec_sim::Function;

/// Maximum number of nodes from `x` to the function, and from the function to the product.
const MAX_STEPS: usize = 8;

/// Arithmetic that scales by a factor or its reciprocal.
const FACTORS: [Arithmetic; 3] = [Arithmetic::Multiply, Arithmetic::Divide, Arithmetic::DivideFloats];

pub(super) fn rewrite(model: &mut Model) {
    let links = Links::of(model);
    for index in 0..model.nodes.len() {
        let Some(function) = product_with(&model.nodes[index].work) else { continue };
        if let Some((from, last)) = found(model, &links, index) {
            replace(model, last, from, function);
        } else if let Some((from, last)) = hard_sigmoid(model, &links, index) {
            replace(model, last, from, Function::HardSigmoid);
        }
    }
}

fn replace(model: &mut Model, node: usize, from: TensorId, function: Function) {
    let node = &mut model.nodes[node];
    node.work = Work::Function(Elemental::Known(function));
    node.reads = vec![Some(from)];
}

/// The activation that is the product of `x` and this function of `x`.
fn product_with(work: &Work) -> Option<Function> {
    match work {
        Work::Function(Elemental::Erf | Elemental::Known(Function::Tanh)) => Some(Function::Gelu),
        Work::Function(Elemental::Known(Function::Sigmoid)) => Some(Function::Silu),
        Work::Function(Elemental::Clip | Elemental::Known(Function::Relu6 | Function::HardSigmoid)) => {
            Some(Function::HardSwish)
        }
        _ => None,
    }
}

/// For the function at node `key`: the tensor `x`, and the last node of the activation.
fn found(model: &Model, links: &Links, key: usize) -> Option<(TensorId, usize)> {
    // Frameworks have no kernel for x times the sigmoid of 1.702 x and run all three nodes, so nothing may scale x.
    let is_exact = model.nodes[key].work == Work::Function(Elemental::Known(Function::Sigmoid));
    let before = |&from: &TensorId| {
        let writer = &model.nodes[links.writer[from]?];
        let belongs = if is_exact { writer.work == Work::Identity } else { is_elementwise(&writer.work) };
        computed(model, writer).next().filter(|_| belongs)
    };
    let mut from = successors(model.nodes[key].operand(0), before).take(MAX_STEPS);
    from.find_map(|from| Some((from, forwards(model, links, key, from)?)))
}

/// The last node of the activation: the product, or a factor after it.
fn forwards(model: &Model, links: &Links, key: usize, from: TensorId) -> Option<usize> {
    let mut current = result(&model.nodes[key])?;
    let mut last = None;
    for _ in 0..MAX_STEPS {
        let Some(reader) = links.only_reader_of_copies(model, current) else { break };
        let node = &model.nodes[reader];
        let Work::Arithmetic(arithmetic) = node.work else { break };
        let is_scaled = constant_elements(model, node) == Some(1);
        let is_of_x =
            |&operand: &TensorId| operand != current && derives(model, links, operand, from, MAX_STEPS);
        let is_product = || {
            let is_pair = arithmetic == Arithmetic::Multiply && node.reads.len() == 2;
            is_pair && node.reads.iter().flatten().any(is_of_x)
        };
        last = match last {
            None if is_scaled => None,
            None if is_product() => Some(reader),
            // After the product, only a factor belongs to the activation.
            Some(_) if is_scaled && FACTORS.contains(&arithmetic) => Some(reader),
            Some(_) | None => break,
        };
        let Some(next) = result(node) else { break };
        current = next;
    }
    last
}

/// Whether `tensor` is computed from `from` by scalar arithmetic alone.
fn derives(model: &Model, links: &Links, tensor: TensorId, from: TensorId, steps: usize) -> bool {
    if tensor == from {
        return true;
    }
    let Some(writer) = links.writer[tensor].map(|writer| &model.nodes[writer]) else { return false };
    let is_scaled = matches!(writer.work, Work::Arithmetic(_)) && constant_elements(model, writer) == Some(1);
    steps > 0
        && (is_scaled || writer.work == Work::Identity)
        && computed(model, writer)
            .next()
            .is_some_and(|operand| derives(model, links, operand, from, steps - 1))
}

/// A clip of `x` plus a scalar, times a scalar: the hard sigmoid without the product.
fn hard_sigmoid(model: &Model, links: &Links, key: usize) -> Option<(TensorId, usize)> {
    let node = &model.nodes[key];
    if !matches!(node.work, Work::Function(Elemental::Clip | Elemental::Known(Function::Relu6))) {
        return None;
    }
    let is_scalar = |node: &SourceNode, wanted: &[Arithmetic]| {
        matches!(node.work, Work::Arithmetic(found) if wanted.contains(&found))
            && constant_elements(model, node) == Some(1)
    };
    let sum = &model.nodes[links.writer_of_original(model, node.operand(0)?)?];
    let reader = links.only_reader_of_copies(model, result(node)?)?;
    let is_one = is_scalar(sum, &[Arithmetic::Add]) && is_scalar(&model.nodes[reader], &FACTORS);
    if is_one { Some((computed(model, sum).next()?, reader)) } else { None }
}
