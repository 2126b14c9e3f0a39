// Softmax over the channels of each pixel: a thread reads all slices of a pixel for the
// largest value, for the sum of exponentials, and to write. Sums are in 32 bits.

__kernel WORK_GROUP void softmax(SOURCE source, DESTINATION destination, Extent source_extent,
                                Extent destination_extent, Region region OPERANDS) {
  const int4 block = block_of_thread(region);
  if (block.x >= region.width || block.y >= region.height || block.z > 0) return;
  const int x = region.x + block.x;
  const int y = region.y + block.y;
  float4 most = (float4)(-INFINITY);
  for (int slice = 0; slice < source_extent.slices; slice++) {
    const float4 texel = convert_float4(READ(source, source_extent, x, y, slice));
    most = fmax(most, but_padding(texel, source_extent, slice, -INFINITY));
  }
  const float largest = fmax(fmax(most.x, most.y), fmax(most.z, most.w));
  float4 sums = (float4)(0);
  for (int slice = 0; slice < source_extent.slices; slice++) {
    const float4 texel = convert_float4(READ(source, source_extent, x, y, slice));
    sums += exp(but_padding(texel, source_extent, slice, -INFINITY) - largest);
  }
  const float factor = 1.0f / (sums.x + sums.y + sums.z + sums.w);
  for (int slice = 0; slice < source_extent.slices; slice++) {
    const float4 texel = convert_float4(READ(source, source_extent, x, y, slice));
    Number4 value = CONVERT4(exp(but_padding(texel, source_extent, slice, -INFINITY) - largest) * factor);
    LINKED(value, x, y, slice);
    WRITE(destination, destination_extent, x, y, slice, value);
  }
}
