//! What parts of operators take alone, each asked of its kernel model once.
//!
//! Responsible for: remembering. Operators of one network are often alike, and
//! strategies ask for the same parts. Not for: what processors cost each other.
//! Invariant: a price is what the kernel model says inside what is measured.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};
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

/// The layer, who computes it, and which part, in 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key(u128);

impl Key {
    fn new(kind: usize, who: usize, part: Option<&(Axis, Range<u32>)>) -> Self {
        let axis = part.map_or(0, |(axis, _)| 1 + *axis as u128);
        let (start, end) = part.map_or((0, 0), |(_, range)| (range.start, range.end));
        let place = u128::from(start) << 32 | u128::from(end);
        // Workloads have far fewer kinds of operator than 2^32, and devices few core sets.
        Self((kind as u128) << 80 | (who as u128) << 72 | axis << 64 | place)
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u128(self.0);
    }
}

/// Multiplies and folds: keys come from this program, not from somebody who wants them to
/// collide.
#[derive(Clone, Copy, Debug, Default)]
struct Folding(u64);

impl Hasher for Folding {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u128(u128::from(byte));
        }
    }

    fn write_u128(&mut self, number: u128) {
        /// An odd number without pattern: the golden ratio's digits.
        const MULTIPLIER: u128 = 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835;
        let product = (number ^ u128::from(self.0)).wrapping_mul(MULTIPLIER);
        self.0 = (product >> 64) as u64 ^ (product >> 32) as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The memory of what was asked.
pub(super) struct Prices<'a> {
    simulator: Simulator<'a>,
    /// The layers that differ, and which of them each stage has.
    layers: Vec<Layer>,
    kinds: Vec<usize>,
    core_sets: Vec<CoreSet>,
    parts: HashMap<Key, Option<Price>, BuildHasherDefault<Folding>>,
    grids: HashMap<(usize, Axis), Rc<Grid>>,
}

impl fmt::Debug for Prices<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prices").field("known", &self.parts.len()).finish_non_exhaustive()
    }
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
        Self {
            simulator,
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
    pub(super) fn whole(&mut self, stage: usize, who: Who) -> Option<Price> {
        self.price(stage, who, None)
    }

    /// The part of a stage in `range` along `axis`.
    pub(super) fn part(&mut self, stage: usize, who: Who, axis: Axis, range: Range<u32>) -> Option<Price> {
        self.price(stage, who, Some((axis, range)))
    }

    /// A number for who computes.
    fn number(&mut self, who: Who) -> usize {
        let Who::Cpu(cores) = who else { return 0 };
        let known = self.core_sets.iter().position(|known| *known == cores);
        1 + known.unwrap_or_else(|| {
            self.core_sets.push(cores);
            self.core_sets.len() - 1
        })
    }

    fn price(&mut self, stage: usize, who: Who, part: Part) -> Option<Price> {
        let kind = self.kinds[stage];
        let key = Key::new(kind, self.number(who), part.as_ref());
        let (simulator, layer) = (&self.simulator, &self.layers[kind]);
        *self.parts.entry(key).or_insert_with(|| {
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
