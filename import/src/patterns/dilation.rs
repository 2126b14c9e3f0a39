//! Recognises dilated convolutions that TensorFlow writes as a convolution of images to which the pixels of each
//! block are dealt.
//!
//! Converters fold them into one node where the batch is fixed, and no kernel computes them in any other way.

use super::super::model::{Constant, Convolution, Extents, Model, Pads, SourceNode, Work};
use super::{Links, computed, is_elementwise, result};

/// Maximum number of element-wise nodes between the convolution and the node that puts its result together.
const MAX_STEPS: usize = 4;

pub(super) fn rewrite(model: &mut Model) {
    let links = Links::of(model);
    for dealing in 0..model.nodes.len() {
        let Some([convolution, joining]) = found(model, &links, dealing) else { continue };
        let Some((block, pads)) = window(model, [dealing, joining]) else { continue };
        if let Work::Convolution(Convolution { window, .. }) = &mut model.nodes[convolution].work {
            (window.dilation, window.pads) = (block, Pads::Explicit(pads));
        }
        // The nodes between have as many images as a block has pixels, and the file may say so.
        let mut between = convolution;
        while between != joining {
            let Some(written) = result(&model.nodes[between]) else { break };
            model.tensors[written].extents = None;
            let Some(next) = links.only_reader(written) else { break };
            between = next;
        }
        model.nodes[convolution].reads[0] = model.nodes[dealing].operand(0);
        let put_together = &mut model.nodes[joining];
        put_together.work = Work::Identity;
        put_together.reads.truncate(1);
    }
}

fn deals(node: &SourceNode, wanted: bool) -> bool {
    matches!(node.work, Work::Generic { extents: Extents::Blocks { to_batch }, .. } if to_batch == wanted)
}

/// The convolution that reads what the node `dealing` writes, and the node that puts its result together.
fn found(model: &Model, links: &Links, dealing: usize) -> Option<[usize; 2]> {
    let node = &model.nodes[dealing];
    let convolution = links.only_reader(result(node)?).filter(|_| deals(node, true))?;
    let Work::Convolution(Convolution { window, .. }) = &model.nodes[convolution].work else { return None };
    let is_one = |extents: &[u32]| extents.iter().all(|&extent| extent == 1);
    let is_plain =
        is_one(&window.stride) && is_one(&window.dilation) && window.pads == Pads::Explicit(Vec::new());
    let mut last = Some(convolution).filter(|_| is_plain)?;
    for _ in 0..=MAX_STEPS {
        last = links.only_reader(result(&model.nodes[last])?)?;
        if deals(&model.nodes[last], false) {
            return Some([convolution, last]);
        }
        // A second computed tensor has dealt pixels, too.
        let is_of_one = computed(model, &model.nodes[last]).count() == 1;
        if !is_of_one || !is_elementwise(&model.nodes[last].work) {
            return None;
        }
    }
    None
}

/// Dilation and padding of the convolution between two such nodes; `None` if they are unknown, or cut away what was
/// not padded.
fn window(model: &Model, [dealing, joining]: [usize; 2]) -> Option<(Vec<u32>, Vec<u32>)> {
    let numbers = |node: usize, operand: usize| {
        model.tensors[model.nodes[node].operand(operand)?].constant.as_ref().and_then(Constant::integers)
    };
    let (block, padding) = (numbers(dealing, 1)?, numbers(dealing, 2)?);
    let (joined, cropping) = (numbers(joining, 1)?, numbers(joining, 2)?);
    if block != joined || padding.len() != 2 * block.len() || cropping.len() != padding.len() {
        return None;
    }
    let dilation = block.into_iter().map(|side| u32::try_from(side).ok()).collect::<Option<_>>()?;
    let around = padding.iter().zip(&cropping).map(|(&padding, &cropping)| padding.saturating_sub(cropping));
    let around = around.map(|around| u32::try_from(around).ok()).collect::<Option<Vec<_>>>()?;
    // All begins, then all ends.
    let side = |first: usize| around.iter().skip(first).step_by(2).copied();
    Some((dilation, side(0).chain(side(1)).collect()))
}
