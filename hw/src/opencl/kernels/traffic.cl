// Moves bytes, for bandwidth measurements: reads each texel, performs `work` dependent
// multiply-adds on it, and writes it: more work means less bandwidth.
__kernel void stream(__global const float4 *source, __global float4 *result, uint work) {
  const uint thread = get_global_id(0);
  float4 value = source[thread];
  for (uint step = 0; step < work; step++) value = value * 0.9990234375f + 1.0f;
  result[thread] = value;
}
