//! Who computes what in a region with branches, so that both processors are busy with
//! different operators at once.
//!
//! Each stage goes to a processor or is cut; both processors take their stages in order,
//! and what one reads of the other crosses as everywhere else (`places`). That gives a
//! schedule, which single stages and whole paths are moved to shorten. What the engine
//! says beyond it, contention above all, is added to the schedule once.

use std::ops::Range;

use super::Weights;
use super::cutting::CutChoice;
use super::places::{Boundary, Place, Reader};
use crate::explore::prices::Price;
use crate::kernel::cpu::CoreSet;
use crate::plan::{Axis, Placement, ProcessorKind, Regions};
use crate::units::Picos;
use crate::workload::Stage;

/// Times that all moves are tried.
const PASSES: usize = 6;

/// A way to compute one stage.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) placement: Placement,
    /// What CPU and GPU compute, where both do.
    regions: Option<Regions>,
    /// Of CPU and GPU, alone.
    times: [Picos; 2],
    /// From the end of the later part until both know of the result.
    joining: Picos,
    joules: f64,
    /// Where the result lies.
    place: Place,
}

impl Way {
    pub(super) fn on_cpu(cores: CoreSet, price: Price) -> Self {
        let times = [price.time, Picos::ZERO];
        let (regions, joining, joules, place) = (None, Picos::ZERO, price.joules, Place::Cpu);
        Self { placement: Placement::cpu(cores), regions, times, joining, joules, place }
    }

    pub(super) fn on_gpu(price: Price) -> Self {
        let times = [Picos::ZERO, price.time];
        let (regions, joining, joules, place) = (None, Picos::ZERO, price.joules, Place::Gpu);
        Self { placement: Placement::GPU, regions, times, joining, joules, place }
    }

    pub(super) fn cut(choice: &CutChoice, axis: Axis, boundary: &Boundary<'_>) -> Self {
        Self {
            placement: choice.placement,
            regions: Some(choice.regions.clone()),
            times: [choice.cpu.time, choice.gpu.time + choice.gathering],
            joining: choice.contention + boundary.notification(),
            joules: choice.cpu.joules + choice.gpu.joules,
            place: boundary.joined(axis, choice.placement.extent(axis, ProcessorKind::Cpu)),
        }
    }

    fn reader(&self) -> Reader<'_> {
        match &self.regions {
            Some(regions) => Reader::Parts(regions),
            None if self.placement == Placement::GPU => Reader::Gpu,
            None => Reader::Cpu,
        }
    }

    /// Whether CPU and GPU take part.
    fn who(&self) -> [bool; 2] {
        [self.placement != Placement::GPU, self.regions.is_some() || self.placement == Placement::GPU]
    }
}

/// A part of the graph and who computes it.
#[derive(Clone, Debug)]
pub(super) struct BranchRegion {
    pub(super) stages: Range<usize>,
    /// What may be done with each stage; none is empty.
    ways: Vec<Vec<Way>>,
    chosen: Vec<usize>,
    /// What simulating says beyond the schedule.
    pub(super) contention_excess: Picos,
}

/// What a schedule comes to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scheduled {
    pub(super) time: Picos,
    /// Where the last result lies.
    pub(super) place: Place,
}

