// Normalisation by the root mean square, in three kernels as the delegate runs it, which has no
// single kernel for it: squares, the factor of each pixel, products. VARIANCE_OFFSET is that of the
// reference. Sums are in 32 bits.

__kernel WORK_GROUP void squares(SOURCE source, DESTINATION destination, Extent source_extent,
                                 Extent destination_extent, Region region) {
  const int4 block = block_of_thread(region);
  if (!is_inside(region, block)) return;
  const int x = region.x + block.x;
  const int y = region.y + block.y;
  const Number4 value = READ(source, source_extent, x, y, block.z);
  WRITE(destination, destination_extent, x, y, block.z, value * value);
}

// A thread reduces one pixel.
__kernel WORK_GROUP void factors(SOURCE squares, DESTINATION destination, Extent squares_extent,
                                 Extent destination_extent, Region region) {
  if ((int)get_global_id(0) >= region.width || (int)get_global_id(1) >= region.height) return;
  const int x = region.x + get_global_id(0);
  const int y = region.y + get_global_id(1);
  float4 sums = (float4)(0);
  for (int slice = 0; slice < squares_extent.slices; slice++) {
    const float4 texel = convert_float4(READ(squares, squares_extent, x, y, slice));
    sums += mask_padding(texel, squares_extent, slice, 0);
  }
  const float mean = (sums.x + sums.y + sums.z + sums.w) / squares_extent.channels;
  const float factor = 1.0f / sqrt(mean + VARIANCE_OFFSET);
  WRITE(destination, destination_extent, x, y, 0, CONVERT4((float4)(factor)));
}

__kernel WORK_GROUP void products(SOURCE source, SOURCE factors, __global const Number4 *restrict scale,
                                  DESTINATION destination, Extent source_extent,
                                  Extent destination_extent, Region region,
                                  Extent factors_extent OPERANDS ANNOUNCE_PARAMETERS) {
  const int4 block = block_of_thread(region);
  if (!is_inside(region, block)) LEAVE;
  const int x = region.x + block.x;
  const int y = region.y + block.y;
  const Number4 factor = (Number4)(READ(factors, factors_extent, x, y, 0).x);
  Number4 value = READ(source, source_extent, x, y, block.z) * factor * scale[block.z];
  LINKED(value, x, y, block.z);
  WRITE(destination, destination_extent, x, y, block.z, value);
  END_OF_KERNEL
}
