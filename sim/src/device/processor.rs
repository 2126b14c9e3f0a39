//! The kinds of processors of a device.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr};

/// The processors of a device that a plan may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Serialize, Deserialize, JsonSchema, Display, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "UPPERCASE")]
pub enum ProcessorKind {
    /// A set of CPU cores.
    Cpu,
    /// The GPU.
    Gpu,
    /// The NPU.
    Npu,
}

impl ProcessorKind {
    /// All kinds, in the order of reports.
    pub const ALL: [Self; 3] = [Self::Cpu, Self::Gpu, Self::Npu];

    /// The name in tables and sentences.
    pub fn label(self) -> &'static str {
        self.into()
    }

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::Npu => "npu",
        }
    }

    /// The kind with this [`Self::name`], if any.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}
