//! Steps of everything that moves or maps elements: element-wise functions,
//! normalisation by trained statistics, concatenation.

use std::fmt::Write;
use std::sync::Arc;

use coexec_sim::workload::{Concat, Function, Shape};

use super::super::error::OpenClError;
use super::super::source::Source;
use super::super::weights::{self, CHANNELS};
use super::builder::Builder;
use super::step::{Argument, Grid};
use crate::cpu::Element;
use crate::operands::Part;

impl<T: Element> Builder<'_, T> {
    pub(super) fn elementwise(&mut self, function: Function) -> Result<(), OpenClError> {
        let mut functions = vec![function];
        functions.extend_from_slice(self.layer.linked.functions());
        let source =
            self.source_linking("elementwise", include_str!("../kernels/elementwise.cl"), &functions);
        // The function's own second tensor is the first operand.
        let operands = Self::operands(1, &functions);
        self.per_texel(&source, Vec::new(), operands)
    }

    pub(super) fn batch_norm(&mut self, input: Shape) -> Result<(), OpenClError> {
        let mut source = self.source("elementwise", include_str!("../kernels/elementwise.cl"));
        source.option("SCALED");
        let [first, count] = [self.first_channel(), self.slices()];
        debug_assert_eq!(self.weights.kernel.len(), input.channels as usize, "checked when prepared");
        let statistics = [self.weights.kernel, self.weights.bias]
            .map(|values| weights::per_channel::<T>(values, first, count));
        let mut buffers = Vec::with_capacity(statistics.len());
        for values in &statistics {
            buffers.push(Argument::Weights(Arc::new(self.runtime.buffer_of(values)?)));
        }
        let operands = self.linked_operands();
        self.per_texel(&source, buffers, operands)
    }

    fn per_texel(
        &mut self,
        source: &Source,
        statistics: Vec<Argument<T>>,
        operands: Vec<Argument<T>>,
    ) -> Result<(), OpenClError> {
        let region = self.region();
        let mut arguments = vec![Argument::Input(0)];
        arguments.extend(statistics);
        arguments.extend([
            Argument::Output,
            Argument::InputExtent(0),
            Argument::OutputExtent,
            Argument::Region(region),
        ]);
        arguments.extend(operands);
        let grid = Grid { threads: region.size(), work_group: self.dispatch.work_group };
        let step = self.step(source, "elementwise", grid, arguments)?;
        self.steps.push(step);
        Ok(())
    }

    pub(super) fn concat(&mut self, concat: &Concat) -> Result<(), OpenClError> {
        if *self.part != Part::of_lines(&self.layer.operator, self.part.lines.clone()) {
            return Err(self.unsupported("a thread copies all channels of a pixel".to_owned()));
        }
        let mut source = self.source("concat", include_str!("../kernels/concat.cl"));
        let (mut parameters, mut calls) = (Vec::new(), String::new());
        for (index, channels) in concat.channels.iter().enumerate() {
            parameters.push(format!("SOURCE source_{index}"));
            // Writing to a string cannot fail.
            let _ = write!(calls, "copy(source_{index}, {channels}) ");
        }
        source.define("SOURCES", &parameters.join(", "));
        source.define("FOR_EACH_SOURCE(copy)", &calls);
        let but_last = &concat.channels[..concat.channels.len().saturating_sub(1)];
        if but_last.iter().all(|&channels| (channels as usize).is_multiple_of(CHANNELS)) {
            source.option("ALIGNED");
        }
        let region = self.region();
        let mut arguments: Vec<_> = (0..concat.channels.len()).map(Argument::Input).collect();
        arguments.extend([Argument::Output, Argument::OutputExtent, Argument::Region(region)]);
        arguments.extend(self.linked_operands());
        let [width, height, _] = region.size();
        let grid = Grid { threads: [width, height, 1], work_group: self.dispatch.work_group };
        let step = self.step(&source, "concat", grid, arguments)?;
        self.steps.push(step);
        Ok(())
    }
}
