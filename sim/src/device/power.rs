//! Parameters of the energy model: the power of each processor in each state.
//!
//! Responsible for: watts per processor and state, joules per byte moved. Not
//! for: the duration of each state, which comes from the timeline. Invariant: a
//! processor draws at least as much when active as when idle.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Checker, Limits, Quantity};
use crate::units::{Bytes, Joules, PICOJOULES_PER_JOULE, Watts};

/// Power of the whole device. A profile without it has no energy predictions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// Source of the values that have none of their own.
    pub source: String,
    /// Baseline power, whatever runs: memory refresh, interconnect, display off.
    pub base_watts: Quantity,
    /// Energy of one byte moved to or from memory.
    pub memory_picojoules_per_byte: Quantity,
    /// A core of each CPU cluster, in the order of the profile's CPU clusters.
    pub cluster: Vec<ProcessorPower>,
    /// The GPU.
    pub gpu: Option<ProcessorPower>,
    /// The NPU.
    pub npu: Option<ProcessorPower>,
}

/// Power of one CPU core, of the whole GPU or of the whole NPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessorPower {
    /// Where the values come from.
    pub source: String,
    /// Power while computing.
    pub active_watts: Quantity,
    /// Power while polling a flag; absent for a processor that never polls.
    pub polling_watts: Option<Quantity>,
    /// Power while idle or waiting without polling.
    pub idle_watts: Quantity,
}

impl ProcessorPower {
    /// Power while computing.
    pub fn active(&self) -> Watts {
        Watts(self.active_watts.value)
    }

    /// Power while polling a flag; the idle power for a processor that never polls.
    pub fn polling(&self) -> Watts {
        Watts(self.polling_watts.as_ref().unwrap_or(&self.idle_watts).value)
    }

    /// Power while idle.
    pub fn idle(&self) -> Watts {
        Watts(self.idle_watts.value)
    }

    fn check(&self, checker: &mut Checker) {
        let active = self.active_watts.value;
        if let Some(polling) = &self.polling_watts {
            checker.limited("polling_watts", polling, Limits::Within([self.idle_watts.value, active]));
        }
        checker.limited("idle_watts", &self.idle_watts, Limits::Within([0.0, active]));
    }
}

impl Power {
    /// Baseline power.
    pub fn base(&self) -> Watts {
        Watts(self.base_watts.value)
    }

    /// Energy of moving `bytes` to or from memory.
    pub fn memory_energy(&self, bytes: Bytes) -> Joules {
        Joules(bytes.0 as f64 * self.memory_picojoules_per_byte.value / PICOJOULES_PER_JOULE)
    }

    /// Records every invalid value.
    pub fn check(&self, checker: &mut Checker) {
        checker.values(self);
        checker.each("cluster", &self.cluster, ProcessorPower::check);
        checker.optional("gpu", self.gpu.as_ref(), ProcessorPower::check);
        checker.optional("npu", self.npu.as_ref(), ProcessorPower::check);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORE: &str = r#"
        source = "assumed"
        active_watts = 1.2
        polling_watts = 0.6
        idle_watts = 0.02
    "#;

    fn violations(processor: &ProcessorPower) -> Vec<String> {
        let mut checker = Checker::default();
        processor.check(&mut checker);
        checker.violations.into_iter().map(|violation| violation.key).collect()
    }

    #[test]
    fn spinning_costs_more_than_idling_and_no_more_than_work() {
        let mut core: ProcessorPower = crate::input::from_toml(CORE).unwrap();
        assert!(violations(&core).is_empty());
        core.polling_watts = Some(Quantity::plain(1.3));
        assert_eq!(violations(&core), ["polling_watts"]);
        core.polling_watts = Some(Quantity::plain(0.01));
        assert_eq!(violations(&core), ["polling_watts"]);
    }

    #[test]
    fn a_processor_that_never_spins_waits_idle() {
        let mut npu: ProcessorPower = crate::input::from_toml(CORE).unwrap();
        npu.polling_watts = None;
        assert_eq!(npu.polling(), npu.idle());
    }

    #[test]
    fn idling_cannot_cost_more_than_work() {
        let mut core: ProcessorPower = crate::input::from_toml(CORE).unwrap();
        core.polling_watts = None;
        core.idle_watts = Quantity::plain(2.0);
        assert_eq!(violations(&core), ["idle_watts"]);
    }

    #[test]
    fn a_gigabyte_at_twenty_picojoules_a_byte_is_twenty_millijoules() {
        let power = Power {
            source: "assumed".into(),
            base_watts: Quantity::plain(0.5),
            memory_picojoules_per_byte: Quantity::plain(20.0),
            cluster: Vec::new(),
            gpu: None,
            npu: None,
        };
        let energy = power.memory_energy(Bytes(1_000_000_000));
        assert!((energy.0 - 0.02).abs() < 1e-15);
    }
}
