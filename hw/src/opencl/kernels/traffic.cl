// Kernels that move bytes, or do nothing, for measuring what that takes.

// Reads every `stride`th texel of `count` (a power of two), each once, computes on it
// for `work` dependent multiply-adds and writes it: the less work, the more traffic.
__kernel void stream(__global const float4 *source, __global float4 *result, uint stride, uint count,
                     uint work) {
  const uint thread = get_global_id(0);
  const uint at = thread * stride;
  float4 value = source[(at & (count - 1)) + at / count];
  for (uint step = 0; step < work; step++) value = value * 0.9990234375f + 1.0f;
  result[thread] = value;
}

// Groups of threads that only compute, for `steps`.
__kernel void spin(__global float *result, uint steps) {
  float value = get_global_id(0);
  for (uint step = 0; step < steps; step++) value = value * 0.9990234375f + 1.0f;
  result[get_global_id(0)] = value;
}

// Slices of four channels, one behind the other, into pixels with all their channels:
// what a GPU's tensor becomes before a CPU reads it.
__kernel void to_pixels(__global const float4 *source, __global float4 *result, uint pixels, uint slices) {
  const uint pixel = get_global_id(0);
  const uint slice = get_global_id(1);
  result[pixel * slices + slice] = source[slice * pixels + pixel];
}

#ifdef IMAGE
// The same from an image whose rows are slices.
__kernel void image_to_pixels(__read_only image2d_t source, __global float4 *result, uint pixels,
                              uint slices) {
  const sampler_t sampler = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
  const uint pixel = get_global_id(0);
  const uint slice = get_global_id(1);
  result[pixel * slices + slice] = read_imagef(source, sampler, (int2)(pixel, slice));
}
#endif
