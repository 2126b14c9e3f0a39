// Empty unless flags.cl, which precedes this file in kernels that announce their end, defines them.
#ifndef ANNOUNCE
#define ANNOUNCE_PARAMETERS
#define ANNOUNCE
#endif

// A compute-only kernel: `steps` dependent multiply-adds per thread.
__kernel void busy(__global float *result, uint steps ANNOUNCE_PARAMETERS) {
  float value = get_global_id(0);
  for (uint step = 0; step < steps; step++) value = value * 0.9990234375f + 1.0f;
  result[get_global_id(0)] = value;
  ANNOUNCE
}
