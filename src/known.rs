//! Which processors have known times for which operators, and on what basis.

use coexec_sim::simulate::{Known, Missing, known, known_in};
use coexec_sim::{Basis, DataType, Library, ProcessorKind, Profile, Scenario};
use serde::Serialize;

use crate::output;

/// What is known of each processor of the scenario's device for its operators.
pub(crate) fn of(scenario: &Scenario) -> Vec<Known> {
    known(&scenario.device, scenario.library, &scenario.options.core_sets, scenario.stages())
}

/// Prints which processors lack times for some operators, why, and the remedy: their absence from the
/// answer must not be read as "this processor does not help".
pub(crate) fn print_missing(known: &[Known]) {
    for Known { processor, missing, .. } in known {
        let Some(Missing { operators, of, reason, remedy }) = missing else { continue };
        output::line(&format!(
            "\n{processor}: times not known for {operators} of {of} operators, so plans that place them there are not \
             considered\n  {reason}\n  remedy: {remedy}"
        ));
    }
}

/// Basis of the times of matrix products in one number format.
#[derive(Debug, Serialize)]
pub(crate) struct Format {
    /// Storage format of the model.
    pub(crate) weights: &'static str,
    /// Format that is computed in; the GPU always computes in 16 bits.
    pub(crate) data_type: DataType,
    /// Basis for each CPU library that the profile has rates of in any format, and for the default
    /// library.
    pub(crate) cpu: Vec<(Library, Basis)>,
    pub(crate) gpu: Basis,
    pub(crate) npu: Basis,
}

/// The bases of `device` in each format that models are stored in.
pub(crate) fn formats(device: &Profile) -> Vec<Format> {
    let usual = Library::default_for(&device.cpu);
    let has_some = |&&library: &&Library| {
        let mut bases = DataType::ALL.iter().map(|&format| known_in(device, library, format)[0]);
        library == usual || bases.any(|basis| basis != Basis::NotKnown)
    };
    let libraries: Vec<Library> = Library::ALL.iter().filter(has_some).copied().collect();
    let stored = [
        ("f32", DataType::F32),
        ("f16 weights", DataType::F32),
        ("f16", DataType::F16),
        ("int8 static", DataType::I8),
        ("int8 dynamic", DataType::I8Dynamic),
        ("int4 dynamic", DataType::I4Dynamic),
        ("int8 weights", DataType::W8A16),
        ("int4 weights", DataType::W4A16),
    ];
    let format = |(weights, data_type): (&'static str, DataType)| {
        let basis = |library, kind: ProcessorKind| known_in(device, library, data_type)[kind as usize];
        let of_cpu = |&library: &Library| (library, basis(library, ProcessorKind::Cpu));
        Format {
            weights,
            data_type,
            cpu: libraries.iter().map(of_cpu).collect(),
            gpu: basis(usual, ProcessorKind::Gpu),
            npu: basis(usual, ProcessorKind::Npu),
        }
    };
    stored.into_iter().map(format).collect()
}

/// The bases as a table, in TOML comment lines for the head of a profile.
pub(crate) fn comments(formats: &[Format]) -> String {
    let libraries = formats.first().map_or(&[][..], |format| &format.cpu);
    let libraries: Vec<String> = libraries.iter().map(|(library, _)| format!("CPU, {library}")).collect();
    let libraries = libraries.iter().map(String::as_str);
    let header: Vec<&str> =
        ["format", "computed in"].into_iter().chain(libraries).chain(["GPU", "NPU"]).collect();
    let cells = |format: &Format| -> Vec<String> {
        let bases = format.cpu.iter().map(|(_, basis)| basis).chain([&format.gpu, &format.npu]);
        let names = [format.weights.to_owned(), format.data_type.to_string()];
        names.into_iter().chain(bases.map(Basis::to_string)).collect()
    };
    let table = output::text_table(&header, &formats.iter().map(cells).collect::<Vec<_>>());
    let lines = table.lines().map(|line| format!("#{line}"));
    ["# What times of products rest on:".to_owned()].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
}
