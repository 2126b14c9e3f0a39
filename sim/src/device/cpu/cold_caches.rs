//! What an operator costs inside a network beyond its time when repeated by itself.
//!
//! The rates of coexec's own kernels are fitted to operators that are repeated by themselves, which
//! find their data in the caches. Inside a network the others have displaced them. The tables of other
//! libraries are fitted to whole networks and need no such correction.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::Quantity;
use crate::units::{Bytes, Picos};

/// Time of an operator inside a network, of coexec's own kernels, given its time when repeated:
///
/// ```text
/// inside = repeated + operator_us
///        + (weight_byte_ns * bytes of weights + tensor_byte_ns * bytes of tensors) / threads
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ColdCaches {
    /// Where the values come from.
    pub source: String,
    /// Time per operator: its code and the descriptions of its tensors.
    pub operator_us: Quantity,
    /// Time of one core per byte of weights, which were last used in the previous inference.
    pub weight_byte_ns: Quantity,
    /// Time of one core per byte of inputs and results, which other cores have just used.
    pub tensor_byte_ns: Quantity,
}

impl ColdCaches {
    /// Additional time of an operator with so many bytes of weights and of tensors, which `threads` share.
    pub fn extra(&self, [weights, tensors]: [Bytes; 2], threads: u32) -> Picos {
        let nanos =
            self.weight_byte_ns.value * weights.0 as f64 + self.tensor_byte_ns.value * tensors.0 as f64;
        Picos::from_micros(self.operator_us.value) + Picos::from_nanos(nanos / f64::from(threads.max(1)))
    }
}
