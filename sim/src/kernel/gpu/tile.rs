//! The tile of a generic convolution: how many pixels and output slices one
//! thread computes, and how many source slices one loop iteration reads.
//!
//! Each family's rule trades reuse (large tiles) against occupancy (small ones)
//! by the task: texels of the output per compute unit.

use super::Extent;
use crate::device::gpu::{Gpu, GpuFamily};

/// What one thread computes: columns x rows of pixels, and output slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    pub(super) x: u32,
    pub(super) y: u32,
    pub(super) slices: u32,
}

impl Tile {
    pub(super) const fn new(x: u32, y: u32, slices: u32) -> Self {
        Self { x, y, slices }
    }

    pub(super) fn pixels(self) -> u32 {
        self.x * self.y
    }

    pub(super) fn texels(self) -> u32 {
        self.pixels() * self.slices
    }

    /// The tile laid out along the width: how matrix products and the middle
    /// kernel of Winograd, whose rows have different weights, use it.
    pub(super) fn folded(self) -> Self {
        Self { x: self.pixels(), y: 1, slices: self.slices }
    }
}

/// What the rules look at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    /// Output extent, as the rule is told it: Winograd's middle kernel passes the
    /// convolution's input.
    pub(super) shape: Extent,
    /// Slices the convolution reads.
    pub(super) source_slices: u32,
    /// Slices it writes.
    pub(super) output_slices: u32,
    /// 1x1, stride 1, undilated, unpadded.
    pub(super) trivial: bool,
}

/// The tile of `task` and its source unroll: source slices per loop iteration.
pub(super) fn choose(task: &Task, gpu: &Gpu) -> (Tile, u32) {
    let pixels = u64::from(task.shape.width) * u64::from(task.shape.height);
    let per_unit = pixels as f64 * f64::from(task.output_slices) / f64::from(gpu.compute_units);
    match gpu.family {
        family if family.is_adreno() => (adreno(family, per_unit), 1),
        family if family.is_mali() => mali(family, per_unit, task),
        GpuFamily::PowerVr => power_vr(task),
        GpuFamily::AppleA9 | GpuFamily::AppleBionic => apple(task, gpu),
        GpuFamily::Nvidia => nvidia(per_unit, task),
        GpuFamily::Amd => amd(per_unit, task),
        _ => {
            let slices = slices_up_to_four(task.output_slices);
            (Tile::new(1, 1, slices), unroll_by_slices(slices, task.source_slices))
        }
    }
}

fn adreno(family: GpuFamily, per_unit: f64) -> Tile {
    // Lanes of a full 16-bit wave.
    let wave = match family {
        GpuFamily::Adreno3xx => return Tile::new(2, 2, 2),
        GpuFamily::Adreno4xx | GpuFamily::Adreno5xx => 64.0,
        _ => 128.0,
    };
    match per_unit / wave {
        waves if waves <= 6.0 => Tile::new(1, 1, 1),
        waves if waves <= 12.0 => Tile::new(2, 1, 1),
        waves if waves <= 24.0 => Tile::new(2, 1, 2),
        _ => Tile::new(2, 2, 2),
    }
}

fn mali(family: GpuFamily, per_unit: f64, task: &Task) -> (Tile, u32) {
    // Task per compute unit up to which a thread computes one, two or four texels.
    let (one, two, four) = match family {
        GpuFamily::MaliMidgard => (1024.0, 4096.0, f64::INFINITY),
        GpuFamily::MaliBifrost1 => (256.0, 1024.0, 2048.0),
        GpuFamily::MaliBifrost2 => (512.0, 2048.0, 4096.0),
        _ => (256.0, 1536.0, 4096.0),
    };
    let most = if task.trivial || !(family.is_bifrost() || family == GpuFamily::MaliMidgard) { 8 } else { 4 };
    let texels = match per_unit {
        task if task <= one => 1,
        task if task <= two => 2,
        task if task <= four => 4,
        _ => most,
    };
    let odd_slices = matches!(task.output_slices, 1 | 3);
    let mut tile = match texels {
        4 | 8 if odd_slices => Tile::new(2, 2, 1),
        8 => Tile::new(2, 2, 2),
        4 => Tile::new(2, 1, 2),
        2 => Tile::new(2, 1, 1),
        _ => Tile::new(1, 1, 1),
    };
    if task.shape.width == 1 {
        tile = Tile::new(1, tile.pixels(), tile.slices);
    }
    if task.shape.height == 1 {
        tile = tile.folded();
    }
    let unroll = match texels {
        _ if family == GpuFamily::MaliMidgard => 1,
        1 if task.source_slices.is_multiple_of(4) => 4,
        1 | 2 if task.source_slices.is_multiple_of(2) => 2,
        _ => 1,
    };
    (tile, unroll)
}

