//! Matching of a selection against the available devices.

use crate::opencl::{Description, DeviceKind, OpenClError, Result};

/// The index in `devices` that `selection` names.
pub(super) fn choose(selection: &str, devices: &[&Description]) -> Result<usize> {
    if devices.is_empty() {
        let wanted = selection.to_owned();
        return Err(OpenClError::NotFound { what: "device", wanted, offered: "none".to_owned() });
    }
    if selection.trim().is_empty() {
        return Ok(devices.iter().position(|device| device.kind == DeviceKind::Gpu).unwrap_or(0));
    }
    let (platform, device) = selection.split_once(':').unwrap_or((selection, ""));
    let all: Vec<usize> = (0..devices.len()).collect();
    let of_platform = matching("platform", platform, &all, devices, |device| {
        (device.platform_index, device.platform.as_str())
    })?;
    let chosen = matching("device", device, &of_platform, devices, |device| {
        (device.device_index, device.name.as_str())
    })?;
    let first = chosen[0];
    let is_of_its_platform = |&index: &usize| devices[index].platform_index == devices[first].platform_index;
    // A platform without a device selects its first device.
    if chosen.len() == 1 || (device.trim().is_empty() && chosen.iter().all(is_of_its_platform)) {
        return Ok(first);
    }
    let (wanted, matching) = (selection.to_owned(), listed(&chosen, devices));
    Err(OpenClError::Ambiguous { what: "device", wanted, matching })
}

/// The `candidates` whose index or name matches `wanted`: at least one.
fn matching<'a>(
    what: &'static str,
    wanted: &str,
    candidates: &[usize],
    devices: &[&'a Description],
    identity: impl Fn(&'a Description) -> (usize, &'a str),
) -> Result<Vec<usize>> {
    let wanted = wanted.trim();
    let number: Option<usize> = wanted.parse().ok();
    let fragment = wanted.to_lowercase();
    let fits = |&index: &usize| {
        let (own, name) = identity(devices[index]);
        number.map_or_else(|| name.to_lowercase().contains(&fragment), |number| number == own)
    };
    let found: Vec<usize> = candidates.iter().copied().filter(fits).collect();
    if found.is_empty() {
        let offered = listed(candidates, devices);
        return Err(OpenClError::NotFound { what, wanted: wanted.to_owned(), offered });
    }
    Ok(found)
}

fn listed(indices: &[usize], devices: &[&Description]) -> String {
    indices.iter().map(|&index| devices[index].to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(platform: (usize, &str), device: (usize, &str), kind: DeviceKind) -> Description {
        Description {
            platform_index: platform.0,
            platform: platform.1.into(),
            device_index: device.0,
            name: device.1.into(),
            vendor: String::new(),
            driver: String::new(),
            version: String::new(),
            kind,
            compute_units: 2,
            clock_mhz: 0,
            max_work_group_size: 256,
            max_work_item_sizes: [256; 3],
            global_memory_bytes: 0,
            max_allocation_bytes: 0,
            constant_memory_bytes: 0,
            polls_shared_memory: false,
            images: None,
            half: false,
            unified_memory: true,
        }
    }

    fn chosen(selection: &str) -> Result<usize, OpenClError> {
        let all = [
            device((0, "Portable Computing Language"), (0, "pthread-EPYC"), DeviceKind::Cpu),
            device((1, "NVIDIA CUDA"), (0, "NVIDIA H200"), DeviceKind::Gpu),
            device((1, "NVIDIA CUDA"), (1, "NVIDIA H200"), DeviceKind::Gpu),
        ];
        choose(selection, &all.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_device_is_named_by_numbers_or_parts_of_names() {
        assert_eq!(chosen("0:0"), Ok(0));
        assert_eq!(chosen("cuda:1"), Ok(2));
        assert_eq!(chosen("portable:epyc"), Ok(0));
        assert_eq!(chosen(":EPYC"), Ok(0));
    }

    #[test]
    fn without_a_device_a_platform_s_first_is_meant_and_without_both_the_first_gpu() {
        assert_eq!(chosen("1"), Ok(1));
        assert_eq!(chosen("NVIDIA"), Ok(1));
        assert_eq!(chosen(""), Ok(1));
    }

    #[test]
    fn a_name_that_fits_none_or_several_is_refused_with_what_there_is() {
        let error = chosen("intel").unwrap_err().to_string();
        assert!(error.contains("found no OpenCL platform \"intel\""), "{error}");
        assert!(error.contains("NVIDIA H200"), "{error}");
        assert!(matches!(chosen("1:h200"), Err(OpenClError::Ambiguous { .. })));
        assert!(matches!(chosen("0:3"), Err(OpenClError::NotFound { what: "device", .. })));
    }
}
