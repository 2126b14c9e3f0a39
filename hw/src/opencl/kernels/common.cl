// Shared by all kernels on tensors: number formats, tensor access, and the functions linked to an
// operator.
//
// A tensor is cut into slices of four channels. The images of a batch are interleaved in the width:
// column x of image b is column x * batch + b. Options choose where the texels (four channels of
// one pixel) are:
//   IMAGE    in a two-dimensional image, texel (x, y * slices + slice)
//   SLICED   in a buffer, texel (slice * height + y) * width + x
//   PLAIN    in a buffer with the channels innermost and batches outermost (NHWC)
// IMAGE_RESULT, SLICED_RESULT and PLAIN_RESULT say the same of the output. HALF computes in 16 bits,
// BATCHED means that there is more than one image. WORK_GROUP declares the threads of a group to the
// compiler, so that it gives each no more registers than all of them can have.

// A kernel that writes an operator's output takes ANNOUNCE_PARAMETERS last, returns early by LEAVE,
// and ends with END_OF_KERNEL, or with ANNOUNCE if no thread leaves early. These macros are empty
// unless flags.cl, which precedes this file in kernels that announce their end, defines them.
#ifndef ANNOUNCE
#define ANNOUNCE_PARAMETERS
#define ANNOUNCE
#define LEAVE return
#define END_OF_KERNEL
#endif

#ifdef HALF
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
typedef half Number;
typedef half4 Number4;
#define CONVERT4 convert_half4
#define READ_IMAGE read_imageh
#define WRITE_IMAGE write_imageh
#else
typedef float Number;
typedef float4 Number4;
#define CONVERT4 convert_float4
#define READ_IMAGE read_imagef
#define WRITE_IMAGE write_imagef
#endif

// A tensor's extent; the width includes the batch.
typedef struct {
  int width;
  int height;
  int slices;
  int batch;
  int channels;
} Extent;

// The computed part of the output, with the number of interleaved images in it.
typedef struct {
  int x;
  int y;
  int slice;
  int width;
  int height;
  int slices;
  int images;
} Region;

#ifdef BATCHED
#define IMAGES(region) (region).images
#else
#define IMAGES(region) 1
#endif

// A sliding window.
typedef struct {
  int kernel_x;
  int kernel_y;
  int stride_x;
  int stride_y;
  int dilation_x;
  int dilation_y;
  int before_x;
  int before_y;
} Window;

#if defined(IMAGE)

#define SOURCE __read_only image2d_t
__constant sampler_t TEXEL = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
#define READ(tensor, extent, x, y, slice) \
  READ_IMAGE(tensor, TEXEL, (int2)((x), (y) * (extent).slices + (slice)))

#elif defined(SLICED)

#define SOURCE __global const Number4 *restrict
#define READ(tensor, extent, x, y, slice) (tensor)[((slice) * (extent).height + (y)) * (extent).width + (x)]

#else

#define SOURCE __global const Number *restrict
#define READ(tensor, extent, x, y, slice) read_plain(tensor, extent, x, y, slice)

#endif

#if defined(IMAGE_RESULT)

#define DESTINATION __write_only image2d_t
#define WRITE(tensor, extent, x, y, slice, value) \
  WRITE_IMAGE(tensor, (int2)((x), (y) * (extent).slices + (slice)), value)

#elif defined(SLICED_RESULT)

#define DESTINATION __global Number4 *restrict
#define WRITE(tensor, extent, x, y, slice, value) \
  (tensor)[((slice) * (extent).height + (y)) * (extent).width + (x)] = (value)

#else

#define DESTINATION __global Number *restrict
#define WRITE(tensor, extent, x, y, slice, value) write_plain(tensor, extent, x, y, slice, value)

#endif

// Index of a texel's first channel.
int plain_index(Extent extent, int x, int y, int slice) {
#ifdef BATCHED
  const int line = (x % extent.batch) * extent.height + y;
  const int pixel = line * (extent.width / extent.batch) + x / extent.batch;
#else
  const int pixel = y * extent.width + x;
#endif
  return pixel * extent.channels + slice * 4;
}

