use super::*;

fn table() -> ResidualTable {
    ResidualTable {
        table: KernelTable::ConvGeneric,
        features: vec![Feature::Window, Feature::InputBytes, Feature::Stride],
        length_scales: vec![2.0, 4.0, 1.0],
        weights: vec![0.2, -0.1],
        points: vec![vec![150, 400, 100], vec![50, 500, 200]].into(),
        own: Vec::new(),
    }
}

fn features(input_bytes: f64, window: f64, stride: f64) -> Features {
    let mut features = [0.0; Feature::ALL.len()];
    features[Feature::InputBytes as usize] = input_bytes;
    features[Feature::Window as usize] = window;
    features[Feature::Stride as usize] = stride;
    features
}

#[test]
fn the_order_of_features_is_that_of_their_values() {
    for (index, feature) in Feature::ALL.iter().copied().enumerate() {
        assert_eq!(feature as usize, index);
    }
}

#[test]
fn an_own_correction_does_not_affect_neighbouring_launches() {
    let with_own = ResidualTable { own: vec![0.3, 0.0], ..table() };
    let added = |features: &Features| {
        with_own.correction(features).log_factor - table().correction(features).log_factor
    };
    assert!((added(&features(16.0, 3.0, 1.0)) - 0.3).abs() < 1e-9);
    assert!(added(&features(16.0, 3.1, 1.0)).abs() < 1e-9);
}

#[test]
fn a_correction_is_the_weighted_sum_of_similarities() {
    // On the first point; 1, 1 and 1 length scales from the second.
    let correction = table().correction(&features(16.0, 3.0, 1.0));
    assert!((correction.log_factor - (0.2 - 0.1 / 2.5)).abs() < 1e-6, "{correction:?}");
    assert!((correction.similarity - 1.0).abs() < 1e-9);
}

#[test]
fn far_from_every_point_the_correction_vanishes() {
    let correction = table().correction(&features(400.0, 3.0, 1.0));
    assert!(correction.log_factor.abs() < 1e-4 && correction.similarity < 1e-3, "{correction:?}");
}

#[test]
fn no_correction_leaves_its_range() {
    let mut table = table();
    table.weights = vec![50.0, 50.0];
    let correction = table.correction(&features(16.0, 3.0, 1.0));
    assert!((correction.log_factor - LOG_FACTOR_RANGE).abs() < 1e-12);
}

#[test]
fn inconsistent_tables_are_rejected_with_the_key() {
    let check = |entries: Vec<ResidualTable>| {
        let mut checker = Checker::default();
        Residual { source: "runs".to_owned(), table: entries }.check(&mut checker);
        checker.violations.into_iter().map(|violation| violation.key).collect::<Vec<_>>()
    };
    assert_eq!(check(vec![table()]), [""; 0]);
    assert_eq!(check(vec![table(), table()]), ["table"]);
    let mut bad = table();
    bad.length_scales[1] = 0.0;
    bad.points = vec![vec![150, 400, 100], vec![50, 500]].into();
    bad.weights = vec![f64::NAN];
    let keys = ["table[0].length_scales", "table[0].points", "table[0].weights", "table[0].weights"];
    assert_eq!(check(vec![bad]), keys);
}
