// Converts a tensor from the host's layout (channels innermost) to that of the kernels. A thread
// copies a slice of a pixel.

__kernel WORK_GROUP void arrange(__global const Number *restrict source, DESTINATION destination,
                                Extent extent) {
  const int x = get_global_id(0);
  const int y = get_global_id(1);
  const int slice = get_global_id(2);
  if (x >= extent.width || y >= extent.height || slice >= extent.slices) return;
  WRITE(destination, extent, x, y, slice, read_plain(source, extent, x, y, slice));
}
