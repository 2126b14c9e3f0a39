//! What the choice of a cut was worth, among all that were measured.
//!
//! All times are by the host's clock, from its call until it knows of the end: an event's
//! time of a GPU alone leaves out what every cut pays. A variant that events timed is left
//! to its twin that the host did.

use serde::Serialize;

use super::results::{Kind, Row};

/// A variant by its processor and median.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Timed {
    pub(super) processor: String,
    pub(super) wall_us: f64,
}

/// One operator: what was chosen for it and what would have been best.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Choice {
    pub(super) what: String,
    /// Each processor alone, the fastest first.
    pub(super) alone: Vec<Timed>,
    /// The fastest cut that was measured.
    pub(super) best_split: Option<Timed>,
    /// The plan's.
    pub(super) chosen: Timed,
    /// Of the fastest of all over the chosen, in percent: how much of the best speedup the
    /// choice reaches.
    pub(super) reached_percent: f64,
    /// Of the chosen over the faster processor alone.
    pub(super) speedup: f64,
}

/// All operators.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Choices {
    pub(super) operators: Vec<Choice>,
    /// Geometric means over the operators.
    pub(super) reached_percent: f64,
    pub(super) speedup: f64,
    /// Of the best measured over the faster processor alone.
    pub(super) best_speedup: f64,
}

impl Choice {
    /// Of the variants of one operator; none where the plan or every processor alone is
    /// missing or says nothing.
    pub(super) fn of(rows: &[Row]) -> Option<Self> {
        let sound = || rows.iter().filter(|row| row.is_by_host && row.meaningless.is_none());
        let timed = |row: &Row| Timed { processor: row.processor.clone(), wall_us: row.wall_us };
        let chosen = timed(sound().find(|row| row.is_plan)?);
        let mut alone: Vec<Timed> = sound().filter(|row| row.kind == Kind::Alone).map(timed).collect();
        alone.sort_by(|one, other| one.wall_us.total_cmp(&other.wall_us));
        let best_split = sound()
            .filter(|row| row.kind == Kind::Cut)
            .map(timed)
            .min_by(|one, other| one.wall_us.total_cmp(&other.wall_us));
        let faster = alone.first()?.wall_us;
        let best = best_split.as_ref().map_or(faster, |split| split.wall_us.min(faster));
        Some(Self {
            what: rows.first()?.what.clone(),
            reached_percent: 100.0 * best / chosen.wall_us,
            speedup: faster / chosen.wall_us,
            alone,
            best_split,
            chosen,
        })
    }
}

impl Choices {
    /// Of `operators`; none of none.
    pub(super) fn of(operators: Vec<Choice>) -> Option<Self> {
        if operators.is_empty() {
            return None;
        }
        let mean = |of: fn(&Choice) -> f64| {
            let logs: f64 = operators.iter().map(|choice| of(choice).ln()).sum();
            (logs / operators.len() as f64).exp()
        };
        let reached_percent = mean(|choice| choice.reached_percent);
        let speedup = mean(|choice| choice.speedup);
        let best_speedup = mean(|choice| 100.0 * choice.speedup / choice.reached_percent);
        Some(Self { operators, reached_percent, speedup, best_speedup })
    }

    /// The sum of it, in words.
    pub(super) fn words(&self) -> String {
        format!(
            "of {} operators, chosen splits reach {:.1} % of the best measured speedup; co-execution speedup \
             {:.2} over the faster processor, {:.2} at best",
            self.operators.len(),
            self.reached_percent,
            self.speedup,
            self.best_speedup
        )
    }

    /// Head and rows of a table.
    pub(super) fn table(&self) -> ([&'static str; 6], Vec<Vec<String>>) {
        let words = |timed: &Timed| format!("{} {:.1} us", timed.processor, timed.wall_us);
        let row = |choice: &Choice| {
            vec![
                choice.what.clone(),
                choice.alone.iter().map(words).collect::<Vec<_>>().join(", "),
                choice.best_split.as_ref().map_or("-".to_owned(), words),
                words(&choice.chosen),
                format!("{:.1} %", choice.reached_percent),
                format!("{:.2}", choice.speedup),
            ]
        };
        let head = ["what", "alone, by the host's clock", "best split", "chosen", "reached", "speedup"];
        (head, self.operators.iter().map(row).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(processor: &str, kind: Kind, wall_us: f64, is_plan: bool) -> Row {
        Row {
            run: String::new(),
            what: "fc".to_owned(),
            processor: processor.to_owned(),
            kind,
            is_by_host: true,
            is_plan,
            synchronisation: None,
            memory: None,
            median_us: wall_us,
            wall_us,
            kernels_us: None,
            ci95_us: [wall_us; 2],
            spread_percent: 0.0,
            repetitions: 5,
            outliers: 0,
            warm_up_runs: 0,
            is_warm: true,
            verified_elements: 1,
            predicted_us: None,
            error_percent: None,
            meaningless: None,
        }
    }

    #[test]
    fn a_choice_is_held_against_the_best_cut_and_the_faster_processor() {
        let rows = [
            row("1large:8+gpu:40", Kind::Cut, 80.0, true),
            row("gpu", Kind::Alone, 120.0, false),
            row("1large:16+gpu:32", Kind::Cut, 60.0, false),
            row("1large", Kind::Alone, 100.0, false),
        ];
        let choice = Choice::of(&rows).unwrap();
        assert_eq!(choice.alone[0].processor, "1large");
        assert_eq!(choice.best_split.as_ref().unwrap().processor, "1large:16+gpu:32");
        assert!((choice.reached_percent - 75.0).abs() < 1e-9 && (choice.speedup - 1.25).abs() < 1e-9);
        let choices = Choices::of(vec![choice.clone(), choice]).unwrap();
        assert!((choices.best_speedup - 100.0 / 60.0).abs() < 1e-9);
        assert!(choices.words().contains("reach 75.0 % of the best measured speedup"));
    }

    #[test]
    fn a_processor_alone_may_be_best_and_be_chosen() {
        let rows = [row("gpu", Kind::Alone, 50.0, true), row("1large:8+gpu:40", Kind::Cut, 70.0, false)];
        let choice = Choice::of(&rows).unwrap();
        assert!((choice.reached_percent - 100.0).abs() < 1e-9 && (choice.speedup - 1.0).abs() < 1e-9);
        assert!(Choice::of(&rows[1..]).is_none(), "nothing was chosen");
        let by_event = Row { is_by_host: false, ..row("gpu", Kind::Alone, 5.0, false) };
        let with_event = [rows[0].clone(), rows[1].clone(), by_event];
        assert_eq!(Choice::of(&with_event), Some(choice), "an event's time leaves copies out");
    }
}
