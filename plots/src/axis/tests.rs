use proptest::prelude::*;

use super::*;

fn labels(axis: &Axis) -> Vec<&str> {
    axis.ticks.iter().map(|tick| tick.1.as_str()).collect()
}

#[test]
fn decades_of_a_logarithmic_axis_are_equally_wide() {
    let axis = Axis::between("", (1.0, 1e4), Unit::Number);
    for (value, part) in [(1.0, 0.0), (10.0, 0.25), (1e3, 0.75), (1e4, 1.0)] {
        assert!((axis.part(value) - part).abs() < 1e-12);
    }
    assert_eq!(labels(&axis), ["1", "10", "100", "1000", "10000"]);
}

#[test]
fn times_have_the_unit_of_their_size() {
    let times = Axis::between("", (1.0, 1e6), Unit::Micros);
    assert_eq!(labels(&times), ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s"]);
    let few = Axis::between("", (5e2, 1e5), Unit::Micros);
    assert_eq!(labels(&few), ["500 µs", "1 ms", "2 ms", "5 ms", "10 ms", "20 ms", "50 ms", "100 ms"]);
    assert_eq!(Unit::Micros.label(379.04), "379.0 µs");
    assert_eq!(Unit::Micros.label(83_300.0), "83.30 ms");
    assert_eq!(Unit::Micros.label(2e7), "20.00 s");
}

#[test]
fn a_narrow_axis_has_finer_ticks_and_a_wide_one_coarser() {
    let narrow = Axis::logarithmic("", [100.0].into_iter(), Unit::Number);
    assert_eq!(labels(&narrow), ["50", "60", "80", "100", "200"]);
    let wide = Axis::between("", (1e-6, 1e13), Unit::Micros);
    assert_eq!(labels(&wide), ["1 ps", "1 ns", "1 µs", "1 ms", "1 s", "1000 s", "1e6 s"]);
}

#[test]
fn a_linear_axis_names_its_unit_and_all_labels_have_the_same_decimals() {
    let axis = Axis::linear("time", (0.0, 22_400.0), Unit::Micros);
    assert_eq!(axis.title, "time (ms)");
    assert_eq!(labels(&axis)[..2], ["0", "5"]);
    let narrow = Axis::linear("", (19.8, 22.4), Unit::Number);
    assert_eq!(labels(&narrow)[..2], ["20.0", "20.5"]);
}

#[test]
fn times_start_at_0_unless_they_lie_close_together() {
    assert_eq!(Axis::times("", [100.0, 400.0].into_iter()).ends().0.to_bits(), 0.0_f64.to_bits());
    let (low, high) = Axis::times("", [390.0, 400.0].into_iter()).ends();
    assert!(380.0 < low && low < 390.0 && 400.0 < high && high < 410.0);
}

#[test]
fn channels_have_ticks_at_multiples_of_a_power_of_two() {
    assert_eq!(labels(&Axis::channels("", 3072)), ["0", "512", "1024", "1536", "2048", "2560", "3072"]);
}

#[test]
fn a_logarithmic_axis_may_have_a_place_for_0_and_no_tick_between() {
    let axis = Axis::logarithmic("", [3.0, 1000.0].into_iter(), Unit::Number).with_zero_at(3.0, 10.0);
    assert_eq!(labels(&axis), ["10", "20", "50", "100", "200", "500", "1000", "0"]);
    assert!(axis.minor.iter().all(|&tick| tick >= 10.0));
}

#[test]
fn values_that_no_axis_holds_do_not_widen_it() {
    for value in [f64::NAN, f64::INFINITY, -1.0, 0.0, f64::MAX] {
        let axis = Axis::logarithmic("", [value, 100.0].into_iter(), Unit::Number);
        assert_eq!(labels(&axis), ["50", "60", "80", "100", "200"], "{value}");
    }
}

proptest! {
    #[test]
    fn every_value_and_tick_lies_on_the_axis(values in prop::collection::vec(1e-6..1e13f64, 1..9)) {
        for unit in [Unit::Number, Unit::Micros] {
            let logarithmic = Axis::logarithmic("", values.iter().copied(), unit);
            for axis in [&logarithmic, &Axis::times("", values.iter().copied()), &Axis::from_zero("", values.iter().copied())] {
                for place in values.iter().chain(axis.ticks.iter().map(|tick| &tick.0)).chain(&axis.minor) {
                    let part = axis.part(*place);
                    prop_assert!((-1e-9..=1.0 + 1e-9).contains(&part), "{axis:?}");
                }
            }
            let count = labels(&logarithmic).len();
            prop_assert!((2..=MAX_LABELS + 1).contains(&count), "{count} labels");
        }
    }
}
