//! Core types: the micro-architectures that kernel libraries distinguish.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Micro-architecture of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names are the vendors'")]
pub enum Core {
    CortexA53,
    CortexA55,
    CortexA57,
    CortexA72,
    CortexA73,
    CortexA75,
    CortexA76,
    CortexA77,
    CortexA78,
    CortexA510,
    CortexA520,
    CortexA710,
    CortexA715,
    CortexA720,
    CortexX1,
    CortexX2,
    CortexX3,
    CortexX4,
    NeoverseN1,
    NeoverseN2,
    NeoverseV1,
    NeoverseV2,
    ExynosM1,
    ExynosM2,
    ExynosM3,
    ExynosM4,
    ExynosM5,
    Kryo,
    Oryon,
    Apple,
    /// A core for which no library has specific kernels.
    Other,
}

impl Core {
    /// Whether it executes in order, as Arm's little cores do. Of an unknown core, it is not known.
    pub fn is_in_order(self) -> bool {
        matches!(self, Self::CortexA53 | Self::CortexA55 | Self::CortexA510 | Self::CortexA520)
    }
}
