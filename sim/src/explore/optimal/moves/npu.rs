//! Moves of whole stages to the NPU, whose graph each of them continues or begins.
//!
//! Responsible for: which graph a stage is in, and its price there. Not for: when the NPU starts.
//! Invariant: a stage to which another processor hands an input over begins a new graph, and so does one after
//! another processor has read a result of the running graph. That the first reader of a joined result begins one, too,
//! only the simulation knows, so that moves may price it one graph too low.

use super::{Mover, NPU, Step};
use crate::device::ProcessorKind;
use crate::explore::optimal::model::{ANY, BEGUN, INSIDE, LeastOnNpu, OnNpu};
use crate::explore::optimal::{Place, Price};
use crate::kernel::npu::compiled::MostAhead;
use crate::units::Picos;

/// How a stage on the NPU is in a graph.
#[derive(Clone, Copy, Debug)]
pub(in crate::explore::optimal) struct InGraph {
    /// Whether later stages of the graph can read the result.
    pub(super) is_kept: bool,
    /// Relaxed: whether it begins a graph where it could continue one. A merged label, in which one runs, may stand
    /// for plans in which none does; a graph that begins later does not end where an older result is read.
    pub(super) begins: bool,
}

impl Mover<'_, '_, '_> {
    /// The ways to try for a stage on the NPU. An exact move keeps the result, and continues a graph where it can.
    pub(in crate::explore::optimal) fn ways_in_graph(&self, stage: usize) -> impl Iterator<Item = InGraph> {
        let may_leave = self.is_relaxed() && self.model.on_npu[stage].spills();
        let may_begin = self.is_relaxed() && self.model.graph != Price::NOTHING;
        let all = [(true, false), (true, true), (false, false), (false, true)];
        let all = all.map(|(is_kept, begins)| InGraph { is_kept, begins });
        all.into_iter().filter(move |way| (way.is_kept || may_leave) && (!way.begins || may_begin))
    }

    /// The NPU computes a whole stage; the place of its result.
    pub(super) fn on_npu(&self, step: &mut Step, stage: usize, way: InGraph) -> Option<Place> {
        self.read(step, (ProcessorKind::Npu, stage), self.model.stages[stage].inputs(), |_, _| false);
        let running = step.now.graph;
        let (cost, traffic) = self.in_graph(step, stage, way)?;
        let own = Self::computed(step, ProcessorKind::Npu, cost)?;
        let end = &mut step.now.queues[NPU];
        if self.is_relaxed() {
            let fetched = step.now.fetched + traffic;
            *end = (*end).max(fetched);
            let MostAhead { with, in_graphs_with, in_any } = self.model.on_npu[stage].most_ahead;
            let is_inside = |place: &Place| place.of_npu && with + 1 >= step.now.graph;
            let is_with = with == stage || step.places.get(with).is_some_and(is_inside);
            let most_ahead = if is_with { in_graphs_with } else { in_any };
            step.now.fetched = fetched.max(end.saturating_sub(most_ahead));
        }
        let end = *end;
        if step.now.graph == running {
            step.places.outlast(running - 1, end);
        }
        Some(Place { of_npu: way.is_kept, ready: end, usable: end, ..own })
    }

    /// The price of a stage in the running graph or a new one, and, relaxed, that of its traffic. Relaxed, it cannot
    /// continue a graph with a result of it that was not kept.
    fn in_graph(&self, step: &mut Step, stage: usize, way: InGraph) -> Option<(Price, Picos)> {
        let model = self.model;
        let OnNpu { within, in_graphs, .. } = &model.on_npu[stage];
        let own = |case: usize| {
            let LeastOnNpu { price, traffic } = in_graphs[case][usize::from(way.is_kept)];
            (if self.is_relaxed() { price } else { *within }, traffic)
        };
        let (reader, graph) = (&model.stages[stage], step.now.graph);
        let is_inside = |input: usize| input + 1 >= graph;
        let is_ready =
            |input: usize| !is_inside(input) || step.places.get(input).is_some_and(|place| place.of_npu);
        match (graph > 0 && reader.inputs().all(is_ready), way.begins) {
            (true, false) => return Some(own(if reader.inputs().all(is_inside) { INSIDE } else { ANY })),
            // There is no choice: the other way begins one, too.
            (false, true) => return None,
            (true, true) | (false, false) => {}
        }
        step.now.graph = stage + 1;
        if self.is_relaxed() {
            // No weights are fetched before the graph is dispatched.
            step.now.fetched = step.now.fetched.max(step.now.queues[NPU] + model.graph.time);
        }
        let (price, traffic) = own(BEGUN);
        Some((price.plus(model.graph), traffic))
    }
}
