//! Parameters of the convolution kernels, one table per kernel family, named
//! after the terms of its equation.
//!
//! In the equations, `pixels` and `slices` are those of one thread's tile, `lanes` and `weights` the
//! distinct pixel blocks and output-slice blocks of a wave, `iterations` those of a thread's loop,
//! `stride` the horizontal one (at most 8, the pixels of a cache line), and `rounds(L, c)` is the sum
//! over all occupancy rounds of the soft maximum of the latency `L` and the throughput cost `c` times
//! the waves resident on a compute unit. A table with `unit_us` adds `unit_us * (compute units that get
//! a group - 1)` to `launch_us`. Bytes count whole slices of 8 bytes (four 16-bit channels). The
//! structure is the white-box model fitted on the mobile-ml-benchmark data set.

use super::parameters::kernel_table;

kernel_table! {
    /// Generic convolution: one thread computes a tile of pixels x output slices, looping
    /// over the window and the input slices.
    ///
    /// ```text
    /// reuse = window_reuse_factor + (row_reuse_factor, if the tile has two rows), unless trivial
    /// spilled = ((input + output + weights) / cache_bytes - 1) / 0.2, from 0 to 1
    /// L = (latency_us + latency_pixel_us * pixels / (1 + reuse) + latency_slice_us * slices
    ///      + latency_weight_us * min(weights, waited_weight_blocks of the family) * slices)
    ///     * (1 + window_latency_factor, unless trivial) * unroll ^ -unroll_exponent
    ///     * (1 + spill_latency_factor * spilled)
    /// c = (throughput_slice_us * slices + throughput_texel_us * pixels * slices
    ///      + throughput_pixel_read_us * lanes * pixels * stride
    ///      + throughput_weight_read_us * weights * slices)
    ///     * (1 + window_throughput_factor, unless trivial)
    /// time = launch_us + iterations * rounds(L, c)
    ///          * (1 + addition_factor, if trivial and an addition is linked
    ///               + activation_factor, if an activation is linked)
    ///      + traffic_us_per_byte
    ///          * (input + output * (1 + addition_traffic_factor * additions) + weights)
    ///      + wave_us * waves per compute unit * pixels * slices
    /// ```
    ConvGenericKernel {
        /// Launch of the kernel (t0).
        launch_us,
        /// Latency of a loop iteration on a nearly empty compute unit: constant part (L).
        latency_us,
        /// Latency of an iteration per pixel of the tile (L).
        latency_pixel_us,
        /// Latency of an iteration per output slice of the tile (L).
        latency_slice_us,
        /// Latency of an iteration per output slice of the tile and distinct weight block
        /// of the wave (L).
        latency_weight_us,
        /// Cost of a wave's iteration per output slice of the tile (c).
        throughput_slice_us,
        /// Cost of a wave's iteration per texel of the tile: 16 multiply-adds per lane (c).
        throughput_texel_us,
        /// Cost of a wave's iteration per distinct pixel block, pixel of the tile and step
        /// of the stride (c).
        throughput_pixel_read_us,
        /// Cost of a wave's iteration per distinct weight block and output slice (c).
        throughput_weight_read_us,
        /// Sharpness of the soft maximum of latency and throughput; 0 is their sum.
        roofline_sharpness,
        /// Relative rise of the latency for kernels with a window loop.
        window_latency_factor,
        /// Exponent of the source unroll, by whose power the latency is divided.
        unroll_exponent,
        /// Relative rise of the throughput cost for kernels with a window loop.
        window_throughput_factor,
        /// Relative rise of the loop time of a trivial kernel with a linked addition.
        addition_factor,
        /// Relative rise of the loop time with a linked activation.
        activation_factor,
        /// Prologue and epilogue of a wave, per texel of the tile.
        wave_us,
        /// Time per byte of tensor and weights.
        traffic_us_per_byte,
        /// Traffic of a linked addition's second operand, relative to the output's.
        addition_traffic_factor,
    }
    optional {
        /// Fraction of the rounding-up of the last round's waves that counts: to a power of two
        /// up to 8 waves, to a multiple of four above. Apple only.
        tail_rounding_factor,
        /// Reuse of pixels between neighbouring taps of a window, which find them in the cache;
        /// it reduces the pixel term of the latency.
        window_reuse_factor,
        /// Additional reuse if the tile has two rows: the thread has read one of them already,
        /// for the tap above.
        row_reuse_factor,
        /// Bytes of tensors and weights that the last-level cache keeps from one launch to the
        /// next. Only for GPUs whose cache holds most layers and is much faster than their memory:
        /// on an H200 an iteration takes 0.26 us, and 0.45 us once the bytes, counted in 16 bits,
        /// exceed 17 MB (34 MB in the 32 bits of the measurement).
        cache_bytes,
        /// Relative rise of the latency once tensors and weights exceed that cache.
        spill_latency_factor,
    }
}

