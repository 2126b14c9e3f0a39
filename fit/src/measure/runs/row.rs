//! One row of a file of runs.

use std::sync::LazyLock;

use csv::StringRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Dispatch, ExecutedOn, Measurement, Repetition, operator};
use crate::csv_rows;
use crate::measure::time;
use coexec_sim::{DataType, InputError, Mechanism, Text};

/// Columns that differ between repetitions; the others are the same in all rows of a run.
const REPETITION_COLUMNS: [&str; 3] = ["repetition", "measured_us", "outlier"];

/// The columns that every file has: those of fields that are not options.
const REQUIRED: [&str; 7] =
    ["run", "network", "data_type", "processor", "repetition", "measured_us", "outlier"];

/// The columns (the fields of a [`Row`]) in the order in which they are written; a file may have them
/// in any order.
pub static COLUMNS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let written = csv_rows::write(&[Row::default()]).expect("a row can be written to memory");
    let header = written.lines().next().unwrap_or_default();
    header.split(',').map(str::to_owned).collect()
});

/// A row of a file of runs: one repetition. Rows of one run differ only in
/// `repetition`, `measured_us` and `outlier`; a row with an empty `network` repeats
/// the other columns of the row before it, which is of the same run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Id of the run, unique in the file.
    pub run: String,
    /// Network or scenario of the run, which cross-validation keeps in one fold.
    pub network: String,
    /// The operator as an inline table of a scenario file,
    /// `{ name = "fc1", linear = { rows = 50, input_features = 768, output_features = 3072 } }`;
    /// empty where the whole network ran.
    pub operator: Option<String>,
    /// Extents of the operator's inputs (batch, height, width, channels), where its
    /// table does not contain them: `1x7x7x960;1x7x7x64`.
    pub inputs: Option<String>,
    /// Functions linked to the operator, in order: `add;relu`. Those of two operands read a second tensor.
    pub linked: Option<String>,
    /// Number format of the model.
    pub data_type: DataType,
    /// `gpu`, a core set (`1large2med`), `npu` (not compared with predictions: of NPUs, only `--format ai-hub` is), an
    /// operator's cut
    /// (`1large2med:1016+gpu:2056`, output channels, or `1large2med:12rows+gpu:36rows`), or
    /// `plan:` and the name of a plan file next to the runs.
    pub processor: String,
    /// Synchronisation mechanism between the host and another processor, where the host took
    /// the time, from its call until it saw the end. Empty for an operator on the GPU alone
    /// that was timed by events.
    pub synchronisation: Option<Mechanism>,
    /// Kernel, as the tool that ran it names it.
    pub kernel: Option<String>,
    /// Grid and work-group of a GPU kernel, in threads: `56x56x32/8x4x4`.
    pub dispatch: Option<String>,
    /// Number of the repetition, from 0.
    pub repetition: u32,
    /// Time in microseconds.
    pub measured_us: f64,
    /// Whether the repetition was disturbed, or all times of its run are meaningless; it is kept, but excluded from
    /// medians.
    pub outlier: bool,
    /// Id in the table of fingerprints next to the runs; empty where the conditions are
    /// unknown.
    pub fingerprint: Option<String>,
}

/// Rejects a header with a missing, unknown or duplicated column.
pub(super) fn check_header(header: &StringRecord, text: &Text) -> Result<(), InputError> {
    let columns = format!("the columns are {}", COLUMNS.join(", "));
    let help = csv_rows::help_on(header, &columns);
    let refuse = |span, message: String| Err(text.refuse_at(span, 1, message, help));
    let times = |name: &str| header.iter().filter(|column| *column == name).count();
    if let Some(missing) = REQUIRED.iter().find(|name| times(name) == 0) {
        return refuse(None, format!("there is no column {missing:?}"));
    }
    let is_known = |name: &str| COLUMNS.iter().any(|column| column == name);
    match header.iter().find(|name| !is_known(name) || times(name) > 1) {
        Some(name) => {
            // The second of a duplicated column.
            let span = text.content.lines().next().and_then(|line| line.rfind(name));
            let problem = if times(name) > 1 { "duplicated" } else { "unknown" };
            refuse(span.map(|start| start..start + name.len()), format!("the column {name:?} is {problem}"))
        }
        None => Ok(()),
    }
}

