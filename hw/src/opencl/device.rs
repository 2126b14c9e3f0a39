//! Platforms, devices and sub-devices: what there is, and which is meant.

mod select;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use opencl3::device::{
    CL_DEVICE_PARTITION_BY_COUNTS, CL_DEVICE_PARTITION_BY_COUNTS_LIST_END, CL_DEVICE_SVM_ATOMICS,
    CL_DEVICE_SVM_FINE_GRAIN_BUFFER, CL_DEVICE_SVM_FINE_GRAIN_SYSTEM, CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_CPU,
    CL_DEVICE_TYPE_GPU, Device as ClDevice, SubDevice,
};
use opencl3::platform::get_platforms;

use super::{Naming, OpenClError, Result, library};

/// `CL_PLATFORM_NOT_FOUND_KHR`: the loader found no driver (`cl_khr_icd`).
const PLATFORM_NOT_FOUND: i32 = -1001;
/// `CL_DEVICE_NOT_FOUND`: the platform has no device.
const DEVICE_NOT_FOUND: i32 = -1;

/// What a device is.
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
    /// Number of its platform, from 0.
    pub platform_index: usize,
    /// Its platform's name.
    pub platform: String,
    /// Number in its platform, from 0.
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
    /// Highest clock, in 10^6 cycles per second; 0 where the driver does not say.
    pub clock_mhz: u32,
    /// Most threads of a work-group.
    pub max_work_group_size: usize,
    /// Most threads of a work-group along each axis.
    pub max_work_item_sizes: [usize; 3],
    /// Bytes of global memory.
    pub global_memory_bytes: u64,
    /// Bytes of the largest buffer.
    pub max_allocation_bytes: u64,
    /// Bytes of the largest constant buffer.
    pub constant_memory_bytes: u64,
    /// Whether both sides may poll flags in fine-grained shared virtual memory while a kernel
    /// runs.
    pub polls_shared_memory: bool,
    /// Width and height of the largest image, in texels; none where it has no images.
    pub images: Option<[usize; 2]>,
    /// Whether it computes in 16-bit floating point.
    pub half: bool,
    /// Whether it shares the host's memory, rather than having its own.
    pub unified_memory: bool,
}

/// A device that a runtime can be made of.
#[derive(Clone, Debug)]
pub struct Device {
    pub(super) description: Description,
    /// What the driver knows it by.
    pub(super) id: ClDevice,
    /// Keeps a sub-device alive; none for a whole device.
    _part: Option<Arc<SubDevice>>,
}

/// Whether both sides may poll flags in shared virtual memory while a kernel runs: it is
/// fine-grained and has atomics.
fn polls_shared_memory(device: ClDevice) -> bool {
    // The query fails before OpenCL 2.0, where there is none.
    let has = |bit| device.svm_capabilities().unwrap_or(0) & bit != 0;
    (has(CL_DEVICE_SVM_FINE_GRAIN_BUFFER) || has(CL_DEVICE_SVM_FINE_GRAIN_SYSTEM))
        && has(CL_DEVICE_SVM_ATOMICS)
}

/// All devices of all platforms.
///
/// # Errors
/// Where there is no library or no platform.
pub fn devices() -> Result<Vec<Device>> {
    // PoCL 3.1 and its loader crash, or find nothing, when two threads ask first.
    static ASKING: Mutex<()> = Mutex::new(());
    let _asking = ASKING.lock().unwrap_or_else(PoisonError::into_inner);
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
            // Deprecated since OpenCL 2.0, but the only question that has this answer.
            unified_memory: device.host_unified_memory().unwrap_or(true),
        })
    }
}

impl Description {
    /// Whether a work-group of `group` threads fits the device's axes and `most` threads in all.
    pub(super) fn allows(&self, group: [u32; 3], most: usize) -> bool {
        let threads: u64 = group.iter().map(|&side| u64::from(side)).product();
        let fits = |(&side, most): (&u32, usize)| side > 0 && side as usize <= most;
        threads <= most as u64 && group.iter().zip(self.max_work_item_sizes).all(fits)
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { platform_index, device_index, name, platform, .. } = self;
        write!(f, "{platform_index}:{device_index} {name} ({platform})")
    }
}

impl Device {
    /// The device that `selection` names: `PLATFORM:DEVICE`, each a number or a part
    /// of a name whose case does not matter; nothing stands for any. The first GPU,
    /// else the first device, where `selection` is empty.
    ///
    /// # Errors
    /// Where there is no such device, or a name fits several.
    pub fn select(selection: &str) -> Result<Self> {
        let mut all = devices()?;
        let chosen = select::choose(selection, &all.iter().map(Device::description).collect::<Vec<_>>())?;
        Ok(all.swap_remove(chosen))
    }

    /// What the driver says of it.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// `compute_units` of this device as a device of their own: so that some cores of
    /// a CPU device stand for a GPU and the others stay free.
    ///
    /// # Errors
    /// Where the device has fewer compute units or cannot be cut.
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
        // PoCL 3.1 ends the process when an image of a sub-device is written.
        let description = Description { images: None, ..described.naming("clGetDeviceInfo")? };
        Ok(Self { description, id, _part: Some(Arc::new(part)) })
    }
}
