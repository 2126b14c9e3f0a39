// Mean of each channel over all pixels: the GROUP_X x GROUP_Y threads of a group share the pixels
// of a slice, and a group computes GROUP_SLICES slices.

__kernel WORK_GROUP void mean(SOURCE source, DESTINATION destination, Extent source_extent,
                             Extent destination_extent, Region region OPERANDS ANNOUNCE_PARAMETERS) {
  __local float4 parts[GROUP_SLICES][GROUP_Y * GROUP_X];
  const int image = get_group_id(0);
  const int slice = get_global_id(2);
  const int image_width = source_extent.width / source_extent.batch;
  const int member = get_local_id(1) * GROUP_X + get_local_id(0);
  float4 sum = (float4)(0);
  if (slice < region.slices) {
    for (int y = get_local_id(1); y < source_extent.height; y += GROUP_Y)
      for (int x = get_local_id(0); x < image_width; x += GROUP_X)
        sum += convert_float4(
            READ(source, source_extent, x * source_extent.batch + image, y, region.slice + slice));
  }
  parts[get_local_id(2)][member] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (member == 0 && slice < region.slices) {
    for (int i = 1; i < GROUP_Y * GROUP_X; i++) sum += parts[get_local_id(2)][i];
    Number4 value = CONVERT4(sum / (float)(image_width * source_extent.height));
    LINKED(value, image, 0, region.slice + slice);
    WRITE(destination, destination_extent, image, 0, region.slice + slice, value);
  }
  ANNOUNCE
}
