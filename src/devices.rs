//! `coexec devices`: the profiles and scenarios there are, or one profile with
//! the source of every value.

use coexec_sim::device::profile::Profile;
use coexec_sim::scenario;
use serde::Serialize;

use crate::cli::{Common, Devices};
use crate::failure::Failure;
use crate::output;

#[derive(Serialize)]
struct Listing {
    devices: Vec<Device>,
    scenarios: Vec<ScenarioEntry>,
}

#[derive(Serialize)]
struct Device {
    name: String,
    aliases: Vec<String>,
    title: String,
    soc: String,
    cpu: String,
    gpu: Option<String>,
    npu: Option<String>,
}

#[derive(Serialize)]
struct ScenarioEntry {
    name: &'static str,
    title: String,
}

pub(crate) fn run(options: &Devices, common: &Common) -> Result<(), Failure> {
    match &options.name {
        Some(name) => show(&Profile::load(name)?, common),
        None => list(common),
    }
}

fn list(common: &Common) -> Result<(), Failure> {
    let devices: Vec<Device> = Profile::bundled()?.into_iter().map(device).collect();
    let scenarios: Vec<ScenarioEntry> =
        scenario::names().into_iter().map(|(name, title)| ScenarioEntry { name, title }).collect();
    if common.json {
        output::json(&Listing { devices, scenarios });
        return Ok(());
    }
    let absent = || "-".to_owned();
    let rows: Vec<Vec<String>> = devices
        .into_iter()
        .map(|device| {
            let Device { name, title, soc, cpu, gpu, npu, .. } = device;
            vec![name, title, soc, cpu, gpu.unwrap_or_else(absent), npu.unwrap_or_else(absent)]
        })
        .collect();
    output::table(&["device", "what it is", "SoC", "CPU", "GPU", "NPU"], &rows);
    let rows: Vec<Vec<String>> =
        scenarios.into_iter().map(|entry| vec![entry.name.to_owned(), entry.title]).collect();
    output::table(&["scenario", "what it is"], &rows);
    Ok(())
}

fn device(profile: Profile) -> Device {
    let clusters = profile.cpu.clusters.iter().map(|cluster| {
        format!("{} {} at {} GHz", cluster.cores, cluster.name.as_str(), cluster.clock_mhz.value / 1e3)
    });
    Device {
        cpu: clusters.collect::<Vec<_>>().join(", "),
        gpu: profile.gpu.map(|gpu| gpu.name),
        npu: profile.npu.map(|npu| npu.name),
        name: profile.name,
        aliases: profile.aliases,
        title: profile.title,
        soc: profile.soc,
    }
}

/// Prints a profile as it would be written, sources included.
fn show(profile: &Profile, common: &Common) -> Result<(), Failure> {
    if common.json {
        output::json(profile);
        return Ok(());
    }
    let text = toml::to_string_pretty(profile).map_err(|error| Failure::Usage {
        problem: format!("the profile cannot be shown as TOML: {error}"),
        help: "use --json".to_owned(),
    })?;
    output::line(text.trim_end());
    Ok(())
}
