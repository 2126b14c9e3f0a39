//! Values of tensors during conversion.

use super::{Conversion, Converter};
use crate::model::Constant;
use crate::view::View;

/// The value of a tensor.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// Computed by the graph, or one of its inputs.
    View(View),
    /// Constant; its elements may be unknown.
    Constant(Constant),
}

impl From<View> for Value {
    fn from(view: View) -> Self {
        Self::View(view)
    }
}

impl Value {
    /// The constant, if it is one.
    pub(super) fn constant(&self) -> Option<&Constant> {
        if let Self::Constant(constant) = self { Some(constant) } else { None }
    }

    /// The tensor of the graph, if it is one.
    pub(super) fn view(&self) -> Option<&View> {
        if let Self::View(view) = self { Some(view) } else { None }
    }

    pub(super) fn extents(&self) -> &[u32] {
        match self {
            Self::View(view) => &view.extents,
            Self::Constant(constant) => &constant.extents,
        }
    }

    pub(super) fn transposed(&self, permutation: &[usize]) -> Self {
        match self {
            Self::View(view) => Self::View(view.transposed(permutation)),
            Self::Constant(constant) => Self::Constant(constant.transposed(permutation)),
        }
    }

    /// The value reshaped to `extents`, which have the same number of elements.
    pub(super) fn reshaped(self, extents: Vec<u32>) -> Conversion<Self> {
        Ok(match self {
            Self::View(view) => {
                Converter::check_extents(&extents)?;
                Self::View(view.reshaped(extents))
            }
            Self::Constant(constant) => {
                Converter::check_size(&extents)?;
                Self::Constant(Constant { extents, ..constant })
            }
        })
    }
}