kernel_table! {
    /// Winograd convolution: 36 batched 1x1 convolutions between two transforms. One
    /// table covers the three launches.
    ///
    /// ```text
    /// L = latency_us + latency_slice_us * slices
    /// c = throughput_slice_us * slices + throughput_texel_us * pixels * slices
    /// time = launch_us + iterations * rounds(L, c) + wave_us * waves per compute unit * pixels * slices
    ///      + forward_us_per_byte * transformed input + inverse_us_per_byte * transformed output
    ///      + traffic_us_per_byte * (input + output + transformed weights)
    /// ```
    WinogradKernel {
        /// Launches of the three kernels (t0).
        launch_us,
        /// Latency of a loop iteration of the middle kernel: constant part (L).
        latency_us,
        /// Latency of an iteration per output slice of the tile (L).
        latency_slice_us,
        /// Cost of a wave's iteration per output slice of the tile (c).
        throughput_slice_us,
        /// Cost of a wave's iteration per texel of the tile (c).
        throughput_texel_us,
        /// Sharpness of the soft maximum of latency and throughput; 0 is their sum.
        roofline_sharpness,
        /// Prologue and epilogue of a wave, per texel of the tile.
        wave_us,
        /// The 4x4 to 36 transform, per byte it writes.
        forward_us_per_byte,
        /// The 36 to 4x4 transform, per byte it reads.
        inverse_us_per_byte,
        /// Time per byte of tensor and weights.
        traffic_us_per_byte,
    }
    optional {}
}

kernel_table! {
    /// Convolution with weights in constant memory: one thread computes all output
    /// slices of one pixel, fully unrolled.
    ///
    /// ```text
    /// reads = window * input slices
    /// L = latency_read_us * reads * (1 + dot_latency_factor, in dot form)
    ///     + latency_slice_us * output slices
    /// c = throughput_read_us * reads + throughput_product_us * window * input channels * output slices
    ///     + throughput_slice_us * output slices
    /// time = launch_us + rounds(L, c)
    ///      + traffic_us_per_byte
    ///          * (input + output * (1 + addition_traffic_factor * additions) + weights)
    /// ```
    ConvConstantsKernel {
        /// Launch of the kernel (t0).
        launch_us,
        /// Latency per texel a thread reads (L).
        latency_read_us,
        /// Latency per output slice of a thread (L).
        latency_slice_us,
        /// Cost of a wave per texel a thread reads (c).
        throughput_read_us,
        /// Cost of a wave per multiply-add of four channels (c).
        throughput_product_us,
        /// Cost of a wave per output slice of a thread (c).
        throughput_slice_us,
        /// Sharpness of the soft maximum of latency and throughput; 0 is their sum.
        roofline_sharpness,
        /// Time per byte of tensor and weights.
        traffic_us_per_byte,
        /// Traffic of a linked addition's second operand, relative to the output's.
        addition_traffic_factor,
    }
    optional {
        /// Relative rise of the latency per read in dot form, which the delegate chooses if the
        /// output channels are not whole slices: each channel has its own dot products, whose
        /// four terms form a dependency chain.
        dot_latency_factor,
    }
}

kernel_table! {
    /// Depthwise convolution: the 3x3 kernel (2x2 pixels per thread), the 3x3 kernel of
    /// vertical stride 2 (1x2 pixels), and the generic one (one pixel, any window).
    ///
    /// ```text
    /// L = latency_3x3_us | latency_stride_h2_us | latency_tap_us * window
    /// c = throughput_3x3_us | throughput_stride_h2_us
    ///       | throughput_us + (throughput_tap_us + throughput_strided_tap_us, if strided) * window
    ///     + throughput_pixel_read_us * lanes * reads * stride
    ///     + throughput_weight_read_us * weights * taps
    /// time = launch_us + rounds(L, c) * (1 + activation_factor, if an activation is linked)
    ///      + traffic_us_per_byte * bytes + spill_us_per_byte * max(0, bytes - cache_bytes)
    ///      + group_us * groups per compute unit
    /// ```
    DepthwiseKernel {
        /// Launch of the kernel (t0).
        launch_us,
        /// Latency of a 3x3 thread (L).
        latency_3x3_us,
        /// Latency of a stride-h2 thread (L).
        latency_stride_h2_us,
        /// Latency of a generic thread per tap of the window (L).
        latency_tap_us,
        /// Cost of a wave of the 3x3 kernel (c).
        throughput_3x3_us,
        /// Cost of a wave of the stride-h2 kernel (c).
        throughput_stride_h2_us,
        /// Cost of a wave of the generic kernel: constant part (c).
        throughput_us,
        /// Cost of a wave of the generic kernel per tap (c).
        throughput_tap_us,
        /// Additional cost per tap at strides above one (c).
        throughput_strided_tap_us,
        /// Cost per distinct pixel of a wave, read and step of the stride (c).
        throughput_pixel_read_us,
        /// Cost per distinct slice of a wave and tap (c).
        throughput_weight_read_us,
        /// Sharpness of the soft maximum of latency and throughput; 0 is their sum.
        roofline_sharpness,
        /// Time per byte of tensor and weights.
        traffic_us_per_byte,
        /// Relative rise of the loop time with a linked activation.
        activation_factor,
        /// Traffic of a linked addition's second operand, relative to the output's.
        addition_traffic_factor,
        /// Start of a work-group.
        group_us,
        /// Extra time per byte beyond `cache_bytes`.
        spill_us_per_byte,
        /// Bytes of a launch up to which the cache serves overlapping windows.
        cache_bytes,
    }
    optional {}
}
