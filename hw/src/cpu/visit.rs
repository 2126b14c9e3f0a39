//! Operators computed one output pixel at a time: all but products.
//!
//! Responsible for: enumerating the pixels of a part, giving out mutable access to the channels of
//! each, and computing them. Not for: which thread computes which pixels. Invariant: different
//! pixels have disjoint elements, so different threads may compute them.

use std::ops::Range;

use coexec_sim::workload::{Function, Generic, Interpolation, Pick, Resize, SecondOperand, Shape};
use coexec_sim::{InstructionSet, Region};

use super::element::PlainRegister;
use super::prepared::{Implementation, Step};
use super::{Element, Vector, elementwise, normalise};
use crate::operands::{Stretches, indices, row_pixels};

/// The elements of an output tensor that are computed.
pub(super) struct Results<T> {
    /// First element of the whole tensor.
    pub(super) first: *mut T,
    /// Channels of the tensor.
    all_channels: usize,
    /// Channels computed.
    pub(super) channels: Range<usize>,
    /// Pixels computed.
    pub(super) stretches: Stretches,
    /// Pixels in a row.
    pub(super) row: usize,
}

// SAFETY: different pixels have disjoint elements (this module's invariant), and the creator of the
// results vouches for the pointer.
unsafe impl<T: Send> Sync for Results<T> {}

impl<T> Results<T> {
    /// The elements of `part` in a tensor of `shape` that starts at `first`.
    pub(super) fn new(first: *mut T, shape: Shape, part: Region) -> Self {
        Self {
            first,
            all_channels: shape.channels as usize,
            channels: indices(part.channels),
            stretches: Stretches::new(shape, part.rows),
            row: row_pixels(shape),
        }
    }

    /// Pixels computed.
    pub(super) fn pixels(&self) -> usize {
        self.stretches.length * self.stretches.count
    }

    /// Index in the tensor, and the channels, of computed pixel `index`.
    ///
    /// # Safety
    /// The tensor is valid for reads and writes of the part, and nothing else accesses this pixel's
    /// part while the channels are borrowed.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "the caller ensures exclusive access to the pixel")]
    pub(super) unsafe fn pixel(&self, index: usize) -> (usize, &mut [T]) {
        let Stretches { first, length, count, step } = self.stretches;
        let (stretch, offset) = if count == 1 { (0, index) } else { (index / length, index % length) };
        let pixel = first + stretch * step + offset;
        // SAFETY: the caller vouches for the part, which these channels belong to.
        let channels = unsafe {
            let start = self.first.add(pixel * self.all_channels + self.channels.start);
            std::slice::from_raw_parts_mut(start, self.channels.len())
        };
        (pixel, channels)
    }
}

/// Copies of one value that a function of two tensors reads at a time.
const REPEATED: usize = 16;

/// A step over a range of the pixels.
pub(super) struct Visit<'a, T: Element> {
    pub(super) step: &'a Step<T>,
    pub(super) inputs: &'a [&'a [T]],
    pub(super) results: &'a Results<T>,
    /// Shape of the whole output.
    pub(super) output: Shape,
    pub(super) pixels: Range<usize>,
}

