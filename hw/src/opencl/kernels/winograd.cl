// The transforms of a Winograd convolution F(4x4, 3x3): overlapping input tiles of 6x6 pixels, with
// a stride of four, become 36 points; 36 products per tile become 4x4 pixels. Points are the rows
// of a tensor whose columns are the tiles. The host defines INPUT_TRANSFORM (6x6) and
// OUTPUT_TRANSFORM (4x6).

__constant Number input_transform[36] = INPUT_TRANSFORM;
__constant Number output_transform[24] = OUTPUT_TRANSFORM;

// Columns of tiles, rows of tiles, and images.
typedef struct {
  int columns;
  int rows;
  int images;
} Tiles;

// A thread transforms a slice of a tile to one row of its points.
__kernel WORK_GROUP void to_points(SOURCE source, DESTINATION points, Extent source_extent,
                                  Extent points_extent, Region region, Window window, Tiles tiles) {
  const int tile = get_global_id(0);
  const int row = get_global_id(1);
  const int slice = get_global_id(2);
  if (tile >= points_extent.width || row >= 6 || slice >= points_extent.slices) return;
  const int image = tile % tiles.images;
  const int column = tile / tiles.images % tiles.columns;
  const int first_x = region.x / tiles.images + column * 4 - window.before_x;
  const int first_y = region.y + tile / (tiles.images * tiles.columns) * 4 - window.before_y;
  const int image_width = source_extent.width / source_extent.batch;

  Number4 sums[6];
  for (int i = 0; i < 6; i++) sums[i] = (Number4)(0);
  for (int j = 0; j < 6; j++) {
    const int y = first_y + j;
    if (y < 0 || y >= source_extent.height) continue;
    for (int i = 0; i < 6; i++) {
      const int x = first_x + i;
      if (x < 0 || x >= image_width) continue;
      sums[i] += input_transform[row * 6 + j] *
                 READ(source, source_extent, x * source_extent.batch + image, y, slice);
    }
  }
  for (int point = 0; point < 6; point++) {
    Number4 value = (Number4)(0);
    for (int i = 0; i < 6; i++) value += input_transform[point * 6 + i] * sums[i];
    WRITE(points, points_extent, tile, row * 6 + point, slice, value);
  }
}

// A thread transforms a slice of a tile's products to one row of its pixels.
__kernel WORK_GROUP void to_pixels(SOURCE products, __global const Number4 *restrict bias, DESTINATION destination,
                        Extent points_extent, Extent destination_extent, Region region,
                        Tiles tiles OPERANDS ANNOUNCE_PARAMETERS) {
  const int tile = get_global_id(0);
  const int row = get_global_id(1);
  const int slice = get_global_id(2);
  if (tile >= points_extent.width || row >= 4 || slice >= region.slices) LEAVE;
  const int image = tile % tiles.images;
  const int column = tile / tiles.images % tiles.columns;
  const int first_y = tile / (tiles.images * tiles.columns) * 4 + row;
  if (first_y >= region.height) LEAVE;

  Number4 sums[6];
  for (int i = 0; i < 6; i++) sums[i] = (Number4)(0);
  for (int j = 0; j < 6; j++)
    for (int i = 0; i < 6; i++)
      sums[i] += output_transform[row * 6 + j] * READ(products, points_extent, tile, j * 6 + i, slice);

  const int y = region.y + first_y;
  for (int pixel = 0; pixel < 4; pixel++) {
    const int offset_x = (column * 4 + pixel) * tiles.images + image;
    if (offset_x >= region.width) break;
    const int x = region.x + offset_x;
    Number4 value = bias[slice];
    for (int i = 0; i < 6; i++) value += output_transform[pixel * 6 + i] * sums[i];
    LINKED(value, x, y, region.slice + slice);
    WRITE(destination, destination_extent, x, y, region.slice + slice, value);
  }
  END_OF_KERNEL
}
