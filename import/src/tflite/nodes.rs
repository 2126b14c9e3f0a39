//! Translates TFLite operators to the vocabulary of `model.rs`.

use super::table::Table;
use crate::model::{
    Convolution, Elemental, Extents, Operands, Pads, Reduction, Slicing, SourceTensor, TensorId,
    TransposedConvolution, Windowed, Work, written,
};
use crate::operators::{self, UNKNOWN_OPERATOR};
use coexec_sim::workload::{Function, GenericKind, LocalResponseNorm, PoolKind, Softmax};

/// A node as read from the file.
pub(super) struct Read {
    pub(super) kind: String,
    pub(super) work: Work,
    pub(super) reads: Operands,
    /// Its fused activation.
    pub(super) activation: Option<Work>,
}

impl Read {
    /// A node without a fused activation.
    pub(super) fn of(kind: &str, work: Work, reads: Operands) -> Self {
        Self { kind: kind.to_owned(), work, reads, activation: None }
    }
}

/// Codes of operators whose options hold extents.
const RESHAPE: i32 = 22;
const SQUEEZE: i32 = 43;

/// Code of custom operators.
pub(super) const CUSTOM: i32 = 32;

/// Slot of an operator's options (`builtin_options`).
const OPTIONS: usize = 4;

/// Slot of the options of newer operators (`builtin_options_2`), since the first union is full.
const OPTIONS_2: usize = 12;

/// Slot of the options of custom operators.
const CUSTOM_OPTIONS: usize = 5;

/// Prefix of the names of `TensorFlow` operators.
const FLEX: &str = "Flex";

/// The name of `MediaPipe`'s transposed convolution with a bias.
const TRANSPOSED_WITH_BIAS: &str = "Convolution2DTransposeBias";

/// The name of the runtime's custom operator for the post-processing of detectors.
const DETECTIONS: &str = "TFLite_Detection_PostProcess";

/// An operator's options; missing ones have their defaults.
struct Options<'a>(Option<Table<'a>>);

impl Options<'_> {
    fn byte(&self, slot: usize) -> u8 {
        self.0.and_then(|table| table.byte(slot)).unwrap_or(0)
    }

    fn int(&self, slot: usize, usual: i32) -> i32 {
        self.0.and_then(|table| table.int(slot)).unwrap_or(usual)
    }

    fn count(&self, slot: usize, usual: i32) -> u32 {
        u32::try_from(self.int(slot, usual)).unwrap_or(0)
    }

    /// The integers in the first slot.
    fn ints(&self) -> Vec<i64> {
        self.0.map(|table| table.ints(0).into_iter().map(i64::from).collect()).unwrap_or_default()
    }

    fn axis(&self, slot: usize) -> i64 {
        i64::from(self.int(slot, 0))
    }

    fn strides(&self) -> Slicing {
        let mask = |slot: usize| self.int(slot, 0).cast_unsigned();
        // Neither new axes nor an ellipsis are supported.
        let new_axes = mask(2) | mask(3);
        Slicing::Strided { begin_mask: mask(0), end_mask: mask(1), new_axes, shrink: mask(4) }
    }

    /// A window; `Padding` 0 is SAME, 1 is VALID. Strides are stored width first.
    fn window(&self, kernel: Vec<u32>, dilation: Option<[usize; 2]>) -> Windowed {
        Windowed {
            kernel,
            stride: vec![self.count(2, 1), self.count(1, 1)],
            dilation: dilation.map_or(Vec::new(), |[vertical, horizontal]| {
                vec![self.count(vertical, 1), self.count(horizontal, 1)]
            }),
            pads: if self.byte(0) == 0 { Pads::Same } else { Pads::Explicit(Vec::new()) },
            ceil: false,
        }
    }

    /// A window over volumes, whose strides and dilations are stored as depth, width, height.
    fn volume(&self) -> Windowed {
        let three = |first: usize| [first, first + 2, first + 1].map(|slot| self.count(slot, 1)).to_vec();
        Windowed { stride: three(1), dilation: three(5), ..self.window(Vec::new(), None) }
    }

    /// The fused activation (`ActivationFunctionType`) in a slot.
    fn activation(&self, slot: usize) -> Option<Work> {
        let function = match self.byte(slot) {
            0 => return None,
            1 => Elemental::Known(Function::Relu),
            3 => Elemental::Known(Function::Relu6),
            4 => Elemental::Known(Function::Tanh),
            _ => Elemental::Clip,
        };
        Some(Work::Function(function))
    }
}

/// The operator that runs one subgraph as long as another returns true.
pub(super) const WHILE: &str = "WHILE";

/// An operator that calls subgraphs: a call, a conditional or a loop.
pub(super) struct Called {
    pub(super) kind: &'static str,
    /// Indices of the subgraphs.
    pub(super) graphs: Vec<usize>,
}

