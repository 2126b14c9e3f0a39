//! coexec's own measured runs: a CSV file with one row per repetition, and a table of the
//! measurement conditions next to it.
//!
//! Responsible for: the record, its columns, reading and writing. Not for: executing
//! anything, or the names of a phone's cores. Invariants: raw repetitions are kept,
//! outliers included; written measurements read back as the same measurements; an
//! unusable row is returned with its line.

mod fingerprint;
mod medians;
mod operator;
mod row;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use csv::StringRecord;

use super::SkippedRow;
use crate::csv_rows;
use coexec_sim::kernel::gpu::Launch;
use coexec_sim::{Axis, DataType, InputError, Layer, Mechanism, Placement, Processor, Stage, Text};

pub use fingerprint::{Fingerprint, fingerprints_of_toml, fingerprints_path, fingerprints_to_toml};
pub(super) use medians::OnCpu;
pub use row::{COLUMNS, Row};

/// Suffix of counts of rows; counts of channels have none.
const ROWS: &str = "rows";
/// Name of the file of runs in a folder.
const FILE_NAME: &str = "runs.csv";
/// Largest file of runs that is read. 30 repetitions of 10,000 operators, at 250 bytes
/// per row, fit in half of it.
const MAX_RUNS_BYTES: u64 = 160 << 20;

/// What was executed, where, and the time of each repetition.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Id that its rows share, unique in a file.
    pub run: String,
    /// Its network or scenario, which cross-validation keeps in one fold.
    pub network: String,
    /// The operator's name and layer; none where the whole network ran.
    pub operator: Option<(String, Layer)>,
    /// Number format of the model.
    pub data_type: DataType,
    /// Where it ran.
    pub processor: ExecutedOn,
    /// Synchronisation mechanism between the host and another processor, where the host took
    /// the time, from its call until it saw the end. An operator on the GPU alone without one
    /// was timed by events.
    pub synchronisation: Option<Mechanism>,
    /// Kernel, as the tool that ran it names it.
    pub kernel: Option<String>,
    /// Dispatch of a GPU kernel.
    pub dispatch: Option<Dispatch>,
    /// Id of the measurement conditions in the table of fingerprints.
    pub fingerprint: Option<String>,
    /// The repetitions, in the order of the file.
    pub repetitions: Vec<Repetition>,
    /// Line of its first row, from 1.
    pub line: u64,
}

impl Measurement {
    /// Whether the host took the time of a single operator that the GPU computes, or a part of it.
    pub fn is_host_timed(&self) -> bool {
        self.operator.is_some() && self.synchronisation.is_some()
    }

    /// A run without repetitions of which nothing else is known.
    pub fn new(run: String, network: &str, data_type: DataType, processor: ExecutedOn) -> Self {
        Self {
            run,
            network: network.to_owned(),
            operator: None,
            data_type,
            processor,
            synchronisation: None,
            kernel: None,
            dispatch: None,
            fingerprint: None,
            repetitions: Vec::new(),
            line: 0,
        }
    }

    /// The run with the kernel and the dispatch of its launch on the GPU, if it had one.
    #[must_use]
    pub fn launched(self, launch: Option<Launch>) -> Self {
        let dispatch = |Launch { grid, work_group, .. }| Dispatch { grid, work_group };
        Self {
            kernel: launch.map(|launch| launch.kernel.to_string()),
            dispatch: launch.map(dispatch),
            ..self
        }
    }
}

/// One execution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Repetition {
    /// Number, from 0.
    pub number: u32,
    /// Time in microseconds.
    pub measured_us: f64,
    /// Whether it was marked as disturbed; it is kept, but excluded from medians.
    pub outlier: bool,
}

/// Where something ran.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ExecutedOn {
    /// On the GPU: `gpu`.
    Gpu,
    /// On the NPU: `npu`.
    Npu,
    /// On a CPU core set: `1large2med`.
    Cpu(String),
    /// An operator cut along its output's channels, `1large2med:1016+gpu:2056`, or its height,
    /// `1large2med:12rows+gpu:36rows`.
    Split {
        /// What it is cut along.
        axis: Axis,
        /// Core set.
        cores: String,
        /// Channels or rows that the cores computed.
        cpu: u32,
        /// Channels or rows that the GPU computed.
        gpu: u32,
    },
    /// Under the plan in a file of that name next to the runs: `plan:NAME`.
    Plan(String),
}

