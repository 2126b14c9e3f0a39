use std::collections::HashSet;

use super::*;

fn set(name: &str) -> Vec<(String, Operator)> {
    operator_set(name).expect(name)
}

/// Mean floating-point operations, in millions.
fn mean_mflop(set: &[(String, Operator)]) -> f64 {
    let macs: u64 = set.iter().map(|(_, operator)| operator.macs()).sum();
    2.0 * macs as f64 / set.len() as f64 / 1e6
}

fn rounded(value: f64) -> String {
    format!("{value:.1}")
}

fn index_of(set: &[(String, Operator)], name: &str) -> Option<usize> {
    set.iter().position(|(found, _)| found == name)
}

#[test]
fn sets_have_the_counts_and_the_mean_work_of_their_readings() {
    for (name, count, mflop) in [
        ("epew-linear", 8_610, Some("129.5")),
        ("epew-linear-sample", 2_039, None),
        ("epew-conv", 2_060, Some("383.1")),
        ("epew-conv-same", 2_038, Some("389.8")),
        ("codl-conv", 171, None),
    ] {
        let set = set(name);
        assert_eq!(set.len(), count, "{name}");
        if let Some(mflop) = mflop {
            assert_eq!(rounded(mean_mflop(&set)), mflop, "mean MFLOP of {name}");
        }
    }
}

#[test]
fn every_listed_set_exists_and_is_sound() {
    for (name, summary, _) in OPERATOR_SETS {
        assert!(!summary.is_empty());
        for (operation, operator) in set(name) {
            assert_eq!(operator.check(), Ok(()), "{operation} of {name}");
        }
    }
    assert_eq!(operator_set("epew-pool"), None);
}

#[test]
fn test_operations_stay_within_the_range_of_work_and_differ() {
    for name in ["epew-linear", "epew-linear-sample", "epew-conv", "epew-conv-same"] {
        let set = set(name);
        for (operation, operator) in &set {
            assert!(within_range(operator.macs()), "{operation} of {name}");
        }
        let names: HashSet<&String> = set.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), set.len(), "{name}");
    }
}

#[test]
fn linear_test_operations_are_those_of_the_enumeration() {
    let set = set("epew-linear");
    assert_eq!(set[0].0, "linear 16x48 -> 3072");
    assert_eq!(set[1].0, "linear 16x64 -> 2048");
    assert_eq!(index_of(&set, "linear 3072x3072 -> 48"), Some(set.len() - 1));
    assert!(index_of(&set, "linear 64x768 -> 3072").is_some());
    // 50 rows, as in ViT-B/32, are not 4, 5 or 6 times a power of two.
    assert_eq!(index_of(&set, "linear 50x768 -> 3072"), None);
}

#[test]
fn convolutional_test_operations_are_those_of_the_enumeration() {
    let set = set("epew-conv");
    assert_eq!(set[0].0, "conv 1x1/1 64x64x256 -> 256");
    assert_eq!(set[1].0, "conv 1x1/1 64x64x256 -> 320");
    // Stage 4, kernel 7: channels divided by eight, then doubled three times.
    assert!(index_of(&set, "conv 7x7/2 5x5x512 -> 512").is_some());
    // 3x3, stage 1: two FLOP times 64^2 * 9 * 256 * 256 pass 10^9.
    assert_eq!(index_of(&set, "conv 3x3/1 64x64x256 -> 256"), None);
}

#[test]
fn readings_of_the_convolutional_text_differ_only_where_a_stride_does_not_divide() {
    let (down, up) = (set("epew-conv"), set("epew-conv-same"));
    let kept: HashSet<&String> = up.iter().map(|(name, _)| name).collect();
    let dropped: Vec<&String> =
        down.iter().map(|(name, _)| name).filter(|name| !kept.contains(name)).collect();
    assert_eq!(dropped.len(), 22);
    assert!(
        dropped.iter().all(|name| name.starts_with("conv 3x3/2 5x5") || name.starts_with("conv 3x3/2 7x7"))
    );
}

#[test]
fn outputs_are_the_extent_over_the_stride_in_either_rounding() {
    for (rounding, expected) in [(u32::div as Rounding, [2, 3, 4]), (u32::div_ceil, [3, 4, 4])] {
        for kernel in [1, 3, 5, 7] {
            let outputs = [5, 7, 8].map(|extent| {
                let (_, operator) = conv(Shape::image(extent, extent, 8), 8, kernel, 2, rounding);
                operator.output().height
            });
            assert_eq!(outputs, expected, "kernel {kernel}");
        }
    }
}

#[test]
fn samples_are_the_same_on_every_machine() {
    assert_eq!(set("epew-linear-sample")[1000].0, "linear 256x2048 -> 256");
}

#[test]
fn a_sample_is_a_subset_with_the_work_of_the_whole() {
    let (all, sample) = (set("epew-linear"), set("epew-linear-sample"));
    let all_names: HashSet<&String> = all.iter().map(|(name, _)| name).collect();
    assert!(sample.iter().all(|(name, _)| all_names.contains(name)));
    // The standard deviation is about 1.5 times the mean: a standard error of 3 % for 2,039 samples.
    assert!((mean_mflop(&sample) / mean_mflop(&all) - 1.0).abs() < 0.07);
}

#[test]
fn profiled_convolutions_take_the_work_of_codls_list() {
    // 10^9 multiply-accumulates of each network's rows in the artifact's list.
    let prefixes = ["codl-posenet", "codl-vgg16", "codl-fast-style-transfer"];
    let set = set("codl-conv");
    let gigamacs = |which: &dyn Fn(&str) -> bool| {
        let chosen = set.iter().filter(|(name, _)| which(name));
        format!("{:.2}", chosen.map(|(_, operator)| operator.macs()).sum::<u64>() as f64 / 1e9)
    };
    let found = prefixes.map(|prefix| gigamacs(&|name| name.starts_with(prefix)));
    assert_eq!(found, ["30.16", "15.35", "35.92"]);
    // YOLOv2 15.06 and RetinaFace 92.44; some of their rows are in no timed list.
    let rest = gigamacs(&|name| !prefixes.iter().any(|prefix| name.starts_with(prefix)));
    assert_eq!(rest, "107.50");
}
