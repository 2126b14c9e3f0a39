//! AMD.

use super::{Family, Tile, TileTask, UNRECOGNISED, WinogradThresholds};

/// Threads of a wavefront.
const WAVEFRONT: u32 = 64;

pub(super) static AMD: Family = Family {
    maker: "AMD",
    recognises: |words| words.contains("advanced micro devices") || words.contains("radeon"),
    wave_threads: WAVEFRONT,
    tile,
    winograd: WinogradThresholds { source_slices: 16, output_slices: 8, tiles: 32 },
    norm_threads: Some(512),
    hides_wave_start: true,
    ..UNRECOGNISED
};

fn tile(task: &TileTask) -> (Tile, u32) {
    let mut tile = match task.slices_up_to_four() {
        4 => Tile::new(2, 2, 4),
        2 => Tile::new(4, 2, 2),
        _ => Tile::new(4, 4, 1),
    };
    let waves = task.per_unit() / f64::from(tile.texels()) / f64::from(WAVEFRONT);
    for threshold in [4.0, 2.0, 1.0, 0.5] {
        if waves < threshold {
            tile = halved(tile);
        }
    }
    let unroll = match tile.texels() {
        1 => task.unroll(&[8, 4, 2]),
        2 => task.unroll(&[4, 2]),
        3 | 4 => task.unroll(&[2]),
        _ => 1,
    };
    (tile, unroll)
}

/// The tile with the first even extent of slices, rows and columns halved.
fn halved(tile: Tile) -> Tile {
    match tile {
        Tile { slices, .. } if slices % 2 == 0 => Tile { slices: slices / 2, ..tile },
        Tile { y, .. } if y % 2 == 0 => Tile { y: y / 2, ..tile },
        Tile { x, .. } if x % 2 == 0 => Tile { x: x / 2, ..tile },
        _ => tile,
    }
}
