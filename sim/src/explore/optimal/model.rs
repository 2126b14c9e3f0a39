//! What plans of one workload are made of, priced: operators, parts, hand-overs, and who reads whom.
//!
//! Responsible for: everything that does not depend on what was decided before. Not for: decisions
//! (`moves`). Invariant: `Meeting` of a relaxed programme never takes longer than the exact one.

use std::borrow::Cow;

use super::order::{completion_points, last_ones, live, meeting_points, next, readers, reordered, runs};
use super::{At, CutTable, OperatorTable, Place, Price, Pricing, Progress, ShareTable, Weights};
use crate::device::{Direction, LinkTransfer, ProcessorKind, Profile};
use crate::explore::{Explorer, Objective, StartDelays};
use crate::kernel::CoreSet;
use crate::plan::{Axis, Mechanism, Plan, Span, rows_read};
use crate::schedule::{Holders, result_bytes};
use crate::simulate::{InGraph, InGraphs, Result, copying, hand_over_delay, has_own_memory, join_delay};
use crate::units::{Bytes, Picos};
use crate::workload::Stage;

/// What it takes that a processor learns of a result that others computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meeting {
    /// The CPU of the GPU's.
    to_cpu: Picos,
    /// The GPU of anybody's.
    to_gpu: Picos,
    /// The NPU of the GPU's.
    to_npu: Picos,
    /// CPU and NPU of each other's.
    beside_gpu: Picos,
    /// Both of parts.
    pub(super) join: Picos,
    /// Until the host has all that a GPU with memory of its own computed; nothing with one memory.
    pub(super) gather: Picos,
}

/// What the NPU takes for one stage.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnNpu {
    /// In a graph that runs already.
    pub(super) within: Price,
    /// In any graph.
    pub(super) least: Price,
}

/// A workload, and what parts of it take on a device.
#[derive(Debug)]
pub(in crate::explore) struct Model<'e> {
    /// The stages in the order of this model, and that order where it is not the workload's.
    pub(super) stages: Cow<'e, [Stage]>,
    pub(super) order: Vec<usize>,
    pub(super) core_sets: &'e [CoreSet],
    pub(super) weights: Weights,
    /// Whether energy counts: then a way to cut may be slower on both processors than another.
    pub(super) has_joules: bool,
    /// Which table each stage has.
    kinds: Vec<usize>,
    pub(super) tables: Vec<OperatorTable>,
    /// What handing a graph over to the NPU takes, and what stages take there.
    pub(super) graph: Price,
    pub(super) on_npu: Vec<OnNpu>,
    pub(super) uses_npu: bool,
    /// Of each stage's result.
    meetings: Vec<Meeting>,
    /// At least, of any.
    least_meeting: Meeting,
    pub(super) own_memory: bool,
    /// What copying the workload's inputs takes that a stage reads; nothing with one memory.
    pub(super) inputs_onto_gpu: Vec<Picos>,
    /// From the call until the GPU can start, and from its end to the caller.
    pub(super) submission: Picos,
    pub(super) read_back: Picos,
    /// Before each position, the stages whose results are read from there on.
    pub(super) live: Vec<Vec<usize>>,
    /// Who reads each stage's result, and as which input.
    pub(super) readers: Vec<Vec<(usize, usize)>>,
    /// Stages that each read the one before are a run; where the run of a stage starts and ends.
    pub(super) run_start: Vec<usize>,
    pub(super) run_end: Vec<usize>,
    /// At each position, what the stages read that read nothing of stages behind it; none where one of them
    /// reads no result, or they are many.
    pub(super) next: Vec<Vec<Vec<usize>>>,
    /// From each position, the next from which on every stage waits for the one before it.
    pub(super) meets: Vec<usize>,
    /// Whether every stage from a position on waits for all before it.
    pub(super) completes: Vec<bool>,
    /// Whether each stage waits for all before it.
    pub(super) waits_for_all: Vec<bool>,
    /// Whether nothing else is computed while each stage is.
    pub(super) is_alone: Vec<bool>,
}

impl Meeting {
    fn of(device: &Profile, mechanism: Mechanism, bytes: Bytes) -> Self {
        let copied = |direction| copying(device, LinkTransfer::whole(bytes), direction);
        let with_gpu = hand_over_delay(device, mechanism, bytes, true);
        Self {
            to_cpu: with_gpu + copied(Direction::ToHost),
            to_gpu: with_gpu + copied(Direction::ToGpu),
            to_npu: with_gpu,
            beside_gpu: hand_over_delay(device, mechanism, bytes, false),
            join: join_delay(device, mechanism, bytes),
            gather: if bytes > Bytes::ZERO { copied(Direction::ToHost) } else { Picos::ZERO },
        }
    }

