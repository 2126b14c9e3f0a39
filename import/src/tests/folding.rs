//! Values and extents of nodes whose operands are all constant.

use super::Builder;

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
