//! The device profile, its loading and the bundled profiles.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml_edit::{InlineTable, Item, Table, Value};

use super::calibration::{Calibration, UsedFact};
use super::{Checker, Cpu, Gpu, Memory, Npu, Power, Quantity, Sync, SystolicArrays};
use crate::input::{InputError, Result, Text, from_toml};

/// One system-on-chip in one phone: all parameters of the models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Name used on the command line.
    pub name: String,
    /// Human-readable name.
    pub title: String,
    /// System-on-chip.
    pub soc: String,
    /// Other names by which the profile is found.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Shared memory.
    pub memory: Memory,
    /// CPU clusters and their kernel rates.
    pub cpu: Cpu,
    /// The GPU; absent if not modelled.
    pub gpu: Option<Gpu>,
    /// The NPU; absent if the SoC has none or it is not modelled.
    pub npu: Option<Npu>,
    /// Synchronisation between processors.
    pub sync: Sync,
    /// Power; absent if unknown.
    pub power: Option<Power>,
    /// Spread of repeated runs.
    pub jitter: Jitter,
    /// Published numbers from which values of this profile were set. They are inputs and do
    /// not count as predicted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used_fact: Vec<UsedFact>,
    /// Provenance and accuracy of the fitted values.
    pub calibration: Option<Calibration>,
}

/// Spread of repeated runs of one kernel on an otherwise idle device, as the
/// mean absolute deviation from the median.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Jitter {
    /// Where the values come from.
    pub source: String,
    /// Deviation of a CPU operator, in percent.
    pub cpu_percent: Quantity,
    /// Deviation of a GPU launch, in percent.
    pub gpu_percent: Quantity,
    /// Deviation of an NPU graph, in percent.
    pub npu_percent: Option<Quantity>,
}

/// Name and content of every bundled profile in `device-profiles/`, sorted by name.
const BUNDLED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/device-profiles.rs"));

/// The keys before a profile's first table that identify it.
#[derive(Deserialize)]
struct Identity {
    #[serde(default)]
    aliases: Vec<String>,
}

/// Whether a bundled profile has the name or alias `name`, ignoring case. Only the head
/// of its file is parsed, since some files are long.
fn has_name(&(file, content): &(&str, &str), name: &str) -> bool {
    let head = content.find("\n[").map_or(content, |tables| &content[..tables]);
    let has_alias =
        |identity: Identity| identity.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(name));
    file.eq_ignore_ascii_case(name) || from_toml(head).is_ok_and(has_alias)
}

fn parse_bundled(&(name, content): &(&str, &str)) -> Result<Profile> {
    Profile::parse(&Text { name: format!("{name}.toml"), content: content.to_owned() })
}

impl Profile {
    /// Parses and checks a profile.
    ///
    /// # Errors
    /// The first violation in the text.
    pub fn parse(text: &Text) -> Result<Self> {
        let profile: Self = text.parse()?;
        let mut checker = Checker::default();
        profile.check(&mut checker);
        checker.refuse(text)?;
        Ok(profile)
    }

    /// The bundled profile with the name or alias `name`, or the profile in the file at that
    /// path.
    ///
    /// # Errors
    /// [`InputError::Unknown`] if there is neither; otherwise the first violation in the file.
    pub fn load(name: &str) -> Result<Self> {
        Self::named(name, name)
    }

    /// The bundled profile called `name`, or else the one in the file at `path`.
    pub(crate) fn named(name: &str, path: &str) -> Result<Self> {
        if let Some(bundled) = BUNDLED.iter().find(|bundled| has_name(bundled, name)) {
            return parse_bundled(bundled);
        }
        if let Some(text) = Text::of_file(path) {
            return Self::parse(&text?);
        }
        Err(InputError::Unknown {
            what: "device profile",
            name: name.to_owned(),
            known: BUNDLED.iter().map(|(name, _)| (*name).to_owned()).collect(),
            or_file: true,
        })
    }

    /// All bundled profiles.
    ///
    /// # Errors
    /// If one of them is invalid, which a test excludes.
    pub fn bundled() -> Result<Vec<Self>> {
        BUNDLED.iter().map(parse_bundled).collect()
    }

    /// The profile as TOML, with each value that has its own source on one line.
    ///
    /// # Errors
    /// If a value is not representable in TOML, which does not occur in a parsed profile.
    pub fn to_toml(&self) -> Result<String, toml_edit::ser::Error> {
        let mut document = toml_edit::ser::to_document(self)?;
        for (_, item) in document.as_table_mut().iter_mut() {
            lay_out(item);
        }
        Ok(document.to_string())
    }

