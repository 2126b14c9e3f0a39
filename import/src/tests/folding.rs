//! Values and extents of nodes whose operands are all constant.

use super::Builder;
use crate::fold::calculated;
use crate::model::{Constant, Work};
use crate::operators::of_tflite;

/// The operators of a linear layer over `x` in the extents that `y` holds, the last of which is `features`.
fn linear(model: Builder, features: i64) -> Vec<String> {
    let model = model.weights("weights", &[features, 2]).node("Reshape", &["x", "y"], "z", &[]);
    model.node("MatMul", &["z", "weights"], "result", &[]).operators()
}

#[test]
fn a_mean_of_constants_is_not_their_sum() {
    let model = Builder::new(&[4, 6]).integers("a", &[2, 12]).integers("b", &[4, 4]);
    assert_eq!(linear(model.node("Mean", &["a", "b"], "y", &[]), 8), ["reshape -> 1x3x8", "linear 3x8 -> 2"]);
    // A mean of computed tensors is their sum and no more.
    let model = Builder::new(&[4, 6]).input("other", &[4, 6]).node("Mean", &["x", "other"], "y", &[]);
    assert_eq!(model.operators(), ["Add 1x4x6"]);
}

#[test]
fn padding_in_rows_of_pairs_adds_to_the_axis_of_its_row() {
    // As TensorFlow Lite stores it: two rows before and one after, no columns.
    let model = Builder::new(&[5, 4]).weights("w", &[1, 5]).integers("all", &[2, 1, 0, 0]);
    let pairs = model.integers("rows", &[2, 2]).node("Reshape", &["all", "rows"], "around", &[]);
    let padded = pairs.node("Pad", &["w", "around"], "padded", &[]).node("Shape", &["padded"], "y", &[]);
    assert_eq!(linear(padded, 5), ["reshape -> 1x4x5", "linear 4x5 -> 2"]);
}

/// The value of a TFLite operator with that code for two constants.
fn folded(code: i32, left: f64, right: f64) -> Constant {
    let Some((_, Work::Arithmetic(arithmetic))) = of_tflite(code) else { panic!("{code} is arithmetic") };
    let [left, right] = [left, right].map(Constant::number);
    calculated(arithmetic, Vec::new(), &[Some(&left), Some(&right)])
}

#[test]
fn numbers_are_equal_or_not_equal() {
    const EQUAL: i32 = 71;
    const NOT_EQUAL: i32 = 72;
    for (right, is_equal) in [(3.0, 1.0), (4.0, 0.0)] {
        let wanted = [is_equal, 1.0 - is_equal].map(Constant::number);
        assert_eq!([EQUAL, NOT_EQUAL].map(|code| folded(code, 3.0, right)), wanted);
    }
}

#[test]
fn floor_division_rounds_down_and_its_remainder_has_the_sign_of_the_divisor() {
    const DIV: i32 = 42;
    const FLOOR_DIV: i32 = 90;
    const FLOOR_MOD: i32 = 95;
    for (left, right, wanted) in [
        (7.0, 2.0, [3.0, 3.0, 1.0]),
        (-7.0, 2.0, [-3.0, -4.0, 1.0]),
        (7.0, -2.0, [-3.0, -4.0, -1.0]),
        (-7.0, -2.0, [3.0, 3.0, -1.0]),
    ] {
        let found = [DIV, FLOOR_DIV, FLOOR_MOD].map(|code| folded(code, left, right));
        assert_eq!(found, wanted.map(Constant::number));
    }
    assert_eq!(folded(FLOOR_DIV, -7.5, 2.0), Constant::number(-4.0));
}
