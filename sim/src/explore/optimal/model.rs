//! One workload on one device as the programme sees it: prices of operators, parts and hand-overs, and
//! the dependences between stages.
//!
//! Responsible for: everything that does not depend on earlier decisions. Not for: decisions (`moves`).
//! Invariant: what is called least never exceeds the exact value.

use std::borrow::Cow;
use std::rc::Rc;

use super::delays::{TransferDelays, inputs_onto_gpu, max_transfer_times};
use super::order::{completion_points, live, meeting_points, next, readers, reordered, runs, waits_for_all};
use super::{At, CutTable, OperatorTable, Place, Price, Pricing, Progress, ShareTable, Weights};
use crate::explore::{Explorer, Objective};
use crate::kernel::npu::compiled::MostAhead;
use crate::kernel::{CoreSet, Phase, PhaseKind, Phases};
use crate::plan::synchronisation::notification;
use crate::plan::{Axis, Plan, is_chainable};
use crate::schedule::result_bytes;
use crate::simulate::{Detail, InGraph, InGraphs, LeastInGraph, Result, has_own_memory};
use crate::units::{Bytes, Picos};
use crate::workload::Stage;

/// Prices of one stage on the NPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnNpu {
    /// In a graph that is already running.
    pub(super) within: Price,
    /// In any graph, in those that compute all its inputs, and in those that begin with it (rows); and in those that
    /// read its result (second column).
    pub(super) in_graphs: [[LeastOnNpu; 2]; 3],
    /// How far the traffic of a graph can be ahead at its end.
    pub(super) most_ahead: MostAhead,
}

/// Lower bounds of what a stage takes in a graph on the NPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LeastOnNpu {
    pub(super) price: Price,
    /// Time of its traffic.
    pub(super) traffic: Picos,
}

/// Index in [`OnNpu::in_graphs`] of any graph.
pub(super) const ANY: usize = 0;
/// Index of graphs that compute all inputs of the stage.
pub(super) const INSIDE: usize = 1;
/// Index of graphs that begin with the stage.
pub(super) const BEGUN: usize = 2;

impl OnNpu {
    /// Lower bound in any graph.
    pub(super) fn least(&self) -> Price {
        self.in_graphs[ANY][0].price
    }

    /// Whether a graph that reads the result takes longer.
    pub(super) fn spills(&self) -> bool {
        self.in_graphs.iter().any(|[unread, read]| unread != read)
    }
}

/// A workload, and the prices of its parts on a device.
#[derive(Debug)]
pub(in crate::explore) struct Model<'e> {
    /// The stages in the order of this model.
    pub(super) stages: Cow<'e, [Stage]>,
    /// That order, as indices into the workload; empty if it is the workload's.
    pub(super) order: Vec<usize>,
    pub(super) core_sets: &'e [CoreSet],
    pub(super) weights: Weights,
    /// Whether energy counts: then the best way to cut may be slower than another on both processors.
    pub(super) has_joules: bool,
    /// Index of each stage's table.
    kinds: Vec<usize>,
    pub(super) tables: Rc<Vec<OperatorTable>>,
    /// Price of beginning an NPU graph.
    pub(super) graph: Price,
    /// How far the traffic of an NPU graph can be ahead of any of its operators.
    pub(super) most_ahead: Picos,
    /// Prices of each stage on the NPU.
    pub(super) on_npu: Vec<OnNpu>,
    pub(super) uses_npu: bool,
    /// Delays of each stage's result.
    transfer_delays: Vec<TransferDelays>,
    /// Lower bound of the delays of any result.
    least_transfer_delays: TransferDelays,
    /// The part of the delay of a hand-over that results which are read together cost once.
    pub(super) notification: Picos,
    pub(super) own_memory: bool,
    /// Time to copy the workload's inputs that each stage reads to the GPU; zero with shared memory.
    pub(super) inputs_onto_gpu: Vec<Picos>,
    /// At each position, upper bound of the time that hand-overs and joins of the live results take in each queue.
    pub(super) max_transfer_times: Vec<[Picos; 3]>,
    /// From the call until the GPU can start.
    pub(super) submission: Picos,
    /// From the GPU's end until the caller has the result.
    pub(super) read_back: Picos,
    /// At each position, the earlier stages whose results are read from there on.
    pub(super) live: Vec<Vec<usize>>,
    /// The results that each stage is the last to read.
    pub(super) last_reads: Vec<Vec<usize>>,
    /// The readers of each stage's result, with the position among the tensors that the reader reads.
    pub(super) readers: Vec<Vec<(usize, usize)>>,
    /// Start and end of each stage's run, a maximal interval in which each stage reads the one before.
    pub(super) run_start: Vec<usize>,
    pub(super) run_end: Vec<usize>,
    /// At each position, the inputs of the later stages whose inputs are all computed before it; empty
    /// if such a stage has no input, or there are too many.
    pub(super) next: Vec<Vec<Vec<usize>>>,
    /// From each position, the next meeting point: every stage from there on waits for the stage before
    /// it.
    pub(super) meets: Vec<usize>,
    /// Whether, at each position, every stage from there on waits for all stages before it.
    pub(super) completes: Vec<bool>,
    /// Whether each stage waits for all stages before it.
    pub(super) waits_for_all: Vec<bool>,
    /// Whether no other stage can be computed at the same time as each stage.
    pub(super) is_alone: Vec<bool>,
}

