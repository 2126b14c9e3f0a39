//! The clusters of the CPU's cores, as the operating system reports them.
//!
//! Responsible for: which cores are alike, their type, and their clock. Not for: their speed.
//! Unreported values are marked as assumed.

use std::collections::BTreeMap;
use std::path::Path;

use coexec_fit::specification::core_numbered;
use coexec_sim::Quantity;
use coexec_sim::device::cpu::{Cluster, ClusterName, MAX_CLUSTERS};

use crate::cpu::widest_set;
use crate::system;

/// Assumed clock where the system reports none, in MHz.
const ASSUMED_MHZ: f64 = 2_000.0;
const KILOHERTZ_PER_MEGAHERTZ: f64 = 1e3;

/// Cores of one kind.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CoreGroup {
    /// Core numbers.
    pub(super) cores: Vec<usize>,
    /// The profile's cluster, without measured rates.
    pub(super) cluster: Cluster,
}

/// What distinguishes kinds of cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CoreKind {
    max_khz: u64,
    capacity: u64,
    part: (u32, u32),
}

/// Groups the `usable` cores by kind, fastest first. `root` holds `sys` and `proc` (`/` except in
/// tests).
pub(super) fn groups(root: &Path, usable: &[usize]) -> Vec<CoreGroup> {
    let info = system::text(&root.join("proc/cpuinfo")).unwrap_or_default();
    let parts = parts(&info);
    let mut kinds: BTreeMap<CoreKind, Vec<usize>> = BTreeMap::new();
    for &core in usable {
        let kind = CoreKind {
            max_khz: system::highest_clock(root, core).unwrap_or(0),
            capacity: system::number(&system::core_folder(root, core).join("cpu_capacity")).unwrap_or(0),
            part: parts.get(&core).copied().unwrap_or((0, 0)),
        };
        kinds.entry(kind).or_default().push(core);
    }
    // Cores without part numbers (x86) are of one kind, whatever their individual boost clocks.
    if kinds.keys().all(|kind| kind.part == (0, 0)) {
        let max_khz = kinds.keys().map(|kind| kind.max_khz).max().unwrap_or(0);
        kinds = BTreeMap::from([(CoreKind { max_khz, capacity: 0, part: (0, 0) }, usable.to_vec())]);
    }
    let kinds: Vec<(CoreKind, Vec<usize>)> = kinds.into_iter().rev().take(MAX_CLUSTERS).collect();
    let names = ClusterName::fastest_first(kinds.len());
    let named = kinds.into_iter().zip(names);
    named
        .map(|((kind, cores), name)| {
            let clock = Some(kind.max_khz as f64 / KILOHERTZ_PER_MEGAHERTZ).filter(|&clock| clock > 0.0);
            let cluster = cluster(root, name, (kind.part, &cores), clock.or_else(|| megahertz(&info)));
            CoreGroup { cores, cluster }
        })
        .collect()
}

/// Data caches of the first and second level of the first core, in bytes.
fn caches(root: &Path, cores: &[usize]) -> [Option<u32>; 2] {
    let Some(&core) = cores.first() else { return [None; 2] };
    [1, 2].map(|level| {
        let mut caches = system::caches(root, core);
        Some(caches.find(|cache| cache.level == level && cache.holds_data)?.bytes)
    })
}

/// Implementer and part number of each core in the text of `/proc/cpuinfo`.
fn parts(info: &str) -> BTreeMap<usize, (u32, u32)> {
    let mut parts = BTreeMap::new();
    let mut current = None;
    for (key, value) in info.lines().filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        let hexadecimal = || u32::from_str_radix(value.trim_start_matches("0x"), 16).ok();
        let key = key.trim();
        if key == "processor" {
            current = value.parse().ok();
        }
        if let ("CPU implementer" | "CPU part", Some(core), Some(number)) = (key, current, hexadecimal()) {
            let (implementer, part) = parts.entry(core).or_insert((0, 0));
            *(if key == "CPU part" { part } else { implementer }) = number;
        }
    }
    parts
}

/// The highest clock in the text of `/proc/cpuinfo`, in MHz.
fn megahertz(info: &str) -> Option<f64> {
    let clocks = info.lines().filter_map(|line| line.split_once(':'));
    let clocks = clocks.filter(|(key, _)| key.trim() == "cpu MHz");
    clocks.filter_map(|(_, value)| value.trim().parse().ok()).reduce(f64::max)
}

