//! `coexec devices`: lists the bundled profiles and scenarios, or shows one profile with the source of
//! every value.

use coexec_sim::Profile;
use coexec_sim::scenario::{BundledKind, bundled};
use serde::Serialize;

use crate::known::{comments, formats};
use crate::output::{listed, record, row};
use crate::{Common, Devices, Failure, Result, or_dash, output};

pub(crate) fn run(options: &Devices, common: &Common) -> Result {
    match &options.name {
        Some(name) => show(&Profile::load(name)?, common),
        None => list(common),
    }
}

fn list(common: &Common) -> Result {
    let (profiles, scenarios) = (Profile::bundled()?, bundled());
    if common.json {
        let devices: Vec<_> = profiles.iter().map(device).collect();
        return output::json(&record!(Listing { devices, scenarios }));
    }
    let rows = profiles.iter().map(|profile| {
        let Profile { name, title, gpu, npu, .. } = profile;
        let gpu = or_dash(gpu.as_ref().map(|gpu| shortened(&gpu.name)));
        row![name, title, cores(profile), gpu, or_dash(npu.as_ref().map(|npu| &npu.name))]
    });
    output::table(&["device", "what it is", "cores", "GPU", "NPU"], rows);
    for kind in BundledKind::ALL {
        let of_kind = scenarios.iter().filter(|entry| entry.kind == *kind);
        output::line("");
        output::table(&[&kind.to_string(), "what it is"], of_kind.map(|entry| row![entry.name, entry.title]));
    }
    Ok(())
}

/// Longest GPU name that the table has room for, in characters.
const MAX_NAME_LENGTH: usize = 20;

/// Truncates a long name; `coexec devices NAME` shows all of it.
fn shortened(name: &str) -> String {
    if name.chars().count() <= MAX_NAME_LENGTH {
        return name.to_owned();
    }
    name.chars().take(MAX_NAME_LENGTH - 3).chain("...".chars()).collect()
}

/// Cores of each cluster, the fastest first: `1+3+4`.
fn cores(profile: &Profile) -> String {
    let cores = profile.cpu.clusters.iter().map(|cluster| cluster.cores.to_string());
    cores.collect::<Vec<_>>().join("+")
}

fn device(profile: &Profile) -> impl Serialize {
    let clusters = profile.cpu.clusters.iter().map(|cluster| {
        format!("{} {} at {} GHz", cluster.cores, cluster.name.as_str(), cluster.clock_mhz.value / 1e3)
    });
    record!(Device {
        name: &profile.name,
        aliases: &profile.aliases,
        title: &profile.title,
        soc: &profile.soc,
        cpu: listed(clusters),
        cores: cores(profile),
        gpu: profile.gpu.as_ref().map(|gpu| &gpu.name),
        npu: profile.npu.as_ref().map(|npu| &npu.name),
        /// Basis of the times in each format that models are stored in.
        formats: formats(profile),
    })
}

/// Prints the basis of a profile's times in each format, then the profile as TOML, sources included.
fn show(profile: &Profile, common: &Common) -> Result {
    let text = profile.to_toml().map_err(|error| {
        Failure::usage(
            format!("the profile cannot be written: {error}"),
            "look for values that are not finite numbers",
        )
    })?;
    if common.json {
        return output::json(&text.parse::<toml::Table>().expect("what was written as TOML reads as TOML"));
    }
    output::line(&format!("{}\n\n{}", comments(&formats(profile)), text.trim_end()));
    Ok(())
}
