//! Standard output, standard error and files.

use std::io::{ErrorKind, Write};
use std::path::Path;

use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::failure::Failure;

/// Prints a line on standard output; a reader that went away is no error.
pub(crate) fn line(text: &str) {
    if let Err(error) = writeln!(std::io::stdout(), "{text}")
        && error.kind() != ErrorKind::BrokenPipe
    {
        eprintln!("cannot write to standard output: {error}");
    }
}

/// Prints one JSON document.
pub(crate) fn json(document: &impl Serialize) {
    line(&serde_json::to_string_pretty(document).expect("our documents have string keys and finite shapes"));
}

/// No lines but one below the header.
const PLAIN: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('-').junction('-'));

/// Prints a table: numbers to the right.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) {
    let mut table = Table::new();
    table.load_style(PLAIN);
    table.set_header(header.iter().copied());
    for row in rows {
        table.add_row(row.iter().map(|text| {
            let alignment = if is_quantity(text) { CellAlignment::Right } else { CellAlignment::Left };
            Cell::new(text).set_alignment(alignment)
        }));
    }
    // Lines end where their text ends, so that output can be compared.
    for text in table.to_string().lines() {
        line(text.trim_end());
    }
}

/// Whether a cell holds a number, perhaps with a unit.
fn is_quantity(text: &str) -> bool {
    let mut words = text.split(' ');
    let number = words.next().unwrap_or_default().trim_end_matches(['x', '%']);
    number.parse::<f64>().is_ok() && words.count() <= 1
}

/// Writes a file as a whole: under a temporary name first, then renamed, so
/// that a failure leaves the old file.
pub(crate) fn write(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let failed = |reason: String| Failure::Write { path: path.to_owned(), reason };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut file = NamedTempFile::new_in(folder).map_err(|error| failed(error.to_string()))?;
    file.write_all(content).map_err(|error| failed(error.to_string()))?;
    file.persist(path).map_err(|error| failed(error.error.to_string()))?;
    Ok(())
}