impl<'e> Model<'e> {
    /// The workload of `explorer` in its own order, weighted by time alone.
    pub(super) fn new(explorer: &Explorer<'e, '_>) -> Result<Self> {
        let pricing = Pricing { parts: &explorer.parts, options: explorer.options };
        let tables = explorer.prices.layers.iter().map(|layer| pricing.table(layer)).collect();
        Self::of(explorer, Rc::new(tables), Vec::new())
    }

    /// The same workload in `order`, with the same prices.
    pub(super) fn in_order(&self, explorer: &Explorer<'e, '_>, order: Vec<usize>) -> Result<Self> {
        Self::of(explorer, Rc::clone(&self.tables), order)
    }

    fn of(explorer: &Explorer<'e, '_>, tables: Rc<Vec<OperatorTable>>, order: Vec<usize>) -> Result<Self> {
        let options = explorer.options;
        let pricing = Pricing { parts: &explorer.parts, options };
        let (known, kinds) = (explorer.stages, &explorer.prices.kinds);
        let (stages, kinds) = if order.is_empty() {
            (Cow::Borrowed(known), kinds.clone())
        } else {
            (Cow::Owned(reordered(known, &order)), order.iter().map(|&stage| kinds[stage]).collect())
        };
        let (graph, on_npu) = on_npu((explorer, &stages), &pricing, &kinds, &tables)?;
        let device = explorer.simulator.device();
        let delays = |bytes| TransferDelays::of(device, options.synchronisation, bytes);
        let [submission, read_back] = explorer.simulator.around_launches();
        let inputs_onto_gpu: Vec<Picos> = stages.iter().map(|stage| inputs_onto_gpu(device, stage)).collect();
        let (run_start, run_end) = runs(&stages);
        let (meets, readers) = (meeting_points(&stages), readers(&stages));
        let [live, last_reads] = live(&stages);
        let transfer_delays: Vec<TransferDelays> =
            stages.iter().map(|stage| delays(result_bytes(&stage.layer))).collect();
        let least_transfer_delays = delays(Bytes::ZERO);
        let copied_inputs = inputs_onto_gpu.iter().copied().max().filter(|_| has_own_memory(device));
        let delays_of_results = (&*transfer_delays, &least_transfer_delays);
        let waits_for_all = waits_for_all(&readers);
        let completes = completion_points(&meets, &waits_for_all);
        let meet = |position: usize| position == 0 || position == stages.len() || completes[position];
        let has_batches = explorer.period_counts().is_some();
        let is_alone =
            (0..stages.len()).map(|stage| !has_batches && meet(stage) && meet(stage + 1)).collect();
        Ok(Self {
            order,
            core_sets: &options.core_sets,
            weights: Weights::TIME,
            has_joules: options.objective != Objective::Latency,
            graph,
            most_ahead: on_npu.iter().map(|stage| stage.most_ahead.in_any).max().unwrap_or_default(),
            uses_npu: on_npu.iter().any(|on_npu| on_npu.within.is_known()),
            on_npu,
            max_transfer_times: max_transfer_times(&live, delays_of_results, copied_inputs),
            transfer_delays,
            least_transfer_delays,
            notification: notification(&device.sync, options.synchronisation),
            own_memory: has_own_memory(device),
            inputs_onto_gpu,
            submission,
            read_back,
            live,
            last_reads,
            next: next(&stages),
            run_start,
            run_end,
            completes,
            waits_for_all,
            is_alone,
            meets,
            readers,
            kinds,
            tables,
            stages,
        })
    }

