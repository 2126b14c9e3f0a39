//! GPU families: which of the delegate's dispatch rules apply.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::workload::Layout;

/// A family of GPUs that the TFLite GPU delegate dispatches alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum GpuFamily {
    /// Qualcomm Adreno 3xx.
    #[serde(rename = "adreno-3xx")]
    Adreno3xx,
    /// Qualcomm Adreno 4xx.
    #[serde(rename = "adreno-4xx")]
    Adreno4xx,
    /// Qualcomm Adreno 5xx.
    #[serde(rename = "adreno-5xx")]
    Adreno5xx,
    /// Qualcomm Adreno 6xx.
    #[serde(rename = "adreno-6xx")]
    Adreno6xx,
    /// Qualcomm Adreno 7xx.
    #[serde(rename = "adreno-7xx")]
    Adreno7xx,
    /// Arm Mali-T6xx, T7xx and T8xx.
    #[serde(rename = "mali-midgard")]
    MaliMidgard,
    /// Arm Mali-G31, G51 and G71.
    #[serde(rename = "mali-bifrost-1")]
    MaliBifrost1,
    /// Arm Mali-G52 and G72.
    #[serde(rename = "mali-bifrost-2")]
    MaliBifrost2,
    /// Arm Mali-G76.
    #[serde(rename = "mali-bifrost-3")]
    MaliBifrost3,
    /// Arm Mali-G57 and G77.
    #[serde(rename = "mali-valhall-1")]
    MaliValhall1,
    /// Arm Mali-G68, G78 and later.
    #[serde(rename = "mali-valhall-2")]
    MaliValhall2,
    /// Imagination `PowerVR` Rogue.
    #[serde(rename = "powervr")]
    PowerVr,
    /// Apple A9 and A10.
    #[serde(rename = "apple-a9")]
    AppleA9,
    /// Apple A11 ("Bionic") and later.
    #[serde(rename = "apple-bionic")]
    AppleBionic,
    /// NVIDIA.
    #[serde(rename = "nvidia")]
    Nvidia,
    /// AMD.
    #[serde(rename = "amd")]
    Amd,
    /// Any other `OpenCL` device, such as a CPU under `PoCL`.
    #[serde(rename = "generic")]
    Generic,
}

impl GpuFamily {
    /// Whether this is a Qualcomm Adreno.
    pub fn is_adreno(self) -> bool {
        matches!(
            self,
            Self::Adreno3xx | Self::Adreno4xx | Self::Adreno5xx | Self::Adreno6xx | Self::Adreno7xx
        )
    }

    /// Whether this is an Arm Mali of the Bifrost generations.
    pub fn is_bifrost(self) -> bool {
        matches!(self, Self::MaliBifrost1 | Self::MaliBifrost2 | Self::MaliBifrost3)
    }

    /// Whether this is an Arm Mali.
    pub fn is_mali(self) -> bool {
        self.is_bifrost() || matches!(self, Self::MaliMidgard | Self::MaliValhall1 | Self::MaliValhall2)
    }

    /// Whether this is an Apple GPU.
    pub fn is_apple(self) -> bool {
        matches!(self, Self::AppleA9 | Self::AppleBionic)
    }

    /// Where the delegate stores activations: a 2-D texture whose rows hold the
    /// slices of one image row, or a buffer of four-channel slices.
    pub fn layout(self) -> Layout {
        match self {
            Self::AppleA9 | Self::AppleBionic | Self::Nvidia | Self::Generic => Layout::SlicedBuffer,
            _ => Layout::Image,
        }
    }
}
