//! Text input: reading, parsing, and precise error messages.
//!
//! Responsible for: the size limit, UTF-8, TOML syntax and types, and locating a key
//! that a later check rejects. Not for: what the values mean.
//! Invariants: nothing here panics, whatever the bytes are; no other module of the
//! crate touches the file system.

mod tree;

use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use serde::de::DeserializeOwned;
use thiserror::Error;
use toml::de::{DeTable, DeValue};

pub use tree::{Misfit, from_toml, from_toml_value};

/// Maximum size of an input file. A profile is about 10 kB and a plan of a large
/// network 100 kB; anything near this limit is not a file of coexec.
pub const MAX_INPUT_BYTES: u64 = 8 << 20;

/// Maximum edit distance of a suggested name.
const MAX_SUGGESTION_DISTANCE: usize = 3;
/// Minimum number of letters for a name to match as a part of others.
const MIN_PART_LETTERS: usize = 4;

/// A named text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// Path, or the name of a bundled file.
    pub name: String,
    /// The text itself.
    pub content: String,
}

/// A place in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Byte range.
    pub span: Range<usize>,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// A value that parsed but is not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Path of the key: `cpu.cluster[1].clock_mhz`.
    pub key: String,
    /// The value in the file.
    pub found: String,
    /// Values that would be accepted.
    pub expected: String,
}

impl Violation {
    /// The violation that `key` is `found` instead of `expected`.
    pub fn new(key: impl Into<String>, found: impl Display, expected: impl Into<String>) -> Self {
        Self { key: key.into(), found: found.to_string(), expected: expected.into() }
    }

    /// The same inside the table at `path`.
    #[must_use]
    pub fn inside(self, path: &str) -> Self {
        Self { key: format!("{path}.{}", self.key), ..self }
    }
}

/// Result of reading and checking an input.
pub type Result<T, E = InputError> = std::result::Result<T, E>;

/// What is wrong with an input.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum InputError {
    /// The file does not exist or cannot be read.
    #[error("cannot read {file}: {reason}")]
    Unreadable { file: String, reason: String },
    /// The file exceeds the size limit.
    #[error("{file} has more than {limit} bytes")]
    TooLarge { file: String, limit: u64 },
    /// The file is not UTF-8 text.
    #[error("{file} is not UTF-8 text: the first invalid byte is at offset {offset}")]
    NotText { file: String, offset: usize },
    /// The text does not parse, a key is unknown or has the wrong type, or a value is invalid or
    /// inconsistent with the rest of the text or with what it names.
    #[error("{}:{}:{}: {message}", text.name, place.line, place.column)]
    Refused {
        /// The text.
        text: Box<Text>,
        /// Where.
        place: Place,
        /// What is wrong there.
        message: String,
        /// What to do.
        help: String,
    },
    /// The value of a command-line option is invalid.
    #[error("{option} is {found}, expected {expected}")]
    Option { option: &'static str, found: String, expected: String },
    /// The value of a command-line option does not fit the input it is used with.
    #[error("{option} {found}: {message}")]
    Unfit { option: &'static str, found: String, message: String, help: String },
    /// A model of another tool cannot be imported.
    #[error("{file}: {message}")]
    Model {
        /// Path.
        file: String,
        /// Why.
        message: String,
        /// What to do.
        help: String,
    },
    /// Nothing bundled has this name, and no such file exists.
    #[error("there is no {what} named {name:?}")]
    Unknown {
        /// The kind of thing: `device profile`, `scenario`.
        what: &'static str,
        /// The requested name.
        name: String,
        /// The bundled names.
        known: Vec<String>,
        /// Whether the path of a file is accepted as well.
        or_file: bool,
    },
}

impl InputError {
    /// What the user can do about it.
    pub fn help(&self) -> String {
        match self {
            Self::Unreadable { .. } => "check the path and its permissions".to_owned(),
            Self::TooLarge { limit, .. } => {
                format!("such a file may have at most {} MiB; is this the right file?", limit >> 20)
            }
            Self::NotText { .. } => "such a file is UTF-8 text; is this the right file?".to_owned(),
            Self::Option { expected, .. } => format!("write {expected}"),
            Self::Refused { help, .. } | Self::Model { help, .. } | Self::Unfit { help, .. } => help.clone(),
            Self::Unknown { name, known, or_file, .. } => {
                let near = nearest(name, known).map(|near| format!("did you mean {near:?}? "));
                let known = known.join(", ");
                let or = if *or_file { "; or give the path of a file" } else { "" };
                format!("{}Bundled: {known}{or}", near.unwrap_or_default())
            }
        }
    }

    /// The text and the place in it; `None` for errors without a place.
    pub fn place(&self) -> Option<(&Text, &Place)> {
        if let Self::Refused { text, place, .. } = self { Some((text, place)) } else { None }
    }
}

/// The name of `known` closest to `name`, ignoring case; `None` unless one contains `name` or is within the maximum
/// edit distance, with at least half of its letters right.
pub fn nearest<'a>(name: &str, known: &'a [String]) -> Option<&'a str> {
    let name = name.to_lowercase();
    let distance = |candidate: &str| {
        let edits = strsim::levenshtein(&name, candidate);
        let is_part = name.len() >= MIN_PART_LETTERS && candidate.contains(&name);
        if is_part {
            Some(edits.min(MAX_SUGGESTION_DISTANCE))
        } else {
            (edits <= MAX_SUGGESTION_DISTANCE.min(name.len() / 2)).then_some(edits)
        }
    };
    known
        .iter()
        .filter_map(|candidate| Some((distance(&candidate.to_lowercase())?, candidate.as_str())))
        .min()
        .map(|(_, candidate)| candidate)
}

