// Element-wise functions, all of them in LINKED; with SCALED, after a scale and a shift per
// channel. A thread computes a slice of a pixel.

__kernel WORK_GROUP void elementwise(SOURCE source,
#ifdef SCALED
                          __global const Number4 *restrict scale, __global const Number4 *restrict shift,
#endif
                          DESTINATION destination, Extent source_extent, Extent destination_extent,
                          Region region OPERANDS ANNOUNCE_PARAMETERS) {
  const int4 block = block_of_thread(region);
  if (!is_inside(region, block)) LEAVE;
  const int x = region.x + block.x;
  const int y = region.y + block.y;
  const int slice = region.slice + block.z;
  Number4 value = READ(source, source_extent, x, y, slice);
#ifdef SCALED
  value = value * scale[block.z] + shift[block.z];
#endif
  LINKED(value, x, y, slice);
  WRITE(destination, destination_extent, x, y, slice, value);
  END_OF_KERNEL
}
