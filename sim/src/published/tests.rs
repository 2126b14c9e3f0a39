use std::collections::BTreeSet;

use super::*;

/// Published numbers of the five papers.
const FACTS: [(Paper, usize); 5] = [
    (Paper::Epew25, 224),
    (Paper::Codl, 115),
    (Paper::UnifiedSplitting, 27),
    (Paper::EdgeSys24, 35),
    (Paper::HeteroInfer, 137),
];

/// All bundled profiles, few operators of each set and one network of `CoDL`'s, for speed.
fn inputs() -> Inputs {
    const EVERY: usize = 997;
    Inputs { every: EVERY, stand_in: Some("codl-vgg16"), ..Inputs::bundled().unwrap() }
}

#[test]
fn five_papers_publish_538_numbers_each_with_a_name_of_its_own() {
    let mut total = 0;
    for (paper, count) in FACTS {
        let ids: BTreeSet<&str> = paper.facts().iter().map(|fact| fact.id.as_str()).collect();
        assert_eq!((ids.len(), paper.facts().len()), (count, count), "{}", paper.name());
        total += count;
    }
    assert_eq!(total, 538);
}

#[test]
fn every_published_number_is_in_exactly_one_row() {
    let inputs = inputs();
    for (paper, count) in FACTS {
        let report = reproduce(paper, &inputs).unwrap();
        assert_eq!(report.misfits, [""; 0]);
        let rows: usize = report.groups.iter().map(|group| group.rows.len()).sum();
        assert_eq!(rows, count, "{}", paper.name());
    }
}

#[test]
fn a_published_number_that_set_a_value_is_one_that_was_published() {
    for profile in Inputs::bundled().unwrap().profiles {
        for used in &profile.used_fact {
            let Some(paper) = Paper::ALL.into_iter().find(|paper| paper.name() == used.paper) else {
                continue;
            };
            assert!(!used.facts.is_empty(), "{}: {} names no fact", profile.name, used.quantity);
            for id in &used.facts {
                let is_known = paper.facts().iter().any(|fact| fact.id == *id);
                assert!(is_known, "{}: there is no fact {id}", profile.name);
            }
        }
    }
}

/// A comparison of a few rows, of which the profiles set one.
fn example() -> Comparison {
    let mut comparison = Comparison::new(Paper::Epew25, &inputs());
    comparison.set_by("split/augmented/gpu-us", "a test");
    comparison.group("times", Limit::mean_and_worst(6.0, 15.0));
    comparison.row("split/augmented/gpu-us", 3_790.0);
    comparison.row("network/pixel4/vgg16/gpu-ms", 83.3 * 1.1);
    comparison.row("network/pixel4/resnet18/gpu-ms", 17.5 * 0.98);
    comparison
}

#[test]
fn a_fitted_number_counts_for_nothing_and_a_predicted_one_by_its_deviation() {
    let report = example().finish();
    let group = &report.groups[0];
    let summary = group.summary();
    assert_eq!((summary.predicted, summary.fitted, summary.not_reproduced), (2, 1, 0));
    assert!((summary.mean.unwrap() - 6.0).abs() < 1e-9 && (summary.median.unwrap() - 6.0).abs() < 1e-9);
    assert!((summary.worst.unwrap() - 10.0).abs() < 1e-9);
    let order: Vec<&str> = group.worst_first().iter().map(|row| row.fact.id.as_str()).collect();
    assert_eq!(
        order,
        ["network/pixel4/vgg16/gpu-ms", "network/pixel4/resnet18/gpu-ms", "split/augmented/gpu-us"]
    );
}

#[test]
fn a_group_fails_by_its_mean_by_one_row_or_by_one_finding() {
    let of_limit = |limit: Limit| Group { limit, ..example().finish().groups.remove(0) };
    assert!(of_limit(Limit::mean_and_worst(6.1, 10.1)).holds());
    assert!(!of_limit(Limit::mean_and_worst(5.9, 10.1)).holds());
    assert!(!of_limit(Limit::each(9.9)).holds());
    let mut comparison = example();
    comparison.group("findings", Limit::default());
    comparison.finding("spike/cause", "latency follows the work-groups", true);
    assert!(comparison.clone().finish().groups[1].holds());
    comparison.finding("winograd/above-channels", "never", false);
    assert!(!comparison.finish().groups[1].holds());
}

#[test]
fn a_row_of_no_fact_and_a_fact_without_a_row_are_told() {
    let mut comparison = example();
    comparison.row("no/such/fact", 1.0);
    comparison.row("network/pixel4/vgg16/gpu-ms", 80.0);
    let misfits = comparison.finish().misfits;
    assert_eq!(misfits.len(), 2 + 224 - 3);
}

/// What few of EPEW'25's operators give: published, and ours.
fn speedups() -> impl Fn(&str) -> [f64; 2] {
    const EVERY: usize = 40;
    let report = reproduce(Paper::Epew25, &Inputs { every: EVERY, ..inputs() }).unwrap();
    let rows: Vec<Row> = report.groups.into_iter().flat_map(|group| group.rows).collect();
    move |id| {
        let row = rows.iter().find(|row| row.fact.id == id).unwrap();
        let Some(Ours::Number(ours)) = row.ours else { panic!("{id} has no number") };
        [row.fact.value.number().unwrap(), ours]
    }
}

#[test]
fn single_operators_gain_what_epew25_published_and_more_with_each_thread() {
    const LIMIT: f64 = 0.15;
    let speedup = speedups();
    for phone in ["pixel4", "pixel5", "moto", "oneplus11"] {
        for set in ["linear", "conv"] {
            let mut before = 1.0;
            for threads in 1..=3 {
                let id = format!("speedup/{phone}/{set}/search/{threads}");
                let [published, ours] = speedup(&id);
                assert!((ours / published - 1.0).abs() < LIMIT, "{id}: {ours:.3}, published {published}");
                assert!(ours > before, "{id}");
                before = ours;
            }
        }
    }
    for set in ["linear", "conv"] {
        let of = |phone: &str| speedup(&format!("speedup/{phone}/{set}/search/3"))[1];
        let (older, newer) = (of("pixel4").min(of("pixel5")), of("moto").max(of("oneplus11")));
        assert!(older > newer, "{set}: {older:.3} on the older phones, {newer:.3} on the newer");
    }
}

#[test]
fn networks_gain_what_epew25_published() {
    let speedup = speedups();
    let mut sum = 0.0;
    for phone in ["pixel4", "pixel5", "moto", "oneplus11"] {
        for network in ["vgg16", "resnet18", "resnet34", "inception-v3"] {
            let id = format!("network/{phone}/{network}/network-speedup");
            let [published, ours] = speedup(&id);
            let off = (ours / published - 1.0).abs();
            assert!(off < 0.15, "{id}: {ours:.3}, published {published}");
            sum += off;
        }
    }
    assert!(sum / 16.0 < 0.06, "{sum}");
}