impl<T: Element> Visit<'_, T> {
    /// Runs the step in loops compiled with the instructions of `set`, so that they vectorise over
    /// its registers.
    ///
    /// # Safety
    /// The processor has `set`; nothing else accesses the pixels meanwhile, and inputs and output
    /// have the operator's sizes.
    pub(super) unsafe fn run(&self, set: InstructionSet) {
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx2,fma")]
            fn with_avx2<T: Element>(visit: &Visit<'_, T>) {
                // SAFETY: the function is called only where the processor has these instructions.
                unsafe { visit.over::<T::Avx2>() };
            }
            #[target_feature(enable = "avx512f,avx2,fma")]
            fn with_avx512<T: Element>(visit: &Visit<'_, T>) {
                // SAFETY: the function is called only where the processor has these instructions.
                unsafe { visit.over::<T::Avx512>() };
            }
            match set {
                // SAFETY: the caller vouches for the instructions.
                InstructionSet::Avx2 => return unsafe { with_avx2(self) },
                // SAFETY: the caller vouches for the instructions.
                InstructionSet::Avx512 => return unsafe { with_avx512(self) },
                _ => {}
            }
        }
        #[cfg(target_arch = "aarch64")]
        if matches!(set, InstructionSet::Neon | InstructionSet::NeonF16) {
            // SAFETY: the caller vouches for NEON, which is part of the baseline of every 64-bit
            // Arm target.
            return unsafe { self.over::<T::Neon>() };
        }
        // SAFETY: portable code runs on every processor.
        unsafe { self.over::<PlainRegister>() };
    }

    /// Runs the step over registers `V`; must be inlined, with everything it calls.
    ///
    /// # Safety
    /// As for [`Self::run`], with the instructions of `V`.
    // The step is matched for each pixel: a loop per step would need closures, which may be compiled
    // as separate functions without the target features.
    #[inline(always)]
    unsafe fn over<V: Vector<T>>(&self) {
        for index in self.pixels.clone() {
            // SAFETY: the caller vouches for the results; every thread has pixels or channels of
            // its own.
            let (pixel, to) = unsafe { self.results.pixel(index) };
            // SAFETY: the caller vouches for the instructions.
            unsafe { self.compute::<V>(pixel, to) };
            if let Some(bounds) = self.step.clamp {
                elementwise::clamp(to, bounds);
            }
        }
    }

    /// Computes the channels `to` of a pixel.
    ///
    /// # Safety
    /// The processor has the instructions of `V`.
    #[inline(always)]
    unsafe fn compute<V: Vector<T>>(&self, pixel: usize, to: &mut [T]) {
        let (channels, first) = (self.output.channels as usize, self.results.channels.start);
        let inputs = self.inputs;
        match &self.step.implementation {
            // SAFETY: the caller vouches for the instructions.
            Implementation::Depthwise(depthwise) => unsafe {
                depthwise.pixel::<V>(inputs[0], pixel, first, to);
            },
            // SAFETY: the caller vouches for the instructions.
            Implementation::Pooling(pool) => unsafe { pool.pixel::<T, V>(inputs[0], pixel, first, to) },
            Implementation::Elementwise(function, operand) => {
                to.copy_from_slice(self.channels_of(0, pixel, to.len()));
                self.apply(*function, function.is_binary().then_some((1, *operand)), pixel, to);
            }
            // SAFETY: the caller vouches for the instructions.
            Implementation::Softmax => unsafe {
                normalise::softmax::<T, V>(self.channels_of(0, pixel, to.len()), to);
            },
            Implementation::Normalisation(norm) => {
                let from = self.channels_of(0, pixel, to.len());
                // SAFETY: the caller vouches for the instructions.
                unsafe { norm.pixel::<V>(from, first, to) };
            }
            Implementation::Concat(runs) => join(inputs, runs, pixel * channels + first, to),
            Implementation::Resize(resize) => resized(inputs[0], resize, self.position(pixel).1, to),
            Implementation::Pick(pick) => move_pixel(inputs[0], pick, self.position(pixel), to),
            Implementation::Reshape => to.copy_from_slice(self.channels_of(0, pixel, to.len())),
            Implementation::Embedding(table) => {
                let last = table.len() / channels - 1;
                let start = (inputs[0][pixel].to_f32() as usize).min(last) * channels + first;
                to.copy_from_slice(&table[start..start + to.len()]);
            }
            Implementation::Generic(generic) => {
                for (channel, to) in to.iter_mut().enumerate() {
                    *to = T::from_f32(summed(generic, inputs, pixel * channels + first + channel));
                }
            }
            Implementation::Linked(function, input) => self.apply(*function, *input, pixel, to),
            Implementation::Product(_) | Implementation::BatchedProduct(_) => {
                unreachable!("products are computed in blocks")
            }
        }
    }

    /// The output's batch, and the position of the pixel's first computed channel.
    fn position(&self, pixel: usize) -> (u32, [u32; 4]) {
        let Shape { batch, height, width, .. } = self.output;
        let [height, width] = [height, width].map(|extent| extent as usize);
        let at =
            [pixel / (height * width), pixel / width % height, pixel % width, self.results.channels.start];
        (batch, at.map(|position| position as u32))
    }

    /// Applies a function to the channels `to` of a pixel; a function of two tensors reads the second from the
    /// input at an index.
    #[inline(always)]
    fn apply(&self, function: Function, input: Option<(usize, SecondOperand)>, pixel: usize, to: &mut [T]) {
        let Some((input, operand)) = input else { return elementwise::apply(function, to, &[]) };
        let pixel = operand.pixel(self.output, pixel);
        if operand.is_per_pixel(self.output) {
            let other = [self.inputs[input][pixel]; REPEATED];
            to.chunks_mut(REPEATED).for_each(|to| elementwise::apply(function, to, &other));
        } else {
            elementwise::apply(function, to, self.channels_of(input, pixel, to.len()));
        }
    }

    /// The computed channels of a pixel of input `input`, which has the output's channels.
    #[inline(always)]
    fn channels_of(&self, input: usize, pixel: usize, count: usize) -> &[T] {
        let start = pixel * self.output.channels as usize + self.results.channels.start;
        &self.inputs[input][start..start + count]
    }
}