/// The subgraphs that an operator calls; `None` for other operators.
pub(super) fn called(code: i32, table: &Table<'_>) -> Option<Called> {
    let graphs = |options: usize, slots: &[usize]| {
        let options = Options(table.table(options));
        slots.iter().map(|&slot| options.count(slot, 0) as usize).collect()
    };
    Some(match code {
        31 => Called { kind: "CALL", graphs: graphs(OPTIONS, &[0]) },
        118 => Called { kind: "IF", graphs: graphs(OPTIONS, &[0, 1]) },
        119 => Called { kind: WHILE, graphs: graphs(OPTIONS, &[0, 1]) },
        206 => Called { kind: "STABLEHLO_COMPOSITE", graphs: graphs(OPTIONS_2, &[1]) },
        _ => return None,
    })
}

/// Semantics of a `TensorFlow` (Flex) operator, and the indices of the operands that matter; `None` for other custom
/// operators.
fn of_tensorflow(custom: &str) -> Option<(Work, &'static [usize])> {
    let name = custom.strip_prefix(FLEX)?;
    let operands: &[usize] = match name {
        // The extents of a list's elements are not needed.
        "TensorListReserve" => &[],
        "TensorListFromTensor" | "TensorListStack" => &[0],
        "TensorListGetItem" => &[0, 1],
        // The list, the tensor, its index.
        "TensorListSetItem" => &[0, 2, 1],
        _ => &[0, 1, 2],
    };
    operators::of_tensorflow(name).map(|work| (work, operands))
}

/// Reads a node with the operator `code` (`BuiltinOperator`).
pub(super) fn read(
    code: i32,
    custom: Option<&str>,
    table: &Table<'_>,
    reads: &[Option<TensorId>],
    tensors: &mut Vec<SourceTensor>,
) -> Read {
    let of = |operand: usize| reads.get(operand).copied().flatten();
    if let Some((name, (work, operands))) = custom.and_then(|name| Some((name, of_tensorflow(name)?))) {
        let reads =
            operands.iter().filter(|&&operand| operand < reads.len()).map(|&operand| of(operand)).collect();
        return Read::of(name, work, reads);
    }
    let options = Options(table.table(OPTIONS));
    // Without weights of its own, the input gate is coupled: the forget gate's complement.
    let is_coupled = of(1).is_none();
    let of_its_own = match custom {
        Some(TRANSPOSED_WITH_BIAS) => transposed(table).map(|work| (TRANSPOSED_WITH_BIAS, work, None)),
        Some(DETECTIONS) => Some((DETECTIONS, Work::single_pass(GenericKind::Search, Extents::Said), None)),
        Some(_) | None => None,
    };
    let known = of_its_own.or_else(|| with_options(code, &options, is_coupled)).or_else(|| {
        let (kind, work) = operators::of_tflite(code)?;
        // ADD, MUL, SUB and DIV have a fused activation in their first slot.
        Some((kind, work, matches!(code, 0 | 18 | 41 | 42).then_some(0)))
    });
    let (mut kind, work, slot) = match known {
        Some((kind, work, slot)) => (kind.to_owned(), work, slot),
        None => (format!("BUILTIN {code}"), Work::Unknown(UNKNOWN_OPERATOR.to_owned()), None),
    };
    if let Some(name) = custom.filter(|&name| name != kind) {
        kind = format!("{kind} {name}");
    }
    let numbers = if matches!(code, RESHAPE | SQUEEZE) { options.ints() } else { Vec::new() };
    let reads = match code {
        // Indices, table.
        7 => vec![of(1), of(0)],
        // The extents are in the options or, more often, in operand 1.
        RESHAPE | SQUEEZE if !numbers.is_empty() => vec![of(0), Some(written(tensors, numbers))],
        // Height and width.
        23 | 97 => vec![of(0), None, None, of(1)],
        // Input, weights, recurrent weights, bias.
        35 => reads.iter().copied().take(4).collect(),
        // Input, weights and recurrent weights of one gate, bias.
        44 if of(16).is_none() => vec![of(0), of(2), of(6), of(13)],
        // Axis, tensor.
        49 => vec![of(1), None, of(0)],
        // The padding value does not matter.
        60 => vec![of(0), of(1)],
        // Output extents, weights, input, bias.
        67 => vec![of(2), of(1), of(3)],
        88 => vec![of(0), None, Some(written(tensors, vec![options.axis(1)]))],
        _ => reads.to_vec(),
    };
    let activation = slot.and_then(|slot| options.activation(slot));
    Read { kind, work, reads, activation }
}

/// `MediaPipe`'s transposed convolution with a bias. Its options are three 32-bit numbers:
/// `TfLitePadding` (1 is SAME), and the strides, width first.
fn transposed(operator: &Table<'_>) -> Option<Work> {
    let numbers = operator.bytes(CUSTOM_OPTIONS)?.as_chunks().0.iter().copied().map(u32::from_le_bytes);
    let [padding, width, height] = numbers.take(3).collect::<Vec<u32>>().try_into().ok()?;
    let pads = if padding == 1 { Pads::Same } else { Pads::Explicit(Vec::new()) };
    let stride = vec![height, width];
    let window = Windowed { kernel: Vec::new(), stride, dilation: Vec::new(), pads, ceil: false };
    Some(transposed_by(window))
}

