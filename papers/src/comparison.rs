//! Building a report: our numbers are added by the id of a fact, and the file of facts gives
//! each its group, role and note.

use std::collections::BTreeMap;

use super::fact::{self, Fact, FactBars, FactGroup, Published};
use super::report::{Group, Ours, Report, Role, Row};
use super::{Inputs, Paper, ReproduceError, Result, bundled};
use coexec_plots::figure::{BarSeries, Bars, Drawing, Picture};

/// A report under construction.
#[derive(Clone, Debug)]
pub struct Comparison {
    paper: Paper,
    /// Values that each fact set, by the fact's id.
    sets: BTreeMap<String, Vec<String>>,
    /// Our number or finding for each fact, by the fact's id.
    found: BTreeMap<String, Ours>,
}

impl Comparison {
    /// A comparison without numbers of ours, with the facts that set values of the profiles.
    pub fn new(paper: Paper, inputs: &Inputs) -> Self {
        let mut sets: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for profile in &inputs.profiles {
            let used = profile.used_fact.iter().filter(|used| used.paper == paper.name());
            for (id, used) in used.flat_map(|used| used.facts.iter().map(move |id| (id, used))) {
                let keys = used.sets.iter().map(|key| format!("{}: {key}", profile.name));
                sets.entry(id.clone()).or_default().extend(keys);
            }
        }
        for fact in paper.facts().filter(|fact| !fact.sets.is_empty()) {
            sets.entry(fact.id.clone()).or_default().extend(fact.sets.iter().cloned());
        }
        Self { paper, sets, found: BTreeMap::new() }
    }

    /// The published number with this `id`.
    ///
    /// # Errors
    /// The paper has no such fact, or the fact is not a number.
    pub fn published(&self, id: &str) -> Result<f64> {
        match self.paper.facts().find(|fact| fact.id == id).map(|fact| &fact.value) {
            Some(Published::Number(number)) => Ok(*number),
            Some(Published::Words(_)) | None => Err(self.no_fact(id)),
        }
    }

    /// Adds our number for the fact with this `id`.
    pub fn row(&mut self, id: impl Into<String>, ours: f64) {
        self.found.insert(id.into(), Ours::Number(ours));
    }

    /// Adds a finding for the fact with this `id`, and whether it agrees with the published one.
    pub fn finding(&mut self, id: impl Into<String>, text: impl Into<String>, agrees: bool) {
        self.found.insert(id.into(), Ours::Finding { text: text.into(), agrees });
    }

    /// The report, with one row per fact.
    ///
    /// # Errors
    /// A number of ours has no fact, or a fact has neither a number of ours nor a reason for having
    /// none.
    pub fn finish(mut self) -> Result<Report> {
        let file = fact::of(self.paper);
        let figures = file.figure.iter().map(|bars| self.bars(bars)).collect::<Result<_, _>>()?;
        let groups = file.group.iter().map(|group| self.group(group)).collect::<Result<Vec<_>, _>>()?;
        match self.found.keys().next() {
            Some(id) => Err(self.no_fact(id)),
            None => Ok(Report { paper: self.paper, groups, figures }),
        }
    }

    fn group(&mut self, published: &'static FactGroup) -> Result<Group> {
        let rows = published.fact.iter().map(|fact| self.row_of(published, fact));
        Ok(Group { published, rows: rows.collect::<Result<_, _>>()? })
    }

    fn row_of(&mut self, group: &FactGroup, fact: &'static Fact) -> Result<Row> {
        let because = fact.because.clone().or_else(|| group.because.clone());
        let ours = self.found.remove(&fact.id);
        let repeated = fact.repeats.as_ref().map(|id| format!("the same number as for {id}"));
        // A fact that sets a value needs no number of ours; but without one, a reason for that takes
        // precedence.
        let sets = self.sets.get(&fact.id).filter(|_| ours.is_some() || because.is_none());
        let role = if let Some(sets) = sets {
            Role::Fitted { sets: sets.clone() }
        } else if ours.is_none() {
            let because = because.or_else(|| group.without_data.clone());
            let problem =
                || format!("{} of {} has no number and no reason for that", fact.id, self.paper.name());
            Role::NotReproduced { because: bundled(because, problem)? }
        } else {
            because.or(repeated).map_or(Role::Predicted, |because| Role::NotCounted { because })
        };
        Ok(Row::new(fact, ours, role, group.measure))
    }

    /// A figure of facts next to ours.
    fn bars(&self, bars: &FactBars) -> Result<Picture> {
        let mut series = Vec::new();
        for kind in &bars.series {
            let published =
                kind.facts.iter().map(|id| self.published(id).map(|value| Some(value + bars.added)));
            let ours = kind.facts.iter().map(|id| match self.found.get(id) {
                Some(Ours::Number(ours)) => Some(ours + bars.added),
                Some(Ours::Finding { .. }) | None => None,
            });
            let both = [("published", published.collect::<Result<Vec<_>, _>>()?), ("coexec", ours.collect())];
            series.extend(both.map(|(whose, values)| BarSeries {
                name: if kind.name.is_empty() { whose.to_owned() } else { format!("{}, {whose}", kind.name) },
                is_published: whose == "published",
                values,
            }));
        }
        let FactBars { name, title, subtitle, y, categories, .. } = bars.clone();
        let drawing = Drawing::GroupedBars(Bars { y, categories, series });
        Ok(Picture { name, title, subtitle, drawing })
    }

    fn no_fact(&self, id: &str) -> ReproduceError {
        ReproduceError::Bundled(format!("{} has no published number called {id}", self.paper.name()))
    }
}
