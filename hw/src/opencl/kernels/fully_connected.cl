// Matrix-vector product, for one row of a product. The SHARERS threads along y of a group share the
// dot products of a slice of outputs and reduce their partial sums through local memory.
//
// Order of the weights: source slice, output slice, input channel; an element holds four output
// channels.

__kernel WORK_GROUP void fully_connected(SOURCE source, __global const Number4 *restrict weights,
                     __global const Number4 *restrict bias, DESTINATION destination,
                     Extent source_extent, Extent destination_extent,
                     Region region OPERANDS ANNOUNCE_PARAMETERS) {
  __local Number4 parts[SHARERS][GROUP];
  const int slice = get_global_id(0);
  const int sharer = get_local_id(1);
  Number4 sum = (Number4)(0);
  if (slice < region.slices) {
    for (int from = sharer; from < source_extent.slices; from += SHARERS) {
      const Number4 value = READ(source, source_extent, region.x, region.y, from);
      __global const Number4 *weight = weights + (from * region.slices + slice) * 4;
      sum += weight[0] * value.x;
      sum += weight[1] * value.y;
      sum += weight[2] * value.z;
      sum += weight[3] * value.w;
    }
  }
  parts[sharer][get_local_id(0)] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (sharer == 0 && slice < region.slices) {
    Number4 value = bias[slice];
    for (int i = 0; i < SHARERS; i++) value += parts[i][get_local_id(0)];
    LINKED(value, region.x, region.y, region.slice + slice);
    WRITE(destination, destination_extent, region.x, region.y, region.slice + slice, value);
  }
  ANNOUNCE
}
