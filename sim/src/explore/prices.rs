//! What parts of operators take alone, each asked of its kernel model once.
//!
//! Responsible for: remembering. Operators of one network are often alike, and
//! strategies ask for the same parts. Not for: what processors cost each other.
//! Invariant: a price is what the kernel model says inside what is measured.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use super::Options;
use super::grid::Grid;
use crate::kernel::cpu::CoreSet;
use crate::plan::Axis;
use crate::simulate::{Processor, SimulateError, Simulator, above_idle};
use crate::units::Picos;
use crate::workload::{Layer, Stage};

/// What one processor takes for one part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Price {
    /// Its time alone.
    pub(super) time: Picos,
    /// Joules above what the device draws idle, memory traffic included; zero where the
    /// profile knows no power.
    pub(super) joules: f64,
}

/// Who computes a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Who {
    Cpu(CoreSet),
    Gpu,
}

impl Who {
    fn processor(self) -> (Processor, Option<CoreSet>) {
        match self {
            Self::Cpu(cores) => (Processor::Cpu, Some(cores)),
            Self::Gpu => (Processor::Gpu, None),
        }
    }
}

/// Which part: along what, from where to where; `None` for the whole.
type Part = Option<(Axis, Range<u32>)>;

/// The memory of what was asked.
#[derive(Debug)]
pub(super) struct Prices<'a> {
    simulator: Simulator<'a>,
    /// The layers that differ, and which of them each stage has.
    layers: Vec<Layer>,
    kinds: Vec<usize>,
    parts: HashMap<(usize, Who, Part), Option<Price>>,
    grids: HashMap<(usize, Axis), Rc<Grid>>,
}

impl<'a> Prices<'a> {
    /// Of the parts of `stages` inside what `simulator` runs whole.
    pub(super) fn new(simulator: &Simulator<'a>, stages: &[Stage]) -> Self {
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
        Self { simulator, layers, kinds, parts: HashMap::new(), grids: HashMap::new() }
    }

    /// Which of the layers that differ a stage has.
    pub(super) fn kind(&self, stage: usize) -> usize {
        self.kinds[stage]
    }

    /// The whole of a stage; `None` where the processor has no kernel for it.
    pub(super) fn whole(&mut self, stage: usize, who: Who) -> Option<Price> {
        self.price(stage, who, None)
    }

    /// The part of a stage in `range` along `axis`.
    pub(super) fn part(&mut self, stage: usize, who: Who, axis: Axis, range: Range<u32>) -> Option<Price> {
        self.price(stage, who, Some((axis, range)))
    }

    fn price(&mut self, stage: usize, who: Who, part: Part) -> Option<Price> {
        let kind = self.kinds[stage];
        let (simulator, layer) = (&self.simulator, &self.layers[kind]);
        *self.parts.entry((kind, who, part.clone())).or_insert_with(|| {
            let cut;
            let layer = match part {
                None => layer,
                Some((Axis::Channels, range)) => {
                    cut = layer.with_output_channels(range.end - range.start);
                    &cut
                }
                Some((Axis::Height, range)) => {
                    cut = layer.with_output_rows(range);
                    &cut
                }
            };
            let (processor, cores) = who.processor();
            let (phases, detail) = simulator.layer(layer, processor, cores).ok()?;
            let joules = above_idle(simulator.device(), &phases, &detail).0;
            Some(Price { time: phases.duration(), joules })
        })
    }

    /// Every cut of a stage along `axis`.
    pub(super) fn grid(
        &mut self,
        stages: &[Stage],
        stage: usize,
        options: &Options,
        axis: Axis,
    ) -> Result<Rc<Grid>, SimulateError> {
        let key = (self.kinds[stage], axis);
        if let Some(known) = self.grids.get(&key) {
            return Ok(Rc::clone(known));
        }
        let grid = Rc::new(Grid::new(&self.simulator, &stages[stage], options, axis)?);
        self.grids.insert(key, Rc::clone(&grid));
        Ok(grid)
    }
}
