//! Who computes how much of each operator: a row a model, a bar an operator, chains
//! outlined.

use coexec_sim::plan::OperatorShares;
use coexec_sim::published::{Picture, ShareMap};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::check;
use crate::PlotError;
use crate::area::Area;
use crate::font;
use crate::legend::{Legend, Row, Sample};
use crate::page::Page;
use crate::palette::{BLUE, GREEN, INK, PURPLE, tint};
use crate::panel::{Panel, TEXT_SIZE};
use crate::scale::Axis;
use crate::sheet::{Drawn, Figure, sheet, steps, text};

// Lengths are in figure pixels.

const ROW_HEIGHT: f64 = 46.0;
/// Part of a row, and of an operator's width, that bars fill.
const FILLED: (f64, f64) = (0.7, 0.8);
/// How much of the height outlines of chains reach beyond bars, on either side.
const OUTLINE_REACH: f64 = 0.09;
const OUTLINE_WIDTH: f64 = 1.5;
const PLOT_WIDTH: f64 = 700.0;
const NAME_GAP: f64 = 10.0;
const WIDEST_NAME: f64 = 220.0;
const MOST_TICKS: usize = 12;
/// Most rows of one figure.
const MOST_ROWS: usize = 40;
/// White in the colour of parts of an operator that is cut along its channels.
const CHANNELS_TINT: f64 = 0.5;

pub(super) struct Layout<'a> {
    page: Page,
    panel: Panel,
    map: &'a ShareMap,
}

/// Whether CPU and GPU both compute a part.
fn is_cut(shares: &OperatorShares) -> bool {
    shares.cpu > 0.0 && shares.gpu > 0.0
}

/// The parts of one operator from the bottom up: how much, in which colour.
fn parts(shares: &OperatorShares) -> [(f64, RGBColor); 3] {
    let white = if is_cut(shares) && !shares.is_along_height { CHANNELS_TINT } else { 0.0 };
    [(shares.gpu, tint(GREEN, white)), (shares.cpu, tint(BLUE, white)), (shares.npu, PURPLE)]
}

/// The colours that are there, and chains where there are some.
fn keys(map: &ShareMap) -> Vec<Row> {
    let any =
        |wanted: fn(&OperatorShares) -> bool| map.rows.iter().flat_map(|row| &row.operators).any(wanted);
    let by_channels = any(|shares| is_cut(shares) && !shares.is_along_height);
    let by_height = any(|shares| is_cut(shares) && shares.is_along_height);
    let keys = [
        (any(|shares| shares.gpu > 0.0), Sample::Band(GREEN), "GPU"),
        (any(|shares| shares.cpu > 0.0), Sample::Band(BLUE), "CPU"),
        (any(|shares| shares.npu > 0.0), Sample::Band(PURPLE), "NPU"),
        (by_height, Sample::Band(GREEN), "whole, or cut along height"),
        (by_channels, Sample::Band(tint(GREEN, CHANNELS_TINT)), "cut along channels"),
        (any(|shares| shares.chain.is_some()), Sample::Line(INK, OUTLINE_WIDTH), "chain"),
    ];
    keys.into_iter().filter(|key| key.0).map(|(_, sample, name)| Row::key(sample, name)).collect()
}

pub(super) fn lay_out<'a>(picture: &Picture, map: &'a ShareMap) -> Result<Layout<'a>, PlotError> {
    for row in &map.rows {
        for shares in &row.operators {
            parts(shares).iter().try_for_each(|(part, _)| check(&row.name, *part))?;
        }
    }
    let most = map.rows.iter().map(|row| row.operators.len()).max().unwrap_or(0);
    if most == 0 {
        return Err(PlotError::NoPoints { title: picture.title.clone() });
    }
    if map.rows.len() > MOST_ROWS {
        return Err(PlotError::TooMany { what: "rows", count: map.rows.len(), limit: MOST_ROWS });
    }
    let names = map.rows.iter().map(|row| font::width(&font::drawable(&row.name), TEXT_SIZE));
    let legend = Legend { keys: keys(map), ..Legend::default() };
    let page = Page {
        title: picture.title.clone(),
        subtitle: picture.subtitle.clone(),
        legend,
        left_room: names.fold(0.0, f64::max).min(WIDEST_NAME) + NAME_GAP,
        plot_size: (PLOT_WIDTH, ROW_HEIGHT * map.rows.len() as f64),
    };
    let x = Axis::linear("operator", (0.0, most as f64), MOST_TICKS, "");
    let mut y = Axis::linear("", (0.0, map.rows.len() as f64), 1, "");
    y.ticks.clear();
    Ok(Layout { panel: Panel { area: page.plot(), x, y }, page, map })
}

