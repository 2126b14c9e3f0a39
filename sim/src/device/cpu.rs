//! CPU parameters of a device profile: clusters of cores and their kernel rates.
//!
//! Responsible for: the properties of each cluster (core type, count, clock, vector
//! extensions) and the rate tables of the kernel libraries. Not for: which core set runs
//! an operator, or formulas. Invariant: clusters are listed fastest first, by clock; the
//! threads of a core set take cores in that order.

mod coexec_rates;
mod cold_caches;
mod core;
mod instruction_set;
mod language;
mod rates;
mod spread;

use arrayvec::ArrayString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::repeated;
use super::{Basis, Checker, Quantity};

pub use self::core::Core;
pub use coexec_rates::{CoexecRates, CoexecUnit};
pub use cold_caches::ColdCaches;
pub use instruction_set::{InstructionSet, TileExtent};
pub use language::LanguageRates;
pub use rates::{CONTENTION_FACTORS, MixedClusters, RuyRates, XnnpackRates};
pub use spread::CoreSetSpread;

/// Maximum clusters of a CPU: phone systems-on-chip have at most prime, big, middle and
/// little cores.
pub const MAX_CLUSTERS: usize = 4;

/// Maximum length of a cluster name, in letters.
const MAX_NAME_LETTERS: usize = 12;

/// The CPU of a system-on-chip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// Where the table's values come from.
    pub source: String,
    /// Factor on every time while cores of two or more clusters work together (a shared
    /// clock or power limit): gamma of the CPU model.
    #[serde(default = "no_change")]
    pub mixed_cluster_factor: Quantity,
    /// Fitted costs of mixing clusters for TFLite's own kernels on 32-bit floating point;
    /// overrides `mixed_cluster_factor`.
    pub mixed_ruy_f32: Option<MixedClusters>,
    /// Fitted costs of mixing clusters for TFLite's own kernels on 8-bit integers; overrides
    /// `mixed_cluster_factor`.
    pub mixed_ruy_i8: Option<MixedClusters>,
    /// Rates of a language-model engine's kernels for integer weights, on all cores.
    pub language: Option<LanguageRates>,
    /// What operators cost inside a network, with coexec's own kernels, beyond their time when repeated.
    pub cold_caches: Option<ColdCaches>,
    /// Clusters, fastest first.
    #[serde(rename = "cluster")]
    pub clusters: Vec<Cluster>,
}

/// Cores of one type at one clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Name used in core sets: `large`, `med`, `small`.
    pub name: ClusterName,
    /// Micro-architecture, by which XNNPACK selects micro-kernels.
    pub core: Core,
    /// Number of cores.
    pub cores: u32,
    /// Maximum clock, in MHz.
    pub clock_mhz: Quantity,
    /// Whether the cores have the int8 dot product (Armv8.2 `DotProd`).
    #[serde(default)]
    pub dot_product: bool,
    /// Whether the cores compute in 16-bit floating point (Armv8.2 `FP16`).
    #[serde(default)]
    pub f16_arithmetic: bool,
    /// Whether the cores have the int8 matrix product (Armv8.6 `I8MM`).
    #[serde(default)]
    pub int8_matrix_product: bool,
    /// Vector instructions that coexec's own kernels use; NEON where absent.
    pub instruction_set: Option<InstructionSet>,
    /// First-level data cache of a core, in bytes; 32 KiB where absent.
    pub l1_cache_bytes: Option<u32>,
    /// Second-level cache of a core, in bytes; 512 KiB where absent.
    pub l2_cache_bytes: Option<u32>,
    /// Rates of TFLite's own kernels on 32-bit floating point.
    pub ruy_f32: Option<RuyRates>,
    /// Rates of TFLite's own kernels on 8-bit integers.
    pub ruy_i8: Option<RuyRates>,
    /// Rates of XNNPACK on 32-bit floating point.
    pub xnnpack_f32: Option<XnnpackRates>,
    /// Rates of XNNPACK on 16-bit floating point.
    pub xnnpack_f16: Option<XnnpackRates>,
    /// Rates of XNNPACK on 8-bit integers.
    pub xnnpack_i8: Option<XnnpackRates>,
    /// Rates of coexec's own kernels on 32-bit floating point.
    pub coexec_f32: Option<CoexecRates>,
    /// Where the table's values come from.
    pub source: String,
}

/// Name of a cluster: 1 to 12 lower-case letters, so that core sets such as `1large2med`
/// are unambiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct ClusterName(ArrayString<MAX_NAME_LETTERS>);

