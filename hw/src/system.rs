//! What Linux and Android report below `/sys` and `/proc`; other systems report nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

const BYTES_PER_KIBIBYTE: u32 = 1 << 10;
/// Upper bound on the cache entries of a core: L1 instruction and data, and two further levels.
const MAX_CACHES: usize = 8;

/// The trimmed text of a file; `None` where it is empty or cannot be read.
pub(crate) fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The number in a file, `None` where there is none.
pub(crate) fn number<N: FromStr>(path: &Path) -> Option<N> {
    text(path)?.parse().ok()
}

/// The `sysfs` directory of core `core`. `root` holds `sys` and `proc` (`/` except in tests).
pub(crate) fn core_folder(root: &Path, core: usize) -> PathBuf {
    root.join(format!("sys/devices/system/cpu/cpu{core}"))
}

/// Maximum clock of a core, in kHz.
pub(crate) fn highest_clock(root: &Path, core: usize) -> Option<u64> {
    number(&core_folder(root, core).join("cpufreq/cpuinfo_max_freq"))
}

/// A cache of a core.
pub(crate) struct Cache {
    pub(crate) level: u32,
    pub(crate) holds_data: bool,
    pub(crate) bytes: u32,
}

/// The caches of a core.
pub(crate) fn caches(root: &Path, core: usize) -> impl Iterator<Item = Cache> {
    let folder = core_folder(root, core).join("cache");
    (0..MAX_CACHES).filter_map(move |index| {
        let folder = folder.join(format!("index{index}"));
        Some(Cache {
            level: number(&folder.join("level"))?,
            holds_data: text(&folder.join("type"))? != "Instruction",
            bytes: bytes(&text(&folder.join("size"))?)?,
        })
    })
}

/// Parses a size as `sysfs` writes it: `32768K`, `32M`.
fn bytes(text: &str) -> Option<u32> {
    let (number, unit) = text.split_at(text.find(|letter: char| !letter.is_ascii_digit())?);
    let number: u32 = number.parse().ok()?;
    match unit {
        "K" => number.checked_mul(BYTES_PER_KIBIBYTE),
        "M" => number.checked_mul(BYTES_PER_KIBIBYTE * BYTES_PER_KIBIBYTE),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_caches_are_read_in_both_units() {
        assert_eq!(["32768K", "32M", "?", "9999M"].map(bytes), [Some(32 << 20), Some(32 << 20), None, None]);
    }
}
