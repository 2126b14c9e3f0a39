//! The device of `coexec run` without `--device`: this machine, by the profile that `probe` wrote here
//! last, or else by its cores and `OpenCL` device alone, for which nothing is predicted.

use std::path::PathBuf;

use coexec_hw::execute::ExecuteError;
use coexec_hw::probe::unmeasured;
use coexec_sim::{Profile, Scenario, Strategy};

use crate::{Common, Failure, OneOrAll, Result, Run, workers};

/// Path of the profile that `probe` wrote last, in the system's folder for application data; none if
/// there is no such folder.
pub(crate) fn last_probe() -> Option<PathBuf> {
    Some(dirs::data_local_dir()?.join("coexec").join("last-probe.toml"))
}

/// The scenario on the device that `options` name, else on this machine, and whether the profile has
/// times to predict with.
pub(crate) fn scenario(options: &Run, common: &Common) -> Result<(Scenario, bool)> {
    if options.place.overrides.device.is_some() {
        return Ok((options.place.load()?, true));
    }
    let strategy = options.place.strategy.and_then(OneOrAll::one);
    let gpu = strategy != Some(Strategy::CpuOnly);
    if gpu {
        workers::pin_workers(options.device.gpu_cores)?;
    }
    if let Some(path) = last_probe().filter(|path| path.exists()) {
        let path = path.display().to_string();
        common.note(format_args!("note: predicting with {path}, which `coexec probe` wrote last"));
        return Ok((options.place.load_on(Profile::load(&path)?)?, true));
    }
    let alone = [None, Some(Strategy::CpuOnly), Some(Strategy::GpuOnly)];
    let probe = "measure this machine first (`coexec probe --out this-machine.toml`), or name a --device";
    if !alone.contains(&strategy) {
        return Err(Failure::usage(
            "no profile describes how fast this machine is, so no plan can be found",
            probe,
        ));
    }
    let profile = unmeasured(&options.device.choice(gpu)).map_err(ExecuteError::from)?;
    common.note(format_args!(
        "note: measuring each processor alone, without predictions, as no profile describes how fast they are: {probe}"
    ));
    Ok((options.place.load_on(profile)?, false))
}
