//! Figures of a profile's NPU: stages, order and shape, as `HeteroInfer` (SOSP'25) shows
//! them of one device in its figures 3 and 4.

use coexec_plots::Format;
use coexec_sim::device::npu::{Npu, Order};
use coexec_sim::device::profile::Profile;
use coexec_sim::kernel::npu;
use coexec_sim::published::{Curves, Drawing, Line, Picture};
use coexec_sim::workload::{DataType, Layer, Linear, Operator};

use crate::cli::{Figure, Plot};
use crate::failure::Failure;

/// Extents of the product that the stages are shown of; each is varied in turn.
const STAGED: [u32; 3] = [512, 512, 512];
/// Arrays that a varied extent spans.
const ARRAYS: u32 = 5;
/// Points for each array, at which a step shows as one.
const POINTS_AN_ARRAY: u32 = 16;

/// Weights of Llama-3-8B's up projection (outputs, inputs): the matrix of figure 4.
const WIDE: (u32, u32) = (14_336, 4_096);
/// Its down projection, of which rows are longer than there are.
const TALL: (u32, u32) = (4_096, 14_336);
/// Most columns (tokens) that order and shape are shown for.
const MOST_TOKENS: u32 = 1_024;

pub(super) fn draw(options: &Plot, format: Format) -> Result<Vec<u8>, Failure> {
    let profile = Profile::load(&options.file.to_string_lossy())?;
    let Some(unit) = &profile.npu else {
        return Err(Failure::Usage {
            problem: format!("the profile {} has no NPU", profile.name),
            help: "name one with a table [npu]: `coexec devices` lists which have".to_owned(),
        });
    };
    // Every count of rows has a graph, so that what shows is the arrays.
    let unit = Npu { graph_sizes: Vec::new(), ..unit.clone() };
    let curves = match options.kind {
        Figure::NpuStages => stages(&unit)?,
        _ => orders(&unit)?,
    };
    let usual = match options.kind {
        Figure::NpuStages => "Time of a matrix product against one of its extents",
        _ => "Rate of matrix products by the order and shape of their operands",
    };
    let array = unit.array_dimension;
    let picture = Picture {
        name: String::new(),
        title: options.title.clone().unwrap_or_else(|| usual.to_owned()),
        subtitle: format!("{} of {}, arrays of {array} x {array}", unit.name, profile.title),
        drawing: Drawing::Curves(curves),
    };
    Ok(coexec_plots::picture(&picture, format)?)
}

/// What `[m, n] x [n, k]` takes with the second operand stationary.
fn micros([m, n, k]: [u32; 3], unit: &Npu) -> Result<f64, Failure> {
    let product = Linear { rows: m, input_features: n, output_features: k, bias: false };
    let unit = Npu { order: Order::WeightsStationary, decode: None, ..unit.clone() };
    let layer = Layer::new(Operator::Linear(product), DataType::F16);
    let execution = npu::execute(&layer, &unit).map_err(coexec_sim::simulate::SimulateError::from)?;
    Ok(execution.phases.duration().as_micros())
}

fn stages(unit: &Npu) -> Result<Curves, Failure> {
    let array = unit.array_dimension;
    let step = (array / POINTS_AN_ARRAY).max(1);
    let names = ["rows that stream", "inner extent", "columns that stay"];
    let mut lines = Vec::new();
    for (axis, name) in names.into_iter().enumerate() {
        let mut points = Vec::new();
        // One more than each multiple of the array, where a step is.
        let extents = (0..ARRAYS * array).step_by(step as usize).map(|extent| extent + 1);
        for extent in extents.chain((1..=ARRAYS).map(|arrays| arrays * array)) {
            let mut extents = STAGED;
            extents[axis] = extent;
            points.push((f64::from(extent), micros(extents, unit)?));
        }
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        lines.push(Line { name: name.to_owned(), is_published: false, points });
    }
    let [m, n, k] = STAGED;
    let x = format!("extent that varies; the others are {m}, {n} and {k}");
    Ok(Curves { x, y: "time (us)".to_owned(), lines })
}

/// Counts of tokens on both sides of each step of the arrays, so that a step shows as one.
fn tokens(array: u32) -> impl Iterator<Item = u32> {
    let ends = (1..).map(move |arrays| arrays * array).take_while(|&tokens| tokens <= MOST_TOKENS);
    ends.flat_map(|end| [end, end + 1]).filter(|&tokens| tokens <= MOST_TOKENS)
}

fn orders(unit: &Npu) -> Result<Curves, Failure> {
    let mut lines = Vec::new();
    for (outputs, inputs) in [WIDE, TALL] {
        for weights_stream in [true, false] {
            let mut points = Vec::new();
            for tokens in tokens(unit.array_dimension) {
                let extents =
                    if weights_stream { [outputs, inputs, tokens] } else { [tokens, inputs, outputs] };
                let operations = 2.0 * f64::from(outputs) * f64::from(inputs) * f64::from(tokens);
                let tera = operations / micros(extents, unit)? / 1e6;
                points.push((f64::from(tokens), tera));
            }
            let name = if weights_stream {
                format!("[{outputs}, {inputs}] x [{inputs}, K]")
            } else {
                format!("[K, {inputs}] x [{inputs}, {outputs}]")
            };
            lines.push(Line { name, is_published: false, points });
        }
    }
    let y = "rate (10^12 operations a second)".to_owned();
    Ok(Curves { x: "K, tokens".to_owned(), y, lines })
}
