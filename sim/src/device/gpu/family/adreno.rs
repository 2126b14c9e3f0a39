//! Qualcomm Adreno.

use super::{Family, Tile, TileTask, UNRECOGNISED, WinogradThresholds, number_after};

pub(super) static ADRENO_3XX: Family = Family {
    recognises: |words| series(words) == Some(3),
    tile: |_| (Tile::new(2, 2, 2), 1),
    convolution_group_slices: 16,
    fully_connected_slices: 16,
    reduction_threads: [32, 128],
    ..BEFORE_6XX
};

pub(super) static ADRENO_4XX: Family = Family { recognises: |words| series(words) == Some(4), ..BEFORE_6XX };

pub(super) static ADRENO_5XX: Family = Family { recognises: |words| series(words) == Some(5), ..BEFORE_6XX };

pub(super) static ADRENO_6XX: Family = Family {
    recognises: |words| series(words) == Some(6),
    winograd: WinogradThresholds { source_slices: 32, output_slices: 32, tiles: 128 },
    ..FROM_6XX
};

pub(super) static ADRENO_7XX: Family = Family {
    recognises: |words| series(words).is_some_and(|series| !(3..=6).contains(&series)),
    softmax_threads: 512,
    ..FROM_6XX
};

const BEFORE_6XX: Family = Family {
    maker: "Qualcomm",
    wave_threads: 64,
    tile: |task| tile(task, 64.0),
    convolution_group_slices: 64,
    fully_connected_slices: 32,
    winograd: WinogradThresholds { source_slices: 32, output_slices: 32, tiles: 64 },
    constant_bytes: 2560,
    // Some models of these generations get 64 or 256.
    norm_threads: Some(128),
    norm_skips_group_for_few_slices: true,
    ..UNRECOGNISED
};

const FROM_6XX: Family = Family {
    maker: "Qualcomm",
    tile: |task| tile(task, 128.0),
    constant_bytes: 3584,
    softmax_passes: 2,
    norm_threads: Some(256),
    ..BEFORE_6XX
};

/// First digit of the model number; 0 if the driver reports none.
fn series(words: &str) -> Option<u32> {
    let is_adreno = words.contains("adreno") || words.contains("qualcomm");
    is_adreno.then(|| number_after(words, "adreno").unwrap_or(0) / 100)
}

/// The tile rule for full 16-bit waves of `lanes` lanes.
fn tile(task: &TileTask, lanes: f64) -> (Tile, u32) {
    let tile = match task.per_unit() / lanes {
        waves if waves <= 6.0 => Tile::new(1, 1, 1),
        waves if waves <= 12.0 => Tile::new(2, 1, 1),
        waves if waves <= 24.0 => Tile::new(2, 1, 2),
        _ => Tile::new(2, 2, 2),
    };
    (tile, 1)
}
