// Concatenation along channels: a thread copies all slices of a pixel. The host defines SOURCES and
// FOR_EACH_SOURCE(copy), which calls copy(source, its channels) for each source. With ALIGNED,
// every input but the last consists of whole slices.

#define EMIT(texel)                                                     \
  do {                                                                  \
    Number4 value = (texel);                                            \
    LINKED(value, x, y, slice);                                         \
    WRITE(destination, destination_extent, x, y, slice, value);         \
    slice++;                                                            \
  } while (0)

#define COPY_ALIGNED(source, own_channels)                              \
  extent.channels = own_channels;                                       \
  extent.slices = (own_channels + 3) / 4;                               \
  for (int from = 0; from < extent.slices; from++)                      \
    EMIT(READ(source, extent, x, y, from));

#define COPY_CHANNELS(source, own_channels)                             \
  extent.channels = own_channels;                                       \
  extent.slices = (own_channels + 3) / 4;                               \
  for (int from = 0; from < extent.slices; from++) {                    \
    const Number4 texel = READ(source, extent, x, y, from);             \
    const int count = min(own_channels - from * 4, 4);                  \
    for (int i = 0; i < count; i++) {                                   \
      pending[filled++] = component(texel, i);                          \
      if (filled == 4) {                                                \
        EMIT(vload4(0, pending));                                       \
        filled = 0;                                                     \
      }                                                                 \
    }                                                                   \
  }

__kernel WORK_GROUP void concat(SOURCES, DESTINATION destination, Extent destination_extent,
                               Region region OPERANDS ANNOUNCE_PARAMETERS) {
  const int4 block = block_of_thread(region);
  if (block.x >= region.width || block.y >= region.height || block.z > 0) LEAVE;
  const int x = region.x + block.x;
  const int y = region.y + block.y;
  Extent extent = destination_extent;
  int slice = 0;
#ifdef ALIGNED
  FOR_EACH_SOURCE(COPY_ALIGNED)
#else
  Number pending[4];
  int filled = 0;
  FOR_EACH_SOURCE(COPY_CHANNELS)
  if (filled > 0) {
    for (int i = filled; i < 4; i++) pending[i] = 0;
    EMIT(vload4(0, pending));
  }
#endif
  END_OF_KERNEL
}
