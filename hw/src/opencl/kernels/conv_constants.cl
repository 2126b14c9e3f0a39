// Convolution with weights in constant memory. A thread computes all SLICES output slices of a
// pixel; window size and channels are compile-time constants.
//
// Order of the weights: window row, window column, input channel, output slice; an element holds
// four output channels. Input channels are not padded.

__kernel WORK_GROUP void conv_constants(SOURCE source, __constant const Number4 *weights,
                             __constant const Number4 *bias, DESTINATION destination,
                             Extent source_extent, Extent destination_extent, Region region,
                             Window window OPERANDS ANNOUNCE_PARAMETERS) {
  const int4 block = block_of_thread(region);
  if (block.x >= region.width || block.y >= region.height || block.z > 0) LEAVE;
  const int x = region.x + block.x;
  const int y = region.y + block.y;
  Number4 sums[SLICES];
  for (int t = 0; t < SLICES; t++) sums[t] = bias[t];

  const int image_width = source_extent.width / source_extent.batch;
  __constant const Number4 *weight = weights;
  for (int row = 0; row < KERNEL_Y; row++) {
    const int source_y = y * window.stride_y + row * window.dilation_y - window.before_y;
    for (int column = 0; column < KERNEL_X; column++) {
#ifdef BATCHED
      const int image_x = x / source_extent.batch * window.stride_x + column * window.dilation_x - window.before_x;
      const int source_x = image_x * source_extent.batch + x % source_extent.batch;
#else
      const int image_x = x * window.stride_x + column * window.dilation_x - window.before_x;
      const int source_x = image_x;
#endif
      const bool inside = source_y >= 0 && source_y < source_extent.height && image_x >= 0 && image_x < image_width;
      for (int slice = 0; slice * 4 < INPUTS; slice++) {
        Number4 value = (Number4)(0);
        if (inside) value = READ(source, source_extent, source_x, source_y, slice);
        const int channels = min(INPUTS - slice * 4, 4);
        for (int i = 0; i < channels; i++) {
          for (int t = 0; t < SLICES; t++) sums[t] += weight[t] * component(value, i);
          weight += SLICES;
        }
      }
    }
  }
  for (int t = 0; t < SLICES; t++) {
    Number4 value = sums[t];
    LINKED(value, x, y, region.slice + t);
    WRITE(destination, destination_extent, x, y, region.slice + t, value);
  }
  END_OF_KERNEL
}