fn transposed_by(window: Windowed) -> Work {
    Work::TransposedConvolution(TransposedConvolution { window, groups: 1, output_pads: Vec::new() })
}

/// Name and semantics of an operator, and the slot of its fused activation.
type Layer = (&'static str, Work, Option<usize>);

fn with_options(code: i32, options: &Options<'_>, is_coupled: bool) -> Option<Layer> {
    let planar = |dilation| options.window(Vec::new(), dilation);
    let conv = |window, is_depthwise| Work::Convolution(Convolution { window, groups: None, is_depthwise });
    let pool = |kind| Work::Pool {
        kind,
        window: options.window(vec![options.count(4, 1), options.count(3, 1)], None),
    };
    let block = |to_space| Work::BlockRearrangement { block: options.count(0, 0), to_space };
    let reduce = |reduction| Work::Reduce { reduction, keep: options.byte(0) != 0 };
    let product = |transpose, flatten| Work::Product { transpose, flatten };
    let recurrent = |gates, slot| {
        let batch_first = options.byte(slot) == 0;
        Work::Recurrent { gates: Some(gates), features: None, batch_first }
    };
    Some(match code {
        1 => ("AVERAGE_POOL_2D", pool(PoolKind::Average), Some(5)),
        12 => ("L2_POOL_2D", pool(PoolKind::Average), Some(5)),
        2 => ("CONCATENATION", Work::Concat { axis: options.axis(0), is_new: false }, Some(1)),
        3 => ("CONV_2D", conv(planar(Some([5, 4])), false), Some(3)),
        4 => ("DEPTHWISE_CONV_2D", conv(planar(Some([6, 5])), true), Some(4)),
        5 => ("DEPTH_TO_SPACE", block(true), None),
        9 => ("FULLY_CONNECTED", product([false, true], options.byte(2) == 0), Some(0)),
        13 => {
            // The option is the radius of the neighbourhood.
            let size = options.count(0, 0).saturating_mul(2).saturating_add(1);
            let work = Work::along_axis(LocalResponseNorm::from(size), -1, false);
            ("LOCAL_RESPONSE_NORMALIZATION", work, None)
        }
        17 => ("MAX_POOL_2D", pool(PoolKind::Max), Some(5)),
        25 => ("SOFTMAX", Work::along_axis(Softmax::default(), -1, false), None),
        26 => ("SPACE_TO_DEPTH", block(false), None),
        35 => ("UNIDIRECTIONAL_SEQUENCE_RNN", recurrent(1, 0), None),
        36 => ("GATHER", Work::Gather { axis: options.axis(0) }, None),
        40 => ("MEAN", reduce(Reduction::Mean), None),
        44 => ("UNIDIRECTIONAL_SEQUENCE_LSTM", recurrent(if is_coupled { 3 } else { 4 }, 3), None),
        45 => ("STRIDED_SLICE", Work::Slice(options.strides()), None),
        50 => ("LOG_SOFTMAX", Work::along_axis(Softmax::default(), -1, false), None),
        67 => ("TRANSPOSE_CONV", transposed_by(planar(None)), Some(3)),
        74 => ("SUM", reduce(Reduction::Sum), None),
        81 => ("REDUCE_PROD", reduce(Reduction::Product), None),
        82 => ("REDUCE_MAX", reduce(Reduction::Max), None),
        83 => ("PACK", Work::Concat { axis: options.axis(1), is_new: true }, None),
        89 => ("REDUCE_MIN", reduce(Reduction::Min), None),
        126 => ("BATCH_MATMUL", product([0, 1].map(|slot| options.byte(slot) != 0), false), None),
        132 => ("CONV_3D", conv(options.volume(), false), Some(4)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table with nothing but a vector of bytes in the slot of custom options.
    fn operator(options: &[u32]) -> Vec<u8> {
        // The root table is at byte 20, after a vtable of six fields, the last of which is at offset 4.
        let offsets = [16_u16, 8, 0, 0, 0, 0, 0, 4].into_iter().flat_map(u16::to_le_bytes);
        let table = [16, 4, 4 * options.len() as u32].into_iter().chain(options.iter().copied());
        20_u32.to_le_bytes().into_iter().chain(offsets).chain(table.flat_map(u32::to_le_bytes)).collect()
    }

    #[test]
    fn the_options_of_a_transposed_convolution_with_bias_are_three_numbers() {
        let read = |options: &[u32]| transposed(&Table::root(&operator(options)).unwrap());
        let Some(Work::TransposedConvolution(TransposedConvolution { window, .. })) = read(&[1, 2, 3]) else {
            panic!("it is one")
        };
        assert_eq!((window.stride, window.pads), (vec![3, 2], Pads::Same));
        assert_eq!(read(&[1, 2]), None);
    }
}
