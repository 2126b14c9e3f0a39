//! Who computes how much of each operator: a lane a model or plan, a bar an operator,
//! chains outlined.

use crate::PlotError;
use crate::axis::{Axis, Unit};
use crate::font;
use crate::frame::{Figure, TEXT_SIZE};
use crate::lanes::{self, Fill, Lane, Slab};
use crate::legend::{Legend, Row};
use crate::mark::Mark;
use crate::palette::{BLUE, Colour, GREEN, INK, PURPLE, tint};

// Lengths are in figure pixels.

const HEIGHT: f64 = 36.0;
/// How far outlines of chains reach beyond bars, up and down.
const REACH: f64 = 3.0;
/// Empty part of an operator's width, at either side of its bar and of a chain's outline.
const BAR_MARGIN: f64 = 0.1;
const CHAIN_MARGIN: f64 = 0.03;
const WIDTH: f64 = 700.0;
const WIDEST_NAME: f64 = 220.0;
/// White in the colour of parts of an operator that is cut along its channels.
const CHANNELS_TINT: f64 = 0.5;

/// Who computes how much of one operator, as parts of 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    /// The part of the CPU.
    pub cpu: f64,
    /// The part of the GPU.
    pub gpu: f64,
    /// The part of the NPU.
    pub npu: f64,
    /// Whether processors cut it along its channels rather than its height.
    pub is_along_channels: bool,
    /// The chain it is in, if any.
    pub chain: Option<u32>,
}

/// The operators of one model under one plan.
#[derive(Clone, Debug, PartialEq)]
pub struct ShareRow {
    /// What stands beside them.
    pub name: String,
    /// In their order.
    pub operators: Vec<Shares>,
}

