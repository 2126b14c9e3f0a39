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

/// All bundled profiles, but only a few operators of each set and one network for all of `CoDL`'s, for
/// speed.
fn inputs() -> Inputs {
    const SAMPLING_STEP: usize = 997;
    Inputs { every: SAMPLING_STEP, placeholder: Some("codl-vgg16"), ..Inputs::bundled().unwrap() }
}

#[test]
fn five_papers_publish_538_numbers_each_with_a_name_of_its_own() {
    let mut total = 0;
    for (paper, count) in FACTS {
        let ids: BTreeSet<&str> = paper.facts().map(|fact| fact.id.as_str()).collect();
        assert_eq!((ids.len(), paper.facts().count()), (count, count), "{}", paper.name());
        total += count;
    }
    assert_eq!(total, 538);
}

#[test]
fn every_published_number_is_in_exactly_one_row_and_no_number_counts_twice() {
    let inputs = inputs();
    for (paper, count) in FACTS {
        let report = reproduce(paper, &inputs).unwrap();
        let rows: Vec<&Row> = report.groups.iter().flat_map(|group| &group.rows).collect();
        assert_eq!(rows.len(), count, "{}", paper.name());
        let mut counted = Vec::new();
        for row in rows.iter().filter(|row| row.role == Role::Predicted) {
            if let (Some(Ours::Number(ours)), Published::Number(published)) = (&row.ours, &row.fact.value) {
                let both = (ours.to_bits(), published.to_bits());
                assert!(!counted.contains(&both) || ours.fract() == 0.0, "{} repeats another", row.fact.id);
                counted.push(both);
            }
        }
    }
}

#[test]
fn every_group_has_a_limit_or_says_why_it_has_none() {
    for &paper in Paper::ALL {
        for group in &fact::of(paper).group {
            let has_limit = group.limit != Limit::default();
            let says_why = !group.no_limit.is_empty() || group.because.is_some();
            assert!(has_limit != says_why, "{}: {}", paper.name(), group.name);
        }
    }
}

#[test]
fn values_set_from_published_numbers_are_shown_but_not_counted() {
    let report = reproduce(Paper::Epew25, &inputs()).unwrap();
    let of_loss =
        report.groups.iter().find(|group| group.published.name.contains("choices by predictors")).unwrap();
    let summary = of_loss.summary();
    assert_eq!((summary.not_counted, summary.predicted, summary.mean), (44, 0, None));
    assert!(of_loss.rows.iter().all(|row| row.deviation.is_some()));
    let repeated = report.groups[0].rows.iter().find(|row| row.fact.id == "abstract/conv/search").unwrap();
    assert!(
        matches!(&repeated.role, Role::NotCounted { because } if because.contains("speedup/pixel5/conv"))
    );
}

#[test]
fn a_published_number_that_set_a_value_is_one_that_was_published() {
    for profile in Inputs::bundled().unwrap().profiles {
        for used in &profile.used_fact {
            let Some(paper) = Paper::ALL.iter().find(|paper| paper.name() == used.paper) else {
                continue;
            };
            assert!(!used.facts.is_empty(), "{}: {} names no fact", profile.name, used.quantity);
            for id in &used.facts {
                let is_known = paper.facts().any(|fact| fact.id == *id);
                assert!(is_known, "{}: there is no fact {id}", profile.name);
            }
        }
    }
}

/// A group of a few rows, one of which is fitted.
fn example(limit: Limit) -> Group {
    let fact = |id: &str| Paper::Epew25.facts().find(|fact| fact.id == id).unwrap();
    let row = |id, ours, role| Row::new(fact(id), Some(Ours::Number(ours)), role, Measure::Percent);
    let fitted = Role::Fitted { sets: vec!["a test".to_owned()] };
    Group {
        published: Box::leak(Box::new(FactGroup { limit, ..FactGroup::default() })),
        rows: vec![
            row("split/augmented/gpu-us", 3_790.0, fitted),
            row("network/pixel4/vgg16/gpu-ms", 83.3 * 1.1, Role::Predicted),
            row("network/pixel4/resnet18/gpu-ms", 17.5 * 0.98, Role::Predicted),
        ],
    }
}

#[test]
fn a_fitted_number_counts_for_nothing_and_a_predicted_one_by_its_deviation() {
    let group = example(Limit::default());
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
    let limit = |mean, worst| Limit { mean, worst: Some(worst), ..Limit::default() };
    assert!(example(limit(Some(6.1), 10.1)).holds());
    assert!(!example(limit(Some(5.9), 10.1)).holds());
    assert!(!example(limit(None, 9.9)).holds());
    let fact = Paper::Epew25.facts().find(|fact| fact.id == "winograd/above-channels").unwrap();
    for agrees in [true, false] {
        let mut group = example(Limit::default());
        let found = Ours::Finding { text: "never".to_owned(), agrees };
        group.rows.push(Row::new(fact, Some(found), Role::Predicted, Measure::Percent));
        assert_eq!(group.holds(), agrees);
    }
}

#[test]
fn a_number_of_no_fact_and_a_fact_without_a_number_are_errors_that_name_it() {
    let mut comparison = Comparison::new(Paper::UnifiedSplitting, &inputs());
    let error = comparison.published("no/such/fact").unwrap_err();
    assert!(error.to_string().contains("no/such/fact"), "{error}");
    let error = comparison.clone().finish().unwrap_err();
    assert!(error.to_string().contains("resnet-50/throughput-gain"), "{error}");
    for fact in Paper::UnifiedSplitting.facts() {
        comparison.row(fact.id.clone(), 1.0);
    }
    assert!(comparison.clone().finish().is_ok());
    comparison.row("no/such/fact", 1.0);
    assert!(comparison.finish().unwrap_err().to_string().contains("no/such/fact"));
}

/// Published numbers and ours, from a few of EPEW'25's operators.
fn speedups() -> impl Fn(&str) -> [f64; 2] {
    const SAMPLING_STEP: usize = 40;
    let report = reproduce(Paper::Epew25, &Inputs { every: SAMPLING_STEP, ..inputs() }).unwrap();
    let rows: Vec<Row> = report.groups.into_iter().flat_map(|group| group.rows).collect();
    move |id| {
        let row = rows.iter().find(|row| row.fact.id == id).unwrap();
        let Some(Ours::Number(ours)) = row.ours else { panic!("{id} has no number") };
        let Published::Number(published) = row.fact.value else { panic!("{id} is no number") };
        [published, ours]
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
