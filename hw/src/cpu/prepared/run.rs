//! Running a prepared layer on a thread pool.

use std::ops::Range;

use coexec_sim::kernel::cpu::coexec::{Division, depthwise_threads};
use coexec_sim::{Operator, Region, Shape};

use super::{Implementation, Step};
use crate::cpu::product::Product;
use crate::cpu::visit::{Results, Visit};
use crate::cpu::{Element, Prepared, ThreadPool, product};
use crate::operands;
use crate::operands::{OperandError, Result, Stretches};

impl<T> Step<T> {
    /// Its product, if it is one.
    fn product(&self) -> Option<&Product<T>> {
        let (Implementation::Product(product) | Implementation::BatchedProduct(product)) =
            &self.implementation
        else {
            return None;
        };
        Some(product)
    }
}

impl<T: Element> Prepared<T> {
    /// Computes `part` of the layer into its place in `output`, the whole output tensor. `inputs`
    /// are the operator's tensors, then one for each linked binary function. Allocates nothing.
    ///
    /// # Errors
    /// Where an input or the output has the wrong size, the layer cannot compute the part by
    /// itself, or an index exceeds the embedding table.
    pub fn run(&mut self, pool: &mut ThreadPool, inputs: &[&[T]], output: &mut [T], part: Region) -> Result {
        // SAFETY: the output is borrowed exclusively.
        unsafe { self.run_shared(pool, inputs, output, part) }
    }

    /// As [`Self::run`], into a tensor of which another processor may concurrently write other
    /// parts.
    ///
    /// # Errors
    /// As for [`Self::run`].
    ///
    /// # Safety
    /// The output is valid for reads and writes, and nothing else accesses the part meanwhile.
    pub(crate) unsafe fn run_shared(
        &mut self,
        pool: &mut ThreadPool,
        inputs: &[&[T]],
        output: *mut [T],
        part: Region,
    ) -> Result {
        self.check(inputs, output.len(), part)?;
        if part.is_empty() {
            return Ok(());
        }
        let results = Results::new(output.cast(), self.layer.operator.output(), part);
        self.pack_right_operand(pool, inputs, part);
        for step in &self.steps {
            let Some(product) = step.product() else {
                self.share_out(pool, step, inputs, &results);
                continue;
            };
            let factors = (product, step.clamp);
            for part in self.product_parts(factors, inputs[0].as_ptr(), &results).into_iter().flatten() {
                let division = Division::new(&product.extent(&part), pool.threads());
                pool.self_scheduled(division.threads, division.blocks(), &|block| {
                    // SAFETY: input and output have the operator's sizes, nothing else accesses the part, and the
                    // instructions were checked.
                    unsafe { product.block(&part, &division, block) };
                });
            }
        }
        Ok(())
    }

    /// How a product is divided among `threads` threads; `None` for other operators.
    pub fn division(&self, part: Region, threads: usize) -> Option<Division> {
        let product = self.steps[0].product()?;
        let results = Results::new(std::ptr::null_mut(), self.layer.operator.output(), part);
        let parts = self.product_parts((product, None), std::ptr::null(), &results);
        let part = parts.into_iter().flatten().next()?;
        Some(Division::new(&product.extent(&part), threads))
    }

    fn check(&self, inputs: &[&[T]], output: usize, part: Region) -> Result {
        let operator = &self.layer.operator;
        operands::check_inputs(&self.layer, inputs.iter().map(|input| input.len()))?;
        let expected = operator.output().elements() as usize;
        if output != expected {
            return Err(OperandError::count(output, expected, "elements of room in the output"));
        }
        operands::check_part(operator, part)?;
        Ok(())
    }

    /// Packs the right operands of products of two inputs.
    fn pack_right_operand(&mut self, pool: &mut ThreadPool, inputs: &[&[T]], part: Region) {
        let threads = self.division(part, pool.threads()).map_or(1, |division| division.threads);
        let Implementation::BatchedProduct(product) = &mut self.steps[0].implementation else { return };
        let panels = product.panels.as_mut_slice();
        let matrix = inputs[1].len() / panels.len();
        pool.for_each_mut(threads, panels, &|index, panels| {
            panels.fill_from_rows(&inputs[1][index * matrix..(index + 1) * matrix]);
        });
    }

    /// Splits the results into parts of a product: the groups computed whole, and the partial
    /// groups at the start and end of the channel range.
    fn product_parts(
        &self,
        (product, clamp): (&Product<T>, Option<[T; 2]>),
        input: *const T,
        results: &Results<T>,
    ) -> [Option<product::Part<T>>; 3] {
        let make = |groups: Range<usize>, channels: Range<usize>| {
            (!groups.is_empty() && !channels.is_empty()).then_some(product::Part {
                input,
                output: results.first,
                groups,
                channels,
                stretches: results.stretches,
                clamp,
            })
        };
        let channels = results.channels.clone();
        if let Operator::MatMul(_) = self.layer.operator {
            // Each head is a group with matrices of its own, not a stretch of pixels.
            let Shape { batch, height, .. } = self.layer.operator.output();
            let heads = batch as usize * height as usize;
            let length = results.pixels() / heads;
            let stretches = Stretches { length, count: 1, ..results.stretches };
            let part = make(0..heads, channels);
            return [part.map(|part| product::Part { stretches, ..part }), None, None];
        }
        let group = product.dimensions.group_channels;
        let head_end = channels.start.next_multiple_of(group).min(channels.end);
        let tail_start = (channels.end / group * group).max(head_end);
        let within = |part: Range<usize>| {
            let index = part.start / group;
            make(index..index + 1, part.start - index * group..part.end - index * group)
        };
        let whole = make(head_end.div_ceil(group)..tail_start / group, 0..group);
        [whole, within(channels.start..head_end), within(tail_start..channels.end)]
    }

    /// Threads that share a step by rows of output; most steps run on the calling thread alone.
    fn threads(step: &Step<T>, results: &Results<T>, most: usize) -> usize {
        let Implementation::Depthwise(depthwise) = &step.implementation else { return 1 };
        let macs = results.pixels() * results.channels.len() * depthwise.window.taps();
        depthwise_threads(macs as u64, most)
    }

    fn share_out(&self, pool: &mut ThreadPool, step: &Step<T>, inputs: &[&[T]], results: &Results<T>) {
        let output = self.layer.operator.output();
        let visit = |pixels: Range<usize>| {
            // SAFETY: the instructions were checked; each pixel is visited once, and inputs and
            // output have the operator's sizes.
            unsafe { Visit { step, inputs, results, output, pixels }.run(self.set) };
        };
        match Self::threads(step, results, pool.threads()) {
            1 => visit(0..results.pixels()),
            threads => pool.equal_parts(threads, results.pixels() / results.row, &|rows| {
                visit(rows.start * results.row..rows.end * results.row);
            }),
        }
    }
}
