use proptest::prelude::*;

use super::*;
use crate::workload::Padding;

fn conv(window: Window) -> Conv2d {
    Conv2d::new(Shape::image(56, 56, 64), 128, window).bias(false)
}

#[test]
fn a_window_slides_as_the_textbook_says() {
    assert_eq!(conv(Window::same(3)).output(), Shape::image(56, 56, 128));
    assert_eq!(conv(Window::same(3).stride(2)).output(), Shape::image(28, 28, 128));
    assert_eq!(conv(Window { dilation: [2, 2], ..Window::valid(3) }).output(), Shape::image(52, 52, 128));
    assert_eq!(conv(Window::same(7).stride(2)).output(), Shape::image(28, 28, 128));
}

#[test]
fn work_and_parameters_of_the_first_vgg_convolution() {
    // VGG-16 conv1_1: 86,704,128 multiply-accumulates, 1,792 parameters.
    let operator = Operator::from(Conv2d::new(Shape::image(224, 224, 3), 64, Window::same(3)));
    assert_eq!(operator.macs(), 86_704_128);
    assert_eq!(operator.parameters(), 1_792);
}

#[test]
fn cutting_output_channels_conserves_the_work() {
    let whole = Operator::from(conv(Window::same(3)));
    let parts = [48, 80].map(|channels| whole.with_output_channels(channels).macs());
    assert_eq!(parts.iter().sum::<u64>(), whole.macs());
}

#[test]
fn a_table_has_exactly_one_kind_of_operator() {
    let operator = Operator::from(conv(Window::same(3)));
    let table = OperatorTable::new("first", &operator);
    assert_eq!(table.operators(), [operator]);
    let text = toml::to_string(&table).expect("it has no more than a table of TOML has");
    assert_eq!(crate::input::from_toml::<OperatorTable>(&text), Ok(table));
    assert!(!text.contains("stride") && text.contains("bias = false"), "{text}");
}

#[test]
fn a_batch_of_products_is_one_of_images_and_a_file_says_so_only_where_there_are_several() {
    let heads = MatMul { images: 1, batch: 12, m: 50, k: 64, n: 48 };
    let batch = BatchOf { count: 3, given: &[], feeds_product: false };
    let batched = heads.batched(&batch).unwrap();
    assert_eq!(batched, MatMul { images: 36, batch: 1, ..heads }.into(), "they lie one behind the other");
    assert_eq!(batched.output(), Shape { batch: 36, height: 1, width: 50, channels: 48 });
    let several = MatMul { images: 2, ..heads };
    assert_eq!(several.batched(&batch), Some(MatMul { images: 6, ..heads }.into()));
    assert_eq!(several.output(), Shape { batch: 2, height: 12, width: 50, channels: 48 });
    assert_eq!(
        (batched.macs(), batched.to_string()),
        (3 * heads.macs(), "matmul 36x [50, 64] x [64, 48]".into())
    );
    let text = |operator| toml::to_string(&OperatorTable::new("scores", &operator)).unwrap();
    assert!(!text(heads.into()).contains("images") && text(batched).contains("images = 36"));
    assert!(
        MatMul { images: MAX_DIMENSION, ..heads }.check().is_err()
            && MatMul { images: 0, ..heads }.check().is_err()
    );
}

/// One column of a convolution: its value at each row of the output.
fn column(input: &[i64], [kernel, stride, dilation]: [u32; 3], top: u32, rows: u32) -> Vec<i64> {
    let weight = |tap: u32| i64::from(tap * tap + 1);
    let read = |row: i64| usize::try_from(row).ok().and_then(|row| input.get(row)).copied().unwrap_or(0);
    let at = |row: u32, tap: u32| i64::from(row * stride + tap * dilation) - i64::from(top);
    (0..rows).map(|row| (0..kernel).map(|tap| weight(tap) * read(at(row, tap))).sum()).collect()
}

proptest! {
    #[test]
    fn parts_along_the_height_cover_the_output_once_and_compute_the_same(
        (height, kernel, stride, dilation) in (1_u32..40, 1_u32..6, 1_u32..4, 1_u32..3),
        (top, bottom) in (0_u32..5, 0_u32..5),
        place in 0_u32..1_000,
    ) {
        let reach = dilation * (kernel - 1) + 1;
        // As in checked operators, a window is never over padding alone.
        prop_assume!(top < reach && bottom < reach && height + top + bottom >= reach);
        let conv = Conv2d::new(Shape::image(height, 3, 4), 8, Window { kernel: [kernel, 1], stride: [stride, 1], dilation: [dilation, 1], padding: Padding { top, bottom, left: 0, right: 0 } }).bias(false);
        let operator = Operator::Conv2d(conv);
        let Some(rows) = operator.splittable_rows() else { return Ok(()) };
        let cut = 1 + place % (rows - 1);
        let input: Vec<i64> = (0..i64::from(height)).map(|row| row * row + 3).collect();
        let whole = column(&input, [kernel, stride, dilation], top, rows);
        let mut joined = Vec::new();
        for range in [0..cut, cut..rows] {
            let Operator::Conv2d(part) = operator.with_output_rows(range.clone()) else { unreachable!() };
            prop_assert_eq!(part.output().height, range.end - range.start);
            prop_assert_eq!((part.output().width, part.output().channels), (3, 8));
            let read = operator.rows_reached(range);
            prop_assert_eq!(read.end - read.start, part.input.height);
            let halo = &input[read.start as usize..read.end as usize];
            joined.extend(column(halo, [kernel, stride, dilation], part.window.padding.top, part.output().height));
        }
        prop_assert_eq!(joined, whole);
    }
}

#[test]
fn neighbouring_parts_share_the_rows_that_windows_of_both_reach() {
    let conv = Conv2d::new(
        Shape::image(8, 8, 4),
        4,
        Window::valid(3).padding(Padding { top: 1, bottom: 1, left: 1, right: 1 }),
    );
    let heights = [0..4, 4..8].map(|rows| Operator::Conv2d(conv).with_output_rows(rows).inputs()[0].height);
    assert_eq!(heights, [5, 5], "four rows and a row of halo each");
    let linear = Linear { rows: 12, input_features: 8, output_features: 4, bias: true };
    let part = Operator::Linear(linear).with_output_rows(5..12);
    assert_eq!(part, Operator::Linear(Linear { rows: 7, ..linear }));
}

#[test]
fn operators_with_independent_channels_read_only_their_own() {
    let pool = Operator::Pool(Pool {
        kind: PoolKind::Max,
        input: Shape::image(8, 8, 12),
        window: Window::valid(2).stride(2),
    });
    assert_eq!(pool.separate_channels(), Some(12));
    assert_eq!(pool.with_output_channels(5).inputs(), [Shape::image(8, 8, 5)]);
    assert_eq!(pool.splittable_channels(), None, "nothing is gained by cutting it alone");
    assert_eq!(pool.rows_reached(1..3), 2..6);
    let sum = Operator::Elementwise(Elementwise {
        function: Function::Multiply,
        input: Shape::image(8, 8, 12),
        other: Some(Shape::image(1, 1, 12)),
    });
    let part = sum.with_output_rows(2..5);
    assert_eq!(part.inputs(), [Shape::image(3, 8, 12), Shape::image(1, 1, 12)]);
}