impl BranchRegion {
    /// The best schedule found of `range`, whose stages may be computed in these ways; none
    /// where a stage has none.
    pub(super) fn best(
        range: Range<usize>,
        ways: Vec<Vec<Way>>,
        (stages, boundary, weights): (&[Stage], &Boundary<'_>, Weights),
    ) -> Option<Self> {
        if ways.iter().any(Vec::is_empty) {
            return None;
        }
        let least = |ways: &Vec<Way>| {
            let time = |way: &Way| way.times[0].max(way.times[1]) + way.joining;
            (0..ways.len()).min_by_key(|&way| time(&ways[way])).unwrap_or(0)
        };
        let on_gpu =
            |ways: &Vec<Way>| ways.iter().position(|way| way.placement == Placement::GPU).unwrap_or(0);
        let starts = [ways.iter().map(least).collect(), ways.iter().map(on_gpu).collect::<Vec<usize>>()];
        let mut region = Self { stages: range, ways, chosen: Vec::new(), contention_excess: Picos::ZERO };
        let paths = region.paths(stages);
        let mut best: Option<(f64, Vec<usize>)> = None;
        for start in starts {
            region.chosen = start;
            let cost = region.improve(&paths, (stages, boundary, weights));
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, region.chosen.clone()));
            }
        }
        region.chosen = best?.1;
        Some(region)
    }

    /// Stages in a row of which each reads the one before and nothing else of the region:
    /// from every stage on, of every length.
    fn paths(&self, stages: &[Stage]) -> Vec<Range<usize>> {
        let first = self.stages.start;
        let follows = |at: usize| {
            let inside = stages[first + at].inputs.iter().filter(|&&input| input >= first);
            at > 0 && inside.eq([&(first + at - 1)])
        };
        let count = self.ways.len();
        let from = |start: usize| {
            let end = (start + 1..count).take_while(|&at| follows(at)).last().unwrap_or(start);
            (start + 1..=end).map(move |last| start..last + 1)
        };
        (0..count).flat_map(from).collect()
    }

    /// Moves stages and paths as long as that helps; what is left of the cost.
    fn improve(&mut self, paths: &[Range<usize>], of: (&[Stage], &Boundary<'_>, Weights)) -> f64 {
        let mut least = self.cost(of);
        for _ in 0..PASSES {
            let before = least;
            for at in 0..self.ways.len() {
                for way in 0..self.ways[at].len() {
                    least = self.attempt(at..at + 1, &|_, _| Some(way), least, of);
                }
            }
            for path in paths {
                for placed in [|way: &Way| way.place == Place::Cpu, |way: &Way| way.place == Place::Gpu] {
                    let to = |region: &Self, at: usize| region.ways[at].iter().position(placed);
                    least = self.attempt(path.clone(), &to, least, of);
                }
            }
            if least >= before {
                break;
            }
        }
        least
    }

    /// The cost with the stages `at` computed in other ways, if that is less than `least`;
    /// else all is as before.
    fn attempt(
        &mut self,
        at: Range<usize>,
        to: &dyn Fn(&Self, usize) -> Option<usize>,
        least: f64,
        of: (&[Stage], &Boundary<'_>, Weights),
    ) -> f64 {
        let before: Vec<usize> = self.chosen[at.clone()].to_vec();
        for stage in at.clone() {
            if let Some(way) = to(self, stage) {
                self.chosen[stage] = way;
            }
        }
        if self.chosen[at.clone()] == before[..] {
            return least;
        }
        let cost = self.cost(of);
        if cost < least {
            return cost;
        }
        self.chosen[at].copy_from_slice(&before);
        least
    }

    fn cost(&self, (stages, boundary, weights): (&[Stage], &Boundary<'_>, Weights)) -> f64 {
        weights.of(self.schedule((stages, boundary), &|_| Place::Both, Picos::ZERO).time, self.joules())
    }

    /// Joules of all stages.
    pub(super) fn joules(&self) -> f64 {
        self.each().map(|way| way.joules).sum()
    }

    /// The chosen ways.
    fn each(&self) -> impl Iterator<Item = &Way> {
        self.ways.iter().zip(&self.chosen).map(|(ways, &chosen)| &ways[chosen])
    }

    /// The chosen placements.
    pub(super) fn placements(&self) -> Vec<Placement> {
        self.each().map(|way| way.placement).collect()
    }

    /// Whether the GPU computes anything.
    pub(super) fn uses_gpu(&self) -> bool {
        self.each().any(|way| way.who()[1])
    }

    /// When everything is computed, and where the last result lies then. `entry` says where
    /// results from before the region lie; the GPU can start after `gpu_waits`.
    pub(super) fn schedule(
        &self,
        of: (&[Stage], &Boundary<'_>),
        entry: &dyn Fn(usize) -> Place,
        gpu_waits: Picos,
    ) -> Scheduled {
        let mut clock = Clock {
            first: self.stages.start,
            processors: [Picos::ZERO, gpu_waits],
            before: Vec::new(),
            results: Vec::with_capacity(self.ways.len()),
        };
        for (stage, way) in self.stages.clone().zip(self.each()) {
            clock.wait(stage, way, of, entry);
            clock.compute(way);
        }
        let place = clock.results.last().map_or(Place::Both, |(_, place)| *place);
        let [cpu, gpu] = clock.processors;
        Scheduled { time: cpu.max(gpu), place }
    }
}

/// How far a schedule has come.
struct Clock {
    /// The region's first stage.
    first: usize,
    /// When CPU and GPU have done what they were given.
    processors: [Picos; 2],
    /// Results from before the region that both have by now.
    before: Vec<usize>,
    /// When each stage's result is there, and where it lies.
    results: Vec<(Picos, Place)>,
}

impl Clock {
    /// Until who computes `stage` has what it reads.
    fn wait(
        &mut self,
        stage: usize,
        way: &Way,
        (stages, boundary): (&[Stage], &Boundary<'_>),
        entry: &dyn Fn(usize) -> Place,
    ) {
        let who = way.who();
        for (at, &input) in stages[stage].inputs.iter().enumerate() {
            let (ready, place) = self.found(input, entry);
            let crossing = boundary.crossing(place, &stages[input], (&stages[stage], at), way.reader());
            for (processor, own) in [crossing.cpu, crossing.gpu].into_iter().enumerate() {
                if who[processor] {
                    let clock = &mut self.processors[processor];
                    *clock = (*clock).max(ready) + crossing.both + own;
                }
            }
            // Who reads a result has it from then on.
            let is_alone = matches!((place, who), (Place::Cpu, [true, false]) | (Place::Gpu, [false, true]));
            if !is_alone {
                self.share(input);
            }
        }
    }

    fn found(&self, input: usize, entry: &dyn Fn(usize) -> Place) -> (Picos, Place) {
        if let Some(inside) = input.checked_sub(self.first) {
            return self.results[inside];
        }
        let place = if self.before.contains(&input) { Place::Both } else { entry(input) };
        (Picos::ZERO, place)
    }

    /// Both have the result from now on.
    fn share(&mut self, input: usize) {
        if let Some(inside) = input.checked_sub(self.first) {
            self.results[inside].1 = Place::Both;
        } else {
            self.before.push(input);
        }
    }

    fn compute(&mut self, way: &Way) {
        for (clock, time) in self.processors.iter_mut().zip(way.times) {
            *clock += time;
        }
        let [cpu, gpu] = self.processors;
        let end = match way.who() {
            [true, true] => {
                let joined = cpu.max(gpu) + way.joining;
                self.processors = [joined, joined];
                joined
            }
            [true, false] => cpu,
            _ => gpu,
        };
        self.results.push((end, way.place));
    }
}
