//! Platforms, devices and sub-devices: enumeration and selection.

mod select;

use std::fmt;
use std::sync::{Arc, Mutex};

use opencl3::device::{
    CL_DEVICE_PARTITION_BY_COUNTS, CL_DEVICE_PARTITION_BY_COUNTS_LIST_END, CL_DEVICE_SVM_ATOMICS,
    CL_DEVICE_SVM_FINE_GRAIN_BUFFER, CL_DEVICE_SVM_FINE_GRAIN_SYSTEM, CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_CPU,
    CL_DEVICE_TYPE_GPU, Device as ClDevice, SubDevice,
};
use opencl3::platform::get_platforms;

use super::{Naming, OpenClError, Result, library};

/// `CL_PLATFORM_NOT_FOUND_KHR`: the ICD loader found no driver (`cl_khr_icd`).
const PLATFORM_NOT_FOUND: i32 = -1001;
/// `CL_DEVICE_NOT_FOUND`: the platform has no device.
const DEVICE_NOT_FOUND: i32 = -1;

/// Kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A GPU.
    Gpu,
    /// The host's cores (`PoCL`).
    Cpu,
    /// Anything else.
    Other,
}

/// A device as its driver describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Index of its platform, from 0.
    pub platform_index: usize,
    /// Its platform's name.
    pub platform: String,
    /// Index within its platform, from 0.
    pub device_index: usize,
    /// Name.
    pub name: String,
    /// Vendor.
    pub vendor: String,
    /// Version of the driver.
    pub driver: String,
    /// Version of `OpenCL`.
    pub version: String,
    /// GPU or CPU.
    pub kind: DeviceKind,
    /// Compute units.
    pub compute_units: u32,
    /// Maximum clock in MHz; 0 where the driver does not report it.
    pub clock_mhz: u32,
    /// Maximum number of threads of a work-group.
    pub max_work_group_size: usize,
    /// Maximum number of threads of a work-group along each axis.
    pub max_work_item_sizes: [usize; 3],
    /// Global memory, in bytes.
    pub global_memory_bytes: u64,
    /// Largest buffer, in bytes.
    pub max_allocation_bytes: u64,
    /// Largest constant buffer, in bytes.
    pub constant_memory_bytes: u64,
    /// Whether both sides may poll flags in fine-grained shared virtual memory while a kernel runs.
    pub polls_shared_memory: bool,
    /// Width and height of the largest image, in texels; `None` without image support.
    pub images: Option<[usize; 2]>,
    /// Whether it computes in 16-bit floating point (`cl_khr_fp16`).
    pub half: bool,
    /// Whether it shares the host's memory, instead of having memory of its own.
    pub unified_memory: bool,
}

/// A device from which a runtime can be created.
#[derive(Clone, Debug)]
pub struct Device {
    pub(super) description: Description,
    /// The driver's handle.
    pub(super) id: ClDevice,
    /// Keeps a sub-device alive; `None` for a whole device.
    _part: Option<Arc<SubDevice>>,
}

/// Whether both sides may poll flags in shared virtual memory while a kernel runs: the memory is
/// fine-grained and supports atomics.
fn polls_shared_memory(device: ClDevice) -> bool {
    // The query fails before OpenCL 2.0, which introduced shared virtual memory.
    let has = |bit| device.svm_capabilities().unwrap_or(0) & bit != 0;
    (has(CL_DEVICE_SVM_FINE_GRAIN_BUFFER) || has(CL_DEVICE_SVM_FINE_GRAIN_SYSTEM))
        && has(CL_DEVICE_SVM_ATOMICS)
}

/// All devices of all platforms.
///
/// # Errors
/// Where there is no library or no platform.
pub fn devices() -> Result<Vec<Device>> {
    // The first query of PoCL 3.1 and its loader crashes, or finds nothing, if two threads make it
    // at once.
    static ENUMERATING: Mutex<()> = Mutex::new(());
    let _enumerating = crate::lock::lock(&ENUMERATING);
    library::load()?;
    let platforms = match get_platforms() {
        Ok(platforms) if !platforms.is_empty() => platforms,
        Ok(_) => return Err(OpenClError::NoPlatform),
        Err(code) if code.0 == PLATFORM_NOT_FOUND => return Err(OpenClError::NoPlatform),
        Err(code) => return Err(code).naming("clGetPlatformIDs"),
    };
    let mut found = Vec::new();
    for (platform_index, platform) in platforms.iter().enumerate() {
        let name = platform.name().naming("clGetPlatformInfo")?;
        let ids = match platform.get_devices(CL_DEVICE_TYPE_ALL) {
            Err(code) if code.0 == DEVICE_NOT_FOUND => Vec::new(),
            ids => ids.naming("clGetDeviceIDs")?,
        };
        for (device_index, id) in ids.into_iter().enumerate() {
            let id = ClDevice::new(id);
            let description =
                Description::of(id, (platform_index, &name), device_index).naming("clGetDeviceInfo")?;
            found.push(Device { description, id, _part: None });
        }
    }
    Ok(found)
}

