// Kernels that move bytes, for bandwidth measurements.

// Reads each texel, performs `work` dependent multiply-adds on it, and writes it: more work means
// less bandwidth.
__kernel void stream(__global const float4 *source, __global float4 *result, uint work) {
  const uint thread = get_global_id(0);
  float4 value = source[thread];
  for (uint step = 0; step < work; step++) value = value * 0.9990234375f + 1.0f;
  result[thread] = value;
}

// Converts slices of four channels, one after the other, into pixels with all their channels: the
// transform of a GPU tensor before a CPU reads it.
__kernel void to_pixels(__global const float4 *source, __global float4 *result, uint pixels, uint slices) {
  const uint pixel = get_global_id(0);
  const uint slice = get_global_id(1);
  result[pixel * slices + slice] = source[slice * pixels + pixel];
}
