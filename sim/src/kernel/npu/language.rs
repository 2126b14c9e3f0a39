//! A layer on a language-model engine's NPU kernels: the times of `kernel::language`, each after a
//! dispatch.

use crate::device::LanguageRates;
use crate::kernel::cpu::traffic;
use crate::kernel::language::{LanguageLaunch, Work};
use crate::kernel::{Execution, Phase, PhaseKind, Phases};
use crate::units::{Bytes, Picos};
use crate::workload::Layer;

/// How `layer` runs without memory contention.
pub fn execute(layer: &Layer, rates: &LanguageRates) -> Execution<LanguageLaunch> {
    let Work { kernel, nanos, .. } = Work::of(layer, rates);
    let bytes = Bytes(traffic::bytes(layer, None));
    let phases = Phases::from_iter([
        Phase::new(PhaseKind::Launch, Picos::from_micros(rates.operator_us.value), Bytes::ZERO),
        Phase::new(PhaseKind::Stream, Picos::from_nanos(nanos), bytes),
    ]);
    let traffic_time = Picos::from_nanos(bytes.0 as f64 / rates.bandwidth_gbps.value);
    Execution { phases, detail: LanguageLaunch { kernel, bytes, traffic_time } }
}
