// Image resize: a thread computes a texel. With BILINEAR, it interpolates between the four texels
// around its position, with half-pixel centres; otherwise it copies the texel at or before the
// position.

// The source texel at a column and a row, in the same image as column x of the result.
Number4 neighbour(SOURCE source, Extent extent, int x, int column, int row, int slice) {
  return READ(source, extent, column * extent.batch + x % extent.batch, row, slice);
}

__kernel WORK_GROUP void resize(SOURCE source, DESTINATION destination, Extent source_extent,
                               Extent destination_extent, Region region OPERANDS ANNOUNCE_PARAMETERS) {
  const int4 block = block_of_thread(region);
  if (!is_inside(region, block)) LEAVE;
  const int x = region.x + block.x;
  const int y = region.y + block.y;
  const int to = region.slice + block.z;
  const int2 at = (int2)(x / destination_extent.batch, y);
  const int2 from = (int2)(source_extent.width / source_extent.batch, source_extent.height);
  const int2 size = (int2)(destination_extent.width / destination_extent.batch, destination_extent.height);
#ifdef BILINEAR
  const float2 scaled = (convert_float2(at) + 0.5f) * convert_float2(from) / convert_float2(size) - 0.5f;
  const float2 place = max(scaled, 0.0f);
  const int2 first = min(convert_int2(place), from - 1);
  const int2 second = min(first + 1, from - 1);
  const float2 part = place - convert_float2(first);
#define FLOATS(column, row) \
  convert_float4(neighbour(source, source_extent, x, column, row, to))
  const float4 above = mix(FLOATS(first.x, first.y), FLOATS(second.x, first.y), part.x);
  const float4 below = mix(FLOATS(first.x, second.y), FLOATS(second.x, second.y), part.x);
  Number4 value = CONVERT4(mix(above, below, part.y));
#else
  const int2 place = at * from / size;
  Number4 value = neighbour(source, source_extent, x, place.x, place.y, to);
#endif
  LINKED(value, x, y, to);
  WRITE(destination, destination_extent, x, y, to, value);
  END_OF_KERNEL
}
