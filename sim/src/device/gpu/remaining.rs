//! Parameters of the kernels other than convolutions, one table per family.
//!
//! The equations use the terms that the `convolution` module defines.

use super::parameters::kernel_table;

kernel_table! {
    /// Matrix-vector product: four threads share the dot products of one output slice.
    ///
    /// ```text
    /// time = launch_us + iterations * rounds(latency_us, throughput_us)
    ///      + traffic_us_per_byte * (input + output + weights)
    ///      + linked_us * activations + linear_us, unless it replaces a 1x1 convolution
    /// ```
    FullyConnectedKernel {
        /// Launch of the kernel (t0).
        launch_us,
        /// Latency of a loop iteration (L).
        latency_us,
        /// Cost of a wave's iteration (c).
        throughput_us,
        /// Sharpness of the soft maximum of latency and throughput; 0 is their sum.
        roofline_sharpness,
        /// Time per byte of tensor and weights.
        traffic_us_per_byte,
        /// Time of a linked activation.
        linked_us,
        /// Extra time of a fully connected layer over a 1x1 convolution of one pixel.
        linear_us,
    }
    optional {}
}

kernel_table! {
    /// Windowed pooling: one thread computes one slice of one pixel.
    ///
    /// ```text
    /// c = throughput_us + throughput_stride_us * stride
    /// time = launch_us + traffic_us_per_byte * (input + output)
    ///      + (window * rounds(latency_us, c) + wave_us * waves per compute unit)
    ///          * (1 + average_factor, for an average)
    /// ```
    PoolKernel {
        /// Launch of the kernel (t0).
        launch_us,
        /// Latency of one tap of the window (L).
        latency_us,
        /// Cost of a wave's tap: constant part (c).
        throughput_us,
        /// Cost of a wave's tap per step of the stride (c).
        throughput_stride_us,
        /// Sharpness of the soft maximum of latency and throughput; 0 is their sum.
        roofline_sharpness,
        /// Time per byte of tensor.
        traffic_us_per_byte,
        /// Relative rise of the work for average over max pooling: it sums in 32 bits and
        /// divides.
        average_factor,
    }
    optional {
        /// Prologue and epilogue of a wave, independent of the window.
        wave_us,
    }
}

kernel_table! {
    /// Mean over pixels: a work-group reduces one slice together, or each thread sums one by itself.
    ///
    /// ```text
    /// time = launch_us + iterations * rounds(latency_us, throughput_us)
    ///      + traffic_us_per_byte * (input + output)
    ///      + (wave_us + reduction_step_us * steps) * waves per compute unit
    ///      + lone_read_us * iterations, where one thread sums alone
    /// ```
    MeanKernel {
        /// Launch of the kernel (t0).
        launch_us,
        /// Latency of one read (L).
        latency_us,
        /// Cost of a wave's read (c).
        throughput_us,
        /// Sharpness of the soft maximum of latency and throughput; 0 is their sum.
        roofline_sharpness,
        /// Time per byte of tensor.
        traffic_us_per_byte,
        /// Start of a wave and its part of the group reduction.
        wave_us,
        /// Extra time per read of a thread that sums a slice alone.
        lone_read_us,
    }
    optional {
        /// One step of a group's reduction tree: a quarter of the partial sums remains after it,
        /// but every wave waits at its barrier.
        reduction_step_us,
    }
}

kernel_table! {
    /// Concatenation along channels: one thread copies all slices of one pixel.
    ///
    /// ```text
    /// work = output slices / iterations
    /// L = (latency_us + latency_slice_us * work + latency_input_us * inputs / iterations)
    ///     * (misaligned_latency_factor, if misaligned)
    /// c = throughput_us * work + throughput_input_us * inputs / iterations
    ///     + throughput_misaligned_us * work, if misaligned
    /// time = launch_us
    ///      + iterations * rounds(L, c) * (1 + linked_factor, if a binary function is linked)
    ///      + traffic_us_per_byte * (input + output * (1 + linked_traffic_factor * second operands))
    /// ```
    /// Broadcast operands, such as those of a batch normalisation, are a few bytes and do not count.
    ConcatKernel {
        /// Launch of the kernel (t0).
        launch_us,
        /// Latency of a loop iteration (L).
        latency_us,
        /// Latency per input tensor (L).
        latency_input_us,
        /// Cost of a wave's slice (c).
        throughput_us,
        /// Cost of a wave per input tensor (c).
        throughput_input_us,
        /// Additional cost per slice if an input ends within a slice (c).
        throughput_misaligned_us,
        /// Sharpness of the soft maximum of latency and throughput; 0 is their sum.
        roofline_sharpness,
        /// Time per byte of tensor.
        traffic_us_per_byte,
        /// Latency if an input ends within a slice, relative to whole slices: that kernel is
        /// fully unrolled.
        misaligned_latency_factor,
        /// Traffic of a linked function's second operand, relative to the output's.
        linked_traffic_factor,
        /// Relative rise of the loop time with a linked function of two tensors.
        linked_factor,
    }
    optional {
        /// Latency per slice of an iteration (L): the two reads of an iteration that copies two
        /// slices overlap, but not fully.
        latency_slice_us,
    }
}

kernel_table! {
    /// Element-wise functions, softmax, normalisations, look-ups and copies: memory-bound
    /// kernels of low arithmetic intensity.
    ///
    /// ```text
    /// time = launch_us + iterations * rounds(latency_us, throughput_us)
    ///      + traffic_us_per_byte * (input + output * (1 + second operands))
    /// ```
    ElementwiseKernel {
        /// Launch of the kernel (t0).
        launch_us,
        /// Latency of one slice a thread reads and processes (L).
        latency_us,
        /// Cost of a wave's slice (c).
        throughput_us,
        /// Sharpness of the soft maximum of latency and throughput; 0 is their sum.
        roofline_sharpness,
        /// Time per byte of tensor.
        traffic_us_per_byte,
    }
    optional {}
}