    /// What `reader` waits for that `holders` have.
    pub(super) fn wait(&self, reader: ProcessorKind, holders: Holders) -> Picos {
        let on_gpu_alone = holders.is_only(ProcessorKind::Gpu);
        match reader {
            ProcessorKind::Gpu => self.to_gpu,
            ProcessorKind::Cpu if on_gpu_alone => self.to_cpu,
            ProcessorKind::Npu if on_gpu_alone => self.to_npu,
            ProcessorKind::Cpu | ProcessorKind::Npu => self.beside_gpu,
        }
    }
}

impl<'e> Model<'e> {
    /// Of the workload of `explorer` in an order, or its own if that is empty, where time alone counts.
    pub(super) fn new(explorer: &Explorer<'e, '_>, order: Vec<usize>) -> Result<Self> {
        let options = explorer.options;
        let pricing = Pricing { parts: &explorer.parts, options };
        let (known, kinds) = (explorer.stages, &explorer.prices.kinds);
        let (stages, kinds) = if order.is_empty() {
            (Cow::Borrowed(known), kinds.clone())
        } else {
            (Cow::Owned(reordered(known, &order)), order.iter().map(|&stage| kinds[stage]).collect())
        };
        let tables: Vec<OperatorTable> =
            explorer.prices.layers.iter().map(|layer| pricing.table(layer)).collect();
        let (graph, on_npu) = on_npu((explorer, &stages), &pricing, &kinds, &tables)?;
        let device = explorer.simulator.device();
        let meeting = |bytes| Meeting::of(device, options.synchronisation, bytes);
        let [submission, read_back] = explorer.simulator.around_launches();
        let (run_start, run_end) = runs(&stages);
        let (meets, readers) = (meeting_points(&stages), readers(&stages));
        let waits_for_all = last_ones(&readers);
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
            uses_npu: on_npu.iter().any(|on_npu| on_npu.within.is_known()),
            on_npu,
            meetings: stages.iter().map(|stage| meeting(result_bytes(&stage.layer))).collect(),
            least_meeting: meeting(Bytes::ZERO),
            own_memory: has_own_memory(device),
            inputs_onto_gpu: stages.iter().map(|stage| inputs_onto_gpu(explorer, stage)).collect(),
            submission,
            read_back,
            live: live(&stages),
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

    /// A plan of the stages in the order of the model, for the workload.
    pub(super) fn for_workload(&self, plan: Plan) -> Plan {
        if self.order.is_empty() { plan } else { plan.running_in(&self.order) }
    }

    pub(super) fn kind(&self, stage: usize) -> usize {
        self.kinds[stage]
    }

    pub(super) fn table(&self, stage: usize) -> &OperatorTable {
        &self.tables[self.kinds[stage]]
    }

    /// The core set on which a whole stage costs least.
    pub(super) fn best_core_set(&self, stage: usize) -> Option<usize> {
        let cpu = &self.table(stage).cpu;
        let cost = |&set: &usize| self.weights.of(cpu[set].time, cpu[set].joules);
        (0..cpu.len()).min_by(|one, other| cost(one).total_cmp(&cost(other)))
    }

    /// The parts of a stage along `axis`.
    pub(super) fn cuts(&self, stage: usize, axis: Axis) -> Option<&CutTable> {
        self.table(stage).cuts[axis as usize].as_ref()
    }

    /// The parts of a stage along `axis` where the NPU has one.
    pub(super) fn shares(&self, stage: usize, axis: Axis) -> Option<&ShareTable> {
        self.table(stage).shares[axis as usize].as_ref()
    }

    /// What meetings over the result of a stage take; at least, for a relaxed programme.
    pub(super) fn meeting(&self, stage: usize, relaxed: bool) -> &Meeting {
        if relaxed { &self.least_meeting } else { &self.meetings[stage] }
    }

    /// What the queue of each processor has at most, at the least times, of hand-overs and joins of so many
    /// results.
    pub(super) fn before_computing(&self, results: usize) -> [Picos; 3] {
        let Meeting { to_cpu, to_gpu, to_npu, beside_gpu, join, .. } = self.least_meeting;
        let times = |each: Picos| Picos(each.0.saturating_mul(results as u64));
        [times(to_cpu.max(beside_gpu) + join), times(to_gpu), times(to_npu.max(beside_gpu))]
    }

    /// When each queue can go on; that of a GPU that was not used is nobody's concern.
    pub(super) fn used_queues(&self, now: &Progress) -> [Picos; 3] {
        let [cpu, gpu, npu] = now.queues;
        let gpu = if gpu > self.submission { gpu } else { Picos::ZERO };
        [cpu, gpu.max(now.join), npu]
    }

    /// Whether the last stage before a position, whose result lies at a place, waited for all before it, and its parts are not
    /// apart: then nobody had anything left to do when it started. Of labels that were merged one may say that a processor was
    /// early, and another that a result was.
    pub(super) fn is_behind_all(&self, last: &Place, position: usize) -> bool {
        let is_of_last = self.live[position].last() == Some(&(position - 1));
        is_of_last && matches!(last.at, At::With(_)) && self.waits_for_all[position - 1]
    }

    /// Whether some processor can compute a stage.
    pub(super) fn has_kernel(&self, stage: usize) -> bool {
        let OperatorTable { cpu, gpu, npu, .. } = self.table(stage);
        cpu.iter().chain([gpu, npu]).any(|cost| cost.is_known())
    }

    /// Whether parts of `stage` can be computed from parts of `input`, along `axis`.
    pub(super) fn is_linkable(&self, stage: usize, input: usize, axis: Axis) -> bool {
        let [reader, producer] = [stage, input].map(|index| &self.stages[index].layer.operator);
        match axis {
            Axis::Channels => reader.separate_channels().is_some(),
            Axis::Height => reader.separate_rows().is_some_and(|all| {
                let written = producer.output().lines();
                reader.rows_reached(0..all).end <= written || written == all
            }),
        }
    }

    /// What CPU and GPU compute of each stage of a chain that ends before `end` and whose last stage is
    /// cut at `cut`, halos included: the CPU up to the first line, the GPU from the second on. From the last
    /// stage back to `lowest`, or as far as a chain can reach.
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

    /// What the readers of `stage` before `end` need of it; `lines` are theirs, from the last on.
    fn reached(&self, stage: usize, (end, lines): (usize, &[[u32; 2]]), axis: Axis) -> Option<[u32; 2]> {
        let all = self.cuts(stage, axis)?.all;
        let mut reached = [0, all];
        for &(reader, position) in self.readers[stage].iter().filter(|reader| reader.0 < end) {
            if !self.is_linkable(reader, stage, axis) {
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

    /// How far the CPU reads the input at `position` of a stage whose lines are cut so, and from where on
    /// the GPU does.
    pub(super) fn read(&self, (stage, position): (usize, usize), own: [u32; 2]) -> [u32; 2] {
        let all = self.stages[stage].layer.operator.output().lines();
        let read = |span| rows_read(&self.stages[stage], position, span);
        [read(Span::new(0, own[0])).end, read(Span::new(own[1], all)).start]
    }

    /// Whether a stage reads the result of the one before it.
    pub(super) fn reads_the_one_before(&self, stage: usize) -> bool {
        self.run_start.get(stage).is_some_and(|&start| start < stage)
    }
}

/// What a graph takes that is handed to the NPU, and what each stage takes in one.
fn on_npu(
    (explorer, stages): (&Explorer<'_, '_>, &[Stage]),
    pricing: &Pricing<'_, '_>,
    kinds: &[usize],
    tables: &[OperatorTable],
) -> Result<(Price, Vec<OnNpu>)> {
    let alone = |&kind: &usize| tables[kind].npu;
    let takes: Vec<bool> = kinds.iter().map(|kind| alone(kind).is_known()).collect();
    let Some(InGraphs { entry, stages: inside }) = explorer.simulator.in_graphs(stages, &takes)? else {
        let whole = |kind| OnNpu { within: alone(kind), least: alone(kind) };
        return Ok((Price::NOTHING, kinds.iter().map(whole).collect()));
    };
    let of_stage = |(kind, inside): (&usize, &Option<InGraph>)| match inside {
        Some(InGraph { phases, detail, least }) => OnNpu {
            within: pricing.alone(phases, detail),
            // What the NPU draws in the best of cases is not known.
            least: Price { time: *least, joules: 0.0 },
        },
        None => OnNpu { within: alone(kind), least: alone(kind) },
    };
    let stages = kinds.iter().zip(&inside).map(of_stage).collect();
    Ok((Price { time: entry, joules: 0.0 }, stages))
}

fn inputs_onto_gpu(explorer: &Explorer<'_, '_>, stage: &Stage) -> Picos {
    let reads_inputs = stage.inputs.len() < stage.input_count && has_own_memory(explorer.simulator.device());
    if reads_inputs { StartDelays::of_host(&explorer.parts, stage).gpu } else { Picos::ZERO }
}
