//! What parts of operators take alone, each asked of its kernel model once.
//!
//! Responsible for: remembering. Operators of one network are often alike, and
//! strategies ask for the same parts. Not for: what processors cost each other.
//! Invariant: a price is what the kernel model says inside what is measured.

use std::collections::HashMap;
use std::rc::Rc;

use foldhash::fast::FixedState;

use super::{Grid, Objective, SearchOptions};
use crate::device::Profile;
use crate::kernel::{CoreSet, Phases};
use crate::plan::{Axis, Processor, Region};
use crate::simulate::{Detail, Result, Simulator, above_idle};
use crate::units::Picos;
use crate::workload::{Layer, Stage};

/// What one processor takes for one part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Price {
    /// Its time alone.
    pub(super) time: Picos,
    /// Joules above what the device draws idle, memory traffic included; zero where the
    /// profile knows no power, or only time counts.
    pub(super) joules: f64,
}

impl Price {
    /// That of phases; their energy only where it counts.
    pub(super) fn of(device: &Profile, phases: &Phases, detail: &Detail, objective: Objective) -> Self {
        let joules = match objective {
            Objective::Latency => 0.0,
            Objective::Energy | Objective::Edp => above_idle(device, phases, detail).0,
        };
        Self { time: phases.duration(), joules }
    }
}

/// Which layer, who computes it, and which region of its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    kind: usize,
    by: usize,
    region: Region,
}

/// What `by` takes for `layer` inside what `simulator` runs whole; `None` where it has no
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
    /// The layers that differ, and which of them each stage has.
    pub(super) layers: Vec<Layer>,
    pub(super) kinds: Vec<usize>,
    core_sets: Vec<CoreSet>,
    parts: HashMap<Key, Option<Price>, FixedState>,
    grids: HashMap<(usize, Axis), Rc<Grid>>,
}

impl<'a> Prices<'a> {
    /// Of the parts of `stages` inside what `simulator` runs whole.
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
        Self {
            simulator,
            objective,
            layers,
            kinds,
            core_sets: Vec::new(),
            parts: HashMap::default(),
            grids: HashMap::new(),
        }
    }

    /// Which of the layers that differ a stage has.
    pub(super) fn kind(&self, stage: usize) -> usize {
        self.kinds[stage]
    }

    /// The whole of a stage; `None` where the processor has no kernel for it.
    pub(super) fn whole(&mut self, stage: usize, by: Processor) -> Option<Price> {
        self.part(stage, by, Region::ALL)
    }

    /// A region of the output of a stage.
    pub(super) fn part(&mut self, stage: usize, by: Processor, region: Region) -> Option<Price> {
        let kind = self.kinds[stage];
        let key = Key { kind, by: self.number(by), region };
        let (simulator, layer, objective) = (&self.simulator, &self.layers[kind], self.objective);
        *self.parts.entry(key).or_insert_with(|| match region {
            Region::ALL => price(simulator, layer, by, objective),
            region => price(simulator, &region.part_of(layer), by, objective),
        })
    }

    /// A number for who computes.
    fn number(&mut self, by: Processor) -> usize {
        let cores = match by {
            Processor::Gpu => return 0,
            Processor::Npu(_) => return 1,
            Processor::Cpu(cores) => cores,
        };
        let known = self.core_sets.iter().position(|known| *known == cores);
        2 + known.unwrap_or_else(|| {
            self.core_sets.push(cores);
            self.core_sets.len() - 1
        })
    }

    /// Every cut of a stage along `axis`.
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
