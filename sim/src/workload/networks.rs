//! The bundled networks: files in `networks/`, which list operators as scenario files do.
//!
//! Responsible for: finding and reading them. Not for: the form of an operator, or how a list of
//! operators becomes a graph. Invariant: each file has its title in the first line, and describes a
//! sound graph.

use serde::Deserialize;

use super::operator::OperatorTable;
use super::{DataType, Graph, InputTable, assemble};
use crate::input::{Result, Text};

/// Name and content of every bundled network, by name: the files in `networks/`.
const BUNDLED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/networks.rs"));

/// A network file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkFile {
    #[allow(dead_code, reason = "`networks` reads it from the first line alone")]
    title: String,
    #[serde(default)]
    input: Vec<InputTable>,
    operator: Vec<OperatorTable>,
}

/// Names and titles of the bundled networks.
pub fn networks() -> impl Iterator<Item = (&'static str, &'static str)> {
    BUNDLED.iter().map(|&(name, content)| (name, content.split('"').nth(1).unwrap_or_default()))
}

/// The bundled network called `name` (case-insensitive), in 32-bit floats.
///
/// # Panics
/// Never: a test reads every bundled network.
pub fn network(name: &str) -> Option<Graph> {
    let (name, content) = BUNDLED.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some(read(name, content).expect("a test reads every bundled network"))
}

fn read(name: &str, content: &str) -> Result<Graph> {
    let text = Text { name: format!("{name}.toml"), content: content.to_owned() };
    let file: NetworkFile = text.parse()?;
    assemble::graph(&text, name, DataType::F32, &file.input, &file.operator)
}

#[cfg(test)]
mod tests;