/// The cells of a row that repeats the one before it.
pub(super) fn repeated(row: &Row) -> Vec<String> {
    let cell = |column: &String| match column.as_str() {
        "run" => row.run.clone(),
        "repetition" => row.repetition.to_string(),
        "measured_us" => row.measured_us.to_string(),
        "outlier" => row.outlier.to_string(),
        _ => String::new(),
    };
    COLUMNS.iter().map(cell).collect()
}

/// The row in a record, or an error that states what is wrong. `before` is the record before
/// it, and becomes this one, filled in.
pub(super) fn of_record(
    record: &StringRecord,
    before: &mut StringRecord,
    header: &StringRecord,
) -> Result<Row, String> {
    if record.len() != header.len() {
        return Err(format!("{} cells, expected {}", record.len(), header.len()));
    }
    let cell = |of: &StringRecord, name: &str| {
        let place = header.iter().position(|column| column == name);
        place.and_then(|place| of.get(place)).unwrap_or_default().to_owned()
    };
    let run = cell(record, "run");
    let is_continued = !run.is_empty() && cell(record, "network").is_empty();
    *before = if is_continued && cell(before, "run") == run {
        let cells = header.iter().zip(record).zip(&*before);
        cells
            .map(|((name, own), before)| if REPETITION_COLUMNS.contains(&name) { own } else { before })
            .collect()
    } else {
        record.clone()
    };
    if is_continued && cell(before, "network").is_empty() {
        return Err(format!(
            "the row continues run {run:?} (its network is empty), but no complete row of that run precedes it"
        ));
    }
    let record = &*before;
    record.deserialize(Some(header)).map_err(|error| match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => {
            match err.field().and_then(|index| header.get(index as usize)) {
                Some(column) => format!("{column}: {}", err.kind()),
                None => err.kind().to_string(),
            }
        }
        _ => error.to_string(),
    })
}

impl Row {
    /// The repetition in this row, or an error that states what is wrong.
    pub(super) fn repetition(&self) -> Result<Repetition, String> {
        let (number, measured_us) = (self.repetition, time(self.measured_us, self.measured_us)?);
        Ok(Repetition { number, measured_us, outlier: self.outlier })
    }

    /// The measurement that starts with this row, or an error that states what is wrong.
    pub(super) fn measurement(&self, line: u64) -> Result<Measurement, String> {
        if self.run.is_empty() || self.network.is_empty() {
            return Err("the run has no id or no network".to_owned());
        }
        Ok(Measurement {
            run: self.run.clone(),
            network: self.network.clone(),
            operator: self.operator.as_ref().map(|text| operator::read(text, self)).transpose()?,
            data_type: self.data_type,
            processor: ExecutedOn::parse(&self.processor)?,
            synchronisation: self.synchronisation,
            kernel: self.kernel.clone(),
            dispatch: self.dispatch.as_deref().map(Dispatch::parse).transpose()?,
            fingerprint: self.fingerprint.clone(),
            repetitions: vec![self.repetition()?],
            line,
        })
    }
}

/// The first column in which records of one run must agree but differ.
pub(super) fn differing<'a>(
    record: &StringRecord,
    first: &StringRecord,
    header: &'a StringRecord,
) -> Option<&'a str> {
    let mut cells = header.iter().zip(record.iter().zip(first));
    let differs =
        |(name, (own, first)): &(&str, (&str, &str))| own != first && !REPETITION_COLUMNS.contains(name);
    cells.find(differs).map(|(name, _)| name)
}

/// The rows of a measurement.
pub(super) fn of_measurement(measurement: &Measurement) -> Vec<Row> {
    let of_run = Row {
        run: measurement.run.clone(),
        network: measurement.network.clone(),
        data_type: measurement.data_type,
        processor: measurement.processor.to_string(),
        synchronisation: measurement.synchronisation,
        kernel: measurement.kernel.clone(),
        dispatch: measurement.dispatch.map(|dispatch| dispatch.to_string()),
        fingerprint: measurement.fingerprint.clone(),
        ..Row::default()
    };
    let of_run = match &measurement.operator {
        Some((name, layer)) => operator::write(name, layer, of_run),
        None => of_run,
    };
    let row = |repetition: &Repetition| Row {
        repetition: repetition.number,
        measured_us: repetition.measured_us,
        outlier: repetition.outlier,
        ..of_run.clone()
    };
    measurement.repetitions.iter().map(row).collect()
}
