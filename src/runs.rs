//! Measured runs from the files a user names.

use std::path::Path;

use coexec_sim::device::gpu::Gpu;
use coexec_sim::device::profile::Profile;
use coexec_sim::measure::LeftOut;
use coexec_sim::measure::benchmark_cpu::{self, CpuTable};
use coexec_sim::measure::benchmark_gpu::{self, GpuTable};

use crate::cli::{Common, RunFormat, Runs};
use crate::failure::Failure;

/// Most rows that are named one by one on standard error.
const MOST_NAMED: usize = 5;

/// What a folder holds of a profile's processors: of at least one.
pub(crate) struct Measured {
    /// Layers on the GPU.
    pub(crate) gpu: Option<GpuTable>,
    /// Networks on the CPU.
    pub(crate) cpu: Option<CpuTable>,
}

impl Measured {
    /// Rows of the files that are no usable runs. Both halves read the GPU table;
    /// the GPU's reasons come first.
    pub(crate) fn unusable(&self) -> Vec<LeftOut> {
        let gpu = self.gpu.iter().flat_map(|table| &table.left_out);
        gpu.chain(self.cpu.iter().flat_map(|table| &table.left_out)).cloned().collect()
    }
}

/// The runs in `folder` on the processors of `profile`; see [`gpu_table`].
pub(crate) fn measured(
    profile: &Profile,
    folder: &Path,
    runs: &Runs,
    common: &Common,
) -> Result<Measured, Failure> {
    let cpu = cpu_table(folder, runs, common)?;
    let gpu = match &profile.gpu {
        None if cpu.is_some() => None,
        _ => gpu_of(profile).and_then(|_| gpu_table(folder, runs, common)).map(Some)?,
    };
    Ok(Measured { gpu, cpu })
}

/// The CPU runs in `folder`, if it has a table of them; says on standard error
/// how many cells it cannot use, and why.
fn cpu_table(folder: &Path, runs: &Runs, common: &Common) -> Result<Option<CpuTable>, Failure> {
    let table = match runs.format {
        RunFormat::MobileMlBenchmark if !benchmark_cpu::is_in(folder) => return Ok(None),
        RunFormat::MobileMlBenchmark => benchmark_cpu::read(folder, &runs.device_column)?,
    };
    if !common.quiet {
        eprintln!("{}: {} CPU runs of {}", folder.display(), table.runs.len(), runs.device_column);
        name_left_out("not used", &table.left_out);
    }
    Ok(Some(table))
}

/// The GPU runs in `folder`; says on standard error how many rows it cannot use,
/// and why.
pub(crate) fn gpu_table(folder: &Path, runs: &Runs, common: &Common) -> Result<GpuTable, Failure> {
    let table = match runs.format {
        RunFormat::MobileMlBenchmark => benchmark_gpu::read(folder, &runs.device_column)?,
    };
    if table.runs.is_empty() {
        return Err(Failure::Usage {
            problem: format!("{} holds no usable GPU run of {}", folder.display(), runs.device_column),
            help: match table.left_out.first() {
                Some(row) => format!("line {}: {}", row.line, row.reason),
                None => "give a folder whose GPU table has rows".to_owned(),
            },
        });
    }
    if !common.quiet {
        eprintln!("{}: {} GPU runs of {}", folder.display(), table.runs.len(), runs.device_column);
        name_left_out("not used", &table.left_out);
    }
    Ok(table)
}

/// Names the first rows that are left out, and counts the others.
pub(crate) fn name_left_out(what: &str, rows: &[LeftOut]) {
    for row in rows.iter().take(MOST_NAMED) {
        eprintln!("{what}: line {}: {}", row.line, row.reason);
    }
    if rows.len() > MOST_NAMED {
        eprintln!("{what}: {} rows more (--json lists them)", rows.len() - MOST_NAMED);
    }
}

/// The GPU of a profile that is to be compared with runs.
pub(crate) fn gpu_of(profile: &Profile) -> Result<&Gpu, Failure> {
    profile.gpu.as_ref().ok_or_else(|| Failure::Usage {
        problem: format!("the profile {} has no [gpu] table", profile.name),
        help: "use a profile with a GPU (`coexec devices`)".to_owned(),
    })
}
