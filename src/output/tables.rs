//! Text tables, fitted to the width of the terminal.

use std::fmt::Display;

use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle};
use terminal_size::{Width, terminal_size_of};

use super::line;

/// Style without lines, except one below the header.
const PLAIN: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('-').junction('-'));

/// The cells of a table row, from values that implement `Display`.
macro_rules! row {
    ($($cell:expr),* $(,)?) => { vec![$($cell.to_string()),*] };
}
pub(crate) use row;

/// A percentage with one decimal.
pub(crate) fn percent(value: f64) -> String {
    format!("{value:.1} %")
}

/// The value, or a dash if there is none.
pub(crate) fn or_dash(value: Option<impl Display>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}

/// A column of a table: its header, and the function from a row to its cell.
pub(crate) type Column<R> = (&'static str, fn(&R) -> String);

/// The columns' headers, and the cells of every row.
pub(crate) fn cells<'a, R: 'a>(
    columns: &[Column<R>],
    rows: impl IntoIterator<Item = &'a R>,
) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let of = |row: &R| columns.iter().map(|(_, cell)| cell(row)).collect();
    (columns.iter().map(|(head, _)| *head).collect(), rows.into_iter().map(of).collect())
}

/// Prints a table no wider than the terminal, with numbers right-aligned and long text wrapped.
pub(crate) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    in_parts(header, 1, &Vec::from_iter(rows), longest_word);
}

/// Prints a table whose first `keys` columns identify the row. A table wider than the terminal is split
/// into several below each other, each starting with the key columns.
pub(crate) fn keyed_table(header: &[&str], keys: usize, rows: impl IntoIterator<Item = Vec<String>>) {
    in_parts(header, keys, &Vec::from_iter(rows), |cell| cell.chars().count());
}

/// Prints a table in parts that fit the terminal, each starting with the first `keys` columns. `width`
/// returns the width that a cell needs.
fn in_parts(header: &[&str], keys: usize, rows: &[Vec<String>], width: fn(&str) -> usize) {
    let widths = widths(header, rows, width);
    // The last column needs no trailing blank.
    let free = (usize::from(columns()) + 1).saturating_sub(widths[..keys].iter().sum());
    let mut first = keys;
    loop {
        let mut left = free;
        let fits = |width: &&usize| {
            let fits = **width <= left;
            left = left.saturating_sub(**width);
            fits
        };
        let end = (first + widths[first..].iter().take_while(fits).count().max(1)).min(header.len());
        let says_something = |row: &&Vec<String>| row[first..end].iter().any(|cell| !cell.is_empty());
        let rows = rows.iter().filter(says_something).map(|row| [&row[..keys], &row[first..end]].concat());
        let names = [&header[..keys], &header[first..end]].concat();
        line(&text_table(&names, &rows.collect::<Vec<_>>()));
        first = end;
        if first >= header.len() {
            return;
        }
        line("");
    }
}

/// Width of a table that is not printed to a terminal.
const COLUMNS: u16 = 100;

/// Characters per column in addition to the cell's text: a blank on each side, and one between columns.
const PADDING: usize = 3;

/// Width that tables are fitted to, in characters.
fn columns() -> u16 {
    terminal_size_of(std::io::stdout()).map_or(COLUMNS, |(Width(columns), _)| columns)
}

/// Padded width of each column, with cells as wide as `width` returns.
fn widths(header: &[&str], rows: &[Vec<String>], width: impl Fn(&str) -> usize) -> Vec<usize> {
    let of = |(column, &name): (usize, &&str)| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(String::as_str);
        PADDING + cells.chain([name]).map(&width).max().unwrap_or(0)
    };
    header.iter().enumerate().map(of).collect()
}

/// Column widths at which a table fits, including the blanks on both sides. The widest columns are
/// narrowed, but not below their longest word or number.
fn fitting_widths(header: &[&str], rows: &[Vec<String>]) -> Vec<u16> {
    let least = widths(header, rows, longest_word);
    let mut widths = widths(header, rows, |cell| cell.chars().count());
    let most = usize::from(columns()) + 1;
    while widths.iter().sum::<usize>() > most {
        let gives = |(column, width): &(usize, &mut usize)| **width > least[*column];
        let widest = widths.iter_mut().enumerate().filter(gives).max_by_key(|(_, width)| **width);
        let Some((_, width)) = widest else { break };
        *width -= 1;
    }
    widths.into_iter().map(|width| u16::try_from(width - 1).unwrap_or(u16::MAX)).collect()
}

/// Longest unit, in letters, that is never wrapped to the line after its number.
const MAX_UNIT_LETTERS: usize = 4;

/// Length of a cell's longest word, or of its number with its unit.
fn longest_word(cell: &str) -> usize {
    let is_short = |cell: &str| cell.split(' ').nth(1).is_none_or(|unit| unit.len() <= MAX_UNIT_LETTERS);
    let is_whole = is_quantity(cell) && is_short(cell);
    let words = if is_whole { vec![cell] } else { cell.split(' ').collect() };
    words.into_iter().map(|word| word.chars().count()).max().unwrap_or(0)
}

/// A table as text.
pub(crate) fn text_table(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(PLAIN);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(columns());
    table.set_header(header);
    for row in rows {
        table.add_row(row.iter().map(|text| {
            let alignment = if is_quantity(text) { CellAlignment::Right } else { CellAlignment::Left };
            Cell::new(text).set_alignment(alignment)
        }));
    }
    for (column, width) in table.column_iter_mut().zip(fitting_widths(header, rows)) {
        column.set_constraint(ColumnConstraint::Absolute(comfy_table::Width::Fixed(width)));
    }
    // Trailing blanks are trimmed, so that output can be compared.
    table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Whether a cell holds a number, with or without a unit.
fn is_quantity(text: &str) -> bool {
    let mut words = text.split(' ');
    let number = words.next().unwrap_or_default().trim_end_matches(['x', '%']);
    number.parse::<f64>().is_ok() && words.count() <= 1
}
