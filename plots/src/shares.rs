//! Each processor's share of each operator: one lane per plan, one bar per operator, with chains
//! outlined.

use crate::lanes::{Fill, Lane, Slab};
use crate::{
    Axis, BLUE, Colour, Figure, GREEN, INK, Legend, Mark, PURPLE, Row, TEXT_SIZE, Unit, font, lanes, tint,
};
use coexec_sim::{Axis as CutAxis, Placement, Plan, ProcessorKind};

// Lengths are in figure pixels.

const HEIGHT: f64 = 36.0;
/// Distance that outlines of chains extend above and below bars.
const REACH: f64 = 3.0;
/// Empty fraction of an operator's width, at either side of its bar and of a chain's outline.
const BAR_MARGIN: f64 = 0.1;
const CHAIN_MARGIN: f64 = 0.03;
const WIDTH: f64 = 700.0;
const MAX_NAME_WIDTH: f64 = 220.0;
/// Fraction of white in the colour of an operator that is cut along its channels.
const CHANNELS_TINT: f64 = 0.5;

/// The colours of processors, from the bottom of a bar up.
const COLOURS: [(ProcessorKind, Colour); 3] =
    [(ProcessorKind::Gpu, GREEN), (ProcessorKind::Cpu, BLUE), (ProcessorKind::Npu, PURPLE)];

/// The figure of each processor's share of a model's operators, under the named plans.
pub fn shares(plans: &[(&str, &Plan)]) -> Figure {
    let most = plans.iter().map(|(_, plan)| plan.placements.len()).max().unwrap_or(0);
    let x = Axis::linear("operator", (0.0, most as f64), Unit::Number);
    let lanes: Vec<Lane> = plans.iter().map(lane).collect();
    lanes::figure(&lanes, WIDTH, x, legend(plans))
}

fn is_cut_along_channels(placement: &Placement) -> bool {
    placement.is_cut() && placement.axis() != Some(CutAxis::Height)
}

/// The legend of the processors, tints and chains that occur.
fn legend(plans: &[(&str, &Plan)]) -> Legend {
    let placements = || plans.iter().flat_map(|(_, plan)| &plan.placements);
    let shown = COLOURS.into_iter().filter(|&(kind, _)| placements().any(|placement| placement.uses(kind)));
    let mut legend = Legend::bands(shown.map(|(kind, colour)| (colour, kind.label())));
    if placements().any(is_cut_along_channels) {
        let colour = tint(GREEN, CHANNELS_TINT);
        legend.rows.push(Row::of(Mark::Area(1.0), colour, &["paler: cut along channels"]));
    }
    if plans.iter().any(|(_, plan)| !plan.chains.is_empty()) {
        legend.rows.push(Row::of(Mark::Line(1.5), INK, &["chain"]));
    }
    legend
}

fn lane((name, plan): &(&str, &Plan)) -> Lane {
    let mut slabs = Vec::new();
    let bars = HEIGHT - 2.0 * REACH;
    for (index, placement) in plan.placements.iter().enumerate() {
        let span = (index as f64 + BAR_MARGIN, (index + 1) as f64 - BAR_MARGIN);
        let white = if is_cut_along_channels(placement) { CHANNELS_TINT } else { 0.0 };
        let mut bottom = HEIGHT - REACH;
        for (kind, colour) in COLOURS.into_iter().filter(|&(kind, _)| placement.uses(kind)) {
            let top = bottom - placement.fraction(kind) * bars;
            slabs.push(Slab::bare(span, (top, bottom), Fill::Joined(tint(colour, white))));
            bottom = top;
        }
    }
    let mut first = 0;
    for chain in plan.chains.chunk_by(|one, next| one == next) {
        let end = first + chain.len();
        if chain[0].is_some() {
            let span = (first as f64 + CHAIN_MARGIN, end as f64 - CHAIN_MARGIN);
            slabs.push(Slab::bare(span, (0.0, HEIGHT), Fill::Outline));
        }
        first = end;
    }
    let name = font::fit(name, TEXT_SIZE, MAX_NAME_WIDTH).unwrap_or_default();
    Lane { height: HEIGHT, names: vec![(HEIGHT / 2.0, name)], slabs }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_figures::words;
    use crate::{Format, PlotError};
    use coexec_sim::{CoreSet, Mechanism, Profile};

    /// The CPU's part of each operator, in quarters, and the GPU's.
    fn plan(axis: CutAxis, quarters: &[u32]) -> Plan {
        let cores = CoreSet::fastest(&Profile::load("pixel4").unwrap().cpu, 1).unwrap();
        let placement = |&cpu: &u32| match cpu {
            0 => Placement::GPU,
            _ => Placement::cpu_and_gpu(axis, cores, [cpu, 4 - cpu]),
        };
        Plan::new(Mechanism::SvmPolling, quarters.iter().map(placement).collect())
    }

    #[test]
    fn stacked_parts_are_as_tall_as_the_processors_shares() {
        let lane = lane(&("net", &plan(CutAxis::Height, &[1, 0])));
        let tall = HEIGHT - 2.0 * REACH;
        let heights: Vec<f64> = lane.slabs.iter().map(|slab| (slab.edges.1 - slab.edges.0) / tall).collect();
        assert_eq!(heights, [0.75, 0.25, 1.0]);
        assert_eq!(lane.slabs[0].edges.0.to_bits(), lane.slabs[1].edges.1.to_bits());
    }

    #[test]
    fn each_chain_has_one_outline() {
        let chains = vec![None, Some(0), Some(0), Some(3), Some(3), None];
        let slabs = lane(&("net", &plan(CutAxis::Height, &[2; 6]).chained(chains))).slabs;
        let outlines: Vec<(f64, f64)> =
            slabs.iter().filter(|slab| slab.fill == Fill::Outline).map(|slab| slab.span).collect();
        assert_eq!(outlines.len(), 2);
        assert!(outlines[0].1 < outlines[1].0);
    }

    #[test]
    fn the_legend_names_what_is_there_and_nothing_else() {
        assert_eq!(legend(&[("net", &plan(CutAxis::Height, &[0]))]).rows.len(), 1, "the GPU");
        let chained = plan(CutAxis::Height, &[2]).chained(vec![Some(1)]);
        assert_eq!(legend(&[("net", &chained)]).rows.len(), 3, "both and the chain");
        let svg = shares(&[("net", &plan(CutAxis::Channels, &[2]))]).draw(Format::Svg).unwrap();
        assert!(words(&svg).contains(&"paler: cut along channels".to_owned()));
    }

    #[test]
    fn nothing_to_show_is_refused() {
        let drawn = shares(&[("net", &plan(CutAxis::Height, &[]))]).draw(Format::Svg);
        assert!(matches!(drawn, Err(PlotError::NoPoints { .. })));
    }
}
