//! Steps over the channels of each pixel, and of what only moves elements: softmax, norms,
//! ranges of channels, reshapes, look-ups.

use std::sync::Arc;

use coexec_sim::workload::{Embedding, Norm, NormKind, Reshape, Slice, slices};

use super::super::error::OpenClError;
use super::super::source::Source;
use super::super::weights::{self, CHANNELS};
use super::builder::Builder;
use super::step::{Argument, Grid};
use crate::cpu::Element;
use crate::cpu::normalise::VARIANCE_OFFSET;
use crate::operands::Part;

impl<T: Element> Builder<'_, T> {
    pub(super) fn softmax(&mut self) -> Result<(), OpenClError> {
        self.check_whole_pixels()?;
        let source = self.source("softmax", include_str!("../kernels/softmax.cl"));
        let [width, height, _] = self.region().size();
        self.mapped(&source, "softmax", [width, height, 1], Vec::new(), Vec::new())
    }

    /// A normalisation by the statistics of each pixel.
    pub(super) fn norm(&mut self, norm: Norm) -> Result<(), OpenClError> {
        self.check_whole_pixels()?;
        let mut source = self.source("norm", include_str!("../kernels/norm.cl"));
        source.define("GROUP_SIZE", &self.dispatch.work_group.iter().product::<u32>().to_string());
        source.define("VARIANCE_OFFSET", &format!("{VARIANCE_OFFSET:e}f"));
        let count = slices(norm.input.channels) as usize;
        let mut buffers = vec![self.per_channel(self.weights.kernel, count)?];
        if norm.kind == NormKind::Rms {
            source.option("ROOT_MEAN_SQUARE");
        } else {
            source.option("SHIFTED");
            buffers.push(self.per_channel(self.weights.bias, count)?);
        }
        let [width, height, _] = self.region().size();
        let threads = [width, height, self.dispatch.work_group[2]];
        self.mapped(&source, "norm", threads, buffers, Vec::new())
    }

    pub(super) fn slice(&mut self, slice: Slice) -> Result<(), OpenClError> {
        let mut source = self.source("moves", include_str!("../kernels/moves.cl"));
        if (slice.first_channel as usize).is_multiple_of(CHANNELS) {
            source.option("ALIGNED");
        }
        let first = Argument::Count(slice.first_channel as i32);
        self.mapped(&source, "slice", self.region().size(), Vec::new(), vec![first])
    }

    pub(super) fn reshape(&mut self, reshape: Reshape) -> Result<(), OpenClError> {
        let mut source = self.source("moves", include_str!("../kernels/moves.cl"));
        let extents = [reshape.input, reshape.output];
        if extents.iter().all(|extent| (extent.channels as usize).is_multiple_of(CHANNELS)) {
            source.option("ALIGNED");
        }
        self.mapped(&source, "reshape", self.region().size(), Vec::new(), Vec::new())
    }

    pub(super) fn embedding(&mut self, table: Embedding) -> Result<(), OpenClError> {
        debug_assert_eq!(
            self.weights.kernel.len(),
            table.vocabulary as usize * table.features as usize,
            "checked when prepared"
        );
        let source = self.source("moves", include_str!("../kernels/moves.cl"));
        let vectors: Vec<T> = self.weights.kernel.iter().map(|&value| T::from_f32(value)).collect();
        let table = Argument::Weights(Arc::new(self.runtime.buffer_of(&vectors)?));
        self.mapped(&source, "gather", self.region().size(), vec![table], Vec::new())
    }

    /// A kernel from the first input to the output, with what its weights and, behind the
    /// extents, `more` add.
    fn mapped(
        &mut self,
        source: &Source,
        entry: &'static str,
        threads: [u32; 3],
        weights: Vec<Argument<T>>,
        more: Vec<Argument<T>>,
    ) -> Result<(), OpenClError> {
        let mut arguments = vec![Argument::Input(0)];
        arguments.extend(weights);
        arguments.extend([
            Argument::Output,
            Argument::InputExtent(0),
            Argument::OutputExtent,
            Argument::Region(self.region()),
        ]);
        arguments.extend(more);
        arguments.extend(self.linked_operands());
        let grid = Grid { threads, work_group: self.dispatch.work_group };
        let step = self.step(source, entry, grid, arguments)?;
        self.steps.push(step);
        Ok(())
    }

    fn per_channel(&self, values: &[f32], count: usize) -> Result<Argument<T>, OpenClError> {
        let values = weights::per_channel::<T>(values, 0, count);
        Ok(Argument::Weights(Arc::new(self.runtime.buffer_of(&values)?)))
    }

    fn check_whole_pixels(&self) -> Result<(), OpenClError> {
        if *self.part == Part::of_lines(&self.layer.operator, self.part.lines.clone()) {
            return Ok(());
        }
        Err(self.unsupported("a thread needs all channels of a pixel".to_owned()))
    }
}
