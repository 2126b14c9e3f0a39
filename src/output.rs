//! Standard output, standard error and files.

mod tables;

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use coexec_fit::measure::runs::{Fingerprint, Measurement, fingerprints_path, fingerprints_to_toml, to_csv};
use coexec_plots::{Format, PlotError};
use coexec_sim::{Profile, Text};
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::{Failure, Result};
pub(crate) use tables::{Column, cells, keyed_table, or_dash, percent, row, table, text_table};

/// Whether writing to standard output failed, so that the answer was not delivered.
static IS_LOST: AtomicBool = AtomicBool::new(false);

/// Prints a line on standard output.
pub(crate) fn line(text: &str) {
    print(&shown(text));
}

/// Prints text without control characters. A closed pipe is not an error: the reader has seen enough.
fn print(text: &str) {
    if let Err(error) = writeln!(std::io::stdout(), "{text}")
        && error.kind() != ErrorKind::BrokenPipe
        && !IS_LOST.swap(true, Ordering::Relaxed)
    {
        note(&format!("cannot write to standard output: {error}"));
    }
}

/// Whether all of standard output was written, or its reader left.
pub(crate) fn is_delivered() -> bool {
    !IS_LOST.load(Ordering::Relaxed)
}

/// Prints a line on standard error.
pub(crate) fn note(text: &str) {
    // If printing fails, there is no other channel to report that on.
    let _ = writeln!(std::io::stderr(), "{}", shown(text));
}

/// Prints a report on standard error, keeping its colour codes.
pub(crate) fn report(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", text.trim_end());
}

/// Text with its control characters escaped, so that names and files cannot affect the terminal.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    escaped(text, |character| character.escape_default().to_string())
}

/// Whether a character affects a terminal: controls except newlines, and marks that change the text's
/// direction.
pub(crate) fn is_control(character: char) -> bool {
    let orders =
        ['\u{61c}'..='\u{61c}', '\u{200e}'..='\u{200f}', '\u{2028}'..='\u{202e}', '\u{2066}'..='\u{2069}'];
    let turns_order = orders.iter().any(|order| order.contains(&character));
    (character.is_control() && character != '\n') || turns_order
}

fn escaped(text: &str, escape: impl Fn(char) -> String) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let shown = |character| if is_control(character) { escape(character) } else { character.to_string() };
    Cow::Owned(text.chars().map(shown).collect())
}

/// Prints one JSON document.
pub(crate) fn json(document: &impl Serialize) -> Result {
    let text = serde_json::to_string_pretty(document).map_err(|error| {
        Failure::usage(format!("the answer cannot be written as JSON: {error}"), "leave out --json")
    })?;
    // A value rounded to zero loses its sign. Strings contain no line breaks, so a match at a line's
    // end is a number.
    let text = text.replace(" -0.0,\n", " 0.0,\n").replace(" -0.0\n", " 0.0\n");
    // Control characters can only be inside strings.
    print(&escaped(&text, |character| format!("\\u{:04x}", u32::from(character))));
    Ok(())
}