impl Description {
    fn of(
        device: ClDevice,
        (platform_index, platform): (usize, &str),
        device_index: usize,
    ) -> opencl3::Result<Self> {
        let kind = match device.dev_type()? {
            bits if bits & CL_DEVICE_TYPE_GPU != 0 => DeviceKind::Gpu,
            bits if bits & CL_DEVICE_TYPE_CPU != 0 => DeviceKind::Cpu,
            _ => DeviceKind::Other,
        };
        let sizes = device.max_work_item_sizes()?;
        let images = if device.image_support()? {
            Some([device.image2d_max_width()?, device.image2d_max_height()?])
        } else {
            None
        };
        Ok(Self {
            platform_index,
            platform: platform.to_owned(),
            device_index,
            name: device.name()?.trim().to_owned(),
            vendor: device.vendor()?,
            driver: device.driver_version()?,
            version: device.version()?.trim().to_owned(),
            kind,
            compute_units: device.max_compute_units()?,
            clock_mhz: device.max_clock_frequency().unwrap_or(0),
            max_work_group_size: device.max_work_group_size()?,
            max_work_item_sizes: [0, 1, 2].map(|axis| sizes.get(axis).copied().unwrap_or(1)),
            global_memory_bytes: device.global_mem_size()?,
            max_allocation_bytes: device.max_mem_alloc_size()?,
            constant_memory_bytes: device.max_constant_buffer_size()?,
            polls_shared_memory: polls_shared_memory(device),
            images,
            half: device.extensions()?.split_whitespace().any(|name| name == "cl_khr_fp16"),
            // Deprecated since OpenCL 2.0, but the only query for unified memory.
            unified_memory: device.host_unified_memory().unwrap_or(true),
        })
    }
}

impl Description {
    /// Its name and its platform's, which are the SoC of a profile that was probed on it.
    pub fn full_name(&self) -> String {
        format!("{} ({})", self.name, self.platform)
    }

    /// Whether a work-group of `group` threads fits the device's limits per axis and `most` threads
    /// in all.
    pub(super) fn allows(&self, group: [u32; 3], most: usize) -> bool {
        let threads: u64 = group.iter().map(|&side| u64::from(side)).product();
        let fits = |(&side, most): (&u32, usize)| side > 0 && side as usize <= most;
        threads <= most as u64 && group.iter().zip(self.max_work_item_sizes).all(fits)
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} {}", self.platform_index, self.device_index, self.full_name())
    }
}

impl Device {
    /// The device named by `selection`, `PLATFORM:DEVICE`. Each is an index or a part of a name,
    /// case-insensitive; an empty one matches any. If `selection` is empty, the first GPU, else the
    /// first device.
    ///
    /// # Errors
    /// Where there is no such device, or a name matches several.
    pub fn select(selection: &str) -> Result<Self> {
        let mut all = devices()?;
        let chosen = select::choose(selection, &all.iter().map(Device::description).collect::<Vec<_>>())?;
        Ok(all.swap_remove(chosen))
    }

    /// The driver's description.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// `compute_units` of this device as a sub-device, so that some cores of a CPU device can
    /// emulate a GPU and the others stay free.
    ///
    /// # Errors
    /// Where the device has fewer compute units or cannot be partitioned.
    pub fn sub_device(&self, compute_units: u32) -> Result<Self> {
        let whole = &self.description;
        let refused = |reason: &str| OpenClError::SubDevice {
            device: whole.name.clone(),
            offered: whole.compute_units,
            wanted: compute_units,
            reason: reason.to_owned(),
        };
        if compute_units == 0 || compute_units > whole.compute_units {
            return Err(refused("there are no such compute units"));
        }
        let counts = [
            CL_DEVICE_PARTITION_BY_COUNTS,
            compute_units as isize,
            CL_DEVICE_PARTITION_BY_COUNTS_LIST_END,
            0,
        ];
        let parts = self.id.create_sub_devices(&counts);
        let parts = parts.map_err(|_| refused("the driver does not partition it by counts"))?;
        let part = parts.into_iter().next().ok_or_else(|| refused("the driver made no sub-device"))?;
        let id = ClDevice::new(part.id());
        let described = Description::of(id, (whole.platform_index, &whole.platform), whole.device_index);
        // PoCL 3.1 aborts the process when an image of a sub-device is written.
        let description = Description { images: None, ..described.naming("clGetDeviceInfo")? };
        Ok(Self { description, id, _part: Some(Arc::new(part)) })
    }
}
