//! The operator of a row of the data set's GPU table, from the dictionary in its `feature`
//! column, its operation and the functions linked in its kernel's name.
//!
//! Responsible for: operators. Not for: rows, times or whole networks. Invariant: no text
//! makes it panic; unknown text is rejected with the reason.

use coexec_sim::workload::{
    CHANNELS_PER_SLICE, Concat, Conv2d, DepthwiseConv2d, Function, Linear, Linked, Mean, Operator, Padding,
    Pool, PoolKind, SecondOperand, Shape, Window,
};

/// Separator of a kernel's name and each function linked to it.
pub(in crate::measure) const LINK: &str = "_linked_:_";
/// Largest image side, window, stride or number of inputs: far beyond any phone's
/// network, and small enough that products of four do not overflow.
pub(in crate::measure) const MAX_SIDE: u32 = 1 << 14;
/// Largest number of channels, likewise.
pub(in crate::measure) const MAX_CHANNELS: u32 = 1 << 20;

/// The dictionary of a row: `{'Input_shape': '224', 'Input_channel': 3, ...}`.
pub(in crate::measure) struct Feature<'a>(pub(in crate::measure) &'a str);

impl Feature<'_> {
    /// The whole number of `key`, from 1 to `most`.
    pub(in crate::measure) fn count(&self, key: &str, most: u32) -> Result<u32, String> {
        let quotes = |c: char| c == '\'' || c == '"' || c.is_whitespace();
        let body = self.0.trim().trim_start_matches('{').trim_end_matches('}');
        let value = body
            .split(',')
            .filter_map(|entry| entry.split_once(':'))
            .find(|(name, _)| name.trim_matches(quotes) == key)
            .map(|(_, value)| value.trim_matches(quotes))
            .ok_or_else(|| format!("the feature has no {key}"))?;
        value
            .parse()
            .ok()
            .filter(|count| (1..=most).contains(count))
            .ok_or_else(|| format!("{key} is {value:?}, expected a whole number from 1 to {most}"))
    }
}

/// The operator of a row.
pub(in crate::measure) fn operator(operation: &str, feature: &Feature<'_>) -> Result<Operator, String> {
    Ok(match operation {
        "CONV_2D" => Operator::Conv2d(conv(feature, 1)?),
        "CONV_2D_GROUP" => Operator::Conv2d(conv(feature, feature.count("Group", MAX_CHANNELS)?)?),
        "DEPTHWISE_CONV_2D" => Operator::DepthwiseConv2d(depthwise(feature)?),
        "FULLY_CONNECTED" => Operator::Linear(linear(feature)?),
        "MEAN" => Operator::Mean(Mean { input: image(feature)? }),
        "CONCATENATION" => Operator::Concat(concat(feature)?),
        "MAX_POOL_2D" => Operator::Pool(pool(feature, PoolKind::Max)?),
        "AVERAGE_POOL_2D" => Operator::Pool(pool(feature, PoolKind::Average)?),
        other => return Err(format!("the operation {other:?} is not known")),
    })
}

/// The first input of a row, a square image.
fn image(feature: &Feature<'_>) -> Result<Shape, String> {
    let side = feature.count("Input_shape", MAX_SIDE)?;
    Ok(Shape::image(side, side, feature.count("Input_channel", MAX_CHANNELS)?))
}

/// A window that slides over a square image.
struct Square {
    input: Shape,
    output: u32,
    side: u32,
    stride: u32,
}

impl Square {
    fn of(feature: &Feature<'_>) -> Result<Self, String> {
        Ok(Self {
            input: image(feature)?,
            output: feature.count("Output_shape", MAX_SIDE)?,
            side: feature.count("Kernel", MAX_SIDE)?,
            stride: feature.count("Stride", MAX_SIDE)?,
        })
    }

    /// The window, with the padding that gives the output's extent: none where the input is
    /// large enough (the network padded it before), else "SAME".
    fn window(&self) -> Result<Window, String> {
        let input = self.input.height;
        let needed = (self.output - 1) * self.stride + self.side;
        let total = needed.saturating_sub(input);
        let reached = (input + total - self.side) / self.stride + 1;
        if reached != self.output {
            return Err(format!(
                "a window of {} with stride {} makes {reached} of {input} pixels, not {}",
                self.side, self.stride, self.output
            ));
        }
        let (before, after) = (total / 2, total - total / 2);
        let padding = Padding { top: before, bottom: after, left: before, right: after };
        Ok(Window::valid(self.side).stride(self.stride).padding(padding))
    }
}