impl ClusterName {
    /// The names of `count` clusters in descriptions that name none, fastest first; at most [`MAX_CLUSTERS`].
    pub fn fastest_first(count: usize) -> impl Iterator<Item = Self> {
        let names: &[&str] = match count {
            0 | 1 => &["large"],
            2 => &["large", "small"],
            3 => &["large", "med", "small"],
            _ => &["large", "high", "med", "small"],
        };
        names.iter().filter_map(|name| ArrayString::from(name).ok().map(Self))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ClusterName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let letters = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase());
        match ArrayString::from(&name) {
            Ok(short) if letters => Ok(Self(short)),
            _ => {
                Err(format!("found {name:?}, expected a name of 1 to {MAX_NAME_LETTERS} lower-case letters"))
            }
        }
    }
}

fn no_change() -> Quantity {
    Quantity::plain(1.0)
}

impl Cluster {
    /// Key and basis of each rate table present.
    pub fn rate_bases(&self) -> impl Iterator<Item = (&'static str, Basis)> {
        let tables = [
            ("ruy_f32", self.ruy_f32.as_ref().map(|rates| rates.basis)),
            ("ruy_i8", self.ruy_i8.as_ref().map(|rates| rates.basis)),
            ("xnnpack_f32", self.xnnpack_f32.as_ref().map(|rates| rates.basis)),
            ("xnnpack_f16", self.xnnpack_f16.as_ref().map(|rates| rates.basis)),
            ("xnnpack_i8", self.xnnpack_i8.as_ref().map(|rates| rates.basis)),
            ("coexec_f32", self.coexec_f32.as_ref().map(|rates| rates.basis)),
        ];
        tables.into_iter().filter_map(|(key, basis)| Some((key, basis?)))
    }
}

impl Cpu {
    /// Checks that there are 1 to [`MAX_CLUSTERS`] clusters with unique names, in order of
    /// decreasing clock, and that every value is in range.
    pub fn check(&self, checker: &mut Checker) {
        checker.values(self);
        if self.clusters.is_empty() || self.clusters.len() > MAX_CLUSTERS {
            checker.violation("cluster", self.clusters.len(), format!("1 to {MAX_CLUSTERS} clusters"));
        }
        for (index, pair) in self.clusters.windows(2).enumerate() {
            let [faster, slower] = pair else { continue };
            if slower.clock_mhz.value > faster.clock_mhz.value {
                let expected = format!("at most the {} of the cluster before", faster.clock_mhz.value);
                let key = format!("cluster[{}].clock_mhz", index + 1);
                checker.violation(&key, slower.clock_mhz.value, expected);
            }
        }
        for (index, cluster) in repeated(&self.clusters, |cluster| cluster.name) {
            let key = format!("cluster[{index}].name");
            checker.violation(&key, cluster.name.as_str(), "a name no other cluster has");
        }
    }

    /// Total cores of all clusters.
    pub fn cores(&self) -> u32 {
        self.clusters.iter().map(|cluster| cluster.cores).sum()
    }

    /// Whether there are rate tables, and all of them are of coexec's own kernels.
    pub fn has_only_coexec(&self) -> bool {
        let mut tables = self.clusters.iter().flat_map(Cluster::rate_bases).peekable();
        tables.peek().is_some() && tables.all(|(key, _)| key == "coexec_f32")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(first_mhz: f64, second_mhz: f64, second_name: &str) -> Cpu {
        crate::input::from_toml(&format!(
            r#"
            source = "test"
            [[cluster]]
            name = "large"
            core = "cortex-a76"
            cores = 1
            clock_mhz = {first_mhz:?}
            source = "test"
            [[cluster]]
            name = "{second_name}"
            core = "cortex-a55"
            cores = 4
            clock_mhz = {second_mhz:?}
            source = "test"
            "#
        ))
        .unwrap()
    }

    fn violations(cpu: &Cpu) -> Vec<String> {
        let mut checker = Checker::default();
        cpu.check(&mut checker);
        checker.violations.into_iter().map(|violation| violation.key).collect()
    }

    #[test]
    fn clusters_are_listed_fastest_first() {
        assert_eq!(violations(&cpu(2840.0, 1800.0, "small")), [""; 0]);
        assert_eq!(violations(&cpu(1800.0, 2840.0, "small")), ["cluster[1].clock_mhz"]);
    }

    #[test]
    fn two_clusters_do_not_share_a_name() {
        assert_eq!(violations(&cpu(2840.0, 1800.0, "large")), ["cluster[1].name"]);
    }

    #[test]
    fn a_cluster_name_is_letters_only() {
        assert!(ClusterName::try_from("med2".to_owned()).is_err());
        assert!(ClusterName::try_from(String::new()).is_err());
        assert_eq!(ClusterName::try_from("med".to_owned()).unwrap().as_str(), "med");
    }

    #[test]
    fn mixed_clusters_cost_nothing_by_default() {
        assert_eq!(cpu(2840.0, 1800.0, "small").mixed_cluster_factor, Quantity::plain(1.0));
    }
}