impl Shares {
    /// The parts from the bottom up.
    fn parts(&self) -> [(f64, Colour, &'static str); 3] {
        [(self.gpu, GREEN, "GPU"), (self.cpu, BLUE, "CPU"), (self.npu, PURPLE, "NPU")]
    }

    fn is_cut_along_channels(&self) -> bool {
        self.is_along_channels && self.parts().iter().filter(|part| part.0 > 0.0).count() > 1
    }
}

/// Who computes how much.
///
/// # Errors
///
/// [`PlotError::BadPoint`] for a part that is none of 1.
pub fn shares(rows: &[ShareRow]) -> Result<Figure, PlotError> {
    for row in rows {
        let parts = row.operators.iter().flat_map(Shares::parts);
        if let Some((part, _, processor)) = parts.into_iter().find(|part| !(0.0..=1.0).contains(&part.0)) {
            let found = format!("the share of the {processor} is {part}");
            let expected = "a number from 0 to 1".to_owned();
            return Err(PlotError::BadPoint { what: row.name.clone(), found, expected });
        }
    }
    let most = rows.iter().map(|row| row.operators.len()).max().unwrap_or(0);
    let x = Axis::linear("operator", (0.0, most as f64), Unit::Number);
    let lanes: Vec<Lane> = rows.iter().map(lane).collect();
    Ok(lanes::figure(&lanes, WIDTH, x, legend(rows)))
}

/// The colours that are there, and chains where there are some.
fn legend(rows: &[ShareRow]) -> Legend {
    let operators = || rows.iter().flat_map(|row| &row.operators);
    let processors = Shares::default().parts().into_iter().enumerate();
    let shown = processors.filter(|&(index, _)| operators().any(|shares| shares.parts()[index].0 > 0.0));
    let mut legend = Legend::bands(shown.map(|(_, (_, colour, name))| (colour, name)));
    if operators().any(Shares::is_cut_along_channels) {
        let colour = tint(GREEN, CHANNELS_TINT);
        legend.rows.push(Row::of(Mark::Area { opacity: 1.0 }, colour, &["paler: cut along channels"]));
    }
    if operators().any(|shares| shares.chain.is_some()) {
        legend.rows.push(Row::of(Mark::Line { width: 1.5 }, INK, &["chain"]));
    }
    legend
}

fn lane(row: &ShareRow) -> Lane {
    let mut slabs = Vec::new();
    let bars = HEIGHT - 2.0 * REACH;
    for (index, shares) in row.operators.iter().enumerate() {
        let span = (index as f64 + BAR_MARGIN, (index + 1) as f64 - BAR_MARGIN);
        let white = if shares.is_cut_along_channels() { CHANNELS_TINT } else { 0.0 };
        let mut bottom = HEIGHT - REACH;
        for (part, colour, _) in shares.parts().into_iter().filter(|part| part.0 > 0.0) {
            let top = bottom - part * bars;
            slabs.push(Slab {
                span,
                edges: (top, bottom),
                fill: Fill::Joined(tint(colour, white)),
                label: None,
            });
            bottom = top;
        }
    }
    let mut first = 0;
    for chain in row.operators.chunk_by(|one, next| one.chain == next.chain) {
        let end = first + chain.len();
        if chain[0].chain.is_some() {
            let span = (first as f64 + CHAIN_MARGIN, end as f64 - CHAIN_MARGIN);
            slabs.push(Slab { span, edges: (0.0, HEIGHT), fill: Fill::Outline, label: None });
        }
        first = end;
    }
    let name = font::fit(&row.name, TEXT_SIZE, WIDEST_NAME).unwrap_or_default();
    Lane { height: HEIGHT, names: vec![(HEIGHT / 2.0, name)], slabs }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use crate::test_figures::words;

    fn shared(cpu: f64, chain: Option<u32>) -> Shares {
        Shares { cpu, gpu: 1.0 - cpu, npu: 0.0, is_along_channels: false, chain }
    }

    fn row(operators: Vec<Shares>) -> ShareRow {
        ShareRow { name: "net".to_owned(), operators }
    }

    #[test]
    fn parts_are_as_tall_as_the_processors_shares_and_stand_on_each_other() {
        let lane = lane(&row(vec![shared(0.25, None), shared(0.0, None)]));
        let tall = HEIGHT - 2.0 * REACH;
        let heights: Vec<f64> = lane.slabs.iter().map(|slab| (slab.edges.1 - slab.edges.0) / tall).collect();
        assert_eq!(heights, [0.75, 0.25, 1.0]);
        assert_eq!(lane.slabs[0].edges.0.to_bits(), lane.slabs[1].edges.1.to_bits());
    }

    #[test]
    fn each_chain_has_one_outline() {
        let chained = [None, Some(0), Some(0), Some(3), Some(3), None].map(|chain| shared(0.5, chain));
        let slabs = lane(&row(chained.to_vec())).slabs;
        let outlines: Vec<(f64, f64)> =
            slabs.iter().filter(|slab| slab.fill == Fill::Outline).map(|slab| slab.span).collect();
        assert_eq!(outlines.len(), 2);
        assert!(outlines[0].1 < outlines[1].0);
    }

    #[test]
    fn the_legend_names_what_is_there_and_nothing_else() {
        assert_eq!(legend(&[row(vec![shared(0.0, None)])]).rows.len(), 1, "the GPU");
        assert_eq!(legend(&[row(vec![shared(0.5, Some(1))])]).rows.len(), 3, "both and the chain");
        let channels = Shares { is_along_channels: true, ..shared(0.5, None) };
        let svg = shares(&[row(vec![channels])]).unwrap().draw(Format::Svg).unwrap();
        assert!(words(&svg).contains(&"paler: cut along channels".to_owned()));
    }

    #[test]
    fn nothing_to_show_and_a_share_that_is_none_are_refused() {
        let drawn = |operators| shares(&[row(operators)])?.draw(Format::Svg);
        assert!(matches!(drawn(Vec::new()), Err(PlotError::NoPoints { .. })));
        assert!(matches!(drawn(vec![shared(f64::NAN, None)]), Err(PlotError::BadPoint { .. })));
    }
}
