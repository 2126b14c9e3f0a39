//! Pictures as plain data: what papers show, and what commands compare.

use serde::Serialize;

/// A figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Picture {
    /// Name of its file, without extension.
    pub name: String,
    /// Title.
    pub title: String,
    /// A line below the title.
    pub subtitle: String,
    /// What is drawn.
    pub drawing: Drawing,
}

/// What a figure shows.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Drawing {
    /// Bars side by side.
    GroupedBars(Bars),
    /// Shaded cells.
    HeatMap(HeatMap),
}

/// Values over two kinds of category, as shades.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeatMap {
    /// What the columns are.
    pub x: String,
    /// What the rows are.
    pub y: String,
    /// What the shades are, with the unit.
    pub value: String,
    /// What stands below the columns.
    pub columns: Vec<String>,
    /// What stands beside the rows, the uppermost first.
    pub rows: Vec<String>,
    /// One a column, of each row; none where there is no cell.
    pub values: Vec<Vec<Option<f64>>>,
}

/// Bars over categories.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bars {
    /// What the heights are, with the unit.
    pub y: String,
    /// What stands below the bars.
    pub categories: Vec<String>,
    /// One bar a category.
    pub series: Vec<BarSeries>,
}

/// Bars of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BarSeries {
    /// What they are.
    pub name: String,
    /// Whether they are a paper's, which are drawn paler.
    pub is_published: bool,
    /// Heights, from 0 on, one a category; none where there is no bar.
    pub values: Vec<Option<f64>>,
}
