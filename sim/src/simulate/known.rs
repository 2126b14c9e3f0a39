//! How well each processor's times are known for a workload.
//!
//! Responsible for: the basis of a processor's times in a number format, the operators
//! that it cannot be predicted for, and the remedy. Not for: those times (`kernel`).
//! Invariant: exactly the operators that [`super::execute`] cannot price on any
//! allowed configuration of a processor count as missing.

use serde::Serialize;
use strum::VariantArray as _;

use super::{SimulateError, execute};
use crate::device::{Basis, Npu, ProcessorKind, Profile};
use crate::kernel::{CoreSet, Library, Unsupported, cpu};
use crate::plan::Processor;
use crate::workload::{DataType, Layer, Linear, Operator, Stage};

/// How well the times of a processor are known for a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Known {
    /// The processor.
    pub processor: ProcessorKind,
    /// Basis of its times; [`Basis::NotKnown`] where no operator can be predicted.
    pub basis: Basis,
    /// Number formats of the workload's operators.
    #[serde(skip)]
    pub formats: Vec<DataType>,
    /// Operators that cannot be predicted on it; `None` where all can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<Missing>,
}

/// Operators of a workload that cannot be predicted on a processor, and neither can plans
/// that place them there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// Number of such operators.
    pub operators: usize,
    /// Number of operators in the workload.
    pub of: usize,
    /// Why the first of them cannot be predicted.
    pub reason: String,
    /// What the user can do about it.
    pub remedy: String,
}

/// How well the times of `stages` are known on each processor of the profile, on the CPU with
/// the kernels of `library` and any of `core_sets`.
pub fn known(device: &Profile, library: Library, core_sets: &[CoreSet], stages: &[Stage]) -> Vec<Known> {
    let is_used = |format: &&DataType| stages.iter().any(|stage| stage.layer.data_type == **format);
    let formats: Vec<DataType> = DataType::VARIANTS.iter().filter(is_used).copied().collect();
    let of = |kind: ProcessorKind| {
        let offers: Vec<Processor> = match kind {
            ProcessorKind::Cpu => core_sets.iter().copied().map(Processor::Cpu).collect(),
            ProcessorKind::Gpu => device.gpu.iter().map(|_| Processor::Gpu).collect(),
            ProcessorKind::Npu => device.npu.iter().map(|_| Processor::NPU).collect(),
        };
        let why = |layer: &Layer| {
            let mut errors = offers.iter().map(|&by| execute(layer, device, library, by).err());
            let first = errors.next()??;
            errors.all(|error| error.is_some()).then_some(first)
        };
        let layers = stages.iter().map(|stage| &stage.layer);
        let missing: Vec<(&Layer, SimulateError)> =
            layers.filter_map(|layer| Some((layer, why(layer)?))).collect();
        let known = if missing.len() == stages.len() && !stages.is_empty() {
            Basis::NotKnown
        } else {
            let bases = stages.iter().map(|stage| basis((device, core_sets), library, kind, &stage.layer));
            bases.filter(|&basis| basis < Basis::NotKnown).max().unwrap_or(Basis::NotKnown)
        };
        let missing = missing.first().map(|(layer, error)| Missing {
            operators: missing.len(),
            of: stages.len(),
            reason: reason(error),
            remedy: remedy((device, core_sets), library, kind, layer),
        });
        let formats = formats.clone();
        (!offers.is_empty()).then_some(Known { processor: kind, basis: known, formats, missing })
    };
    ProcessorKind::ALL.into_iter().filter_map(of).collect()
}

/// Basis of the times of matrix products in `format`, by [`ProcessorKind`];
/// [`Basis::NotKnown`] for processors that the profile does not describe.
pub fn known_in(device: &Profile, library: Library, format: DataType) -> [Basis; ProcessorKind::ALL.len()] {
    let linear = Operator::Linear(Linear { rows: 64, input_features: 64, output_features: 64, bias: true });
    let stages = [Stage::single("linear".to_owned(), Layer::new(linear, format))];
    let core_sets = [CoreSet::fastest(&device.cpu, 1), CoreSet::all(&device.cpu)];
    let core_sets: Vec<CoreSet> = core_sets.into_iter().flatten().collect();
    let all = known(device, library, &core_sets, &stages);
    ProcessorKind::ALL.map(|kind| {
        all.iter().find(|known| known.processor == kind).map_or(Basis::NotKnown, |known| known.basis)
    })
}

