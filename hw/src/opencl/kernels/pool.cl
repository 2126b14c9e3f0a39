// The maximum or, with AVERAGE, the mean of a window; padding does not count. A thread computes a
// slice of a pixel.

__kernel WORK_GROUP void pool(SOURCE source, DESTINATION destination, Extent source_extent,
                   Extent destination_extent, Region region, Window window OPERANDS ANNOUNCE_PARAMETERS) {
  const int4 block = block_of_thread(region);
  if (!is_inside(region, block)) LEAVE;
  const int x = region.x + block.x;
  const int y = region.y + block.y;
  const int slice = region.slice + block.z;
  const int image_width = source_extent.width / source_extent.batch;
#ifdef AVERAGE
  // Accumulated in 32 bits: sums of many 16-bit numbers need more.
  float4 sum = (float4)(0);
  int count = 0;
#else
  Number4 value = (Number4)(-INFINITY);
#endif
  for (int row = 0; row < window.kernel_y; row++) {
    const int source_y = y * window.stride_y + row - window.before_y;
    if (source_y < 0 || source_y >= source_extent.height) continue;
    for (int column = 0; column < window.kernel_x; column++) {
      const int image_x = x / source_extent.batch * window.stride_x + column - window.before_x;
      if (image_x < 0 || image_x >= image_width) continue;
      const int source_x = image_x * source_extent.batch + x % source_extent.batch;
      const Number4 read = READ(source, source_extent, source_x, source_y, slice);
#ifdef AVERAGE
      sum += convert_float4(read);
      count++;
#else
      value = max(value, read);
#endif
    }
  }
#ifdef AVERAGE
  Number4 value = CONVERT4(sum / (float)max(count, 1));
#endif
  LINKED(value, x, y, slice);
  WRITE(destination, destination_extent, x, y, slice, value);
  END_OF_KERNEL
}