/// The cluster of `cores` with this part number, and a clock if the system reports one.
fn cluster(
    root: &Path,
    name: ClusterName,
    (part, cores): ((u32, u32), &[usize]),
    clock: Option<f64>,
) -> Cluster {
    let [dot_product, f16_arithmetic, int8_matrix_product] = extensions();
    let [l1_cache_bytes, l2_cache_bytes] = caches(root, cores);
    Cluster {
        name,
        core: core_numbered(part),
        cores: cores.len() as u32,
        clock_mhz: clock.map_or_else(
            || Quantity::of(ASSUMED_MHZ, "assumed: the system reports no clock"),
            Quantity::plain,
        ),
        dot_product,
        f16_arithmetic,
        int8_matrix_product,
        instruction_set: Some(widest_set()),
        l1_cache_bytes,
        l2_cache_bytes,
        ruy_f32: None,
        ruy_i8: None,
        xnnpack_f32: None,
        xnnpack_f16: None,
        xnnpack_i8: None,
        coexec_f32: None,
        source: "probe: core numbers, clocks and part numbers as the operating system reports them"
            .to_owned(),
    }
}

/// Whether the cores support byte dot products, half-precision arithmetic and 8-bit matrix
/// products.
fn extensions() -> [bool; 3] {
    #[cfg(target_arch = "aarch64")]
    return [
        std::arch::is_aarch64_feature_detected!("dotprod"),
        std::arch::is_aarch64_feature_detected!("fp16"),
        std::arch::is_aarch64_feature_detected!("i8mm"),
    ];
    #[cfg(not(target_arch = "aarch64"))]
    [false; 3]
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::fs;
    use std::path::PathBuf;

    use coexec_sim::device::cpu::Core;

    use super::*;

    /// A directory that mimics a phone's root file system.
    struct Root(PathBuf);

    impl Root {
        fn new(name: &str, cores: &[(u64, u64, u32)]) -> Self {
            let root = std::env::temp_dir().join(format!("coexec-cores-{name}-{}", std::process::id()));
            let mut info = String::new();
            for (number, (max_khz, capacity, part)) in cores.iter().enumerate() {
                let folder = root.join(format!("sys/devices/system/cpu/cpu{number}"));
                fs::create_dir_all(folder.join("cpufreq")).unwrap();
                fs::write(folder.join("cpufreq/cpuinfo_max_freq"), format!("{max_khz}\n")).unwrap();
                fs::write(folder.join("cpu_capacity"), format!("{capacity}\n")).unwrap();
                let caches = [("1", "Data", "64K"), ("1", "Instruction", "32K"), ("2", "Unified", "512K")];
                for (index, (level, kind, size)) in caches.into_iter().enumerate() {
                    let folder = folder.join(format!("cache/index{index}"));
                    fs::create_dir_all(&folder).unwrap();
                    fs::write(folder.join("level"), format!("{level}\n")).unwrap();
                    fs::write(folder.join("type"), format!("{kind}\n")).unwrap();
                    fs::write(folder.join("size"), format!("{size}\n")).unwrap();
                }
                writeln!(info, "processor\t: {number}").unwrap();
                if *part > 0 {
                    writeln!(info, "CPU implementer\t: 0x41\nCPU part\t: {part:#x}\n").unwrap();
                }
            }
            fs::create_dir_all(root.join("proc")).unwrap();
            fs::write(root.join("proc/cpuinfo"), info).unwrap();
            Self(root)
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_phone_s_cores_are_grouped_by_kind_fastest_first() {
        let little = (1_785_600, 250, 0xd05);
        let middle = (2_419_200, 870, 0xd0b);
        let cores = [little, little, little, little, middle, middle, middle, (2_841_600, 1_024, 0xd0b)];
        let root = Root::new("pixel4", &cores);
        let groups = groups(&root.0, &[0, 1, 2, 3, 4, 5, 6, 7]);
        let named: Vec<(&str, Core, u32)> = groups
            .iter()
            .map(|CoreGroup { cluster, .. }| (cluster.name.as_str(), cluster.core, cluster.cores))
            .collect();
        let expected =
            [("large", Core::CortexA76, 1), ("med", Core::CortexA76, 3), ("small", Core::CortexA55, 4)];
        assert_eq!(named, expected);
        assert_eq!(groups[2].cores, [0, 1, 2, 3]);
        let Cluster { l1_cache_bytes, l2_cache_bytes, .. } = groups[0].cluster;
        assert_eq!((l1_cache_bytes, l2_cache_bytes), (Some(65_536), Some(524_288)));
        assert!((groups[1].cluster.clock_mhz.value - 2_419.2).abs() < 1e-9);
    }

    #[test]
    fn cores_of_a_server_are_one_cluster_whatever_each_may_boost_to() {
        let root = Root::new("server", &[(3_700_000, 0, 0), (3_500_000, 0, 0), (3_700_000, 0, 0)]);
        let groups = groups(&root.0, &[1, 2]);
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0].cores, [1, 2]);
        assert!((groups[0].cluster.clock_mhz.value - 3_700.0).abs() < 1e-9);
    }

    #[test]
    fn an_unreported_clock_is_assumed_and_marked_as_such() {
        let groups = groups(Path::new("/nonexistent"), &[0]);
        let clock = &groups[0].cluster.clock_mhz;
        assert!(clock.source.as_ref().unwrap().contains("assumed"));
    }
}
