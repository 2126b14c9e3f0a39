//! `coexec devices`: the profiles and scenarios there are, or one profile with
//! the source of every value.

use coexec_sim::Profile;
use coexec_sim::scenario::{Bundled, BundledKind, bundled};
use serde::Serialize;

use crate::known::{Format, comments, formats};
use crate::output::row;
use crate::{Common, Devices, Failure, Result, or_dash, output};

#[derive(Serialize)]
struct Listing {
    devices: Vec<Device>,
    scenarios: Vec<Bundled>,
}

#[derive(Serialize)]
struct Device {
    name: String,
    aliases: Vec<String>,
    title: String,
    soc: String,
    cpu: String,
    /// Cores of each cluster, the fastest first: `1+3+4`.
    cores: String,
    gpu: Option<String>,
    npu: Option<String>,
    /// What times rest on in each format that models are stored in.
    formats: Vec<Format>,
}

pub(crate) fn run(options: &Devices, common: &Common) -> Result {
    match &options.name {
        Some(name) => show(&Profile::load(name)?, common),
        None => list(common),
    }
}

fn list(common: &Common) -> Result {
    let devices: Vec<Device> = Profile::bundled()?.into_iter().map(device).collect();
    let scenarios = bundled();
    if common.json {
        output::json(&Listing { devices, scenarios });
        return Ok(());
    }
    let rows = devices.into_iter().map(|Device { name, title, cores, gpu, npu, .. }| {
        row![name, title, cores, or_dash(gpu.map(shortened)), or_dash(npu)]
    });
    output::table(&["device", "what it is", "cores", "GPU", "NPU"], rows);
    for kind in BundledKind::ALL {
        let of_kind = scenarios.iter().filter(|entry| entry.kind == *kind);
        output::line("");
        output::table(&[&kind.to_string(), "what it is"], of_kind.map(|entry| row![entry.name, entry.title]));
    }
    Ok(())
}

/// Characters of a GPU's name that a table has room for.
const MOST_OF_A_NAME: usize = 20;

/// The beginning of a long name; `coexec devices NAME` shows all of it.
fn shortened(name: String) -> String {
    if name.chars().count() <= MOST_OF_A_NAME {
        return name;
    }
    name.chars().take(MOST_OF_A_NAME - 3).chain("...".chars()).collect()
}

fn device(profile: Profile) -> Device {
    let clusters = profile.cpu.clusters.iter().map(|cluster| {
        format!("{} {} at {} GHz", cluster.cores, cluster.name.as_str(), cluster.clock_mhz.value / 1e3)
    });
    let cores = profile.cpu.clusters.iter().map(|cluster| cluster.cores.to_string());
    Device {
        formats: formats(&profile),
        cores: cores.collect::<Vec<_>>().join("+"),
        cpu: clusters.collect::<Vec<_>>().join(", "),
        gpu: profile.gpu.map(|gpu| gpu.name),
        npu: profile.npu.map(|npu| npu.name),
        name: profile.name,
        aliases: profile.aliases,
        title: profile.title,
        soc: profile.soc,
    }
}

/// Prints what is known of a profile in each format, and the profile as it would be written, sources
/// included.
fn show(profile: &Profile, common: &Common) -> Result {
    let text = profile.to_toml().map_err(|error| {
        Failure::usage(format!("the profile cannot be written: {error}"), "see where it holds no number")
    })?;
    if common.json {
        output::json(&text.parse::<toml::Table>().expect("what was written as TOML reads as TOML"));
        return Ok(());
    }
    output::line(&format!("{}\n\n{}", comments(&formats(profile)), text.trim_end()));
    Ok(())
}