/// Reads a file of at most `limit` bytes.
///
/// # Errors
/// [`InputError::Unreadable`] or [`InputError::TooLarge`].
pub fn read_bytes(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let name = path.display().to_string();
    let unreadable =
        |error: std::io::Error| InputError::Unreadable { file: name.clone(), reason: error.to_string() };
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    // Read at most one byte past the limit, so that a huge file is never held in memory.
    file.take(limit + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > limit {
        return Err(InputError::TooLarge { file: name, limit });
    }
    Ok(bytes)
}

/// Opens a file of at most `limit` bytes for reading in parts; returns it with its size in bytes.
///
/// # Errors
/// [`InputError::Unreadable`] or [`InputError::TooLarge`].
pub fn open(path: &Path, limit: u64) -> Result<(File, u64)> {
    let name = path.display().to_string();
    let unreadable = |reason: String| InputError::Unreadable { file: name.clone(), reason };
    // Looked at before it is opened, as opening a pipe waits for its other end.
    let about = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
    if !about.is_file() {
        return Err(unreadable("it is not a regular file".to_owned()));
    }
    if about.len() > limit {
        return Err(InputError::TooLarge { file: name, limit });
    }
    let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
    Ok((file, about.len()))
}

impl Text {
    /// Reads a file.
    ///
    /// # Errors
    /// [`InputError::Unreadable`], [`InputError::TooLarge`] or
    /// [`InputError::NotText`].
    pub fn read(path: &Path) -> Result<Self> {
        Self::read_up_to(path, MAX_INPUT_BYTES)
    }

    /// Reads a file of at most `limit` bytes.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_up_to(path: &Path, limit: u64) -> Result<Self> {
        let name = path.display().to_string();
        let bytes = read_bytes(path, limit)?;
        match String::from_utf8(bytes) {
            // Parsers count CRLF line ends differently, and few accept a byte order mark.
            Ok(content) => {
                Ok(Self { name, content: content.trim_start_matches('\u{feff}').replace("\r\n", "\n") })
            }
            Err(error) => Err(InputError::NotText { file: name, offset: error.utf8_error().valid_up_to() }),
        }
    }

    /// Reads the file called `name`, if `name` is a path: of something that exists, or
    /// with an extension, which no bundled name has.
    pub fn of_file(name: &str) -> Option<Result<Self>> {
        let path = Path::new(name);
        (path.exists() || path.extension().is_some()).then(|| Self::read(path))
    }

    /// A path that is written in this text: relative paths start at the folder of its file, if it has one.
    pub fn path(&self, written: &str) -> String {
        let file = Path::new(&self.name);
        let folder = file.parent().filter(|_| file.is_file()).unwrap_or(Path::new(""));
        folder.join(written).display().to_string()
    }

    /// Parses the text as TOML.
    ///
    /// # Errors
    /// [`InputError::Refused`] for bad TOML, wrong types and unknown keys.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        let refused = |Misfit { message, span }| {
            let message = without_type_names(&message.trim_end().replace('\n', ", "));
            let help = syntax_help(&message);
            self.refuse_span(span.unwrap_or(0..0), message, help)
        };
        from_toml(&self.content).map_err(refused)
    }

    /// The error for a value that parsed but is not valid.
    pub fn reject(&self, violation: Violation) -> InputError {
        let Violation { key, found, expected } = violation;
        self.refuse(&key, format!("{key} is {found}, expected {expected}"), format!("write {expected}"))
    }

    /// The error `message` at `key`.
    pub fn refuse(&self, key: &str, message: impl Into<String>, help: impl Into<String>) -> InputError {
        self.refuse_span(self.locate(key).unwrap_or(0..0), message, help)
    }

    /// The error `message` at `span`, or on `line` (from 1) without a span.
    pub fn refuse_at(
        &self,
        span: Option<Range<usize>>,
        line: u64,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> InputError {
        self.refuse_span(span.unwrap_or_else(|| self.line(line)), message, help)
    }

    fn refuse_span(
        &self,
        span: Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> InputError {
        InputError::Refused {
            text: Box::new(self.clone()),
            place: self.place(span),
            message: message.into(),
            help: help.into(),
        }
    }

    /// Byte range of a line, from 1.
    fn line(&self, line: u64) -> Range<usize> {
        let mut lines = self.content.split_inclusive('\n');
        let start = lines.by_ref().take(line.saturating_sub(1) as usize).map(str::len).sum();
        start..start + lines.next().map_or(0, |text| text.trim_end().len())
    }

    /// Byte range of the value at a key path like `cpu.cluster[1].clock_mhz`, or of the
    /// innermost existing value on that path; `None` where even the first key is absent.
    fn locate(&self, key: &str) -> Option<Range<usize>> {
        let root = DeTable::parse(&self.content).ok()?;
        let mut segments = key.split(['.', '[']).map(|segment| segment.trim_end_matches(']'));
        let mut value = root.get_ref().get(segments.next()?)?;
        for segment in segments {
            let inner = match value.get_ref() {
                DeValue::Table(table) => table.get(segment),
                DeValue::Array(array) => segment.parse::<usize>().ok().and_then(|index| array.get(index)),
                _ => None,
            };
            let Some(inner) = inner else { break };
            value = inner;
        }
        Some(value.span())
    }

    fn place(&self, span: Range<usize>) -> Place {
        let length = self.content.len();
        let start = self.content.floor_char_boundary(span.start.min(length));
        let end = self.content.ceil_char_boundary(span.end.clamp(start, length));
        let before = &self.content[..start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Place {
            span: start..end,
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

/// Help for a parser's message.
fn syntax_help(message: &str) -> &'static str {
    if message.starts_with("unknown field") {
        "remove the key or correct its spelling; `coexec schema` prints every key"
    } else if message.starts_with("missing field") {
        "add the key to this table; `coexec schema` prints every key"
    } else {
        "correct the value; `coexec schema` prints every key and type"
    }
}

/// A parser's message with Rust number types replaced by words.
fn without_type_names(message: &str) -> String {
    let types = [
        ("u8", "a whole number from 0 to 255"),
        ("u16", "a whole number from 0 to 65535"),
        ("u32", "a whole number from 0 to 4294967295"),
        ("u64", "a whole number"),
        ("usize", "a whole number"),
        ("f64", "a number"),
    ];
    for (name, words) in types {
        if let Some(before) = message.strip_suffix(&format!("expected {name}")) {
            return format!("{before}expected {words}");
        }
    }
    message.to_owned()
}

#[cfg(test)]
mod tests;
