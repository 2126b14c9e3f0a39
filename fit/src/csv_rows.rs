//! Values as rows of CSV.
//!
//! Responsible for: writing values with a header, and reading them back, with the line of the
//! first invalid row. Not for: the meaning of the values.

use coexec_sim::{InputError, Text};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// `rows` as CSV, with a header.
///
/// # Errors
/// A row cannot be serialised as CSV.
pub fn write(rows: &[impl Serialize]) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.serialize(row)?;
    }
    text(writer)
}

/// The text that a writer has written.
pub(crate) fn text(writer: csv::Writer<Vec<u8>>) -> Result<String, csv::Error> {
    let bytes = writer.into_inner().map_err(|error| std::io::Error::from(error.error().kind()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The rows of `text` with their lines; the error's help is `help`.
pub(crate) fn numbered<T: DeserializeOwned>(text: &Text, help: &str) -> Result<Vec<(u64, T)>, InputError> {
    let mut reader = csv::Reader::from_reader(text.content.as_bytes());
    // The header of a text is no error, as its bytes are UTF-8.
    let header = reader.headers().cloned().unwrap_or_default();
    let row = |record: csv::Result<csv::StringRecord>| {
        let record = record?;
        let line = record.position().map_or(0, csv::Position::line);
        record.deserialize(Some(&header)).map(|row| (line, row))
    };
    let rows: csv::Result<_> = reader.into_records().map(row).collect();
    rows.map_err(|error| {
        let line = error.position().map_or(1, csv::Position::line);
        text.refuse_at(None, line, message(&error, &header), help_on(&header, help))
    })
}

/// What is wrong with a row, without its place, which the caller states.
fn message(error: &csv::Error, header: &csv::StringRecord) -> String {
    let csv::ErrorKind::Deserialize { err, .. } = error.kind() else { return error.to_string() };
    match err.field().and_then(|field| header.get(field as usize)) {
        Some(column) => format!("{column}: {}", err.kind()),
        None => err.kind().to_string(),
    }
}

/// `help` for a table with that header, whose columns may be separated by something else.
pub(crate) fn help_on<'a>(header: &csv::StringRecord, help: &'a str) -> &'a str {
    if header.iter().next().is_some_and(|first| first.starts_with('#')) {
        "the first line names the columns: remove the comments"
    } else if header.len() == 1 {
        "separate the columns by commas"
    } else {
        help
    }
}

/// The rows of `text`; one with a `problem` is an error, whose help is `help`.
pub(crate) fn read<T: DeserializeOwned>(
    text: &Text,
    help: &str,
    problem: impl Fn(&T) -> Option<String>,
) -> Result<Vec<T>, InputError> {
    let row = |(line, row): (u64, T)| match problem(&row) {
        Some(problem) => Err(text.refuse_at(None, line, problem, help)),
        None => Ok(row),
    };
    numbered(text, help)?.into_iter().map(row).collect()
}

/// The rows of a table that is part of the program; a test reads each of them.
pub(crate) fn bundled<T: DeserializeOwned>(content: &str) -> Vec<T> {
    let text = Text { name: "a bundled table".to_owned(), content: content.to_owned() };
    read(&text, "", |_| None).expect("a test reads the tables, which are bundled")
}
