// Concatenation along a dimension other than channels: a thread copies the texel from the source
// that contains it. The host defines SOURCES, FOR_EACH_SOURCE(take), which calls take(source, its
// extent along the dimension) for each source, and one of ALONG_BATCH, ALONG_HEIGHT and
// ALONG_WIDTH.

#if defined(ALONG_HEIGHT)
#define PLACE y
#define NARROW(own) extent.height = (own)
#define FROM_X(own) x
#define FROM_Y at
#elif defined(ALONG_WIDTH)
#define PLACE x / extent.batch
#define NARROW(own) extent.width = (own) * extent.batch
#define FROM_X(own) at * extent.batch + x % extent.batch
#define FROM_Y y
#else
#define PLACE x % extent.batch
#define NARROW(own) extent.width = extent.width / extent.batch * (own), extent.batch = (own)
#define FROM_X(own) x / destination_extent.batch * (own) + at
#define FROM_Y y
#endif

#define TAKE(source, own)                                     \
  if (at >= 0 && at < (own)) {                                \
    NARROW(own);                                              \
    value = READ(source, extent, FROM_X(own), FROM_Y, to);    \
  }                                                           \
  at -= (own);

__kernel WORK_GROUP void concat_xy(SOURCES, DESTINATION destination, Extent destination_extent,
                                  Region region OPERANDS ANNOUNCE_PARAMETERS) {
  const int4 block = block_of_thread(region);
  if (!is_inside(region, block)) LEAVE;
  const int x = region.x + block.x;
  const int y = region.y + block.y;
  const int to = region.slice + block.z;
  Extent extent = destination_extent;
  int at = PLACE;
  Number4 value = (Number4)(0);
  FOR_EACH_SOURCE(TAKE)
  LINKED(value, x, y, to);
  WRITE(destination, destination_extent, x, y, to, value);
  END_OF_KERNEL
}
