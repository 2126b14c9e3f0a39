// Convolution with any window; also matrix products of several rows, and the products of a Winograd
// convolution. A thread computes TILE_X x TILE_Y pixels of TILE_SLICES slices and loops over the
// window and the source slices.
//
// Order of the weights: block of output slices, window row, window column, source slice, slice of
// the block, input channel; an element holds four output channels.
//   POINTWISE    the window is one pixel with stride 1: no bounds to check
//   ROW_WEIGHTS  each output row has weights of its own, one set after the other
//   GROUPED      a block reads only the source slices of its channel groups
//   NO_BIAS      no bias is added

typedef struct {
  // Source slices that a block reads.
  int depth;
  // Input channels of a group.
  int inputs;
  // Output channels of a group.
  int outputs;
} Groups;

__kernel WORK_GROUP void conv(SOURCE source, __global const Number4 *restrict weights,
                   __global const Number4 *restrict bias, DESTINATION destination,
                   Extent source_extent, Extent destination_extent, Region region, Window window,
                   Groups groups OPERANDS ANNOUNCE_PARAMETERS) {
  const int4 block = block_of_thread(region);
  if (!is_inside(region, block)) LEAVE;

  int first_slice = 0;
#ifdef GROUPED
  const int first_channel = (region.slice + block.z * TILE_SLICES) * 4;
  first_slice = first_channel / groups.outputs * groups.inputs / 4;
  first_slice = min(first_slice, source_extent.slices - groups.depth);
#endif

  // A tile covers one image, and may exceed the region; its excess pixels repeat the last one.
  const int columns = region.width / IMAGES(region);
  const int image = block.x % IMAGES(region);
  const int first_column = block.x / IMAGES(region) * TILE_X;
  int x[TILE_X];
  int y[TILE_Y];
  for (int i = 0; i < TILE_X; i++)
    x[i] = region.x + min(first_column + i, columns - 1) * IMAGES(region) + image;
  for (int j = 0; j < TILE_Y; j++) y[j] = region.y + min(block.y * TILE_Y + j, region.height - 1);

  Number4 sums[TILE_SLICES][TILE_Y][TILE_X];
  for (int t = 0; t < TILE_SLICES; t++)
    for (int j = 0; j < TILE_Y; j++)
      for (int i = 0; i < TILE_X; i++) sums[t][j][i] = (Number4)(0);

  const int reads = window.kernel_y * window.kernel_x * groups.depth;
  __global const Number4 *weight = weights + block.z * reads * (TILE_SLICES * 4);
#ifdef ROW_WEIGHTS
  const int blocks = (region.slices + TILE_SLICES - 1) / TILE_SLICES;
  weight += y[0] * blocks * reads * (TILE_SLICES * 4);
#endif

#ifndef POINTWISE
  const int taps = window.kernel_y * window.kernel_x;
  const int image_width = source_extent.width / source_extent.batch;
  int row = 0;
  int column = 0;
  for (int tap = 0; tap < taps; tap++)
#endif
  {
    int source_x[TILE_X];
    int source_y[TILE_Y];
#ifdef POINTWISE
    for (int i = 0; i < TILE_X; i++) source_x[i] = x[i];
    for (int j = 0; j < TILE_Y; j++) source_y[j] = y[j];
#else
    bool x_inside[TILE_X];
    bool y_inside[TILE_Y];
    const int offset_x = column * window.dilation_x - window.before_x;
    const int offset_y = row * window.dilation_y - window.before_y;
    // Incremental, because a division per tap takes as long as several source slices.
    column++;
    if (column == window.kernel_x) {
      column = 0;
      row++;
    }
    for (int i = 0; i < TILE_X; i++) {
#ifdef BATCHED
      const int image_x = x[i] / source_extent.batch * window.stride_x + offset_x;
      source_x[i] = image_x * source_extent.batch + x[i] % source_extent.batch;
#else
      const int image_x = x[i] * window.stride_x + offset_x;
      source_x[i] = image_x;
#endif
      x_inside[i] = image_x >= 0 && image_x < image_width;
    }
    for (int j = 0; j < TILE_Y; j++) {
      source_y[j] = y[j] * window.stride_y + offset_y;
      y_inside[j] = source_y[j] >= 0 && source_y[j] < source_extent.height;
    }
#endif
    for (int slice = first_slice; slice < first_slice + groups.depth; slice++) {
      Number4 values[TILE_Y][TILE_X];
#pragma unroll
      for (int j = 0; j < TILE_Y; j++) {
#pragma unroll
        for (int i = 0; i < TILE_X; i++) {
#ifdef POINTWISE
          values[j][i] = READ(source, source_extent, source_x[i], source_y[j], slice);
#else
          values[j][i] = (Number4)(0);
          if (x_inside[i] && y_inside[j])
            values[j][i] = READ(source, source_extent, source_x[i], source_y[j], slice);
#endif
        }
      }
#pragma unroll
      for (int t = 0; t < TILE_SLICES; t++) {
        const Number4 weight_x = weight[0];
        const Number4 weight_y = weight[1];
        const Number4 weight_z = weight[2];
        const Number4 weight_w = weight[3];
        weight += 4;
#pragma unroll
        for (int j = 0; j < TILE_Y; j++) {
#pragma unroll
          for (int i = 0; i < TILE_X; i++) {
            sums[t][j][i] += weight_x * values[j][i].x;
            sums[t][j][i] += weight_y * values[j][i].y;
            sums[t][j][i] += weight_z * values[j][i].z;
            sums[t][j][i] += weight_w * values[j][i].w;
          }
        }
      }
    }
  }

  for (int t = 0; t < TILE_SLICES; t++) {
    const int slice = block.z * TILE_SLICES + t;
    if (slice >= region.slices) LEAVE;
    for (int j = 0; j < TILE_Y; j++) {
      if (block.y * TILE_Y + j >= region.height) break;
      for (int i = 0; i < TILE_X; i++) {
        if (first_column + i >= columns) break;
        Number4 value = sums[t][j][i];
#ifndef NO_BIAS
        value += bias[slice];
#endif
        LINKED(value, x[i], y[j], region.slice + slice);
        WRITE(destination, destination_extent, x[i], y[j], region.slice + slice, value);
      }
    }
  }
  END_OF_KERNEL
}

// Packs the right operand of a matrix product in the order of weights: a thread arranges four rows
// of four columns of one product.
__kernel WORK_GROUP void arrange_weights(SOURCE source, __global Number4 *restrict weights,
                                         Extent source_extent, int depth, int blocks, int first_slice) {
  const int slice = get_global_id(0);
  const int row = get_global_id(1);
  const int product = get_global_id(2);
  if (slice >= blocks * TILE_SLICES || row >= depth || product >= source_extent.height) return;
  const int block = (product * blocks + slice / TILE_SLICES) * depth + row;
  __global Number4 *to = weights + (block * TILE_SLICES + slice % TILE_SLICES) * 4;
  for (int i = 0; i < 4; i++) {
    const int x = row * 4 + i;
    Number4 value = (Number4)(0);
    if (x < source_extent.width && first_slice + slice < source_extent.slices)
      value = READ(source, source_extent, x, product, first_slice + slice);
    to[i] = value;
  }
}
