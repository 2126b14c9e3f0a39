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

/// Whether standard output could not be written: the answer was not delivered.
static IS_LOST: AtomicBool = AtomicBool::new(false);

/// Prints a line on standard output.
pub(crate) fn line(text: &str) {
    print(&shown(text));
}

/// Prints what does nothing to a terminal; a reader that went away is no error.
fn print(text: &str) {
    if let Err(error) = writeln!(std::io::stdout(), "{text}")
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
    escaped(text, |character| character.escape_default().to_string())
}

/// Whether a character does something to a terminal: controls, and what turns the order of the letters behind it round.
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
pub(crate) fn json(document: &impl Serialize) {
    let text = serde_json::to_string_pretty(document);
    let text = text.expect("our documents have string keys and finite shapes");
    // A line ends in a number or a bracket, as strings have no line breaks; what is no more than rounded away has no sign.
    let text = text.replace(" -0.0,\n", " 0.0,\n").replace(" -0.0\n", " 0.0\n");
    // Control characters stand in strings.
    print(&escaped(&text, |character| format!("\\u{:04x}", u32::from(character))));
}

/// A JSON document, or a part of one, with these keys in this order: a struct that exists where its values do. Keys may
/// have documentation and attributes as the fields of any struct: what may be absent is skipped where it
/// [`is_nothing`].
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

/// Whether a key of a record has no value, whatever its type.
pub(crate) fn is_nothing(value: &impl Serialize) -> bool {
    serde_json::to_value(value).is_ok_and(|value| value.is_null())
}

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

/// A file's name without folder and ending.
pub(crate) fn stem(path: &Path) -> Cow<'_, str> {
    path.file_stem().unwrap_or_default().to_string_lossy()
}

/// Words one after another, with commas between.
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

    /// The same content in another file.
    pub(crate) fn copied_to(&self, path: &Path) -> Self {
        Self::new(path, self.content.clone())
    }

    /// The file of a profile that was made, if it reads back as what it is.
    pub(crate) fn profile(path: &Path, profile: &Profile) -> Result<Self> {
        let content = profile.to_toml();
        if let Ok(content) = &content {
            Profile::parse(&Text { name: path.display().to_string(), content: content.clone() })?;
        }
        Self::encoded(path, content)
    }

    /// The file of what was encoded as text, unless that failed.
    pub(crate) fn encoded<E: Display>(path: &Path, content: Result<String, E>) -> Result<Self> {
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
    ) -> Result<OutputFile> {
        Ok(OutputFile::new(&self.path, draw(self.format).map_err(Into::into)?))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// The file of measured runs, and the file beside it of the conditions they were made under.
pub(crate) fn runs(path: &Path, runs: &[Measurement], fingerprint: &Fingerprint) -> Result<Vec<OutputFile>> {
    let conditions = fingerprints_to_toml(std::slice::from_ref(fingerprint));
    let conditions = OutputFile::encoded(&fingerprints_path(path), conditions)?;
    Ok(vec![OutputFile::encoded(path, to_csv(runs))?, conditions])
}

/// Writes all files or none: each under a temporary name first, then renamed, so
/// that a failure leaves the old ones.
pub(crate) fn write(files: &[OutputFile]) -> Result {
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
pub(crate) fn make_folder(folder: &Path) -> Result {
    std::fs::create_dir_all(folder).map_err(|error| Failure::write(folder, error))
}

/// Refuses a path that no file can be written to, before the file is made.
pub(crate) fn check(path: &Path) -> Result {
    target(path).map(drop)
}

/// Refuses to write over a file that is read, or over one in a folder that is read.
pub(crate) fn check_apart(output: &Path, input: &Path) -> Result {
    let is_read = |output: PathBuf, input: &Path| {
        output == input || (output.is_file() && output.parent() == Some(input))
    };
    let is_read =
        input.canonicalize().is_ok_and(|input| identity(output).is_ok_and(|output| is_read(output, &input)));
    if is_read { Err(Failure::write(output, "it is what this command reads")) } else { Ok(()) }
}

/// The same of each of `outputs` and `inputs` that is given.
pub(crate) fn check_all_apart(outputs: &[Option<&Path>], inputs: &[&Path]) -> Result {
    let mut pairs =
        outputs.iter().flatten().flat_map(|output| inputs.iter().map(move |input| (output, input)));
    pairs.try_for_each(|(output, input)| check_apart(output, input))
}

/// The path of a file that may not be there yet, whatever it is called by.
fn identity(named: &Path) -> Result<PathBuf> {
    let (path, folder) = target(named)?;
    let folder = folder.canonicalize().map_err(|error| Failure::write(named, error))?;
    Ok(path.file_name().map_or_else(|| path.clone(), |name| folder.join(name)))
}

/// The file that is replaced, and its folder.
fn target(named: &Path) -> Result<(PathBuf, PathBuf)> {
    // Behind a symbolic link it is the file that is replaced, not the link.
    let path = named.canonicalize().unwrap_or_else(|_| named.to_owned());
    if named == Path::new("-") {
        return Err(Failure::write(named, "give the name of a file: standard output takes none"));
    }
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
fn stage(file: &OutputFile) -> Result<(NamedTempFile, PathBuf)> {
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
