//! Why a node cannot be converted, in terms of the model's files and inputs.
//!
//! Responsible for: naming the file or the inputs from which a missing value comes. Not for: whether a node can be
//! converted. Invariant: only a problem of a missing counterpart or value, or of a layout, is changed.

use std::collections::{BTreeSet, HashSet};

use super::{Converter, MAX_RANK};
use crate::error::Problem;
use crate::model::{Extents, MAX_NUMBERS, PADDED, SourceNode, Work};
use coexec_sim::workload::Source;

/// Maximum number of sources searched for the inputs that determine a value.
const MAX_DETERMINING: usize = 256;

impl Converter<'_> {
    /// The problem of a node: that values are in a file that could not be read, that the file is in a layout with
    /// padded channels, or extended by the names of the model's small inputs that determine an operand, if any.
    pub(super) fn explained(&self, node: &SourceNode, problem: Problem) -> Problem {
        let reason = match problem {
            Problem::Unknown(reason) => reason,
            Problem::Unsound(reason) if node.kind.starts_with(PADDED) => return Problem::Padded(reason),
            problem => return problem,
        };
        if let Some(unread) = self.unread(node) {
            return unread;
        }
        if matches!(node.work, Work::Unknown(_) | Work::Generic { extents: Extents::Said, .. }) {
            return Problem::Unknown(reason);
        }
        let mut operands = (0..node.reads.len()).rev().filter_map(|operand| self.source(node, operand));
        let names = operands.find_map(|source| self.determining_inputs(source)).unwrap_or_default();
        Problem::Unknown(reason + &names)
    }

    /// The problem of a node with a small constant of unknown values, in a model with values in files that could not
    /// be read.
    fn unread(&self, node: &SourceNode) -> Option<Problem> {
        let mut constants = (0..node.reads.len()).filter_map(|operand| self.constant(node, operand));
        constants.find(|constant| constant.numbers.is_none() && constant.elements() <= MAX_NUMBERS as u64)?;
        let own = node.reads.iter().flatten().map(|&tensor| &self.model.tensors[tensor]);
        let found =
            own.chain(&self.model.tensors).find_map(|tensor| Some((tensor, tensor.unread_file.as_ref()?)));
        let (tensor, file) = found?;
        let [tensor, file] = [&tensor.name, file].map(|name| name.escape_debug().to_string());
        Some(Problem::Unread { tensor, file })
    }

    /// A description of the model's inputs that a tensor is computed from; `None` unless all tensors on the way are as
    /// small as shapes.
    fn determining_inputs(&self, source: Source) -> Option<String> {
        let (mut rest, mut seen, mut names) = (vec![source], HashSet::from([source]), BTreeSet::new());
        while let Some(source) = rest.pop() {
            if self.shape(source).elements() > MAX_RANK as u64 || seen.len() > MAX_DETERMINING {
                return None;
            }
            match source {
                Source::Input(index) => {
                    // Inputs after the model's own are constants.
                    let Some(&tensor) = self.model.inputs.get(index as usize) else { continue };
                    let tensor = &self.model.tensors[tensor];
                    let is_one = self.shape(source).elements() == 1;
                    let name = tensor.name.escape_debug();
                    let how = if is_one { format!(" (set it with --dim {name}=N)") } else { String::new() };
                    names.insert(format!("{name}{how}"));
                }
                Source::Node(id) => {
                    let inputs = &self.out.nodes[id.index()].inputs;
                    rest.extend(inputs.iter().copied().filter(|&input| seen.insert(input)));
                }
            }
        }
        let names: Vec<String> = names.into_iter().collect();
        let from = || format!(", from the model's input {}, whose value is not known", names.join(" and "));
        (!names.is_empty()).then(from)
    }
}