/// How a GPU kernel was launched: `56x56x32/8x4x4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dispatch {
    /// Threads in each dimension.
    pub grid: [u32; 3],
    /// Threads of a work-group in each dimension.
    pub work_group: [u32; 3],
}

/// A file of runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunTable {
    /// The measurements, in the order of the file.
    pub measurements: Vec<Measurement>,
    /// The measurement conditions that they refer to.
    pub fingerprints: Vec<Fingerprint>,
    /// Names of the networks that ran as a whole, with their stages where these are known.
    pub networks: Vec<(String, Vec<Stage>)>,
    /// Names and contents of the plan files next to the runs.
    pub plans: Vec<(String, Text)>,
    /// Rows that cannot be used.
    pub left_out: Vec<SkippedRow>,
}

/// The file of runs at `path`: `path` itself, or the `runs.csv` in it if it is a folder.
pub fn file_of(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(FILE_NAME) } else { path.to_owned() }
}

/// Reads the runs at `path` (a file, or a folder that holds `runs.csv`), the
/// fingerprints and plans next to them, and the stages of the networks that ran as a whole: of
/// bundled ones, and of scenario and model files next to the runs.
///
/// # Errors
/// The file does not exist or is not a table of runs, or the table of fingerprints is bad.
pub fn read(path: &Path) -> Result<RunTable, InputError> {
    let file = file_of(path);
    let text = Text::read_up_to(&file, MAX_RUNS_BYTES)?;
    let sidecar = fingerprints_path(&file);
    let fingerprints =
        if sidecar.exists() { fingerprints_of_toml(&Text::read(&sidecar)?)? } else { Vec::new() };
    let mut table = parse(&text, fingerprints)?;
    let folder = file.parent().unwrap_or(Path::new(""));
    table.networks = medians::networks(&table.measurements, folder);
    table.plans = medians::plans(&table.measurements, folder);
    Ok(table)
}

/// Parses runs, without looking for networks; see [`read`].
///
/// # Errors
/// A column is missing, unknown, or duplicated.
pub fn parse(text: &Text, fingerprints: Vec<Fingerprint>) -> Result<RunTable, InputError> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.content.as_bytes());
    let header = reader.headers().cloned().unwrap_or_default();
    row::check_header(&header, text)?;
    let sidecar = fingerprints_path(Path::new(&text.name));
    let table = RunTable { fingerprints, ..RunTable::default() };
    let (known, fingerprints) = (HashMap::new(), sidecar.display().to_string());
    let mut parser = Parser { table, header, fingerprints, known };
    let mut before = StringRecord::new();
    // No record of a text is an error: any length is allowed, and the bytes are UTF-8.
    for record in reader.into_records().filter_map(Result::ok) {
        let line = record.position().map_or(0, csv::Position::line);
        let row = row::of_record(&record, &mut before, &parser.header);
        if let Err(reason) = row.and_then(|row| parser.add(&row, &before, line)) {
            parser.table.left_out.push(SkippedRow { line, reason });
        }
    }
    Ok(parser.table)
}

/// The measurements as CSV, with a header.
///
/// # Errors
/// A row cannot be serialised as CSV.
pub fn to_csv(measurements: &[Measurement]) -> Result<String, csv::Error> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    writer.write_record(&*COLUMNS)?;
    for measurement in measurements {
        for (index, row) in row::of_measurement(measurement).into_iter().enumerate() {
            if index == 0 {
                writer.serialize(row)?;
            } else {
                writer.write_record(row::repeated(&row))?;
            }
        }
    }
    csv_rows::text(writer)
}

/// State of parsing a file.
struct Parser {
    table: RunTable,
    header: StringRecord,
    /// Path of the file of fingerprints.
    fingerprints: String,
    /// Index of each measurement in the table, and its first row, by its id.
    known: HashMap<String, (usize, StringRecord)>,
}

impl Parser {
    /// Adds a row to its measurement, or as the first row of a new one.
    fn add(&mut self, row: &Row, record: &StringRecord, line: u64) -> Result<(), String> {
        let table = &mut self.table;
        let repetition = row.repetition()?;
        if let Some((index, first)) = self.known.get(&row.run) {
            let measurement = &mut table.measurements[*index];
            if let Some(column) = row::differing(record, first, &self.header) {
                return Err(format!(
                    "the {column} of run {} differs from that on line {}",
                    row.run, measurement.line
                ));
            }
            if measurement.repetitions.iter().any(|known| known.number == repetition.number) {
                return Err(format!("repetition {} of run {} is duplicated", repetition.number, row.run));
            }
            measurement.repetitions.push(repetition);
            return Ok(());
        }
        let measurement = row.measurement(line)?;
        if let Some(id) = &measurement.fingerprint
            && !table.fingerprints.iter().any(|fingerprint| fingerprint.id == *id)
        {
            return Err(format!(
                "there is no fingerprint {id:?} in {}, the table next to the runs",
                self.fingerprints
            ));
        }
        self.known.insert(row.run.clone(), (table.measurements.len(), record.clone()));
        table.measurements.push(measurement);
        Ok(())
    }
}

