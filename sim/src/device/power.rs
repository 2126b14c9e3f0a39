//! Parameters of the energy model: what each processor draws in each state.
//!
//! Responsible for: watts per processor and state, joules per byte moved. Not
//! for: how long a state lasts (the timeline says so). Invariant: a processor
//! draws at least as much at work as it does idle.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Checker, Limits, Quantity};
use crate::units::{Bytes, Joules, Watts};

const PICOJOULES_PER_JOULE: f64 = 1e12;

/// What the whole device draws. A profile may go without: then no energy is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// Where the values come from that name no source of their own.
    pub source: String,
    /// What is drawn whatever runs: memory refresh, interconnect, display off.
    pub base_watts: Quantity,
    /// Energy of one byte moved to or from memory.
    pub memory_picojoules_per_byte: Quantity,
    /// Cores of each CPU cluster, in the order of the profile's CPU clusters.
    pub cluster: Vec<ProcessorPower>,
    /// The GPU.
    pub gpu: Option<ProcessorPower>,
    /// The NPU, where there is one.
    pub npu: Option<ProcessorPower>,
}

/// What one CPU core, the whole GPU or the whole NPU draws.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessorPower {
    /// Where the values come from.
    pub source: String,
    /// While it computes.
    pub active_watts: Quantity,
    /// While it spins on a flag; absent for a processor that never does.
    pub polling_watts: Option<Quantity>,
    /// While it waits without spinning, or has nothing to do.
    pub idle_watts: Quantity,
}

impl ProcessorPower {
    /// Power while it computes.
    pub fn active(&self) -> Watts {
        Watts(self.active_watts.value)
    }

    /// Power while it spins on a flag; a processor that never spins is idle.
    pub fn polling(&self) -> Watts {
        Watts(self.polling_watts.as_ref().unwrap_or(&self.idle_watts).value)
    }

    /// Power while it has nothing to do.
    pub fn idle(&self) -> Watts {
        Watts(self.idle_watts.value)
    }

    fn check(&self, checker: &mut Checker) {
        let active = self.active_watts.value;
        if let Some(polling) = &self.polling_watts {
            checker.limited("polling_watts", polling, Limits::Within(self.idle_watts.value, active));
        }
        checker.limited("idle_watts", &self.idle_watts, Limits::Within(0.0, active));
    }
}

impl Power {
    /// What is drawn whatever runs.
    pub fn base(&self) -> Watts {
        Watts(self.base_watts.value)
    }

    /// What moving `bytes` to or from memory costs.
    pub fn memory_energy(&self, bytes: Bytes) -> Joules {
        Joules(bytes.0 as f64 * self.memory_picojoules_per_byte.value / PICOJOULES_PER_JOULE)
    }

    /// Notes every value that cannot be.
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