    /// A plan of the model's stages as a plan of the workload.
    pub(super) fn for_workload(&self, plan: Plan) -> Plan {
        if self.order.is_empty() { plan } else { plan.running_in(&self.order) }
    }

    pub(super) fn kind(&self, stage: usize) -> usize {
        self.kinds[stage]
    }

    pub(super) fn table(&self, stage: usize) -> &OperatorTable {
        &self.tables[self.kinds[stage]]
    }

    /// Index of the core set on which a whole stage costs least.
    pub(super) fn best_core_set(&self, stage: usize) -> Option<usize> {
        let cpu = &self.table(stage).cpu;
        let cost = |&set: &usize| self.weights.of(cpu[set].time, cpu[set].joules);
        (0..cpu.len()).min_by(|one, other| cost(one).total_cmp(&cost(other)))
    }

    /// The cuts of a stage between CPU and GPU along `axis`.
    pub(super) fn cuts(&self, stage: usize, axis: Axis) -> Option<&CutTable> {
        self.table(stage).cuts[axis as usize].as_ref()
    }

    /// The shares of a stage along `axis` in which the NPU takes part.
    pub(super) fn shares(&self, stage: usize, axis: Axis) -> Option<&ShareTable> {
        self.table(stage).shares[axis as usize].as_ref()
    }

    /// Delays of a stage's result; relaxed, their lower bound.
    pub(super) fn transfer_delays(&self, stage: usize, relaxed: bool) -> &TransferDelays {
        if relaxed { &self.least_transfer_delays } else { &self.transfer_delays[stage] }
    }

    /// When each queue can continue; zero for a GPU that was not used.
    pub(super) fn used_queues(&self, now: &Progress) -> [Picos; 3] {
        let [cpu, gpu, npu] = now.queues;
        let gpu = if gpu > self.submission { gpu } else { Picos::ZERO };
        [cpu, gpu.max(now.join), npu]
    }

    /// The cost of everything decided so far.
    pub(super) fn cost_so_far(&self, now: &Progress) -> f64 {
        let [cpu, gpu, npu] = self.used_queues(now);
        self.weights.of(cpu.max(gpu + now.read_back).max(npu), now.joules)
    }

    /// Whether the stage before `position`, with its result at `last`, waited for all before it and is
    /// joined: then all queues had ended when it started. In a merged label, an early clock of one
    /// label and an early result of another may contradict this.
    pub(super) fn has_waited_for_all(&self, last: &Place, position: usize) -> bool {
        let is_of_last = self.live[position].last() == Some(&(position - 1));
        is_of_last && matches!(last.at, At::With(_)) && self.waits_for_all[position - 1]
    }

    /// Whether any processor has a kernel for a stage.
    pub(super) fn has_kernel(&self, stage: usize) -> bool {
        let OperatorTable { cpu, gpu, npu, .. } = self.table(stage);
        cpu.iter().chain([gpu, npu]).any(|cost| cost.is_known())
    }

    /// Whether a part of `stage` along `axis` can be computed from a part of `input`.
    pub(super) fn is_linkable(&self, stage: usize, input: usize, axis: Axis) -> bool {
        let mut reads = self.stages[stage].reads.iter().filter(|read| read.input == input);
        reads.all(|read| self.is_linkable_at((stage, read.position), input, axis))
    }

    /// Whether a part of `stage` along `axis` can be computed from a part of `input`, which it reads at `position`.
    fn is_linkable_at(&self, (stage, position): (usize, usize), input: usize, axis: Axis) -> bool {
        let [reader, producer] = [stage, input].map(|index| &self.stages[index]);
        let has_rows = axis != Axis::Height || reader.layer.operator.separate_rows().is_some();
        has_rows && is_chainable(axis, (reader, position), producer).is_ok()
    }

    /// Lines that CPU and GPU compute, halos included, of each stage of a chain that ends before `end`
    /// and whose last stage is cut at `cut`: the CPU up to the first value, the GPU from the second on.
    /// From the last stage back to `lowest`, or as far as a chain can reach.
    pub(super) fn widened(&self, end: usize, axis: Axis, cut: u32, lowest: usize) -> Vec<[u32; 2]> {
        let mut lines = vec![[cut, cut]];
        while end - lines.len() > lowest {
            let stage = end - lines.len() - 1;
            match self.reached(stage, (end, &lines), axis) {
                Some(reached) => lines.push(reached),
                None => break,
            }
        }
        lines
    }

