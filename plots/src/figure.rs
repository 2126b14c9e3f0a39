//! Bar charts and heat maps as plain data: figures of papers, and comparisons of commands.

use serde::Serialize;

/// A figure with its titles.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Picture {
    /// Name of the figure's file, without extension.
    pub name: String,
    /// Title.
    pub title: String,
    /// A line below the title.
    pub subtitle: String,
    /// Content.
    pub drawing: Drawing,
}

/// Content of a figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Drawing {
    /// Bars side by side.
    GroupedBars(Bars),
    /// Shaded cells.
    HeatMap(HeatMap),
}

/// Values over two kinds of category, drawn as shades.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeatMap {
    /// Title of the horizontal axis.
    pub x: String,
    /// Title of the vertical axis.
    pub y: String,
    /// Quantity that the shades show, with its unit.
    pub value: String,
    /// Labels of the columns.
    pub columns: Vec<String>,
    /// Labels of the rows, from top to bottom.
    pub rows: Vec<String>,
    /// For each row, one value per column; none leaves the cell empty.
    pub values: Vec<Vec<Option<f64>>>,
}

/// Bars over categories.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bars {
    /// Quantity that the bars show, with its unit.
    pub y: String,
    /// Labels of the categories.
    pub categories: Vec<String>,
    /// Series of bars, each with one bar per category.
    pub series: Vec<BarSeries>,
}

/// Bars of one series.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BarSeries {
    /// Name in the legend.
    pub name: String,
    /// Whether the values are a paper's, which are drawn paler.
    pub is_published: bool,
    /// Value of each category, at least 0; none for no bar.
    pub values: Vec<Option<f64>>,
}
