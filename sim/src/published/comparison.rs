//! Making a report: rows go in fact by fact, and what role each has is looked up.

use std::collections::{BTreeMap, BTreeSet};

use super::fact::Fact;
use super::figure::Picture;
use super::report::{Group, Limit, Measure, Ours, Report, Role, Row};
use super::{Inputs, Paper};

/// A report in the making.
#[derive(Clone, Debug)]
pub struct Comparison {
    paper: Paper,
    /// Values that each fact set, by its id.
    sets: BTreeMap<String, Vec<String>>,
    /// Facts that have a row.
    taken: BTreeSet<&'static str>,
    groups: Vec<Group>,
    figures: Vec<Picture>,
    misfits: Vec<String>,
}

impl Comparison {
    /// A report without rows, which knows the facts that set values of the profiles.
    pub fn new(paper: Paper, inputs: &Inputs) -> Self {
        let mut sets: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for profile in &inputs.profiles {
            let used = profile.used_fact.iter().filter(|used| used.paper == paper.name());
            for (id, used) in used.flat_map(|used| used.facts.iter().map(move |id| (id, used))) {
                let keys = used.sets.iter().map(|key| format!("{}: {key}", profile.name));
                sets.entry(id.clone()).or_default().extend(keys);
            }
        }
        let (taken, misfits) = (BTreeSet::new(), Vec::new());
        Self { paper, sets, taken, groups: Vec::new(), figures: Vec::new(), misfits }
    }

    /// Says that a fact set a value which no profile holds: a constant of the comparison.
    pub fn set_by(&mut self, id: &str, what: &str) {
        self.sets.entry(id.to_owned()).or_default().push(what.to_owned());
    }

    /// Whether a fact set a value.
    pub fn is_fitted(&self, id: &str) -> bool {
        self.sets.contains_key(id)
    }

    /// The published fact called `id`.
    pub fn fact(&self, id: &str) -> Option<&'static Fact> {
        self.paper.facts().iter().find(|fact| fact.id == id)
    }

    /// The published number called `id`; not a number where there is none, which shows.
    pub fn number(&self, id: &str) -> f64 {
        self.fact(id).and_then(|fact| fact.value.number()).unwrap_or(f64::NAN)
    }

    /// Starts a group; the rows that follow are in it.
    pub fn group(&mut self, name: &str, limit: Limit) {
        self.group_measured(name, limit, Measure::Percent);
    }

    /// Starts a group whose deviations are counted by `measure`.
    pub fn group_measured(&mut self, name: &str, limit: Limit, measure: Measure) {
        self.groups.push(Group { name: name.to_owned(), limit, measure, rows: Vec::new() });
    }

    /// Sets our number beside the fact called `id`.
    pub fn row(&mut self, id: &str, ours: f64) -> &mut Self {
        self.add(id, Ours::Number(ours))
    }

    /// Sets what was found beside the fact called `id`, and whether it is as published.
    pub fn finding(&mut self, id: &str, text: impl Into<String>, agrees: bool) -> &mut Self {
        self.add(id, Ours::Finding { text: text.into(), agrees })
    }

    /// Adds a note to the last row.
    pub fn note(&mut self, note: &str) {
        if let Some(row) = self.groups.last_mut().and_then(|group| group.rows.last_mut()) {
            note.clone_into(&mut row.note);
        }
    }

    /// Says why coexec does not predict the fact called `id`.
    pub fn not_reproduced(&mut self, id: &str, because: &str) {
        if let Some(fact) = self.take(id) {
            self.push(Row::not_reproduced(fact, because));
        }
    }

    /// Says why coexec predicts none of the facts that have no row yet and that `which`
    /// wants.
    pub fn rest_not_reproduced(&mut self, because: &str, which: impl Fn(&Fact) -> bool) {
        for fact in self.paper.facts() {
            if !self.taken.contains(fact.id.as_str()) && which(fact) {
                self.not_reproduced(&fact.id, because);
            }
        }
    }

    /// Adds a figure.
    pub fn figure(&mut self, figure: Picture) {
        self.figures.push(figure);
    }

    /// The report.
    pub fn finish(self) -> Report {
        let Self { paper, mut misfits, groups, figures, taken, .. } = self;
        let missing = paper.facts().iter().filter(|fact| !taken.contains(fact.id.as_str()));
        misfits.extend(missing.map(|fact| format!("no row is of {}", fact.id)));
        let groups = groups.into_iter().filter(|group| !group.rows.is_empty()).collect();
        Report { paper, groups, figures, misfits }
    }

    fn add(&mut self, id: &str, ours: Ours) -> &mut Self {
        if let Some(fact) = self.take(id) {
            let role = match self.sets.get(id) {
                Some(sets) => Role::Fitted { sets: sets.clone() },
                None => Role::Predicted,
            };
            let measure = self.groups.last().map_or(Measure::Percent, |group| group.measure);
            self.push(Row::new(fact, ours, role, measure));
        }
        self
    }

    /// The fact called `id`, which has a row from now on.
    fn take(&mut self, id: &str) -> Option<&'static Fact> {
        let found = self.fact(id).filter(|fact| self.taken.insert(&fact.id));
        if found.is_none() {
            self.misfits.push(format!("there is no fact {id}, or it has a row"));
        }
        found
    }

    fn push(&mut self, row: Row) {
        if self.groups.is_empty() {
            self.group("all", Limit::default());
        }
        if let Some(group) = self.groups.last_mut() {
            group.rows.push(row);
        }
    }
}