    /// The lines of `stage` that its readers before `end` need; `lines` are the readers', from the last
    /// back. `None` if they cannot be in a chain with it.
    fn reached(&self, stage: usize, (end, lines): (usize, &[[u32; 2]]), axis: Axis) -> Option<[u32; 2]> {
        let all = self.cuts(stage, axis)?.all;
        let mut reached = [0, all];
        for &(reader, position) in self.readers[stage].iter().filter(|reader| reader.0 < end) {
            if !self.is_linkable_at((reader, position), stage, axis) {
                return None;
            }
            let own = lines[end - 1 - reader];
            match axis {
                Axis::Channels => {
                    let even = u64::from(own[0]) * u64::from(all);
                    let of_reader = u64::from(self.cuts(reader, axis)?.all);
                    let cut = (even / of_reader) as u32;
                    if !even.is_multiple_of(of_reader) || (reached[0] != 0 && reached[0] != cut) {
                        return None;
                    }
                    reached = [cut, cut];
                }
                Axis::Height => {
                    let [first, second] = self.read((reader, position), own);
                    reached = [reached[0].max(first.min(all)), reached[1].min(second)];
                }
            }
        }
        Some(reached)
    }

    /// For lines `own` of a stage, how far the CPU reads the tensor at `position`, and from where on the
    /// GPU reads it.
    pub(super) fn read(&self, (stage, position): (usize, usize), own: [u32; 2]) -> [u32; 2] {
        let stage = &self.stages[stage];
        let all = stage.layer.operator.output().lines();
        let read = |rows| stage.rows_read(position, rows).unwrap_or(0..u32::MAX);
        [read(0..own[0]).end, read(own[1]..all).start]
    }

    /// Whether a stage reads the result of the one before it.
    pub(super) fn reads_previous_stage(&self, stage: usize) -> bool {
        self.run_start.get(stage).is_some_and(|&start| start < stage)
    }
}

/// The price of beginning an NPU graph, and the prices of each stage on the NPU.
fn on_npu(
    (explorer, stages): (&Explorer<'_, '_>, &[Stage]),
    pricing: &Pricing<'_, '_>,
    kinds: &[usize],
    tables: &[OperatorTable],
) -> Result<(Price, Vec<OnNpu>)> {
    let alone = |&kind: &usize| tables[kind].npu;
    let whole = |kind: &usize| {
        let price = alone(kind);
        let in_graphs = [[LeastOnNpu { price, traffic: Picos::ZERO }; 2]; 3];
        OnNpu { within: price, in_graphs, most_ahead: MostAhead::default() }
    };
    let takes: Vec<bool> = kinds.iter().map(|kind| alone(kind).is_known()).collect();
    let Some(InGraphs { entry, stages: inside }) = explorer.simulator.in_graphs(stages, &takes)? else {
        return Ok((Price::NOTHING, kinds.iter().map(whole).collect()));
    };
    // At least the NPU works during that time.
    let working = |time: Picos, bytes: Bytes, detail: &Detail| {
        let phase = Phase::new(PhaseKind::OnChip, time, bytes);
        pricing.uncontended(&Phases::from_iter([phase]), detail)
    };
    let begun = inside.iter().flatten().next().map(|first| working(entry, Bytes::ZERO, &first.detail));
    let graph = begun.unwrap_or(Price::NOTHING);
    let of_stage = |(kind, inside): (&usize, &Option<InGraph>)| match inside {
        Some(InGraph { phases, bytes, detail, least, most_ahead }) => {
            let of = |&LeastInGraph { time, traffic, bytes }: &LeastInGraph| LeastOnNpu {
                price: working(time, bytes, detail),
                traffic,
            };
            let mut in_graphs = least.each_ref().map(|row| row.each_ref().map(of));
            let begun = in_graphs[BEGUN];
            for (inside, begun) in in_graphs[INSIDE].iter_mut().zip(begun) {
                // A plan may begin a graph instead.
                inside.price = inside.price.least(begun.price.plus(graph));
                inside.traffic = inside.traffic.min(begun.traffic + entry);
            }
            let within = working(phases.duration(), *bytes, detail);
            OnNpu { within, in_graphs, most_ahead: *most_ahead }
        }
        None => whole(kind),
    };
    let stages = kinds.iter().zip(&inside).map(of_stage).collect();
    Ok((graph, stages))
}
