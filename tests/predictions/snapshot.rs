//! A table of predictions, and its differences from the committed one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Most moved predictions that are printed one by one; the others are counted.
const MAX_PRINTED: usize = 60;

/// A row's key, then a strategy.
type Cell = (Vec<String>, String);

/// Predictions by model, device and other keys, with one column per strategy.
pub(super) struct Snapshot {
    /// Quantity and unit, which are also the name of the file.
    name: &'static str,
    keys: Vec<&'static str>,
    cells: BTreeMap<Cell, u64>,
}

impl Snapshot {
    /// An empty table whose rows are identified by `keys`.
    pub(super) fn new<const N: usize>(name: &'static str, keys: [&'static str; N]) -> Self {
        Self { name, keys: keys.to_vec(), cells: BTreeMap::new() }
    }

    /// Enters the value of a strategy.
    pub(super) fn set<const N: usize>(&mut self, key: [&str; N], strategy: &str, value: u64) {
        assert_eq!(N, self.keys.len());
        self.cells.insert((key.map(str::to_owned).to_vec(), strategy.to_owned()), value);
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/predictions/{}.csv", self.name))
    }

    /// The committed table; empty if there is none yet.
    fn committed(&self) -> BTreeMap<Cell, u64> {
        let text = std::fs::read_to_string(self.path()).unwrap_or_default();
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let Some(header) = lines.next() else { return BTreeMap::new() };
        let keys = self.keys.len();
        let cells_of = |line: Vec<&str>| -> Vec<(Cell, u64)> {
            let key: Vec<String> = line[..keys].iter().map(|&word| word.to_owned()).collect();
            let values = header[keys..].iter().zip(&line[keys..]).filter(|(_, value)| !value.is_empty());
            values.map(|(name, value)| ((key.clone(), (*name).to_owned()), value.parse().unwrap())).collect()
        };
        lines.flat_map(cells_of).collect()
    }

    fn write(&self) {
        let strategies: BTreeSet<&str> = self.cells.keys().map(|(_, strategy)| &**strategy).collect();
        let rows: BTreeSet<&Vec<String>> = self.cells.keys().map(|(key, _)| key).collect();
        let header: Vec<&str> = self.keys.iter().copied().chain(strategies.iter().copied()).collect();
        let mut text = header.join(",") + "\n";
        for row in rows {
            let mut words = row.clone();
            for &strategy in &strategies {
                let value = self.cells.get(&(row.clone(), strategy.to_owned()));
                words.push(value.map(u64::to_string).unwrap_or_default());
            }
            text += &(words.join(",") + "\n");
        }
        std::fs::write(self.path(), text).unwrap();
    }

    /// Differences from the committed table, largest change first.
    fn moved(&self) -> Vec<String> {
        let committed = self.committed();
        let cells: BTreeSet<&Cell> = committed.keys().chain(self.cells.keys()).collect();
        let mut moved: Vec<(f64, String)> = Vec::new();
        for cell in cells {
            let what = format!("{} {} {}", self.name, cell.0.join(" "), cell.1);
            moved.push(match (committed.get(cell), self.cells.get(cell)) {
                (Some(old), Some(new)) if old == new => continue,
                (Some(&old), Some(&new)) => {
                    let percent = 100.0 * (new as f64 / old as f64 - 1.0);
                    (percent.abs(), format!("{what}: {old} -> {new} ({percent:+.3} %)"))
                }
                (Some(old), None) => (f64::INFINITY, format!("{what}: {old} -> no plan")),
                (None, new) => (f64::INFINITY, format!("{what}: new, {}", new.copied().unwrap_or_default())),
            });
        }
        moved.sort_by(|one, other| other.0.total_cmp(&one.0));
        moved.into_iter().map(|(_, text)| text).collect()
    }
}

/// Prints the moved predictions, and fails unless the tables are to be updated.
pub(super) fn hold(snapshots: &[Snapshot]) {
    let mut all_moved = Vec::new();
    for snapshot in snapshots {
        let moved = snapshot.moved();
        println!("{}: {} predictions, {} moved", snapshot.name, snapshot.cells.len(), moved.len());
        for line in moved.iter().take(MAX_PRINTED) {
            println!("  {line}");
        }
        if moved.len() > MAX_PRINTED {
            println!("  and {} more", moved.len() - MAX_PRINTED);
        }
        if std::env::var_os("UPDATE_PREDICTIONS").is_some() {
            snapshot.write();
        } else {
            all_moved.extend(moved);
        }
    }
    assert!(
        all_moved.is_empty(),
        "{} predictions moved; where that is meant, update tests/predictions with UPDATE_PREDICTIONS=1",
        all_moved.len()
    );
}
