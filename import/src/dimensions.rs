//! Sizes that the user sets: of symbolic dimensions, and values of scalar inputs.
//!
//! Responsible for: that each option belongs to something in the model, and that nothing stays open. Not for: the
//! extents of inputs, in which each format's reader puts the sizes.

use super::error::ImportError;
use super::model::{Constant, Model, SourceTensor, elements};
use super::{ImportOptions, OpenDimensions, Result};

/// What exporters write between the parts of a dimension that is a sum of others, such as that of a mask.
const SUM: &str = " + ";

/// The extent of a dimension named as a sum, from those of its parts; `None` where `extent` does not know one of these.
pub(super) fn sum(name: &str, extent: impl Fn(&str) -> Option<u32>) -> Option<u32> {
    let value = |part: &str| extent(part).or_else(|| part.parse().ok());
    name.split(SUM).try_fold(0, |sum: u32, part| Some(sum.saturating_add(value(part)?)))
}

/// Sets the scalar inputs that `options` names, and checks that all `dimensions` are set and exist.
///
/// # Errors
/// A symbolic dimension is not set, or a dimension is set that the model does not have.
pub(super) fn set(model: &mut Model, dimensions: OpenDimensions, options: &ImportOptions) -> Result<()> {
    for (name, &number) in options.dimensions.iter().filter(|(name, _)| !dimensions.contains_key(*name)) {
        if !model.set_scalar_input(name, number) {
            let (open, unset) = (dimensions.into_keys().collect(), std::mem::take(&mut model.unset));
            return Err(ImportError::NoSuchDimension { name: name.clone(), open, unset });
        }
    }
    // A sum follows from its parts, whose extents do not matter here.
    let is_sum =
        |name: &str| sum(name, |part| (part != name && dimensions.contains_key(part)).then_some(1)).is_some();
    let mut open = dimensions.clone();
    open.retain(|name, _| !options.dimensions.contains_key(name) && !is_sum(name));
    if !open.is_empty() {
        return Err(ImportError::OpenDimensions(open));
    }
    model.set_empty_inputs();
    Ok(())
}

impl Model {
    /// Place of the scalar input called `name` among the inputs.
    pub(super) fn scalar_input(&self, name: &str) -> Option<usize> {
        let of_one = |extents: &Vec<u32>| elements(extents) == 1;
        let is_it = |of: &SourceTensor| of.name == name && of.extents.as_ref().is_some_and(of_one);
        self.inputs.iter().position(|&input| is_it(&self.tensors[input]))
    }

    /// Turns the scalar input called `name` into a constant; false where there is no such input.
    fn set_scalar_input(&mut self, name: &str, number: u32) -> bool {
        let Some(place) = self.scalar_input(name) else { return false };
        let tensor = &mut self.tensors[self.inputs.remove(place)];
        let extents = tensor.extents.clone().unwrap_or_default();
        tensor.constant = Some(Constant { extents, numbers: Some(vec![f64::from(number)]) });
        true
    }

    /// Turns inputs without elements, such as the empty past of a decoder, into constants, which concatenations
    /// leave out.
    fn set_empty_inputs(&mut self) {
        let tensors = &mut self.tensors;
        self.inputs.retain(|&input| {
            let extents = tensors[input].extents.clone().filter(|extents| elements(extents) == 0);
            let constant = extents.map(|extents| Constant { extents, numbers: Some(Vec::new()) });
            tensors[input].constant = constant;
            tensors[input].constant.is_none()
        });
    }
}
