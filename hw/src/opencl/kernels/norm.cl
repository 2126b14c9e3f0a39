// Normalisation by the mean and variance of each pixel's channels, or with NEIGHBOUR_POWER by the mean
// square of some channels around each. The threads of a group along z share a pixel's slices.
// Sums are in 32 bits.
//
// GROUP_SIZE is the number of threads of a group; VARIANCE_OFFSET, NEIGHBOUR_OFFSET and
// NEIGHBOUR_POWER are those of the reference.

#ifdef NEIGHBOUR_POWER

__kernel WORK_GROUP void norm_by_neighbours(SOURCE source, DESTINATION destination,
                                           Extent source_extent, Extent destination_extent,
                                           Region region, int neighbours OPERANDS ANNOUNCE_PARAMETERS) {
  if ((int)get_global_id(0) >= region.width || (int)get_global_id(1) >= region.height) LEAVE;
  const int x = region.x + get_global_id(0);
  const int y = region.y + get_global_id(1);
  const int before = (neighbours - 1) / 2;
  for (int slice = get_local_id(2); slice < source_extent.slices; slice += get_local_size(2)) {
    float squares[4];
    for (int lane = 0; lane < 4; lane++) {
      const int channel = slice * 4 + lane;
      const int end = min(channel + neighbours - before, source_extent.channels);
      squares[lane] = 0;
      for (int other = max(channel - before, 0); other < end; other++) {
        const float value = component(READ(source, source_extent, x, y, other / 4), other % 4);
        squares[lane] += value * value;
      }
    }
    const float4 mean = vload4(0, squares) / neighbours;
    const float4 texel = convert_float4(READ(source, source_extent, x, y, slice));
    Number4 value = CONVERT4(texel * pow(mean + NEIGHBOUR_OFFSET, NEIGHBOUR_POWER));
    LINKED(value, x, y, slice);
    WRITE(destination, destination_extent, x, y, slice, value);
  }
  END_OF_KERNEL
}

#else

// The sum over the threads that share a pixel, returned to each of them.
float reduce_sum(__local float *partial, float own) {
  const int columns = get_local_size(0) * get_local_size(1);
  const int column = get_local_id(1) * get_local_size(0) + get_local_id(0);
  const int lane = get_local_id(2);
  const int lanes = get_local_size(2);
  partial[lane * columns + column] = own;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (lane == 0) {
    float sum = 0;
    for (int other = 0; other < lanes; other++) sum += partial[other * columns + column];
    partial[column] = sum;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const float sum = partial[column];
  barrier(CLK_LOCAL_MEM_FENCE);
  return sum;
}

__kernel WORK_GROUP void norm(SOURCE source, __global const Number4 *restrict scale,
                             __global const Number4 *restrict shift,
                             DESTINATION destination, Extent source_extent, Extent destination_extent,
                             Region region OPERANDS ANNOUNCE_PARAMETERS) {
  __local float partial[GROUP_SIZE];
  const bool is_of_region = (int)get_global_id(0) < region.width && (int)get_global_id(1) < region.height;
  const int x = region.x + get_global_id(0);
  const int y = region.y + get_global_id(1);
  const int first = get_local_id(2);
  const int step = get_local_size(2);
  // Threads without a pixel read nothing, but must reach the barriers.
  const int slices = is_of_region ? source_extent.slices : 0;
  float4 sums = (float4)(0);
  for (int slice = first; slice < slices; slice += step) {
    const float4 texel = convert_float4(READ(source, source_extent, x, y, slice));
    sums += mask_padding(texel, source_extent, slice, 0);
  }
  const float mean =
      reduce_sum(partial, sums.x + sums.y + sums.z + sums.w) / source_extent.channels;
  float4 squares = (float4)(0);
  for (int slice = first; slice < slices; slice += step) {
    const float4 texel = convert_float4(READ(source, source_extent, x, y, slice)) - mean;
    const float4 distance = mask_padding(texel, source_extent, slice, 0);
    squares += distance * distance;
  }
  const float square =
      reduce_sum(partial, squares.x + squares.y + squares.z + squares.w) / source_extent.channels;
  const float factor = 1.0f / sqrt(square + VARIANCE_OFFSET);
  for (int slice = first; slice < slices; slice += step) {
    const float4 texel = convert_float4(READ(source, source_extent, x, y, slice));
    Number4 value = CONVERT4((texel - mean) * factor * convert_float4(scale[slice])) + shift[slice];
    LINKED(value, x, y, slice);
    WRITE(destination, destination_extent, x, y, slice, value);
  }
  ANNOUNCE
}

#endif
