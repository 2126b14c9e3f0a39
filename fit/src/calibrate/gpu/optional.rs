//! The optional parameters of a GPU's kernel tables: where a fit starts them.
//!
//! Responsible for: which of them a fit of a table includes, by the GPU's family, and their initial values. Not for:
//! their meaning (`coexec_sim::device::gpu`). Invariant: a parameter that has a value, zero included, keeps it.

use coexec_sim::Quantity;
use coexec_sim::device::gpu::{Gpu, KernelTable};

/// Initial value of a relative rise in a fit: small enough to vanish if the runs do not
/// support it, large enough to affect the predictions.
const INITIAL_RISE: f64 = 0.3;
/// Initial value of `unit_us` in a fit, in microseconds.
const INITIAL_UNIT_US: f64 = 1.0;
/// Initial value of the size of a last-level cache in a fit, in bytes.
const INITIAL_CACHE_BYTES: f64 = 1e7;

/// Gives each absent optional parameter of `table` that applies to the GPU's family an
/// initial value for a fit: that of the most similar parameter of the table, or a small
/// relative rise. A last-level cache applies to NVIDIA only, the waking of cores to CPU
/// devices only. A parameter with the value 0 stays switched off.
pub(super) fn switch_on(gpu: &mut Gpu, table: KernelTable) {
    let rules = gpu.family.rules();
    let Some(parameters) = gpu.parameters_mut(table) else { return };
    for (key, absent) in parameters.absent {
        let like = |closest: &str| {
            let found = parameters.quantities.iter().find(|(key, _)| *key == closest);
            found.map(|(_, quantity)| quantity.value)
        };
        // In runs of Winograd and constant-weight kernels the time to wake cores
        // cannot be identified.
        let is_one_launch = !matches!(table, KernelTable::Winograd | KernelTable::ConvConstants);
        let start = match key {
            "unit_us" => (rules.runs_threads_in_turn && is_one_launch).then_some(INITIAL_UNIT_US),
            "cache_bytes" => rules.has_last_level_cache.then_some(INITIAL_CACHE_BYTES),
            "spill_latency_factor" => rules.has_last_level_cache.then_some(INITIAL_RISE),
            // Only Apple's scheduler does this; the bundled Apple profiles set it.
            "tail_rounding_factor" => None,
            "wave_us" => like("throughput_us"),
            "reduction_step_us" => like("wave_us"),
            "latency_slice_us" => like("latency_us"),
            _ => Some(INITIAL_RISE),
        };
        *absent = start.map(Quantity::plain);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coexec_sim::device::gpu::GpuFamily;

    fn pixel4() -> Gpu {
        coexec_sim::input::from_toml(include_str!("../../../../sim/tests/golden/gpu_pixel4.toml")).unwrap()
    }

    #[test]
    fn an_optional_parameter_is_switched_on_unless_it_has_a_value() {
        let mut gpu = pixel4();
        gpu.pool.wave_us = Some(Quantity::plain(0.0));
        for &table in KernelTable::ALL {
            switch_on(&mut gpu, table);
        }
        let value = |optional: &Option<Quantity>| optional.as_ref().unwrap().value;
        assert_eq!(value(&gpu.pool.wave_us).to_bits(), 0);
        assert_eq!(value(&gpu.mean.reduction_step_us).to_bits(), gpu.mean.wave_us.value.to_bits());
        assert_eq!(value(&gpu.concat.latency_slice_us).to_bits(), gpu.concat.latency_us.value.to_bits());
        assert_eq!(value(&gpu.conv_generic.window_reuse_factor).to_bits(), INITIAL_RISE.to_bits());
    }

    #[test]
    fn only_nvidia_gets_a_last_level_cache_and_only_cpu_devices_cores_to_wake() {
        let switched_on = |family: GpuFamily| {
            let mut gpu = Gpu { family, ..pixel4() };
            for &table in KernelTable::ALL {
                switch_on(&mut gpu, table);
            }
            (gpu.conv_generic.cache_bytes.is_some(), gpu.mean.unit_us.is_some())
        };
        assert_eq!(switched_on(GpuFamily::Nvidia), (true, false));
        assert_eq!(switched_on(GpuFamily::Generic), (false, true));
        assert_eq!(switched_on(GpuFamily::Adreno6xx), (false, false));
    }
}
