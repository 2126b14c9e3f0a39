//! Time and energy of parts of operators without contention, each computed once by its kernel model.
//!
//! Responsible for: caching. Many operators of a network have the same shape, and
//! strategies price the same parts. Not for: contention and synchronisation between processors.
//! Invariant: a price is the kernel model's answer for an operator inside the simulated workload.

use std::collections::HashMap;
use std::rc::Rc;

use foldhash::fast::FixedState;

use super::{Grid, Objective, SearchOptions};
use crate::device::Profile;
use crate::kernel::Phases;
use crate::plan::{Axis, Placement, Plan, Processor, Region};
use crate::simulate::{Detail, Result, Simulator, above_idle};
use crate::units::{Joules, Picos};
use crate::workload::{Layer, Stage};

/// Time and energy of one part on one processor, with nothing else running.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Price {
    pub(super) time: Picos,
    /// Joules above idle power, memory traffic included; zero if the profile has no power or
    /// only time counts.
    pub(super) joules: f64,
}

impl Price {
    /// The price of phases; the energy only if the objective includes it.
    pub(super) fn of(device: &Profile, phases: &Phases, detail: &Detail, objective: Objective) -> Self {
        let joules = match objective {
            Objective::Latency => 0.0,
            Objective::Energy | Objective::Edp => above_idle(device, phases, detail).0,
        };
        Self { time: phases.duration(), joules }
    }
}

/// The price of `layer` on `by` inside the workload of `simulator`; `None` if `by` has no
/// kernel for it.
pub(super) fn price(
    simulator: &Simulator<'_>,
    layer: &Layer,
    by: Processor,
    objective: Objective,
) -> Option<Price> {
    let (phases, detail) = simulator.layer(layer, by).ok()?;
    Some(Price::of(simulator.device(), &phases, &detail, objective))
}

/// Cache of kernel-model results.
#[derive(Debug)]
pub(super) struct Prices<'a> {
    simulator: Simulator<'a>,
    objective: Objective,
    /// The distinct layers, and the index of each stage's layer among them.
    pub(super) layers: Vec<Layer>,
    pub(super) kinds: Vec<usize>,
    /// By distinct layer, processor and region of the layer's output.
    parts: HashMap<(usize, Processor, Region), Option<Price>, FixedState>,
    grids: HashMap<(usize, Axis), Rc<Grid>>,
}

impl<'a> Prices<'a> {
    /// An empty cache for parts of `stages` inside the workload of `simulator`.
    pub(super) fn new(simulator: &Simulator<'a>, stages: &[Stage], objective: Objective) -> Self {
        let mut layers: Vec<Layer> = Vec::new();
        let mut known: HashMap<&Layer, usize> = HashMap::new();
        let kinds = stages
            .iter()
            .map(|stage| {
                *known.entry(&stage.layer).or_insert_with(|| {
                    layers.push(stage.layer.clone());
                    layers.len() - 1
                })
            })
            .collect();
        let simulator = simulator.of_parts();
        Self { simulator, objective, layers, kinds, parts: HashMap::default(), grids: HashMap::new() }
    }

    /// Index of a stage's layer among the distinct layers.
    pub(super) fn kind(&self, stage: usize) -> usize {
        self.kinds[stage]
    }

    /// The price of a whole stage; `None` if the processor has no kernel for it.
    pub(super) fn whole(&mut self, stage: usize, by: Processor) -> Option<Price> {
        self.part(stage, by, Region::ALL)
    }

    /// The price of a region of a stage's output; `None` if the processor has no kernel for it.
    pub(super) fn part(&mut self, stage: usize, by: Processor, region: Region) -> Option<Price> {
        let kind = self.kinds[stage];
        let (simulator, layer, objective) = (&self.simulator, &self.layers[kind], self.objective);
        *self.parts.entry((kind, by, region)).or_insert_with(|| match region {
            Region::ALL => price(simulator, layer, by, objective),
            region => price(simulator, &region.part_of(layer), by, objective),
        })
    }

    /// The prices of every cut of a stage along `axis`.
    pub(super) fn grid(
        &mut self,
        stages: &[Stage],
        stage: usize,
        options: &SearchOptions,
        axis: Axis,
    ) -> Result<Rc<Grid>> {
        let key = (self.kinds[stage], axis);
        if let Some(known) = self.grids.get(&key) {
            return Ok(Rc::clone(known));
        }
        let grid = Rc::new(Grid::new(&self.simulator, &stages[stage], options, axis)?);
        self.grids.insert(key, Rc::clone(&grid));
        Ok(grid)
    }
}

/// Simulated latency and energy of single operators, by the kind of operator and its placement.
#[derive(Debug, Default)]
pub(super) struct CoRunCache(HashMap<(usize, Placement), (Picos, Option<Joules>), FixedState>);

impl CoRunCache {
    pub(super) fn of(
        &mut self,
        simulator: &mut Simulator<'_>,
        (kind, stage): (usize, &Stage),
        options: &SearchOptions,
        placement: Placement,
    ) -> Result<(Picos, Option<Joules>)> {
        if let Some(&known) = self.0.get(&(kind, placement)) {
            return Ok(known);
        }
        let (stages, plan) = ([stage.isolated()], Plan::new(options.synchronisation, vec![placement]));
        let simulated = if options.objective == Objective::Latency {
            (simulator.latency(&stages, &plan)?, None)
        } else {
            let prediction = simulator.run(&stages, &plan)?;
            (prediction.latency, prediction.energy)
        };
        self.0.insert((kind, placement), simulated);
        Ok(simulated)
    }
}