fn conv(feature: &Feature<'_>, groups: u32) -> Result<Conv2d, String> {
    let square = Square::of(feature)?;
    let channels = square.input.channels;
    let output_channels = feature.count("Filter", MAX_CHANNELS)?;
    if channels % groups != 0 || output_channels % groups != 0 {
        return Err(format!("{groups} groups do not divide {channels} and {output_channels} channels"));
    }
    Ok(Conv2d::new(square.input, output_channels, square.window()?).groups(groups))
}

fn depthwise(feature: &Feature<'_>) -> Result<DepthwiseConv2d, String> {
    let mut square = Square::of(feature)?;
    // The delegate merges a padding operation into the 3x3 kernel. The table lists the
    // padded input, but names the kernel of convolutions with padding.
    if (square.side, square.stride) == (3, 1) && square.output + 2 == square.input.height {
        square.input = Shape::image(square.output, square.output, square.input.channels);
    }
    Ok(DepthwiseConv2d::new(square.input, square.window()?))
}

fn linear(feature: &Feature<'_>) -> Result<Linear, String> {
    Ok(Linear {
        rows: 1,
        input_features: feature.count("Input_channel", MAX_CHANNELS)?,
        output_features: feature.count("Filter", MAX_CHANNELS)?,
        bias: true,
    })
}

fn pool(feature: &Feature<'_>, kind: PoolKind) -> Result<Pool, String> {
    let square = Square::of(feature)?;
    Ok(Pool { kind, input: square.input, window: square.window()? })
}

/// A concatenation. The table lists only the channels of the first input and of the output,
/// and the number of inputs. The other inputs are assumed to share the rest evenly, in units
/// of two slices or one where first input and output are multiples of them: networks give
/// their branches round numbers of channels, and the kernel copies slices in pairs.
fn concat(feature: &Feature<'_>) -> Result<Concat, String> {
    let input = image(feature)?;
    let first = input.channels;
    let output = feature.count("Filter", MAX_CHANNELS)?;
    let others = feature.count("Kernel", MAX_SIDE)? - 1;
    let whole = |unit: &u32| first.is_multiple_of(*unit) && output.is_multiple_of(*unit);
    let unit = [2 * CHANNELS_PER_SLICE, CHANNELS_PER_SLICE].into_iter().find(whole).unwrap_or(1);
    let units = output.saturating_sub(first) / unit;
    if others > units || (others == 0 && output != first) {
        return Err(format!("{} inputs, the first of {first} channels, do not make {output}", others + 1));
    }
    let (each, extra) = (units.checked_div(others).unwrap_or(0), units.checked_rem(others).unwrap_or(0));
    let rest = (0..others).map(|index| (each + u32::from(index < extra)) * unit);
    Ok(Concat::of_channels(Shape { channels: 0, ..input }, std::iter::once(first).chain(rest).collect()))
}

/// The functions linked in the name of a kernel: `..._linked_:_relu_2`. A multiplication and the addition
/// after it are a batch normalisation, whose operands have one value per channel; every other addition
/// reads a tensor.
pub(in crate::measure) fn linked(kernel: &str) -> Result<Linked, String> {
    let mut linked = Linked::default();
    for name in kernel.split(LINK).skip(1) {
        let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
        let function = match name {
            "add" => Function::Add,
            "mul" => Function::Multiply,
            "relu" => Function::Relu,
            // The converter writes relu6 as an upper bound before a relu.
            "relu6" | "minimum" => Function::Relu6,
            "hard_swish" => Function::HardSwish,
            "sigmoid" => Function::Sigmoid,
            other => return Err(format!("the linked function {other:?} is not known")),
        };
        let is_scaled = linked.functions().last() == Some(&Function::Multiply);
        let is_per_channel = is_scaled || function == Function::Multiply;
        let operand = if is_per_channel { SecondOperand::PER_CHANNEL } else { SecondOperand::WHOLE };
        if !linked.push(function, operand) {
            return Err(format!("the kernel {kernel:?} links too many functions"));
        }
    }
    Ok(linked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inputs_of_a_concatenation_fill_its_output() {
        for (first, output, inputs) in [(160, 576, 3), (192, 576, 4), (14, 102, 3), (40, 654, 9), (64, 64, 1)]
        {
            let feature = format!(
                "'Input_shape': '14', 'Input_channel': {first}, 'Kernel': '{inputs}', 'Filter': '{output}'"
            );
            let concat = concat(&Feature(&feature)).unwrap();
            assert_eq!(concat.extents.iter().sum::<u32>(), output, "{concat:?}");
            assert_eq!(concat.extents.len(), inputs);
        }
    }
}
