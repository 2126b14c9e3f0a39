//! The family of the `OpenCL` device, and the GPU's tables before any kernel was timed.

use coexec_sim::device::gpu::{Gpu, GpuFamily, LinearLowering};
use coexec_sim::{Profile, Quantity};

use crate::opencl::{Description, DeviceKind};

/// Profile that provides the set of parameters; the hardware prior replaces every value.
const TEMPLATE: &str = "pixel4";
/// Assumed clock where the driver reports none, in MHz.
const ASSUMED_MHZ: f64 = 1_000.0;

/// Family of an `OpenCL` device, from its name, vendor and version.
pub(super) fn family(device: &Description) -> GpuFamily {
    // CPU cores, whose vendor may also make GPUs.
    if device.kind == DeviceKind::Cpu {
        return GpuFamily::Generic;
    }
    GpuFamily::recognise(&format!("{} {} {}", device.name, device.vendor, device.version))
}

/// A profile with every table.
pub(super) fn template() -> Profile {
    Profile::load(TEMPLATE).expect("the profile is bundled, and a test holds that it parses")
}

/// The GPU with unfitted tables.
pub(super) fn unfitted(device: &Description) -> Gpu {
    let template = template().gpu.expect("the template has a GPU");
    let family = family(device);
    let clock_mhz = if device.clock_mhz > 0 {
        Quantity::plain(f64::from(device.clock_mhz))
    } else {
        Quantity::of(ASSUMED_MHZ, "assumed: the driver reports no clock")
    };
    Gpu {
        name: device.name.clone(),
        source: format!(
            "counts as the OpenCL driver reports them ({}); waves of {} threads for the family",
            device.driver,
            family.rules().wave_threads
        ),
        family,
        compute_units: device.compute_units,
        simd_width: family.rules().wave_threads,
        max_work_group_size: u32::try_from(device.max_work_group_size).unwrap_or(u32::MAX).min(1 << 20),
        clock_mhz: Some(clock_mhz),
        multiply_accumulates_per_cycle: None,
        linear_lowering: LinearLowering::default(),
        residency: Vec::new(),
        residual: None,
        host: None,
        memory: None,
        language: None,
        ..template
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(name: &str, vendor: &str, version: &str) -> Description {
        Description {
            platform_index: 0,
            platform: String::new(),
            device_index: 0,
            name: name.to_owned(),
            vendor: vendor.to_owned(),
            driver: "1".to_owned(),
            version: version.to_owned(),
            kind: DeviceKind::Gpu,
            compute_units: 4,
            clock_mhz: 0,
            max_work_group_size: 1_024,
            max_work_item_sizes: [1_024; 3],
            global_memory_bytes: 1 << 30,
            max_allocation_bytes: 1 << 28,
            constant_memory_bytes: 1 << 16,
            polls_shared_memory: false,
            images: None,
            half: true,
            unified_memory: true,
        }
    }

    #[test]
    fn a_cpu_device_is_not_in_its_makers_gpu_family() {
        let amd = described("pthread-EPYC", "Advanced Micro Devices", "OpenCL 3.0");
        assert_eq!(family(&amd), GpuFamily::Amd);
        assert_eq!(family(&Description { kind: DeviceKind::Cpu, ..amd }), GpuFamily::Generic);
    }

    #[test]
    fn an_unmeasured_gpu_has_no_template_values() {
        let gpu = unfitted(&described("NVIDIA H200", "NVIDIA Corporation", "OpenCL 3.0 CUDA"));
        assert!(gpu.residual.is_none() && gpu.residency.is_empty() && gpu.host.is_none());
        assert_eq!((gpu.simd_width, gpu.compute_units), (32, 4));
        let clock = gpu.clock_mhz.unwrap();
        assert!(clock.source.unwrap().contains("assumed"));
    }
}
