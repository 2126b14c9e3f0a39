//! What is known of a tensor while a model is converted.

use super::{Converter, Step};
use crate::model::Constant;
use crate::view::View;

/// A tensor as far as it is known.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// Computed by the graph, or given to it.
    View(View),
    /// Known before.
    Constant(Constant),
}

impl From<View> for Value {
    fn from(view: View) -> Self {
        Self::View(view)
    }
}

impl Value {
    /// The constant, where it is known before.
    pub(super) fn constant(&self) -> Option<&Constant> {
        if let Self::Constant(constant) = self { Some(constant) } else { None }
    }

    /// The tensor of the graph, where it is one.
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

    /// Under other extents of as many elements.
    pub(super) fn reshaped(self, extents: Vec<u32>) -> Step<Self> {
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