/// Gathers the channels of a pixel from the positions that `pick` gives.
fn move_pixel<T: Element>(from: &[T], pick: &Pick, (batch, at): (u32, [u32; 4]), to: &mut [T]) {
    let [image, row, column, first] = at;
    let element = |channel: usize| pick.element(batch, [image, row, column, first + channel as u32]);
    // Positions are linear in the channel: where both ends are inside the input, so is all between.
    if let [Some(start), Some(end)] = [element(0), element(to.len() - 1)]
        && start <= end
    {
        if pick.keeps_channels_together() {
            to.copy_from_slice(&from[start..=end]);
        } else {
            let stride = (end - start) / (to.len() - 1).max(1);
            for (to, from) in to.iter_mut().zip(from[start..].iter().step_by(stride.max(1))) {
                *to = *from;
            }
        }
        return;
    }
    for (channel, to) in to.iter_mut().enumerate() {
        *to = element(channel).map_or(T::from_f32(0.0), |number| from[number]);
    }
}

/// Element `element` of what is computed in place of an operator without a kernel of its own.
fn summed<T: Element>(generic: &Generic, inputs: &[&[T]], element: usize) -> f32 {
    let mut sum = 0.0;
    for _ in 0..generic.passes {
        for (index, input) in inputs.iter().enumerate() {
            for from in generic.summed(index, element as u64) {
                sum += input[from as usize].to_f32();
            }
        }
    }
    sum
}

/// Computes the channels of a pixel of a resized image.
fn resized<T: Element>(from: &[T], resize: &Resize, [image, row, column, first]: [u32; 4], to: &mut [T]) {
    let input = resize.input;
    let start = |row: u32, column: u32| {
        let pixel = (image * input.height + row) as usize * input.width as usize + column as usize;
        pixel * input.channels as usize + first as usize
    };
    match resize.interpolation {
        Interpolation::Nearest => {
            let place =
                |at: u32, from: u32, to: u32| (u64::from(at) * u64::from(from) / u64::from(to)) as u32;
            let start =
                start(place(row, input.height, resize.height), place(column, input.width, resize.width));
            to.copy_from_slice(&from[start..start + to.len()]);
        }
        Interpolation::Bilinear => {
            let (rows, down) = neighbours(row, input.height, resize.height);
            let (columns, right) = neighbours(column, input.width, resize.width);
            let corners = rows.map(|row| columns.map(|column| &from[start(row, column)..]));
            for (channel, to) in to.iter_mut().enumerate() {
                let at = |row: usize, column: usize| corners[row][column][channel].to_f32();
                let mixed = |row: usize| at(row, 0) + (at(row, 1) - at(row, 0)) * right;
                *to = T::from_f32(mixed(0) + (mixed(1) - mixed(0)) * down);
            }
        }
    }
}

/// The two input positions around output position `at`, and the interpolation weight of the second.
fn neighbours(at: u32, from: u32, to: u32) -> ([u32; 2], f32) {
    let place = ((at as f32 + 0.5) * from as f32 / to as f32 - 0.5).max(0.0);
    let before = (place as u32).min(from - 1);
    ([before, (before + 1).min(from - 1)], place - before as f32)
}

/// Copies the elements from index `first` on of the concatenated inputs, which repeat a cycle of
/// `runs` contiguous elements of each input. All copied elements are in one cycle.
fn join<T: Element>(inputs: &[&[T]], runs: &[usize], first: usize, to: &mut [T]) {
    let round: usize = runs.iter().sum();
    let (rounds, first) = (first / round, first % round);
    let mut start = 0;
    for (input, &run) in inputs.iter().zip(runs) {
        let [from, end] = [start.max(first), (start + run).min(first + to.len())];
        if from < end {
            let source = rounds * run + from - start;
            to[from - first..end - first].copy_from_slice(&input[source..source + end - from]);
        }
        start += run;
    }
}

#[cfg(test)]
mod tests {
    use coexec_sim::plan::Span;

    use super::*;

    fn visited(shape: Shape, part: Region) -> Vec<u32> {
        let mut tensor = vec![0; shape.elements() as usize];
        let results = Results::new(tensor.as_mut_ptr(), shape, part);
        for index in 0..results.pixels() {
            // SAFETY: the tensor outlives the results and is accessed by nothing else.
            let (pixel, channels) = unsafe { results.pixel(index) };
            for channel in channels {
                *channel += 1 + pixel as u32;
            }
        }
        tensor
    }

    #[test]
    fn a_part_of_the_lines_is_taken_from_every_image() {
        let shape = Shape { batch: 2, height: 3, width: 1, channels: 2 };
        let part = Region { channels: Span::new(1, 2), rows: Span::new(1, 3) };
        assert_eq!(visited(shape, part), [0, 0, 0, 2, 0, 3, 0, 0, 0, 5, 0, 6]);
    }

    #[test]
    fn whole_images_are_contiguous() {
        let shape = Shape { batch: 2, height: 1, width: 2, channels: 1 };
        let part = Region::of(shape);
        assert_eq!(visited(shape, part), [1, 2, 3, 4]);
        assert_eq!(Results::new(std::ptr::null_mut::<f32>(), shape, part).stretches.count, 1);
    }
}
