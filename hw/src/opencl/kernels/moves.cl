// Data movement by index mapping: slices, transposes, padding, reshapes, table look-ups. A thread
// writes a slice of a pixel. With ALIGNED, the four channels of every written slice are those of
// one source slice.

// The texel that contains an element, given the element's index in the host's order (channels
// innermost, batches outermost).
Number4 texel_with_element(SOURCE source, Extent extent, int number) {
  const int pixel = number / extent.channels;
  const int columns = extent.width / extent.batch;
  const int image = pixel / (columns * extent.height);
  const int x = pixel % columns * extent.batch + image;
  const int y = pixel / columns % extent.height;
  return READ(source, extent, x, y, number % extent.channels / 4);
}

// Index of a texel's first element in the host's order.
int first_element(Extent extent, int x, int y, int slice) {
  const int line = x % extent.batch * extent.height + y;
  return (line * (extent.width / extent.batch) + x / extent.batch) * extent.channels + slice * 4;
}

// Mapping from output to input elements: start at `first`, and add the columns of `step` times the
// coordinates of the output position; `end` is the input's extent. Positions are in the order
// batch, height, width, channels.
typedef struct {
  int4 first;
  int4 step[4];
  int4 end;
} Pick;

// The source texel for a position of one of several concatenated outputs; zeros outside the input.
Number4 picked(SOURCE source, Extent extent, Pick pick, int image, int4 at) {
  const int4 from = pick.first + at.x * pick.step[0] + at.y * pick.step[1] + at.z * pick.step[2] + at.w * pick.step[3];
  if (any(from < 0) || any(from >= pick.end)) return (Number4)(0);
  const int x = from.z * extent.batch + image * pick.end.x + from.x;
  const Number4 texel = READ(source, extent, x, from.y, from.w / 4);
#ifdef ALIGNED
  return texel;
#else
  return (Number4)(component(texel, from.w % 4));
#endif
}

__kernel WORK_GROUP void pick(SOURCE source, DESTINATION destination, Extent source_extent,
                             Extent destination_extent, Region region, Pick pick,
                             int images OPERANDS ANNOUNCE_PARAMETERS) {
  const int4 block = block_of_thread(region);
  if (!is_inside(region, block)) LEAVE;
  const int x = region.x + block.x;
  const int y = region.y + block.y;
  const int to = region.slice + block.z;
  const int own = destination_extent.batch / images;
  const int image = x % destination_extent.batch / own;
  int4 at = (int4)(x % own, y, x / destination_extent.batch, to * 4);
#ifdef ALIGNED
  Number4 value = picked(source, source_extent, pick, image, at);
#else
  Number parts[4] = {0, 0, 0, 0};
  const int count = min(destination_extent.channels - to * 4, 4);
  for (int i = 0; i < count; i++, at.w++) parts[i] = picked(source, source_extent, pick, image, at).x;
  Number4 value = vload4(0, parts);
#endif
  LINKED(value, x, y, to);
  WRITE(destination, destination_extent, x, y, to, value);
  END_OF_KERNEL
}

__kernel WORK_GROUP void reshape(SOURCE source, DESTINATION destination, Extent source_extent,
                                Extent destination_extent, Region region OPERANDS ANNOUNCE_PARAMETERS) {
  const int4 block = block_of_thread(region);
  if (!is_inside(region, block)) LEAVE;
  const int x = region.x + block.x;
  const int y = region.y + block.y;
  const int to = region.slice + block.z;
  const int first = first_element(destination_extent, x, y, to);
#ifdef ALIGNED
  Number4 value = texel_with_element(source, source_extent, first);
#else
  const int count = min(destination_extent.channels - to * 4, 4);
  Number parts[4] = {0, 0, 0, 0};
  for (int i = 0; i < count; i++) {
    const int channel = (first + i) % source_extent.channels;
    parts[i] = component(texel_with_element(source, source_extent, first + i), channel % 4);
  }
  Number4 value = vload4(0, parts);
#endif
  LINKED(value, x, y, to);
  WRITE(destination, destination_extent, x, y, to, value);
  END_OF_KERNEL
}

__kernel WORK_GROUP void gather(SOURCE source, __global const Number *restrict table, DESTINATION destination,
                               Extent source_extent, Extent destination_extent, Region region,
                               int rows OPERANDS ANNOUNCE_PARAMETERS) {
  const int4 block = block_of_thread(region);
  if (!is_inside(region, block)) LEAVE;
  const int x = region.x + block.x;
  const int y = region.y + block.y;
  const int to = region.slice + block.z;
  const int row = clamp((int)READ(source, source_extent, x, y, 0).x, 0, rows - 1);
  __global const Number *from = table + (long)row * destination_extent.channels + to * 4;
  const int count = min(destination_extent.channels - to * 4, 4);
  Number parts[4] = {0, 0, 0, 0};
  for (int i = 0; i < count; i++) parts[i] = from[i];
  Number4 value = vload4(0, parts);
  LINKED(value, x, y, to);
  WRITE(destination, destination_extent, x, y, to, value);
  END_OF_KERNEL
}

#ifdef SOURCES

// Adds every `visits.y`th of the `visits.x` elements of a source.
#define ADD(source, extent, visits)                                                               \
  for (int from = element % visits.y; from < visits.x; from += visits.y)                         \
    sum += component(texel_with_element(source, extent, from), from % extent.channels % 4);

// What is computed in place of an operator without a kernel of its own: sums of the elements that it visits. The host
// defines SOURCES and FOR_EACH_SOURCE(add), which calls add(source, its extent, elements and step) for each source.
__kernel WORK_GROUP void stand_in(SOURCES, DESTINATION destination, Extent destination_extent, Region region,
                                 int passes ANNOUNCE_PARAMETERS) {
  const int4 block = block_of_thread(region);
  if (!is_inside(region, block)) LEAVE;
  const int x = region.x + block.x;
  const int y = region.y + block.y;
  const int to = region.slice + block.z;
  const int first = first_element(destination_extent, x, y, to);
  const int count = min(destination_extent.channels - to * 4, 4);
  Number parts[4] = {0, 0, 0, 0};
  for (int i = 0; i < count; i++) {
    const int element = first + i;
    float sum = 0;
    for (int pass = 0; pass < passes; pass++) {
      FOR_EACH_SOURCE(ADD)
    }
    parts[i] = sum;
  }
  WRITE(destination, destination_extent, x, y, to, vload4(0, parts));
  END_OF_KERNEL
}

#endif