impl Layout<'_> {
    /// The box of some operators of a row, `low` and `high` being parts of its bars.
    fn area(&self, row: usize, operators: [f64; 2], [low, high]: [f64; 2]) -> Area {
        // The first row is the uppermost.
        let bottom = (self.map.rows.len() - 1 - row) as f64 + (1.0 - FILLED.0) / 2.0;
        let (left, lower) = self.panel.place(operators[0], bottom + low * FILLED.0);
        let (right, upper) = self.panel.place(operators[1], bottom + high * FILLED.0);
        Area { left, top: upper, right, bottom: lower }
    }

    /// The outlines of a row's chains.
    fn outlines(&self, row: usize) -> Vec<Area> {
        let operators = &self.map.rows[row].operators;
        let mut outlines = Vec::new();
        let mut first = 0;
        for end in 1..=operators.len() {
            let chain = operators[first].chain;
            if operators.get(end).is_none_or(|next| next.chain != chain) {
                if chain.is_some() {
                    let ends = [first as f64 + 0.03, end as f64 - 0.03];
                    outlines.push(self.area(row, ends, [-OUTLINE_REACH, 1.0 + OUTLINE_REACH]));
                }
                first = end;
            }
        }
        outlines
    }
}

impl Figure for Layout<'_> {
    fn size(&self) -> (u32, u32) {
        self.page.size()
    }

    fn draw<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let sheet = sheet(root);
        self.page.draw(&sheet)?;
        let margin = (1.0 - FILLED.1) / 2.0;
        for (row, shown) in self.map.rows.iter().enumerate() {
            for (index, shares) in shown.operators.iter().enumerate() {
                let ends = [index as f64 + margin, (index + 1) as f64 - margin];
                let mut low = 0.0;
                for (part, colour) in parts(shares).into_iter().filter(|(part, _)| *part > 0.0) {
                    let area = self.area(row, ends, [low, low + part]);
                    sheet.draw(&Rectangle::new(area.corners(), colour.filled()))?;
                    low += part;
                }
            }
            for area in self.outlines(row) {
                sheet.draw(&Rectangle::new(area.corners(), INK.stroke_width(steps(OUTLINE_WIDTH))))?;
            }
            let middle = self.area(row, [0.0, 1.0], [0.0, 1.0]).middle().1;
            let name = font::fit(&shown.name, TEXT_SIZE, WIDEST_NAME).unwrap_or_default();
            let place = (self.panel.area.left - NAME_GAP, middle);
            sheet.draw(&text(&name, place, TEXT_SIZE, INK, HPos::Right))?;
        }
        self.panel.draw_axes(&sheet)
    }
}

#[cfg(test)]
mod tests {
    use coexec_sim::published::{Drawing, ShareRow};

    use super::*;
    use crate::Format;
    use crate::picture::picture;
    use crate::test_figures::elements;

    fn shared(cpu: f64, chain: Option<u32>) -> OperatorShares {
        OperatorShares { cpu, gpu: 1.0 - cpu, npu: 0.0, is_along_height: true, chain }
    }

    fn drawn(operators: Vec<OperatorShares>) -> Result<Vec<u8>, PlotError> {
        let map = ShareMap { rows: vec![ShareRow { name: "net".to_owned(), operators }] };
        let shown = Picture {
            name: "map".to_owned(),
            title: "map".to_owned(),
            subtitle: String::new(),
            drawing: Drawing::Shares(map),
        };
        picture(&shown, Format::Svg)
    }

    #[test]
    fn parts_are_as_tall_as_the_processors_shares() {
        let svg = drawn(vec![shared(0.25, None), shared(0.0, None)]).unwrap();
        let bars = |colour| {
            let bars = elements(&svg).into_iter();
            let bars = bars.filter(|one| one.is("rect") && one.has_colour("fill", colour));
            bars.map(|bar| bar.length("height")).collect::<Vec<f64>>()
        };
        // The legend has a band of each, too.
        let (gpu, cpu) = (bars(GREEN), bars(BLUE));
        let tall = ROW_HEIGHT * FILLED.0;
        let has = |bars: &[f64], height: f64| bars.iter().any(|bar| (bar - height).abs() < 1.0);
        assert!(has(&gpu, 0.75 * tall) && has(&gpu, tall) && has(&cpu, 0.25 * tall), "{gpu:?} {cpu:?}");
    }

    #[test]
    fn each_chain_has_one_outline() {
        let chained = [None, Some(0), Some(0), Some(3), Some(3), None].map(|chain| shared(0.5, chain));
        let map = ShareMap { rows: vec![ShareRow { name: String::new(), operators: chained.to_vec() }] };
        let shown = Picture {
            name: String::new(),
            title: String::new(),
            subtitle: String::new(),
            drawing: Drawing::Shares(map.clone()),
        };
        let outlines = lay_out(&shown, &map).unwrap().outlines(0);
        assert_eq!(outlines.len(), 2);
        assert!(outlines[0].right < outlines[1].left);
    }

    #[test]
    fn the_legend_names_what_is_there_and_nothing_else() {
        let row = |operators| ShareMap { rows: vec![ShareRow { name: String::new(), operators }] };
        assert_eq!(keys(&row(vec![shared(0.0, None)])).len(), 1, "the GPU");
        assert_eq!(keys(&row(vec![shared(0.5, Some(1))])).len(), 4, "both, the cut and the chain");
    }

    #[test]
    fn nothing_to_show_is_refused() {
        assert!(matches!(drawn(Vec::new()), Err(PlotError::NoPoints { .. })));
        assert!(matches!(drawn(vec![shared(f64::NAN, None)]), Err(PlotError::BadPoint { .. })));
    }
}
