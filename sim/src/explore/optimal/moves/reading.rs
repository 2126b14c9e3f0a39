//! How a processor gets the inputs of a stage from the others.
//!
//! Responsible for: hand-overs and waits before a part of a stage. Not for: the price of a hand-over (`delays`).
//! Invariant: results that the stage reads and only the same other processor has share one notification, as in
//! `schedule`; relaxed, all that cross do.

use super::{At, GPU, Mover, Step};
use crate::device::ProcessorKind;
use crate::explore::optimal::Place;
use crate::plan::Axis;
use crate::schedule::Holders;
use crate::units::Picos;

impl Mover<'_, '_, '_> {
    /// Hands the inputs over to processor `by` and makes it wait for them, but for those that are inside its chain.
    /// A GPU with memory of its own first copies the workload's inputs that `stage` reads.
    pub(in crate::explore::optimal) fn read(
        &self,
        step: &mut Step,
        (by, stage): (ProcessorKind, usize),
        inputs: impl Iterator<Item = usize> + Clone,
        is_inside: impl Fn(&Place, usize) -> bool,
    ) {
        if by == ProcessorKind::Gpu {
            self.inputs_onto_gpu(step, stage);
        }
        let is_outside =
            |step: &Step, input: usize| step.places.get(input).is_some_and(|place| !is_inside(place, input));
        let mut waited_for = Holders::default();
        for input in inputs.clone() {
            if is_outside(step, input) {
                self.cross(step, by, (input, inputs.clone()), &mut waited_for);
            }
        }
        for input in inputs {
            if is_outside(step, input) {
                Self::wait(step, by, input);
            }
        }
    }

    /// Whether, relaxed, both processors may compute their parts of a stage along `axis` from those of an input.
    pub(in crate::explore::optimal) fn continues_parts(
        &self,
        place: &Place,
        [stage, input]: [usize; 2],
        axis: Axis,
    ) -> bool {
        let is_along = matches!(place.at, At::Open(cutting) if cutting.axis == axis);
        is_along && self.is_relaxed() && self.model.is_linkable(stage, input, axis)
    }

    /// Hands one of the `inputs` that are read together over to processor `by`, which has waited for other processors
    /// already; one that is there already takes no command, so others do not queue.
    pub(in crate::explore::optimal) fn cross(
        &self,
        step: &mut Step,
        by: ProcessorKind,
        (input, inputs): (usize, impl Iterator<Item = usize>),
        waited_for: &mut Holders,
    ) {
        let Some(&(mut place)) = step.places.get(input) else { return };
        if let At::Open(cutting) = place.at {
            place = self.join_open_results(step, cutting, place.ready);
        }
        let At::With(holders) = place.at else { return };
        if holders.has(by) {
            return;
        }
        let model = self.model;
        let leaves_graph = holders.is_only(ProcessorKind::Npu) && input + 1 >= step.now.graph;
        if by == ProcessorKind::Npu || leaves_graph {
            // The NPU's graph ends here: it waits for its inputs at its start, and hands out its results at its end.
            step.now.graph = 0;
        }
        let is_whole = place.lacking() >= 1.0;
        // Whole results are copied to and from a GPU with memory of its own whatever the reader's part is.
        let is_least = self.is_relaxed() && !(model.own_memory && is_whole && by == ProcessorKind::Gpu);
        let wait = model.transfer_delays(input, is_least).wait(by, holders);
        let mut ready = place.ready;
        if self.is_relaxed() && is_whole && holders.is_only(ProcessorKind::Gpu) {
            // The GPU's queue copies the result; without a copy it is not kept waiting.
            let copied = model.transfer_delays(input, false).gather;
            if copied > Picos::ZERO {
                step.now.queues[GPU] = step.now.queues[GPU].max(ready) + copied;
                ready = step.now.queues[GPU];
            }
        }
        let mut notified = Picos::ZERO;
        if !model.own_memory && (self.is_relaxed() || holders.only().is_some()) {
            // Relaxed, the processors of a merged label may not be a plan's: one wait for all is certain.
            let is_first =
                if self.is_relaxed() { waited_for.is_none() } else { !waited_for.has_all(holders) };
            *waited_for = waited_for.with_all(holders);
            if !is_first {
                notified = model.notification;
            } else if !self.is_relaxed() {
                let read = inputs.filter_map(|input| step.places.get(input));
                let of_same = read.filter(|other| other.at == place.at).map(|other| other.ready);
                ready = of_same.max().unwrap_or(ready);
            }
        }
        let queue = &mut step.now.queues[by as usize];
        *queue = (*queue).max(ready + notified) + (wait - notified).scale(place.lacking());
        step.places.add_holder(input, by);
    }

    /// Makes processor `by` wait until an input is ready.
    fn wait(step: &mut Step, by: ProcessorKind, input: usize) {
        let Some(place) = step.places.get(input) else { return };
        let queue = &mut step.now.queues[by as usize];
        *queue = (*queue).max(place.ready);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Profile;
    use crate::explore::optimal::{ChainTables, Contention, Label, Model, Places, Pricing, Progress, Trial};
    use crate::explore::{Explorer, SearchOptions};
    use crate::kernel::Library;
    use crate::plan::{Mechanism, Placement};
    use crate::simulate::Simulator;
    use crate::workload::{DataType, GraphBuilder, Shape, Stage, Window, fuse};

    /// Three convolutions of the same input, the last one the longest, and their concatenation.
    fn meeting() -> Vec<Stage> {
        let mut net = GraphBuilder::new("meeting", DataType::F32);
        let input = net.input(Shape::image(14, 14, 32));
        let ends = [1, 3, 5].map(|side| net.conv(input, 32, Window::same(side)));
        net.concat(&ends);
        fuse(&net.build().unwrap())
    }

    /// When the last queue ends if each stage is computed whole, in a compiled graph where it is on the NPU.
    fn end(
        explorer: &Explorer<'_, '_>,
        model: &Model<'_>,
        by: [ProcessorKind; 4],
        is_relaxed: bool,
    ) -> Picos {
        let pricing = Pricing { parts: &explorer.parts, options: explorer.options };
        let chains = ChainTables::new(model, &pricing, is_relaxed, 1);
        let mut contention = Contention::new(explorer);
        let contention = (!is_relaxed).then_some(&mut contention);
        let mut mover = Mover { model, chains: &chains, contention };
        let [join, read_back, fetched] = [Picos::ZERO; 3];
        let now = Progress { queues: [Picos::ZERO; 3], join, graph: 0, read_back, fetched, joules: 0.0 };
        let places = Places::default();
        let mut label = Label { now, places, decision: None, bound: 0.0, rank: 0.0, single_cost: 0.0 };
        for (position, by) in by.into_iter().enumerate() {
            let trial = match by {
                ProcessorKind::Cpu => Trial::Cpu(0),
                ProcessorKind::Gpu => Trial::Gpu,
                ProcessorKind::Npu => Trial::Npu(mover.ways_in_graph(position).next().unwrap()),
            };
            let (now, places, _) = mover.apply(&label, position, trial).unwrap();
            label = Label { now, places, ..label };
        }
        label.now.end()
    }

    fn whole(model: &Model<'_>, by: ProcessorKind) -> Placement {
        match by {
            ProcessorKind::Cpu => Placement::cpu(model.core_sets[0]),
            ProcessorKind::Gpu => Placement::GPU,
            ProcessorKind::Npu => Placement::NPU,
        }
    }

    #[test]
    fn moves_begin_a_graph_where_the_simulation_does() {
        let mut device = Profile::load("snapdragon-8gen3").unwrap();
        // A second each, so that they can be counted.
        device.npu.as_mut().unwrap().compiled.as_mut().unwrap().graph_us.value = 1e6;
        let stages = meeting();
        let options = SearchOptions::on(&device);
        let mut simulator = Simulator::new(&device, Library::default_for(&device.cpu));
        let mut explorer = Explorer::new(&mut simulator, &stages, &options);
        let model = Model::new(&explorer).unwrap();
        for code in 0..3_usize.pow(4) {
            let by = [0, 1, 2, 3].map(|stage| ProcessorKind::ALL[code / 3_usize.pow(stage) % 3]);
            let plan = explorer.plan(by.map(|by| whole(&model, by)).to_vec());
            let seconds = explorer.cost_of(&plan).unwrap() as u64;
            assert_eq!(end(&explorer, &model, by, false).as_seconds() as u64, seconds, "{by:?}");
        }
    }

    #[test]
    fn one_wait_serves_all_results_of_a_processor_in_moves_as_in_the_simulation() {
        let stages = meeting();
        for device in ["snapdragon-8gen3", "pixel4"].map(|name| Profile::load(name).unwrap()) {
            for &synchronisation in Mechanism::ALL {
                let options = SearchOptions { synchronisation, ..SearchOptions::on(&device) };
                let mut simulator = Simulator::new(&device, Library::default_for(&device.cpu));
                let mut explorer = Explorer::new(&mut simulator, &stages, &options);
                let model = Model::new(&explorer).unwrap();
                for bits in 0..1 << 4 {
                    let by = [0, 1, 2, 3].map(|stage| ProcessorKind::ALL[bits >> stage & 1]);
                    let plan = explorer.plan(by.map(|by| whole(&model, by)).to_vec());
                    let [exact, least] = [false, true].map(|relaxed| end(&explorer, &model, by, relaxed));
                    let latency = Picos::from_micros(explorer.cost_of(&plan).unwrap() * 1e6);
                    assert_eq!(exact, latency, "{synchronisation}, {by:?}");
                    assert!(least <= latency, "{synchronisation}, {by:?}: {least} > {latency}");
                }
            }
        }
    }
}
