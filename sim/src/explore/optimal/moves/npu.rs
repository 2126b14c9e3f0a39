//! Moves of whole stages to the NPU, whose graph each of them continues or begins.
//!
//! Responsible for: which graph a stage is in, and its price there. Not for: when the NPU starts.
//! Invariant: a stage that needs a result of another processor from within the running graph begins a new one.

use super::{Mover, NPU, Step};
use crate::explore::optimal::Price;
use crate::explore::optimal::model::{ANY, BEGUN, INSIDE, OnNpu};
use crate::units::Picos;

impl Mover<'_, '_, '_> {
    /// The price of a stage on the NPU, in the running graph (if its inputs are of the NPU or older) or a new one, and
    /// relaxed that of its traffic.
    pub(super) fn on_npu(&self, step: &mut Step, stage: usize, is_kept: usize) -> (Price, Picos) {
        let model = self.model;
        let OnNpu { within, least, in_graphs } = &model.on_npu[stage];
        let own = |case: usize| {
            let [time, traffic] = in_graphs[case][is_kept];
            (if self.is_relaxed() { Price { time, ..*least } } else { *within }, traffic)
        };
        let (inputs, graph) = (&model.stages[stage].inputs, step.now.graph);
        let is_inside = |&input: &usize| input + 1 >= graph;
        let is_ready =
            |input: &usize| !is_inside(input) || step.places.get(*input).is_some_and(|place| place.of_npu);
        if graph > 0 && inputs.iter().all(is_ready) {
            return own(if inputs.iter().all(is_inside) { INSIDE } else { ANY });
        }
        step.now.graph = stage + 1;
        if self.is_relaxed() {
            // No weights are fetched before the graph is dispatched.
            step.now.fetched = step.now.fetched.max(step.now.queues[NPU] + model.graph.time);
        }
        let (price, traffic) = own(BEGUN);
        (price.plus(model.graph), traffic)
    }
}
