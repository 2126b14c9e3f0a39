// Depthwise convolution. Order of the weights: output slice, window row, window column; an element
// holds four output channels.

// Any window: a thread computes TILE_X x TILE_Y pixels of a slice, each by itself. MULTIPLIER is
// the number of output channels per input channel.
__kernel WORK_GROUP void depthwise(SOURCE source, __global const Number4 *restrict weights,
                        __global const Number4 *restrict bias, DESTINATION destination,
                        Extent source_extent, Extent destination_extent, Region region,
                        Window window OPERANDS ANNOUNCE_PARAMETERS) {
  const int4 block = block_of_thread(region);
  if (!is_inside(region, block)) LEAVE;
  const int image_width = source_extent.width / source_extent.batch;
  const int slice = region.slice + block.z;
  const int taps = window.kernel_x * window.kernel_y;
  const int columns = region.width / IMAGES(region);
  const int image = block.x % IMAGES(region);
  const int first_column = block.x / IMAGES(region) * TILE_X;
  for (int j = 0; j < TILE_Y; j++) {
    if (block.y * TILE_Y + j >= region.height) break;
    const int y = region.y + block.y * TILE_Y + j;
    for (int i = 0; i < TILE_X; i++) {
      if (first_column + i >= columns) break;
      const int x = region.x + (first_column + i) * IMAGES(region) + image;
      Number4 value = bias[block.z];
      __global const Number4 *weight = weights + block.z * taps;
      for (int row = 0; row < window.kernel_y; row++) {
        const int source_y = y * window.stride_y + row * window.dilation_y - window.before_y;
        if (source_y < 0 || source_y >= source_extent.height) {
          weight += window.kernel_x;
          continue;
        }
        for (int column = 0; column < window.kernel_x; column++, weight++) {
#ifdef BATCHED
          const int image_x =
              x / source_extent.batch * window.stride_x + column * window.dilation_x - window.before_x;
          const int source_x = image_x * source_extent.batch + x % source_extent.batch;
#else
          const int image_x = x * window.stride_x + column * window.dilation_x - window.before_x;
          const int source_x = image_x;
#endif
          if (image_x < 0 || image_x >= image_width) continue;
#if MULTIPLIER == 1
          value += *weight * READ(source, source_extent, source_x, source_y, slice);
#else
          Number4 gathered;
          const int first = slice * 4;
          const int last = source_extent.channels - 1;
          const int4 from = min((int4)(first, first + 1, first + 2, first + 3) / MULTIPLIER, last);
          gathered.x = component(READ(source, source_extent, source_x, source_y, from.x / 4), from.x % 4);
          gathered.y = component(READ(source, source_extent, source_x, source_y, from.y / 4), from.y % 4);
          gathered.z = component(READ(source, source_extent, source_x, source_y, from.z / 4), from.z % 4);
          gathered.w = component(READ(source, source_extent, source_x, source_y, from.w / 4), from.w % 4);
          value += *weight * gathered;
#endif
        }
      }
      LINKED(value, x, y, slice);
      WRITE(destination, destination_extent, x, y, slice, value);
    }
  }
  END_OF_KERNEL
}

// A 3x3 window with stride 1 over one image, one output channel per input channel: the pixels of a
// tile share their reads.
__kernel WORK_GROUP void depthwise_3x3(SOURCE source, __global const Number4 *restrict weights,
                            __global const Number4 *restrict bias, DESTINATION destination,
                            Extent source_extent, Extent destination_extent, Region region,
                            Window window OPERANDS ANNOUNCE_PARAMETERS) {
  const int4 block = block_of_thread(region);
  if (!is_inside(region, block)) LEAVE;
  const int slice = region.slice + block.z;
  const int first_x = region.x + block.x * TILE_X;
  const int first_y = region.y + block.y * TILE_Y;
  Number4 sums[TILE_Y][TILE_X];
#pragma unroll
  for (int j = 0; j < TILE_Y; j++)
#pragma unroll
    for (int i = 0; i < TILE_X; i++) sums[j][i] = bias[block.z];

  Number4 taps[9];
#pragma unroll
  for (int tap = 0; tap < 9; tap++) taps[tap] = weights[block.z * 9 + tap];
#pragma unroll
  for (int row = 0; row < TILE_Y + 2; row++) {
    const int y = first_y + row - window.before_y;
#pragma unroll
    for (int column = 0; column < TILE_X + 2; column++) {
      const int x = first_x + column - window.before_x;
      Number4 value = (Number4)(0);
      if (x >= 0 && x < source_extent.width && y >= 0 && y < source_extent.height)
        value = READ(source, source_extent, x, y, slice);
#pragma unroll
      for (int j = 0; j < TILE_Y; j++) {
        if (row < j || row > j + 2) continue;
#pragma unroll
        for (int i = 0; i < TILE_X; i++) {
          if (column < i || column > i + 2) continue;
          sums[j][i] += taps[(row - j) * 3 + column - i] * value;
        }
      }
    }
  }
  for (int j = 0; j < TILE_Y; j++) {
    if (block.y * TILE_Y + j >= region.height) break;
    for (int i = 0; i < TILE_X; i++) {
      if (block.x * TILE_X + i >= region.width) break;
      Number4 value = sums[j][i];
      LINKED(value, first_x + i, first_y + j, slice);
      WRITE(destination, destination_extent, first_x + i, first_y + j, slice, value);
    }
  }
  END_OF_KERNEL
}
