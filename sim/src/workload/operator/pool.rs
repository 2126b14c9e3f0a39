//! Pooling windows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ChannelCut, Checked, Class, Definition, Window, of_one_input, tensor, under_window, work};
use crate::workload::shape::image;
use crate::workload::{Padding, Shape};

/// The function of a pooling window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PoolKind {
    /// The largest element.
    Max,
    /// The mean.
    Average,
}

/// A pooling window over each channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// The function of the window.
    pub kind: PoolKind,
    /// Input height, width and channels, or batch, height, width and channels.
    #[serde(with = "image")]
    #[schemars(with = "image::Extents")]
    pub input: Shape,
    /// The window.
    #[serde(flatten)]
    pub window: Window,
}

impl Pool {
    /// Output extent.
    pub fn output(&self) -> Shape {
        self.window.output(self.input, self.input.channels)
    }

    /// Whether it computes the mean of the whole image.
    pub fn is_global_average(&self) -> bool {
        self.kind == PoolKind::Average
            && self.window.kernel == [self.input.height, self.input.width]
            && self.window.padding == Padding::NONE
    }
}

impl Definition for Pool {
    fn class(&self) -> Class<'_> {
        Class::Pool(self)
    }

    fn check(&self) -> Checked {
        let [height, width] = self.window.check(self.input)?;
        let ([rows, columns], Shape { batch, channels, .. }) = (self.window.kernel, self.input);
        tensor("the output", &[batch, height, width, channels])?;
        work(&[batch, height, width, channels, rows, columns])
    }

    under_window!();

    fn channel_cut(&self) -> ChannelCut {
        ChannelCut::Separate
    }
}