impl fmt::Display for ExecutedOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gpu => f.write_str("gpu"),
            Self::Npu => f.write_str("npu"),
            Self::Cpu(cores) => f.write_str(cores),
            Self::Split { axis, cores, cpu, gpu } => {
                let unit = if *axis == Axis::Height { ROWS } else { "" };
                write!(f, "{cores}:{cpu}{unit}+gpu:{gpu}{unit}")
            }
            Self::Plan(name) => write!(f, "plan:{name}"),
        }
    }
}

impl ExecutedOn {
    /// The processors of a placement; none where it is cut other than in two, between a CPU and a GPU.
    pub fn of(placement: Placement) -> Option<Self> {
        // Two parts of one processor are not the cut that their sum is.
        let extents = placement.cpu_and_gpu_extents().filter(|_| placement.parts().count() == 2);
        match (placement.only(), extents, placement.cores()) {
            (Some(Processor::Cpu(cores)), ..) => Some(Self::Cpu(cores.to_string())),
            (Some(Processor::Gpu), ..) => Some(Self::Gpu),
            (Some(Processor::Npu(_)), ..) => Some(Self::Npu),
            (None, Some((axis, [cpu, gpu])), Some(cores)) => {
                Some(Self::Split { axis, cores: cores.to_string(), cpu, gpu })
            }
            (None, ..) => None,
        }
    }

    /// Parses the format that [`Display`](fmt::Display) writes; the error states what was expected.
    fn parse(text: &str) -> Result<Self, String> {
        let is_name = |name: &str| !name.is_empty() && !name.contains([':', '+', ' ']);
        let part = |text: &str| {
            let (name, count) = text.split_once(':')?;
            let rows = count.strip_suffix(ROWS);
            let axis = if rows.is_some() { Axis::Height } else { Axis::Channels };
            let count = rows.unwrap_or(count).parse().ok().filter(|&count: &u32| count > 0)?;
            is_name(name).then(|| (axis, name.to_owned(), count))
        };
        let split = |(cpu, gpu)| {
            let ((axis, cores, cpu), (other, name, gpu)) = (part(cpu)?, part(gpu)?);
            (axis == other && name == "gpu").then_some(Self::Split { axis, cores, cpu, gpu })
        };
        let found = match (text, text.split_once('+'), text.strip_prefix("plan:")) {
            ("gpu", ..) => Some(Self::Gpu),
            ("npu", ..) => Some(Self::Npu),
            (_, Some(parts), _) => split(parts),
            (_, None, Some(name)) => (!name.is_empty()).then(|| Self::Plan(name.to_owned())),
            (_, None, None) => is_name(text).then(|| Self::Cpu(text.to_owned())),
        };
        found.ok_or_else(|| {
            format!(
                "the processor is {text:?}, expected gpu, npu, a core set, CORES:CHANNELS+gpu:CHANNELS, \
                 CORES:Nrows+gpu:Nrows or plan:FILE"
            )
        })
    }
}

impl fmt::Display for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [[x, y, z], [wx, wy, wz]] = [self.grid, self.work_group];
        write!(f, "{x}x{y}x{z}/{wx}x{wy}x{wz}")
    }
}

impl Dispatch {
    /// Parses the format that [`Display`](fmt::Display) writes; the error states what is wrong.
    fn parse(text: &str) -> Result<Self, String> {
        let three = |text: &str| {
            <[u32; 3]>::try_from(operator::numbers(text)?).map_err(|_| "three numbers are needed".to_owned())
        };
        text.split_once('/')
            .ok_or_else(|| "no / between grid and work-group".to_owned())
            .and_then(|(grid, work_group)| Ok(Self { grid: three(grid)?, work_group: three(work_group)? }))
            .map_err(|reason: String| format!("the dispatch is {text:?}, expected 56x56x32/8x4x4: {reason}"))
    }
}
