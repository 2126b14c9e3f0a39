// Softmax over the channels of each pixel. A thread reads all slices of a pixel for the maximum,
// again for the sum of exponentials, and again to write; or, with GROUP_SIZE, the threads of a
// group share the first two passes and write a slice each. Sums are in 32 bits.

#ifndef GROUP_SIZE

__kernel WORK_GROUP void softmax(SOURCE source, DESTINATION destination, Extent source_extent,
                                Extent destination_extent, Region region OPERANDS ANNOUNCE_PARAMETERS) {
  const int4 block = block_of_thread(region);
  if (block.x >= region.width || block.y >= region.height || block.z > 0) LEAVE;
  const int x = region.x + block.x;
  const int y = region.y + block.y;
  float4 most = (float4)(-INFINITY);
  for (int slice = 0; slice < source_extent.slices; slice++) {
    const float4 texel = convert_float4(READ(source, source_extent, x, y, slice));
    most = fmax(most, mask_padding(texel, source_extent, slice, -INFINITY));
  }
  const float largest = fmax(fmax(most.x, most.y), fmax(most.z, most.w));
  float4 sums = (float4)(0);
  for (int slice = 0; slice < source_extent.slices; slice++) {
    const float4 texel = convert_float4(READ(source, source_extent, x, y, slice));
    sums += exp(mask_padding(texel, source_extent, slice, -INFINITY) - largest);
  }
  const float factor = 1.0f / (sums.x + sums.y + sums.z + sums.w);
  for (int slice = 0; slice < source_extent.slices; slice++) {
    const float4 texel = convert_float4(READ(source, source_extent, x, y, slice));
    Number4 value = CONVERT4(exp(mask_padding(texel, source_extent, slice, -INFINITY) - largest) * factor);
    LINKED(value, x, y, slice);
    WRITE(destination, destination_extent, x, y, slice, value);
  }
  END_OF_KERNEL
}

#else

// The maximum or the sum over the threads of a group, returned to each of them.
float reduce_group(__local float *partial, float own, bool largest) {
  const int lane = get_local_id(0);
  partial[lane] = own;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (lane == 0) {
    for (int other = 1; other < GROUP_SIZE; other++) {
      own = largest ? fmax(own, partial[other]) : own + partial[other];
    }
    partial[0] = own;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const float all = partial[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return all;
}

__kernel WORK_GROUP void softmax1x1(SOURCE source, DESTINATION destination, Extent source_extent,
                                   Extent destination_extent, Region region OPERANDS ANNOUNCE_PARAMETERS) {
  __local float partial[GROUP_SIZE];
  const int to = get_global_id(0);
  const int x = region.x + get_global_id(1);
  const int y = region.y + get_global_id(2);
  const bool is_of_region = (int)get_global_id(1) < region.width && (int)get_global_id(2) < region.height;
  // Threads without a pixel read nothing, but must reach the barriers.
  const int slices = is_of_region ? source_extent.slices : 0;
  float4 most = (float4)(-INFINITY);
  for (int slice = get_local_id(0); slice < slices; slice += GROUP_SIZE) {
    const float4 texel = convert_float4(READ(source, source_extent, x, y, slice));
    most = fmax(most, mask_padding(texel, source_extent, slice, -INFINITY));
  }
  const float largest = reduce_group(partial, fmax(fmax(most.x, most.y), fmax(most.z, most.w)), true);
  float4 sums = (float4)(0);
  for (int slice = get_local_id(0); slice < slices; slice += GROUP_SIZE) {
    const float4 texel = convert_float4(READ(source, source_extent, x, y, slice));
    sums += exp(mask_padding(texel, source_extent, slice, -INFINITY) - largest);
  }
  const float sum = reduce_group(partial, sums.x + sums.y + sums.z + sums.w, false);
  if (to >= slices) LEAVE;
  const float4 texel = convert_float4(READ(source, source_extent, x, y, to));
  Number4 value = CONVERT4(exp(mask_padding(texel, source_extent, to, -INFINITY) - largest) / sum);
  LINKED(value, x, y, to);
  WRITE(destination, destination_extent, x, y, to, value);
  END_OF_KERNEL
}

#endif