    fn check(&self, checker: &mut Checker) {
        if self.name.is_empty() || self.name.contains(char::is_whitespace) {
            checker.violation("name", format!("{:?}", self.name), "a name without spaces");
        }
        checker.table("memory", |checker| {
            self.memory.check(checker);
            self.check_clients(checker);
        });
        checker.table("cpu", |checker| self.cpu.check(checker));
        checker.optional("gpu", self.gpu.as_ref(), Gpu::check);
        checker.optional("npu", self.npu.as_ref(), Npu::check);
        checker.table("sync", |checker| checker.values(&self.sync));
        if let Some(power) = &self.power {
            checker.table("power", |checker| power.check(checker));
            let (found, clusters) = (power.cluster.len(), self.cpu.clusters.len());
            if found != clusters {
                let expected = format!("{clusters} entries, one for each [[cpu.cluster]], in its order");
                checker.violation("power.cluster", format!("{found} entries"), expected);
            }
            // A processor without power would cost nothing in an energy search.
            let parts = [
                ("gpu", self.gpu.is_some(), power.gpu.is_some()),
                ("npu", self.npu.is_some(), power.npu.is_some()),
            ];
            for (key, exists, has_power) in parts {
                if exists && !has_power {
                    let expected = format!("a table [power.{key}], since the profile has a [{key}]");
                    checker.violation("power", "incomplete", expected);
                }
            }
        }
        checker.optional("calibration", self.calibration.as_ref(), Calibration::check);
        checker.table("jitter", |checker| checker.values(&self.jitter));
    }

    /// The NPU's systolic arrays, for products dispatched one by one; `None` if the profile has none.
    pub fn systolic(&self) -> Option<&SystolicArrays> {
        self.npu.as_ref()?.systolic.as_ref()
    }

    /// The same device without memory interference, only max-min fair sharing.
    #[must_use]
    pub fn without_interference(&self) -> Self {
        let memory = Memory { interference: Vec::new(), ..self.memory.clone() };
        Self { memory, ..self.clone() }
    }

    /// Records memory interference entries of clients that the device does not have.
    fn check_clients(&self, checker: &mut Checker) {
        let clusters = self.cpu.clusters.iter().map(|cluster| cluster.name.as_str());
        let known: Vec<&str> = ["cpu", "gpu", "npu"].into_iter().chain(clusters).collect();
        for (index, entry) in self.memory.interference.iter().enumerate() {
            if !known.contains(&entry.client.as_str()) {
                let key = format!("interference[{index}].client");
                let expected = format!("one of {}", known.join(", "));
                checker.violation(&key, format!("{:?}", entry.client), expected);
            }
        }
    }
}

/// Gives each table its own header, but keeps sourced values, which the serialiser writes inline,
/// on the line of their key.
fn lay_out(item: &mut Item) {
    let is_quantity = |inline: &InlineTable| inline.contains_key("value") && inline.contains_key("source");
    if let Item::Value(Value::InlineTable(inline)) = item
        && !is_quantity(inline)
    {
        *item = Item::Table(std::mem::take(inline).into_table());
    }
    if let Item::Value(Value::Array(array)) = item
        && array.iter().any(|value| value.as_inline_table().is_some_and(|inline| !is_quantity(inline)))
    {
        let tables = std::mem::take(array).into_iter().filter_map(|value| match value {
            Value::InlineTable(inline) => Some(inline.into_table()),
            _ => None,
        });
        *item = Item::ArrayOfTables(tables.collect());
    }
    if let Item::Value(Value::Array(array)) = item
        && array.iter().any(Value::is_array)
    {
        for row in array.iter_mut() {
            row.decor_mut().set_prefix("\n  ");
        }
        array.set_trailing("\n");
    }
    match item {
        Item::Table(table) => table.iter_mut().for_each(|(_, inner)| lay_out(inner)),
        Item::ArrayOfTables(tables) => {
            tables.iter_mut().flat_map(Table::iter_mut).for_each(|(_, inner)| lay_out(inner));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_has_the_name_of_its_file_and_is_found_by_its_aliases() {
        let mut taken = std::collections::HashSet::new();
        for bundled in BUNDLED {
            let profile = parse_bundled(bundled).unwrap();
            assert_eq!(profile.name, bundled.0);
            for name in profile.aliases.iter().chain([&profile.name]) {
                assert_eq!(Profile::load(name).unwrap().name, profile.name);
                assert!(taken.insert(name.clone()), "{name} stands for two profiles");
            }
        }
    }

    #[test]
    fn a_written_profile_reads_as_the_same_profile() {
        for profile in Profile::bundled().unwrap() {
            let content = profile.to_toml().unwrap();
            let text = Text { name: "written.toml".into(), content };
            assert_eq!(Profile::parse(&text).unwrap(), profile);
            let has_kernels = text.content.contains("\n[gpu.conv_generic]\n");
            assert_eq!(has_kernels, profile.gpu.is_some(), "{}", text.content);
            assert!(text.content.contains("\n[[cpu.cluster]]\n"), "{}", text.content);
        }
    }
}
