//! Operators without options: their names in ONNX and TensorFlow, their names and codes in TFLite, and
//! their semantics, one line each in `operators.toml`.
//!
//! Responsible for: operators determined by their name, with the same semantics in all formats. Not
//! for: options and the order of operands, which each format's reader handles. Invariant: no
//! name and no code occurs twice.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::model::Work;
use coexec_sim::input::from_toml;

/// The reason given for an operator that is not in the table.
pub(super) const UNKNOWN_OPERATOR: &str = "it is not in the vocabulary of workloads";

/// The table in `operators.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    operators: Vec<Line>,
    variants: Vec<Variant>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    work: Work,
    #[serde(default)]
    onnx: Vec<String>,
    #[serde(default)]
    tflite: BTreeMap<String, i32>,
    #[serde(default)]
    flex: Vec<String>,
}

/// Operators of ONNX with the semantics of another one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    like: String,
    operands: Vec<i32>,
    onnx: Vec<String>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    from_toml(include_str!("operators.toml")).expect("the table is part of this crate, and a test reads it")
});

/// Semantics of the ONNX operator called `name`.
pub(super) fn of_onnx(name: &str) -> Option<Work> {
    TABLE.operators.iter().find(|line| line.onnx.iter().any(|own| own == name)).map(|line| line.work.clone())
}

/// For an ONNX operator with the semantics of another one: the other's name, and the indices of the operands that
/// matter.
pub(super) fn variant_of_onnx(name: &str) -> Option<(&'static str, &'static [i32])> {
    let variant = TABLE.variants.iter().find(|variant| variant.onnx.iter().any(|own| own == name))?;
    Some((&variant.like, &variant.operands))
}

/// Semantics of the `TensorFlow` operator called `name`, which TFLite files contain as a custom operator (`Flex`).
pub(super) fn of_tensorflow(name: &str) -> Option<Work> {
    TABLE.operators.iter().find(|line| line.flex.iter().any(|own| own == name)).map(|line| line.work.clone())
}

/// Name and semantics of the TFLite operator with that code.
pub(super) fn of_tflite(code: i32) -> Option<(&'static str, Work)> {
    TABLE.operators.iter().find_map(|line| {
        let (name, _) = line.tflite.iter().find(|(_, number)| **number == code)?;
        Some((name.as_str(), line.work.clone()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_name_and_no_code_occurs_twice() {
        let names: Vec<&String> = TABLE.operators.iter().flat_map(|line| &line.onnx).collect();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        let names: Vec<&String> = TABLE.variants.iter().flat_map(|variant| &variant.onnx).collect();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        let names: Vec<&String> = TABLE.operators.iter().flat_map(|line| &line.flex).collect();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        let numbers: Vec<&i32> = TABLE.operators.iter().flat_map(|line| line.tflite.values()).collect();
        assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), numbers.len());
        assert_eq!(of_onnx("Pad"), Some(Work::Pad));
        assert_eq!(of_tflite(34), Some(("PAD", Work::Pad)));
    }
}
