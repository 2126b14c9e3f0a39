use std::sync::OnceLock;

use crate::published::{Inputs, Limit, Paper, Report, Role, Row, reproduce};

fn report() -> &'static Report {
    static REPORT: OnceLock<Report> = OnceLock::new();
    REPORT.get_or_init(|| reproduce(Paper::HeteroInfer, &Inputs::bundled().unwrap()).unwrap())
}

fn rows() -> impl Iterator<Item = &'static Row> {
    report().groups.iter().flat_map(|group| &group.rows)
}

#[test]
fn every_number_has_a_row_and_every_limit_holds() {
    assert_eq!(report().misfits, [""; 0]);
    for group in report().groups.iter().filter(|group| group.limit != Limit::default()) {
        let rows: Vec<String> = group
            .rows
            .iter()
            .map(|row| format!("{} {:?} {:?}", row.fact.id, row.ours, row.deviation))
            .collect();
        assert!(group.holds(), "{}: {rows:#?}", group.name);
    }
}

#[test]
fn what_was_found_is_as_published_but_for_two_findings() {
    let differing: Vec<&str> = rows().filter(|row| row.disagrees()).map(|row| row.fact.id.as_str()).collect();
    let known = ["llama-8b-decode/lowest-power", "hetero-tensor-plus-game/game-fps"];
    assert_eq!(differing, known.map(|id| format!("snapdragon-8-gen-3/{id}")));
}

#[test]
fn at_least_four_numbers_are_shown_to_contradict_others() {
    let contradicts = |row: &Row| match &row.role {
        Role::NotReproduced { because } => because.starts_with("inconsistent"),
        _ => row.note.starts_with("inconsistent"),
    };
    assert!(rows().filter(|row| contradicts(row)).count() >= 4);
}