/// Basis of the times of a processor for layers like `layer`; of the CPU's, on the clusters that
/// `core_sets` use.
fn basis(
    (device, core_sets): (&Profile, &[CoreSet]),
    library: Library,
    kind: ProcessorKind,
    layer: &Layer,
) -> Basis {
    let format = layer.data_type;
    let is_used =
        |index: usize| core_sets.iter().flat_map(CoreSet::groups).any(|group| group.cluster == index);
    match kind {
        ProcessorKind::Cpu => {
            if let Some(rates) = device.cpu.language.as_ref().filter(|_| layer.is_of_language_engine()) {
                return rates.basis;
            }
            let of = |format| {
                let table = cpu::rate_table(library, format);
                let clusters = device.cpu.clusters.iter().enumerate().filter(|(index, _)| is_used(*index));
                let bases = clusters.flat_map(|(_, cluster)| cluster.rate_bases());
                let of_table = bases.filter(|(key, _)| Some(*key) == table).map(|(_, basis)| basis);
                of_table.max().unwrap_or(Basis::NotKnown)
            };
            if format.is_dynamic() {
                // Derived from the rates of other formats.
                return of(format).max(of(DataType::F32)).max(Basis::Scaled);
            }
            of(format)
        }
        ProcessorKind::Gpu => device.gpu.as_ref().map_or(Basis::NotKnown, |gpu| {
            let convolution = gpu.conv_generic.basis;
            match (&gpu.language, layer.is_of_language_engine()) {
                (Some(kernels), true) => kernels.basis,
                (None, true) => convolution.max(Basis::Scaled),
                (_, false) => convolution,
            }
        }),
        ProcessorKind::Npu => device.npu.as_ref().map_or(Basis::NotKnown, |npu| npu_basis(npu, format)),
    }
}

/// Basis of the times of an NPU in `format`.
fn npu_basis(npu: &Npu, format: DataType) -> Basis {
    if let Some(compiled) = npu.compiler(format) {
        let is_known = match format {
            DataType::F32 | DataType::F16 | DataType::W4A16 => true,
            DataType::I8 => compiled.integer.is_some(),
            DataType::W8A16 => compiled.integer_weights.is_some(),
            // A compiler needs static scales.
            DataType::I8Dynamic | DataType::I4Dynamic => false,
        };
        return if is_known { compiled.basis } else { Basis::NotKnown };
    }
    let Some(systolic) = &npu.systolic else { return Basis::NotKnown };
    match format {
        DataType::F16 | DataType::W4A16 | DataType::W8A16 => systolic.basis,
        // Computed in 16-bit floats.
        DataType::F32 | DataType::I8Dynamic | DataType::I4Dynamic => Basis::Assumed,
        DataType::I8 => systolic.integer.as_ref().map_or(Basis::Assumed, |integer| integer.basis),
    }
}

/// Why an operator cannot be predicted. Omits the processor, which the caller states.
fn reason(error: &SimulateError) -> String {
    if let SimulateError::Unsupported(Unsupported { operator, reason, .. }) = error {
        return format!("{operator}: {reason}");
    }
    error.to_string()
}