Number4 read_plain(__global const Number *tensor, Extent extent, int x, int y, int slice) {
  __global const Number *texel = tensor + plain_index(extent, x, y, slice);
  const int channels = extent.channels - slice * 4;
  if (channels >= 4) return vload4(0, texel);
  Number4 value = (Number4)(0);
  value.x = texel[0];
  if (channels > 1) value.y = texel[1];
  if (channels > 2) value.z = texel[2];
  return value;
}

void write_plain(__global Number *tensor, Extent extent, int x, int y, int slice, Number4 value) {
  __global Number *texel = tensor + plain_index(extent, x, y, slice);
  const int channels = extent.channels - slice * 4;
  if (channels >= 4) {
    vstore4(value, 0, texel);
    return;
  }
  texel[0] = value.x;
  if (channels > 1) texel[1] = value.y;
  if (channels > 2) texel[2] = value.z;
}

// One channel of a texel.
Number component(Number4 texel, int index) {
  return index == 0 ? texel.x : index == 1 ? texel.y : index == 2 ? texel.z : texel.w;
}

// A texel with the padding of the tensor's last slice set to `fill`.
float4 mask_padding(float4 texel, Extent extent, int slice, float fill) {
  const int channels = extent.channels - slice * 4;
  if (channels < 2) texel.y = fill;
  if (channels < 3) texel.z = fill;
  if (channels < 4) texel.w = fill;
  return texel;
}

#ifndef TILE_X
#define TILE_X 1
#endif
#ifndef TILE_Y
#define TILE_Y 1
#endif
#ifndef TILE_SLICES
#define TILE_SLICES 1
#endif
#ifndef LINEARISED
#define LINEARISED 0
#endif

// Blocks along the columns of a region; none spans two images.
int column_blocks(Region region) {
  return (region.width / IMAGES(region) + TILE_X - 1) / TILE_X * IMAGES(region);
}

// The block of the region that a thread computes: columns, rows, slices. LINEARISED states which
// axes of the grid are joined: 0 none, 1 columns and rows, 2 all.
int4 block_of_thread(Region region) {
  const int linear = get_global_id(0);
#if LINEARISED > 0
  const int columns = column_blocks(region);
#endif
#if LINEARISED == 0
  return (int4)(linear, get_global_id(1), get_global_id(2), 0);
#elif LINEARISED == 1
  return (int4)(linear % columns, linear / columns, get_global_id(1), 0);
#else
  const int rows = (region.height + TILE_Y - 1) / TILE_Y;
  return (int4)(linear % columns, linear / columns % rows, linear / (columns * rows), 0);
#endif
}

// Whether a thread has a block; grids are rounded up to whole work-groups.
bool is_inside(Region region, int4 block) {
  return block.x < column_blocks(region) && block.y * TILE_Y < region.height &&
         block.z * TILE_SLICES < region.slices;
}

Number4 function_relu(Number4 x) { return max(x, (Number4)(0)); }
Number4 function_relu6(Number4 x) { return clamp(x, (Number4)(0), (Number4)(6)); }
Number4 function_hard_sigmoid(Number4 x) { return function_relu6(x + (Number)3) * (Number)(1.0f / 6.0f); }
Number4 function_hard_swish(Number4 x) { return x * function_hard_sigmoid(x); }
Number4 function_sigmoid(Number4 x) { return (Number)1 / ((Number)1 + exp(-x)); }
Number4 function_silu(Number4 x) { return x * function_sigmoid(x); }
Number4 function_tanh(Number4 x) { return tanh(x); }
// The tanh approximation; 0.797884561 is the square root of 2 / pi.
Number4 function_gelu(Number4 x) {
  const Number4 inner = (Number)0.797884561f * (x + (Number)0.044715f * x * x * x);
  return (Number)0.5f * x * ((Number)1 + tanh(inner));
}
Number4 function_add(Number4 x, Number4 other) { return x + other; }
Number4 function_multiply(Number4 x, Number4 other) { return x * other; }
Number4 function_divide(Number4 x, Number4 other) { return x / other; }
Number4 function_prelu(Number4 x, Number4 slope) { return max(x, (Number4)(0)) + slope * min(x, (Number4)(0)); }