/// A JSON object with the given keys, in this order, as an anonymous struct. Keys may have
/// documentation and attributes like the fields of any struct; optional keys are skipped with
/// [`is_null`].
macro_rules! record {
    ($name:ident { $($(#[$attribute:meta])* $key:ident $(: $value:expr)?),* $(,)? }) => {{
        #[allow(non_camel_case_types, reason = "the type of a key is called as the key is")]
        let record = {
            #[derive(serde::Serialize)]
            struct $name<$($key),*> {
                $($(#[$attribute])* $key: $key),*
            }
            $name { $($key $(: $value)?),* }
        };
        record
    }};
}
pub(crate) use record;

/// Whether a record's value serialises as null, whatever its type.
pub(crate) fn is_null(value: &impl Serialize) -> bool {
    serde_json::to_value(value).is_ok_and(|value| value.is_null())
}

/// `cell`, marked if it is of a plan that does not fit into the device's memory.
pub(crate) fn with_mark(cell: &str, fits_memory: Option<bool>) -> String {
    format!("{cell}{}", if fits_memory == Some(false) { " !" } else { "" })
}

/// Explains the mark of [`with_mark`] below a table that has one.
pub(crate) fn note_too_large(mut fits_memory: impl Iterator<Item = Option<bool>>) {
    if fits_memory.any(|fits| fits == Some(false)) {
        line("!: does not fit into the memory of the device");
    }
}

/// The values without duplicates, in the order of their first occurrence.
pub(crate) fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

/// A file's name without its folder and extension.
pub(crate) fn stem(path: &Path) -> Cow<'_, str> {
    path.file_stem().unwrap_or_default().to_string_lossy()
}

/// Joins words with commas.
pub(crate) fn listed(words: impl IntoIterator<Item = impl Display>) -> String {
    words.into_iter().map(|word| word.to_string()).collect::<Vec<_>>().join(", ")
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

    /// The file of a generated profile, checked to parse again.
    pub(crate) fn profile(path: &Path, profile: &Profile) -> Result<Self> {
        let content = profile.to_toml();
        if let Ok(content) = &content {
            Profile::parse(&Text { name: path.display().to_string(), content: content.clone() })?;
        }
        Self::encoded(path, content)
    }

    /// The file of encoded text, or the failure to encode it.
    pub(crate) fn encoded<E: Display>(path: &Path, content: Result<String, E>) -> Result<Self> {
        content.map(|content| Self::new(path, content)).map_err(|error| Failure::write(path, error))
    }
}

/// A picture to write, in the format of its file extension.
#[derive(Clone, Debug)]
pub(crate) struct PicturePath {
    pub(crate) path: PathBuf,
    format: Format,
}

impl PicturePath {
    /// # Errors
    /// The extension is not that of a supported format.
    pub(crate) fn new(path: PathBuf) -> Result<Self, PlotError> {
        Ok(Self { format: Format::of(&path)?, path })
    }

    /// The file of the picture that `draw` makes.
    pub(crate) fn file<E: Into<Failure>>(
        &self,
        draw: impl FnOnce(Format) -> Result<Vec<u8>, E>,
    ) -> Result<OutputFile> {
        Ok(OutputFile::new(&self.path, draw(self.format).map_err(Into::into)?))
    }
}

/// The file of measured runs, and the file of their conditions next to it.
pub(crate) fn runs(path: &Path, runs: &[Measurement], fingerprint: &Fingerprint) -> Result<Vec<OutputFile>> {
    let conditions = fingerprints_to_toml(std::slice::from_ref(fingerprint));
    let conditions = OutputFile::encoded(&fingerprints_path(path), conditions)?;
    Ok(vec![OutputFile::encoded(path, to_csv(runs))?, conditions])
}

/// Writes files under temporary names and then renames them, so that a failure to write leaves all old
/// files.
pub(crate) fn write(files: &[OutputFile]) -> Result {
    let mut paths = Vec::with_capacity(files.len());
    for file in files {
        let path = canonical_target(&file.path)?;
        if paths.contains(&path) {
            let problem = format!("two outputs of this command are called {}", file.path.display());
            return Err(Failure::usage(problem, "give each output a name of its own"));
        }
        paths.push(path);
    }
    let staged = files.iter().map(stage).collect::<Result<Vec<_>, _>>()?;
    for (temporary, path) in staged {
        temporary.persist(&path).map_err(|error| Failure::write(&path, error.error))?;
    }
    Ok(())
}

/// Creates a folder if it is missing.
pub(crate) fn make_folder(folder: &Path) -> Result {
    std::fs::create_dir_all(folder).map_err(|error| Failure::write(folder, error))
}

/// Refuses a path that no file can be written to, before its content is computed.
pub(crate) fn check(path: &Path) -> Result {
    let (_, folder) = target(path)?;
    // Made and removed: only trying tells whether a folder can be written to.
    new_file(&folder).map(drop).map_err(|error| Failure::write(path, error))
}

/// Refuses to overwrite an input file, or a file in an input folder.
pub(crate) fn check_distinct(output: &Path, input: &Path) -> Result {
    let is_read = |output: PathBuf, input: &Path| {
        output == input || (output.is_file() && output.parent() == Some(input))
    };
    let is_read = input
        .canonicalize()
        .is_ok_and(|input| canonical_target(output).is_ok_and(|output| is_read(output, &input)));
    if !is_read {
        return Ok(());
    }
    let problem = format!("cannot write {}: it is what this command reads", output.display());
    Err(Failure::usage(problem, "choose another name for the output: further files are named after it"))
}

/// Applies [`check_distinct`] to each pair of `outputs` and `inputs` that are given.
pub(crate) fn check_all_distinct(outputs: &[Option<&Path>], inputs: &[Option<&Path>]) -> Result {
    let inputs = || inputs.iter().flatten();
    let mut pairs = outputs.iter().flatten().flat_map(|output| inputs().map(move |input| (output, input)));
    pairs.try_for_each(|(output, input)| check_distinct(output, input))
}

/// The canonical path of a file that may not exist yet.
fn canonical_target(named: &Path) -> Result<PathBuf> {
    let (path, folder) = target(named)?;
    let folder = folder.canonicalize().map_err(|error| Failure::write(named, error))?;
    Ok(path.file_name().map_or_else(|| path.clone(), |name| folder.join(name)))
}

/// The file to replace, and its folder.
fn target(named: &Path) -> Result<(PathBuf, PathBuf)> {
    // A symbolic link is followed: its target is replaced, not the link.
    let path = named.canonicalize().unwrap_or_else(|_| named.to_owned());
    if named == Path::new("-") {
        return Err(Failure::write(named, "give the name of a file: it cannot go to standard output"));
    }
    if path.exists() && !path.is_file() {
        let reason = "it exists and is not a regular file";
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

/// A temporary file with the content, in the same folder as the file it will replace.
fn stage(file: &OutputFile) -> Result<(NamedTempFile, PathBuf)> {
    let failed = |error: std::io::Error| Failure::write(&file.path, error);
    let (path, folder) = target(&file.path)?;
    let mut temporary = new_file(&folder).map_err(failed)?;
    let written = temporary.write_all(&file.content).and_then(|()| match path.metadata() {
        // The old file's permissions are kept.
        Ok(old) => temporary.as_file().set_permissions(old.permissions()),
        Err(_) => Ok(()),
    });
    // Synced before it is renamed, so that a crash leaves either the old file or the new one.
    written.and_then(|()| temporary.as_file().sync_all()).map_err(failed)?;
    Ok((temporary, path))
}

/// A temporary file with the permissions that the user's umask allows; by default only its owner could
/// read it.
#[cfg(unix)]
fn new_file(folder: &Path) -> std::io::Result<NamedTempFile> {
    use std::os::unix::fs::PermissionsExt;
    const READ_WRITE_ALL: u32 = 0o666;
    tempfile::Builder::new().permissions(std::fs::Permissions::from_mode(READ_WRITE_ALL)).tempfile_in(folder)
}

#[cfg(not(unix))]
fn new_file(folder: &Path) -> std::io::Result<NamedTempFile> {
    NamedTempFile::new_in(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_file_that_its_folder_cannot_have_is_refused_and_none_is_left_by_asking() {
        // Not even a privileged user can make a file there.
        let refused = check(Path::new("/proc/phone.toml")).unwrap_err().to_string();
        assert!(refused.starts_with("cannot write /proc/phone.toml"), "{refused}");
        let folder = tempfile::tempdir().unwrap();
        assert!(check(&folder.path().join("phone.toml")).is_ok());
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}
