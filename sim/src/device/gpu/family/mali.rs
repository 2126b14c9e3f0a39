//! Arm Mali.

use super::{Family, Tile, TileTask, UNRECOGNISED, number_after};

pub(super) static MIDGARD: Family = Family {
    maker: "Arm",
    recognises: |words| number_after(words, "mali-t").is_some(),
    wave_threads: 1,
    softmax_threads: 1024,
    tile: |task| (tile_of(texels(task, [1024.0, 4096.0, f64::INFINITY], 8), task), 1),
    has_depthwise_3x3: false,
    reduction_threads: [8, 32],
    ..BIFROST
};

pub(super) static BIFROST_1: Family = Family {
    recognises: |words| matches!(model(words), Some(31 | 51 | 71)),
    tile: |task| bifrost_tile(task, [256.0, 1024.0, 2048.0]),
    ..BIFROST
};

pub(super) static BIFROST_2: Family = Family {
    recognises: |words| matches!(model(words), Some(52 | 72)),
    tile: |task| bifrost_tile(task, [512.0, 2048.0, 4096.0]),
    ..BIFROST
};

pub(super) static BIFROST_3: Family = Family { recognises: |words| model(words) == Some(76), ..BIFROST };

pub(super) static VALHALL_1: Family =
    Family { recognises: |words| matches!(model(words), Some(57 | 77)), ..VALHALL };

/// Matched last of the Mali families, as the fallback for every other Mali.
pub(super) static VALHALL_2: Family =
    Family { recognises: |words| words.contains("mali"), has_depthwise_3x3: false, ..VALHALL };

/// The 3x3 depthwise kernel requires 16-bit activations in textures, which the delegate uses here.
const BIFROST: Family = Family {
    maker: "Arm",
    wave_threads: 8,
    softmax_threads: 1024,
    tile: |task| bifrost_tile(task, LATER_LIMITS),
    reduction_threads: [16, 64],
    waited_weight_blocks: MEASURED_WEIGHT_BLOCKS,
    ..UNRECOGNISED
};

/// Largest number of weight blocks of a wave, rounded up, in the convolutions that were measured on a Mali-G76, all with outputs of
/// 7x7 pixels or more (mobile-ml-benchmark data set). A wave of a single pixel has eight or sixteen, and would take up to
/// six times as long as one of 64 pixels by the latency per block.
const MEASURED_WEIGHT_BLOCKS: f64 = 1.6;

const VALHALL: Family =
    Family { wave_threads: 16, tile: |task| with_unroll(texels(task, LATER_LIMITS, 8), task), ..BIFROST };

/// Output texels per compute unit up to which a thread computes one, two or four texels, from G76 on.
const LATER_LIMITS: [f64; 3] = [256.0, 1536.0, 4096.0];

fn model(words: &str) -> Option<u32> {
    number_after(words, "mali-g")
}

fn bifrost_tile(task: &TileTask, limits: [f64; 3]) -> (Tile, u32) {
    with_unroll(texels(task, limits, if task.trivial { 8 } else { 4 }), task)
}

/// Texels per thread: one, two or four up to the respective limit of output texels per compute unit,
/// else `most`.
fn texels(task: &TileTask, [one, two, four]: [f64; 3], most: u32) -> u32 {
    match task.per_unit() {
        task if task <= one => 1,
        task if task <= two => 2,
        task if task <= four => 4,
        _ => most,
    }
}

fn with_unroll(texels: u32, task: &TileTask) -> (Tile, u32) {
    (tile_of(texels, task), task.unroll_by_texels(texels))
}

fn tile_of(texels: u32, task: &TileTask) -> Tile {
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
    if task.shape.height == 1 { tile.folded() } else { tile }
}
