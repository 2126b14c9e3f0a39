//! Standard output, standard error and files.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use coexec_fit::measure::runs::{Fingerprint, Measurement, fingerprints_path, fingerprints_to_toml, to_csv};
use coexec_plots::{Format, PlotError};
use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::failure::Failure;

/// Whether standard output could not be written: the answer was not delivered.
static IS_LOST: AtomicBool = AtomicBool::new(false);

/// Prints a line on standard output; a reader that went away is no error.
pub(crate) fn line(text: &str) {
    if let Err(error) = writeln!(std::io::stdout(), "{}", shown(text))
        && error.kind() != ErrorKind::BrokenPipe
        && !IS_LOST.swap(true, Ordering::Relaxed)
    {
        note(&format!("cannot write to standard output: {error}"));
    }
}

/// Whether all lines went where they should.
pub(crate) fn is_delivered() -> bool {
    !IS_LOST.load(Ordering::Relaxed)
}

/// Prints a line on standard error, where somebody may read it.
pub(crate) fn note(text: &str) {
    // Nobody is left to be told that it cannot be printed.
    let _ = writeln!(std::io::stderr(), "{}", shown(text));
}

/// Prints a report on standard error, whose colours are its own.
pub(crate) fn report(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", text.trim_end());
}

/// Text in which the control characters of names and files do nothing to a terminal.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    let is_control = |character: char| character.is_control() && character != '\n';
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_control(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// Prints one JSON document.
pub(crate) fn json(document: &impl Serialize) {
    line(&serde_json::to_string_pretty(document).expect("our documents have string keys and finite shapes"));
}

/// No lines but one below the header.
const PLAIN: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('-').junction('-'));

/// The cells of a table's row: whatever can be shown.
macro_rules! row {
    ($($cell:expr),* $(,)?) => { vec![$($cell.to_string()),*] };
}
pub(crate) use row;

/// Each value once, in the order in which they come first.
pub(crate) fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

/// What there may be, or a dash.
pub(crate) fn or_dash(value: Option<impl Display>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}

/// Prints a table: numbers to the right.
pub(crate) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
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

/// A file to be written.
pub(crate) struct OutputFile {
    path: PathBuf,
    content: Vec<u8>,
}

impl OutputFile {
    pub(crate) fn new(path: &Path, content: impl Into<Vec<u8>>) -> Self {
        Self { path: path.to_owned(), content: content.into() }
    }

    /// The file of what was encoded as text, unless that failed.
    pub(crate) fn encoded<E: Display>(path: &Path, content: Result<String, E>) -> Result<Self, Failure> {
        content.map(|content| Self::new(path, content)).map_err(|error| Failure::write(path, error))
    }
}

/// A picture to write, in the format that the ending of its name says.
#[derive(Clone, Debug)]
pub(crate) struct PicturePath {
    path: PathBuf,
    format: Format,
}

impl PicturePath {
    /// # Errors
    /// The name ends in no format.
    pub(crate) fn new(path: PathBuf) -> Result<Self, PlotError> {
        Ok(Self { format: Format::of(&path)?, path })
    }

    /// The file of what is drawn.
    pub(crate) fn file<E: Into<Failure>>(
        &self,
        draw: impl FnOnce(Format) -> Result<Vec<u8>, E>,
    ) -> Result<OutputFile, Failure> {
        Ok(OutputFile::new(&self.path, draw(self.format).map_err(Into::into)?))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// The file of measured runs, and the file beside it of the conditions they were made under.
pub(crate) fn runs(
    path: &Path,
    runs: &[Measurement],
    fingerprint: &Fingerprint,
) -> Result<[OutputFile; 2], Failure> {
    let conditions = fingerprints_to_toml(std::slice::from_ref(fingerprint));
    Ok([OutputFile::encoded(path, to_csv(runs))?, OutputFile::encoded(&fingerprints_path(path), conditions)?])
}

/// Writes all files or none: each under a temporary name first, then renamed, so
/// that a failure leaves the old ones.
pub(crate) fn write(files: &[OutputFile]) -> Result<(), Failure> {
    let mut paths = Vec::with_capacity(files.len());
    for file in files {
        let path = identity(&file.path)?;
        if paths.contains(&path) {
            return Err(Failure::write(&file.path, "another output of this command has that name"));
        }
        paths.push(path);
    }
    let staged = files.iter().map(stage).collect::<Result<Vec<_>, _>>()?;
    for (temporary, path) in staged {
        temporary.persist(&path).map_err(|error| Failure::write(&path, error.error))?;
    }
    Ok(())
}

/// Makes a folder for files where there is none.
pub(crate) fn make_folder(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|error| Failure::write(folder, error))
}

/// Refuses a path that no file can be written to, before the file is made.
pub(crate) fn check(path: &Path) -> Result<(), Failure> {
    target(path).map(drop)
}

/// Refuses to write over a file that is read.
pub(crate) fn check_apart(output: &Path, input: &Path) -> Result<(), Failure> {
    let is_one = input.canonicalize().is_ok_and(|input| identity(output).is_ok_and(|output| output == input));
    if is_one { Err(Failure::write(output, "it is what this command reads")) } else { Ok(()) }
}

/// The path of a file that may not be there yet, whatever it is called by.
fn identity(named: &Path) -> Result<PathBuf, Failure> {
    let (path, folder) = target(named)?;
    let folder = folder.canonicalize().map_err(|error| Failure::write(named, error))?;
    Ok(path.file_name().map_or_else(|| path.clone(), |name| folder.join(name)))
}

/// The file that is replaced, and its folder.
fn target(named: &Path) -> Result<(PathBuf, PathBuf), Failure> {
    // Behind a symbolic link it is the file that is replaced, not the link.
    let path = named.canonicalize().unwrap_or_else(|_| named.to_owned());
    if path.exists() && !path.is_file() {
        let reason = "it is not a regular file, which alone can be replaced as a whole";
        return Err(Failure::write(named, reason));
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    if !folder.is_dir() {
        return Err(Failure::write(named, format_args!("there is no folder {}", folder.display())));
    }
    Ok((path, folder))
}

/// A temporary file of the content, beside the file it will replace.
fn stage(file: &OutputFile) -> Result<(NamedTempFile, PathBuf), Failure> {
    let failed = |error: std::io::Error| Failure::write(&file.path, error);
    let (path, folder) = target(&file.path)?;
    let mut temporary = new_file(&folder).map_err(failed)?;
    let written = temporary.write_all(&file.content).and_then(|()| match path.metadata() {
        // Who may read the file stays as it is.
        Ok(old) => temporary.as_file().set_permissions(old.permissions()),
        Err(_) => Ok(()),
    });
    // On the disk before its name is: a crash leaves the old file or the new one.
    written.and_then(|()| temporary.as_file().sync_all()).map_err(failed)?;
    Ok((temporary, path))
}

/// A temporary file that others may read as far as the user's mask lets them;
/// without this, only its owner may.
#[cfg(unix)]
fn new_file(folder: &Path) -> std::io::Result<NamedTempFile> {
    use std::os::unix::fs::PermissionsExt;
    const EVERYBODY: u32 = 0o666;
    tempfile::Builder::new().permissions(std::fs::Permissions::from_mode(EVERYBODY)).tempfile_in(folder)
}

#[cfg(not(unix))]
fn new_file(folder: &Path) -> std::io::Result<NamedTempFile> {
    NamedTempFile::new_in(folder)
}