/// What the user can do to have layers like `layer` predicted.
fn remedy(on: (&Profile, &[CoreSet]), library: Library, kind: ProcessorKind, layer: &Layer) -> String {
    let format = layer.data_type;
    match kind {
        ProcessorKind::Gpu => "add the kernel's table to the profile, or calibrate it".to_owned(),
        ProcessorKind::Npu => "place these operators on the GPU or the CPU".to_owned(),
        ProcessorKind::Cpu => {
            let (device, core_sets) = on;
            let is_predicted =
                |library, &cores: &CoreSet| execute(layer, device, library, Processor::Cpu(cores)).is_ok();
            if CoreSet::all(&device.cpu).is_some_and(|all| is_predicted(library, &all)) {
                return "--threads all, since times in this format are known of all cores together"
                    .to_owned();
            }
            let takes = |&other: &Library| core_sets.iter().any(|cores| is_predicted(other, cores));
            let others = Library::ALL.iter().copied().filter(takes).map(|other| format!("--library {other}"));
            let others = others.collect::<Vec<_>>().join(" or ");
            match (others.is_empty(), cpu::rate_table(library, format)) {
                (false, _) => format!("{others}: there are rates in {format} here"),
                (true, Some(table)) => format!(
                    "add [cpu.cluster.{table}] to each cluster of the profile, or write data_type = \"f32\" in the \
                     scenario for another format"
                ),
                (true, None) => format!(
                    "write data_type = \"f32\" in the scenario: no CPU library is modelled in {format}"
                ),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Conv2d, Shape, Window};

    #[test]
    fn clusters_that_no_plan_uses_do_not_count() {
        let mut device = Profile::load("pixel4").unwrap();
        device.cpu.clusters.last_mut().unwrap().ruy_f32.as_mut().unwrap().basis = Basis::Scaled;
        let linear = Linear { rows: 64, input_features: 64, output_features: 64, bias: true };
        let layer = Layer::new(Operator::Linear(linear), DataType::F32);
        let stages = [Stage::single("linear".to_owned(), layer)];
        let on = |set: Option<CoreSet>| known(&device, Library::Ruy, &[set.unwrap()], &stages)[0].basis;
        assert_eq!(on(CoreSet::fastest(&device.cpu, 1)), Basis::Measured);
        assert_eq!(on(CoreSet::all(&device.cpu)), Basis::Scaled);
    }

    #[test]
    fn the_remedy_for_an_unknown_format_names_a_library_that_has_rates() {
        let device = Profile::load("pixel4").unwrap();
        let bases = |library, format| known_in(&device, library, format);
        let [cpu, gpu, npu] = bases(Library::Xnnpack, DataType::I8);
        assert_eq!([cpu, gpu, npu], [Basis::Scaled, Basis::Measured, Basis::NotKnown]);
        assert_eq!(bases(Library::Ruy, DataType::I8)[0], Basis::Measured);
        assert_eq!(bases(Library::Ruy, DataType::I8Dynamic)[0], Basis::Scaled, "by rates of other formats");
        assert_eq!(bases(Library::Ruy, DataType::F16)[0], Basis::NotKnown);
        let linear = Linear { rows: 64, input_features: 64, output_features: 64, bias: true };
        let layer = Layer::new(Operator::Linear(linear), DataType::F32);
        let all = [CoreSet::all(&device.cpu).unwrap()];
        let help = remedy((&device, &all), Library::Coexec, ProcessorKind::Cpu, &layer);
        assert!(help.contains("--library ruy or --library xnnpack"), "{help}");
        let layer = Layer::new(layer.operator, DataType::F16);
        let help = remedy(
            (&device, &[CoreSet::all(&device.cpu).unwrap()]),
            Library::Ruy,
            ProcessorKind::Cpu,
            &layer,
        );
        assert!(help.contains("--library xnnpack"), "{help}");
        // Rates of a language-model engine are of all cores together.
        let device = Profile::load("snapdragon-8elite").unwrap();
        let layer = Layer::new(layer.operator, DataType::W4A16);
        let few = [CoreSet::fastest(&device.cpu, 3).unwrap()];
        let help = remedy((&device, &few), Library::Xnnpack, ProcessorKind::Cpu, &layer);
        assert!(help.contains("--threads all"), "{help}");
        // A language-model engine has rates in this format, but no kernel for a convolution.
        let device = Profile::load("snapdragon-8gen3").unwrap();
        let conv = Conv2d::new(Shape::image(8, 8, 8), 8, Window::same(3));
        let layer = Layer::new(Operator::Conv2d(conv), DataType::W8A16);
        let help = remedy(
            (&device, &[CoreSet::all(&device.cpu).unwrap()]),
            Library::Xnnpack,
            ProcessorKind::Cpu,
            &layer,
        );
        assert!(help.contains("no CPU library is modelled in w8a16"), "{help}");
    }
}
