//! Steps of operators on single pixels, of windows over single channels, and of data movement:
//! element-wise functions, softmax, norms, depthwise convolution, pooling, means, slices,
//! transposes, reshapes, look-ups, concatenation.

use std::fmt::Write;

use coexec_sim::workload::{
    Concat, DepthwiseConv2d, Dimension, Elementwise, Generic, Interpolation, Pick, Pool, PoolKind, Resize,
    Shape, Window,
};

use super::{Argument, Builder, LaunchGrid};
use crate::cpu::{Element, NEIGHBOUR_OFFSET, NEIGHBOUR_POWER, VARIANCE_OFFSET};
use crate::opencl::{CHANNELS, Result, weights};
use coexec_sim::kernel::gpu::Kernel;

impl<T: Element> Builder<'_, T> {
    pub(super) fn softmax(&mut self) -> Result<()> {
        self.check_whole_pixels()?;
        let source = self.source("softmax", include_str!("../kernels/softmax.cl"));
        let [width, height, _] = self.region().size;
        self.push(&source, "softmax", [width, height, 1], Vec::new(), Vec::new())
    }

    /// A softmax over few pixels: the threads of a work-group share a pixel.
    pub(super) fn shared_softmax(&mut self) -> Result<()> {
        self.check_whole_pixels()?;
        let mut source = self.source("softmax", include_str!("../kernels/softmax.cl"));
        let group = self.dispatch.work_group;
        source.define("GROUP_SIZE", &group.iter().product::<u32>().to_string());
        let [width, height, slices] = self.region().size;
        let grid = [slices.next_multiple_of(group[0].max(1)), width, height];
        self.push(&source, "softmax1x1", grid, Vec::new(), Vec::new())
    }

    /// A normalisation by each pixel's mean and variance, or by the squares of each channel's
    /// neighbours.
    pub(super) fn norm(&mut self, neighbours: Option<u32>) -> Result<()> {
        self.check_whole_pixels()?;
        let mut source = self.source("norm", include_str!("../kernels/norm.cl"));
        source.define("GROUP_SIZE", &self.dispatch.work_group.iter().product::<u32>().to_string());
        source.define("VARIANCE_OFFSET", &format!("{VARIANCE_OFFSET:e}f"));
        let (mut buffers, mut more) = (Vec::new(), Vec::new());
        let mut entry = "norm";
        if let Some(channels) = neighbours {
            entry = "norm_by_neighbours";
            more.push(Argument::numbers([channels]));
            source.define("NEIGHBOUR_OFFSET", &format!("{NEIGHBOUR_OFFSET:e}f"));
            source.define("NEIGHBOUR_POWER", &format!("{NEIGHBOUR_POWER:e}f"));
        } else {
            buffers.push(self.per_channel(self.weights.kernel)?);
            buffers.push(self.per_channel(self.weights.bias)?);
        }
        let [width, height, _] = self.region().size;
        let threads = [width, height, self.dispatch.work_group[2]];
        self.push(&source, entry, threads, buffers, more)
    }

    /// A normalisation by each pixel's mean square, in three launches.
    pub(super) fn mean_square_norm(&mut self) -> Result<()> {
        self.check_whole_pixels()?;
        let [input, output] = self.input_to_output();
        let shape = output.shape;
        let [squares, factors] = [self.inner(shape)?, self.inner(shape.with_channels(1))?];
        let source = |linked: &[Elementwise]| {
            let body = include_str!("../kernels/mean_square_norm.cl");
            let mut source = self.source_linking("mean_square_norm", body, linked);
            source.define("VARIANCE_OFFSET", &format!("{VARIANCE_OFFSET:e}f"));
            source
        };
        let (alone, linked) = (source(&[]), source(&self.linked()));
        let (region, [columns, rows, slices]) = (self.region(), self.dispatch.work_group);
        let [width, height, _] = region.size;
        let grid = LaunchGrid { threads: region.size, work_group: [columns, rows, slices] };
        let of_pixels = LaunchGrid { threads: [width, height, 1], work_group: [columns, rows, 1] };
        self.push_between([&input, &squares], region, (&alone, "squares"), grid, [vec![], vec![]])?;
        self.push_between([&squares, &factors], region, (&alone, "factors"), of_pixels, [vec![], vec![]])?;
        let read = vec![factors.memory(), self.per_channel(self.weights.kernel)?];
        let more = vec![factors.extent()];
        self.push_between([&input, &output], region, (&linked, "products"), grid, [read, more])
    }

    /// Output elements that are each one input element, or zero.
    pub(super) fn pick(&mut self, pick: &Pick) -> Result<()> {
        let mut source = self.source("moves", include_str!("../kernels/moves.cl"));
        // Channels after the last of a partial texel must not be read.
        let is_full = |shape: Shape| (shape.channels as usize).is_multiple_of(CHANNELS);
        if pick.moves_whole_texels() && is_full(pick.input) {
            source.option("ALIGNED");
        }
        let numbers = vec![Argument::pick(pick), Argument::numbers([pick.images])];
        self.push(&source, "pick", self.region().size, Vec::new(), numbers)
    }

    pub(super) fn resize(&mut self, resize: &Resize) -> Result<()> {
        let mut source = self.source("resize", include_str!("../kernels/resize.cl"));
        match resize.interpolation {
            Interpolation::Nearest => {}
            Interpolation::Bilinear => source.option("BILINEAR"),
        }
        self.push(&source, "resize", self.region().size, Vec::new(), Vec::new())
    }

    pub(super) fn reshape(&mut self, input: Shape) -> Result<()> {
        let mut source = self.source("moves", include_str!("../kernels/moves.cl"));
        let extents = [input, self.layer.operator.output()];
        if extents.iter().all(|extent| (extent.channels as usize).is_multiple_of(CHANNELS)) {
            source.option("ALIGNED");
        }
        self.push(&source, "reshape", self.region().size, Vec::new(), Vec::new())
    }

    pub(super) fn embedding(&mut self, rows: u32) -> Result<()> {
        let source = self.source("moves", include_str!("../kernels/moves.cl"));
        let vectors: Vec<T> = self.weights.kernel.iter().map(|&value| T::from_f32(value)).collect();
        let table = vec![self.constants(&vectors)?];
        let rows = vec![Argument::numbers([rows])];
        self.push(&source, "gather", self.region().size, table, rows)
    }

    /// What is computed in place of an operator without a kernel of its own.
    pub(super) fn generic(&mut self, generic: &Generic) -> Result<()> {
        let mut source = self.source("moves", include_str!("../kernels/moves.cl"));
        let (mut parameters, mut calls, mut arguments) = (Vec::new(), String::new(), Vec::new());
        for (index, input) in generic.inputs.iter().enumerate() {
            parameters.push(format!("SOURCE source_{index}, Extent extent_{index}, int2 visits_{index}"));
            // Writing to a string cannot fail.
            let _ = write!(calls, "add(source_{index}, extent_{index}, visits_{index}) ");
            let visits = [input.elements(), generic.step(index)].map(|elements| elements as u32);
            let source = &self.inputs[index];
            arguments.extend([source.memory(), source.extent(), Argument::numbers(visits)]);
        }
        source.define("SOURCES", &parameters.join(", "));
        source.define("FOR_EACH_SOURCE(add)", &calls);
        let region = self.region();
        arguments.extend([self.output.memory(), self.output.extent(), Argument::part(region)]);
        arguments.push(Argument::numbers([generic.passes]));
        let grid = LaunchGrid { threads: region.size, work_group: self.dispatch.work_group };
        self.append(&source, "stand_in", grid, arguments)
    }

    pub(super) fn elementwise(&mut self, elementwise: Elementwise) -> Result<()> {
        let mut functions = vec![elementwise];
        functions.extend(self.linked());
        let source =
            self.source_linking("elementwise", include_str!("../kernels/elementwise.cl"), &functions);
        // The function's own second tensor is the first operand.
        let operand = if elementwise.function.is_binary() {
            vec![self.inputs[1].memory(), self.inputs[1].extent()]
        } else {
            Vec::new()
        };
        self.push(&source, "elementwise", self.region().size, Vec::new(), operand)
    }

    pub(super) fn batch_norm(&mut self) -> Result<()> {
        let mut source = self.source("elementwise", include_str!("../kernels/elementwise.cl"));
        source.option("SCALED");
        let statistics = vec![self.per_channel(self.weights.kernel)?, self.per_channel(self.weights.bias)?];
        self.push(&source, "elementwise", self.region().size, statistics, Vec::new())
    }

    pub(super) fn concat(&mut self, concat: &Concat) -> Result<()> {
        let along = match concat.dimension {
            Dimension::Batch => Some("ALONG_BATCH"),
            Dimension::Height => Some("ALONG_HEIGHT"),
            Dimension::Width => Some("ALONG_WIDTH"),
            Dimension::Channels => None,
        };
        let (entry, mut source) = if along.is_some() {
            ("concat_xy", self.source("concat_xy", include_str!("../kernels/concat_xy.cl")))
        } else {
            self.check_whole_pixels()?;
            ("concat", self.source("concat", include_str!("../kernels/concat.cl")))
        };
        let (mut parameters, mut calls) = (Vec::new(), String::new());
        let mut arguments = Vec::new();
        for (index, &extent) in concat.extents.iter().enumerate() {
            parameters.push(format!("SOURCE source_{index}, int extent_{index}"));
            // Writing to a string cannot fail.
            let _ = write!(calls, "copy(source_{index}, extent_{index}) ");
            arguments.extend([self.inputs[index].memory(), Argument::numbers([extent])]);
        }
        source.define("SOURCES", &parameters.join(", "));
        source.define("FOR_EACH_SOURCE(copy)", &calls);
        let but_last = &concat.extents[..concat.extents.len().saturating_sub(1)];
        if let Some(along) = along {
            source.option(along);
        } else if but_last.iter().all(|&channels| (channels as usize).is_multiple_of(CHANNELS)) {
            source.option("ALIGNED");
        }
        let region = self.region();
        arguments.extend([self.output.memory(), self.output.extent(), Argument::part(region)]);
        arguments.extend(self.linked_operands());
        let [width, height, slices] = region.size;
        let threads = [width, height, if along.is_some() { slices } else { 1 }];
        let grid = LaunchGrid { threads, work_group: self.dispatch.work_group };
        self.append(&source, entry, grid, arguments)
    }

    pub(super) fn depthwise(&mut self, conv: &DepthwiseConv2d, kernel: Kernel) -> Result<()> {
        let taps = conv.window.taps() as usize;
        let channels = conv.output().channels as usize;
        let [first, count] = [self.first_channel(), self.slices()];
        let packed = weights::depthwise::<T>(self.weights.kernel, [channels, taps], first, count);
        let plain = conv.window == Window::same(3) && conv.multiplier == 1;
        if kernel == Kernel::Depthwise3x3 && !plain {
            return Err(self.unsupported("its window is not a plain 3x3 one".to_owned()));
        }
        // The images of a batch are interleaved, so neighbouring columns share no reads.
        let shares_reads = kernel == Kernel::Depthwise3x3 && conv.input.batch == 1;
        let entry = if shares_reads { "depthwise_3x3" } else { "depthwise" };
        let mut source = self.source("depthwise", include_str!("../kernels/depthwise.cl"));
        source.number("MULTIPLIER", conv.multiplier);
        self.tile_options(&mut source);
        if self.dispatch.tile[2] != 1 {
            return Err(self.unsupported("a thread computes one slice".to_owned()));
        }
        let constants = vec![self.constants(&packed)?, self.per_channel(self.weights.bias)?];
        let threads = self.region().blocks(self.dispatch.tile);
        self.push(&source, entry, threads, constants, vec![Argument::window(&conv.window)])
    }

    pub(super) fn pool(&mut self, pool: &Pool) -> Result<()> {
        let mut source = self.source("pool", include_str!("../kernels/pool.cl"));
        if pool.kind == PoolKind::Average {
            source.option("AVERAGE");
        }
        let window = vec![Argument::window(&pool.window)];
        self.push(&source, "pool", self.region().size, Vec::new(), window)
    }

    pub(super) fn mean(&mut self, input: Shape) -> Result<()> {
        let mut source = self.source("mean", include_str!("../kernels/mean.cl"));
        let group = self.dispatch.work_group;
        for (name, size) in ["GROUP_X", "GROUP_Y", "GROUP_SLICES"].into_iter().zip(group) {
            source.number(name, size);
        }
        // One work-group per image and its slices.
        let threads = [input.batch * group[0], group[1], self.slices() as u32];
        self.push(&source, "mean", threads, Vec::new(), Vec::new())
    }
}
