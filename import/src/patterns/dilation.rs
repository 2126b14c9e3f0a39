//! Recognises dilated convolutions that TensorFlow writes as a convolution of images to which the pixels of each
//! block are dealt.
//!
//! Converters fold them into one node where the batch is fixed, and no kernel computes them in any other way.

use super::super::model::{
    Constant, Convolution, Extents, Model, Pads, Reshaping, SourceNode, TensorId, Work, written,
};
use super::{Links, computed, is_elementwise, result};

/// Maximum number of element-wise nodes between the convolution and the node that puts its result together.
const MAX_STEPS: usize = 4;

pub(super) fn rewrite(model: &mut Model) {
    let links = Links::of(model);
    for dealing in 0..model.nodes.len() {
        let Some(Found { path, convolution, joining }) = found(model, &links, dealing) else { continue };
        let added = added_axis(model, path[0]);
        let pads = window(model, [dealing, joining], added);
        let Some((block, pads)) = pads.filter(|_| added.is_some() == (path[0] != convolution)) else {
            continue;
        };
        if let Work::Convolution(Convolution { window, .. }) = &mut model.nodes[convolution].work {
            (window.dilation, window.pads) = (block, Pads::Explicit(pads));
        }
        for &between in &path {
            // The nodes between have as many images as a block has pixels, and the file may say so.
            if let Some(written) = result(&model.nodes[between]) {
                model.tensors[written].extents = None;
            }
            if let (Work::Reshape(reshaping), Some(axis)) = (&mut model.nodes[between].work, added) {
                *reshaping = if between < convolution { Reshaping::Unsqueeze } else { Reshaping::Squeeze };
                let axis = written(&mut model.tensors, vec![axis as i64]);
                model.nodes[between].reads = vec![model.nodes[between].operand(0), Some(axis)];
            }
        }
        model.nodes[path[0]].reads[0] = model.nodes[dealing].operand(0);
        let put_together = &mut model.nodes[joining];
        put_together.work = Work::Identity;
        put_together.reads.truncate(1);
    }
}

fn deals(node: &SourceNode, wanted: bool) -> bool {
    matches!(node.work, Work::Generic { extents: Extents::Blocks { to_batch }, .. } if to_batch == wanted)
}

/// A convolution of dealt pixels.
struct Found {
    /// The nodes from the one that reads the dealt pixels to the last before `joining`.
    path: Vec<usize>,
    convolution: usize,
    /// The node that puts the result together.
    joining: usize,
}

/// The convolution that reads what the node `dealing` writes. Rows of pixels get a second axis before it and lose it
/// after it.
fn found(model: &Model, links: &Links, dealing: usize) -> Option<Found> {
    let next = |node: usize| links.only_reader(result(&model.nodes[node])?);
    let is_reshape = |node: usize| matches!(model.nodes[node].work, Work::Reshape(_));
    let first = next(dealing).filter(|_| deals(&model.nodes[dealing], true))?;
    let convolution = if is_reshape(first) { next(first)? } else { first };
    let Work::Convolution(Convolution { window, .. }) = &model.nodes[convolution].work else { return None };
    let is_one = |extents: &[u32]| extents.iter().all(|&extent| extent == 1);
    let is_plain =
        is_one(&window.stride) && is_one(&window.dilation) && window.pads == Pads::Explicit(Vec::new());
    let mut path = if first == convolution { vec![first] } else { vec![first, convolution] };
    let mut reshapes = path.len() - 1;
    for _ in 0..=MAX_STEPS {
        let last = next(*path.last()?).filter(|_| is_plain)?;
        if deals(&model.nodes[last], false) {
            return Some(Found { path, convolution, joining: last }).filter(|_| reshapes == 0);
        }
        // A second computed tensor has dealt pixels, too.
        let is_of_one = computed(model, &model.nodes[last]).count() == 1;
        if is_reshape(last) {
            reshapes = reshapes.checked_sub(1)?;
        } else if !is_of_one || !is_elementwise(&model.nodes[last].work) {
            return None;
        }
        path.push(last);
    }
    None
}

/// The axis of one element that a reshape of rows of pixels adds; `None` for any other node.
fn added_axis(model: &Model, node: usize) -> Option<usize> {
    let extents = |tensor: Option<TensorId>| model.tensors[tensor?].extents.clone();
    let (rows, images) = (extents(model.nodes[node].operand(0))?, extents(result(&model.nodes[node]))?);
    let adds = |axis: &usize| [&rows[..*axis], &[1], &rows[*axis..]].concat() == images;
    (1..rows.len().min(3)).find(adds)
}

/// Dilation and padding of the convolution between two such nodes, of images with an `added` axis; `None` if they are
/// unknown, or cut away what was not padded.
fn window(
    model: &Model,
    [dealing, joining]: [usize; 2],
    added: Option<usize>,
) -> Option<(Vec<u32>, Vec<u32>)> {
    let numbers = |node: usize, operand: usize| {
        model.tensors[model.nodes[node].operand(operand)?].constant.as_ref().and_then(Constant::integers)
    };
    let (block, padding) = (numbers(dealing, 1)?, numbers(dealing, 2)?);
    let (joined, cropping) = (numbers(joining, 1)?, numbers(joining, 2)?);
    if block != joined || padding.len() != 2 * block.len() || cropping.len() != padding.len() {
        return None;
    }
    let mut dilation = block.into_iter().map(|side| u32::try_from(side).ok()).collect::<Option<Vec<_>>>()?;
    let around = padding.iter().zip(&cropping).map(|(&padding, &cropping)| padding.saturating_sub(cropping));
    let mut around = around.map(|around| u32::try_from(around).ok()).collect::<Option<Vec<_>>>()?;
    match (dilation.len(), added) {
        (2.., None) => {}
        // Nothing is dealt along the other axis, which is the second one if the file has both.
        (1, added) => {
            let other = added.unwrap_or(2) - 1;
            dilation.insert(other, 1);
            around.splice(2 * other..2 * other, [0, 0]);
        }
        _ => return None,
    }
    // All begins, then all ends.
    let side = |first: usize| around.iter().skip(first).step_by(2).copied();
    Some((dilation, side(0).chain(side(1)).collect()))
}
