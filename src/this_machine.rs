//! The machine at hand where no device is named: the profile that `probe` wrote here last, else its cores and
//! `OpenCL` device as they are, of which nothing is predicted.

use std::path::PathBuf;

use coexec_hw::execute::ExecuteError;
use coexec_hw::probe::unmeasured;
use coexec_sim::{Profile, Scenario, Strategy};

use crate::{Common, Failure, OneOrAll, Result, Run, workers};

/// What `probe` wrote last, in the folder that the system keeps for programs' data; none where it has no such
/// folder.
pub(crate) fn last_probe() -> Option<PathBuf> {
    Some(dirs::data_local_dir()?.join("coexec").join("last-probe.toml"))
}

/// The scenario on the device that `options` name, else on this machine, and whether there are times to predict
/// with.
pub(crate) fn scenario(options: &Run, common: &Common) -> Result<(Scenario, bool)> {
    if options.place.names_device() {
        return Ok((options.place.load()?, true));
    }
    let strategy = options.place.strategy.and_then(OneOrAll::one);
    let gpu = strategy != Some(Strategy::CpuOnly);
    if gpu {
        workers::keep_on_their_cores(options.device.gpu_cores)?;
    }
    if let Some(path) = last_probe().filter(|path| path.exists()) {
        let path = path.display().to_string();
        common.note(format_args!("note: predicted by {path}, which `coexec probe` wrote here last"));
        return Ok((options.place.load_on(Profile::load(&path)?)?, true));
    }
    let alone = [None, Some(Strategy::CpuOnly), Some(Strategy::GpuOnly)];
    let probe = "measure this machine first (`coexec probe --out this-machine.toml`), or name a --device";
    if !alone.contains(&strategy) {
        return Err(Failure::usage(
            "no profile says how fast this machine is, so no plan can be found",
            probe,
        ));
    }
    let profile = unmeasured(&options.device.choice(gpu)).map_err(ExecuteError::from)?;
    common.note(format_args!(
        "note: each processor as it is and nothing predicted, for no profile says how fast it is: {probe}"
    ));
    Ok((options.place.load_on(profile)?, false))
}