fn power_vr(task: &Task) -> (Tile, u32) {
    // The rule starts from up to eight slices, which 16-bit kernels cut to four.
    let slices = slices_up_to_four(task.output_slices);
    let unroll = match slices {
        1 if task.source_slices <= 8 => task.source_slices.max(1),
        _ => unroll_by_slices(slices, task.source_slices),
    };
    (Tile::new(2, 1, slices), unroll)
}

/// Threads of the groups that Apple's rules count.
const APPLE_GROUP: u64 = 32;

fn apple(task: &Task, gpu: &Gpu) -> (Tile, u32) {
    let Extent { width, height, slices } = task.shape;
    let waves = task.shape.texels().div_ceil(APPLE_GROUP);
    let per_unit = |count: u64| waves >= u64::from(gpu.compute_units) * count;
    // Texels a thread may compute.
    let mut budget = if per_unit(64) {
        8
    } else if per_unit(32) {
        4
    } else if per_unit(16) {
        2
    } else {
        1
    };
    let mut tile = Tile::new(1, 1, 1);
    if budget >= 2 && gpu.family == GpuFamily::AppleBionic {
        tile = if height % 2 != 0 && width % 2 == 0 { Tile::new(2, 1, 1) } else { Tile::new(1, 2, 1) };
        budget /= 2;
    }
    if budget >= 4 && (slices % 4 == 0 || slices >= 16) {
        tile.slices = 4;
        budget /= 4;
    } else if budget >= 2 && (slices % 2 == 0 || slices >= 4) {
        tile.slices = 2;
        budget /= 2;
    }
    if budget >= 4 && slices == 3 {
        tile.slices = 3;
    }
    let unroll = match tile.texels() {
        1 if task.source_slices.is_multiple_of(4) => 4,
        1 | 2 if task.source_slices.is_multiple_of(2) => 2,
        _ => 1,
    };
    (tile, unroll)
}

fn nvidia(per_unit: f64, task: &Task) -> (Tile, u32) {
    let mut tile = Tile::new(2, 1, slices_up_to_four(task.output_slices));
    let waves = per_unit / f64::from(tile.texels()) / 32.0;
    if waves < 8.0 {
        tile.x = 1;
    }
    if waves < 4.0 && tile.slices >= 4 {
        tile.slices /= 2;
    }
    if waves < 2.0 && tile.slices >= 2 {
        tile.slices /= 2;
    }
    (tile, unroll_by_slices(tile.slices, task.source_slices))
}

fn amd(per_unit: f64, task: &Task) -> (Tile, u32) {
    let mut tile = match slices_up_to_four(task.output_slices) {
        4 => Tile::new(2, 2, 4),
        2 => Tile::new(4, 2, 2),
        _ => Tile::new(4, 4, 1),
    };
    let waves = per_unit / f64::from(tile.texels()) / 64.0;
    for threshold in [4.0, 2.0, 1.0, 0.5] {
        if waves < threshold {
            tile = halved(tile);
        }
    }
    let unroll = match tile.texels() {
        1 if task.source_slices.is_multiple_of(8) => 8,
        1 | 2 if task.source_slices.is_multiple_of(4) => 4,
        1..=4 if task.source_slices.is_multiple_of(2) => 2,
        _ => 1,
    };
    (tile, unroll)
}

/// The tile with its slices, else its rows, else its columns halved.
fn halved(tile: Tile) -> Tile {
    match tile {
        Tile { slices, .. } if slices % 2 == 0 => Tile { slices: slices / 2, ..tile },
        Tile { y, .. } if y % 2 == 0 => Tile { y: y / 2, ..tile },
        Tile { x, .. } if x % 2 == 0 => Tile { x: x / 2, ..tile },
        _ => tile,
    }
}

/// Output slices of a thread: four or two where they divide the count or waste
/// little of it, all of them where there are fewer.
fn slices_up_to_four(slices: u32) -> u32 {
    if slices.is_multiple_of(4) || slices >= 8 {
        4
    } else if slices.is_multiple_of(2) || slices >= 4 {
        2
    } else {
        slices
    }
}

/// Source slices of an iteration where only the output slices of a thread count.
fn unroll_by_slices(slices: u32, source_slices: u32) -> u32 {
    match source_slices {
        source if source % 4 == 0 && slices <= 2 => 4,
        source if source % 2 == 0 => 2,
        _ => 1,
    }
}
