use crate::published::{Inputs, Paper, Role, reproduce};

#[test]
fn the_limits_hold_and_every_number_has_a_row() {
    let report = reproduce(Paper::HeteroInfer, &Inputs::bundled().unwrap()).unwrap();
    assert_eq!(report.misfits, [""; 0]);
    for group in &report.groups {
        let rows: Vec<String> = group
            .rows
            .iter()
            .map(|row| format!("{} {:?} {:?}", row.fact.id, row.ours, row.deviation))
            .collect();
        assert!(group.holds(), "{}: {rows:#?}", group.name);
    }
}

#[test]
fn at_least_four_numbers_are_shown_to_contradict_others() {
    let report = reproduce(Paper::HeteroInfer, &Inputs::bundled().unwrap()).unwrap();
    let rows = report.groups.iter().flat_map(|group| &group.rows);
    let because = |role: &Role| match role {
        Role::NotReproduced { because } => because.starts_with("inconsistent"),
        _ => false,
    };
    assert!(rows.filter(|row| because(&row.role)).count() >= 4);
}
