//! Which GPU the `OpenCL` device is: its family, and what its tables hold before any
//! kernel was timed.

use coexec_sim::device::gpu::{Gpu, GpuFamily, LinearLowering};
use coexec_sim::device::profile::Profile;
use coexec_sim::device::quantity::Quantity;

use crate::opencl::{Description, DeviceKind};

/// Profile whose tables say which parameters there are; the hardware prior replaces
/// every value.
const TEMPLATE: &str = "pixel4";
/// Clock that is assumed where the driver tells none, in MHz.
const ASSUMED_MHZ: f64 = 1_000.0;
/// Multiprocessors are counted by NVIDIA's driver; waves of 32 threads.
const NVIDIA_WAVE: u32 = 32;
/// Threads of a wave in the occupancy accounting on Adreno (public GPU table).
const ADRENO_WAVE: u32 = 64;
/// Waves of AMD's GPUs.
const AMD_WAVE: u32 = 64;
/// Lanes of a wave on Mali: 16 from Valhall on, 8 on the later Bifrost.
const VALHALL_WAVE: u32 = 16;
const BIFROST_WAVE: u32 = 8;
/// The same on `PowerVR` Rogue.
const POWERVR_WAVE: u32 = 32;

/// Family of an `OpenCL` device, from its own words.
pub(super) fn family(device: &Description) -> GpuFamily {
    let words = format!("{} {} {}", device.name, device.vendor, device.version).to_lowercase();
    if device.kind == DeviceKind::Cpu {
        return GpuFamily::Generic;
    }
    if words.contains("adreno") || words.contains("qualcomm") {
        return match number_behind(&words, "adreno").unwrap_or(0) / 100 {
            3 => GpuFamily::Adreno3xx,
            4 => GpuFamily::Adreno4xx,
            5 => GpuFamily::Adreno5xx,
            6 => GpuFamily::Adreno6xx,
            _ => GpuFamily::Adreno7xx,
        };
    }
    if words.contains("mali") {
        return mali(&words);
    }
    match words {
        words if words.contains("powervr") || words.contains("imagination") => GpuFamily::PowerVr,
        words if words.contains("nvidia") => GpuFamily::Nvidia,
        words if words.contains("advanced micro devices") || words.contains("radeon") => GpuFamily::Amd,
        words if words.contains("apple") => GpuFamily::AppleBionic,
        _ => GpuFamily::Generic,
    }
}

/// Generations as the delegate tells them apart (LiteRT sources).
fn mali(words: &str) -> GpuFamily {
    let model = |letter: &str| number_behind(words, &format!("mali-{letter}"));
    if model("t").is_some() {
        return GpuFamily::MaliMidgard;
    }
    match model("g") {
        Some(31 | 51 | 71) => GpuFamily::MaliBifrost1,
        Some(52 | 72) => GpuFamily::MaliBifrost2,
        Some(76) => GpuFamily::MaliBifrost3,
        Some(57 | 77) => GpuFamily::MaliValhall1,
        _ => GpuFamily::MaliValhall2,
    }
}

/// The first number that follows `word` at once, or behind a trademark.
fn number_behind(text: &str, word: &str) -> Option<u32> {
    const MOST_BETWEEN: usize = " (tm) ".len();
    text.match_indices(word).find_map(|(at, _)| {
        let behind = &text[at + word.len()..];
        let start =
            behind.find(|letter: char| letter.is_ascii_digit()).filter(|&start| start <= MOST_BETWEEN)?;
        let digits = &behind[start..];
        let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
        digits[..end].parse().ok()
    })
}

fn wave(family: GpuFamily) -> u32 {
    match family {
        GpuFamily::Nvidia => NVIDIA_WAVE,
        GpuFamily::Amd => AMD_WAVE,
        GpuFamily::PowerVr => POWERVR_WAVE,
        GpuFamily::MaliMidgard => 1,
        family if family.is_adreno() => ADRENO_WAVE,
        family if family.is_bifrost() => BIFROST_WAVE,
        family if family.is_mali() => VALHALL_WAVE,
        family if family.is_apple() => NVIDIA_WAVE,
        // A core runs the threads of a group one after the other, so that a group costs
        // all of them.
        _ => 1,
    }
}

/// The GPU with tables that are not fitted yet.
pub(super) fn unfitted(device: &Description) -> Gpu {
    let template = Profile::load(TEMPLATE).ok().and_then(|profile| profile.gpu);
    let template = template.expect("the profile is bundled, and a test holds that it parses");
    let family = family(device);
    let clock_mhz = if device.clock_mhz > 0 {
        Quantity::plain(f64::from(device.clock_mhz))
    } else {
        let source = Some("assumed: the driver tells no clock".to_owned());
        Quantity { value: ASSUMED_MHZ, source, ci95: None }
    };
    Gpu {
        name: device.name.clone(),
        source: format!(
            "counts as the OpenCL driver tells them ({}); waves of {} threads for the family",
            device.driver,
            wave(family)
        ),
        family,
        compute_units: device.compute_units,
        simd_width: wave(family),
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
    use crate::opencl::SharedVirtualMemory;

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
            local_memory_bytes: 1 << 15,
            constant_memory_bytes: 1 << 16,
            shared_virtual_memory: SharedVirtualMemory::default(),
            images: None,
            half: true,
            unified_memory: true,
        }
    }

    #[test]
    fn families_are_told_from_what_drivers_call_themselves() {
        let cases = [
            ("QUALCOMM Adreno(TM)", "QUALCOMM", "OpenCL 2.0 Adreno(TM) 640", GpuFamily::Adreno6xx),
            ("QUALCOMM Adreno(TM) 740", "QUALCOMM", "OpenCL 3.0", GpuFamily::Adreno7xx),
            ("Mali-G76 r0p0", "ARM", "OpenCL 2.0 v1.r16p0", GpuFamily::MaliBifrost3),
            ("Mali-G78", "ARM", "OpenCL 2.1", GpuFamily::MaliValhall2),
            ("Mali-T860", "ARM", "OpenCL 1.2", GpuFamily::MaliMidgard),
            ("PowerVR Rogue GE8320", "Imagination Technologies", "OpenCL 1.2", GpuFamily::PowerVr),
            ("NVIDIA H200", "NVIDIA Corporation", "OpenCL 3.0 CUDA", GpuFamily::Nvidia),
            ("llvmpipe", "Mesa", "OpenCL 1.1", GpuFamily::Generic),
        ];
        for (name, vendor, version, expected) in cases {
            assert_eq!(family(&described(name, vendor, version)), expected, "{name}");
        }
        let cores = Description { kind: DeviceKind::Cpu, ..described("pthread-EPYC", "AMD", "OpenCL 3.0") };
        assert_eq!(family(&cores), GpuFamily::Generic);
    }

    #[test]
    fn a_gpu_nobody_timed_has_no_value_of_the_template_s_own() {
        let gpu = unfitted(&described("NVIDIA H200", "NVIDIA Corporation", "OpenCL 3.0 CUDA"));
        assert!(gpu.residual.is_none() && gpu.residency.is_empty() && gpu.host.is_none());
        assert_eq!((gpu.simd_width, gpu.compute_units), (32, 4));
        let clock = gpu.clock_mhz.unwrap();
        assert!(clock.source.unwrap().contains("assumed"));
    }
}
