//! Where a label's live results are, in the order of their stages.
//!
//! Responsible for: sharing between labels. Labels of wide workloads hold hundreds of results, of which a move
//! changes few. Not for: what a move changes (`moves`). Invariant: at one position, the results of all labels are
//! divided into blocks in the same way; what a block knows is forgotten when one of its results changes.

use std::cell::{Cell, OnceCell};
use std::hash::{BuildHasher, Hash, Hasher};
use std::rc::Rc;

use foldhash::fast::FixedState;

use super::{At, Place};
use crate::device::ProcessorKind;
use crate::units::Picos;

/// Stages per [`Block`].
const BLOCK_STAGES: usize = 16;

/// Results for which a copy has room.
const ROOM: usize = 2;

/// Live results: stage and place.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// Results of stages at least a block before the position, which labels share.
    older: Vec<Rc<Block>>,
    recent: Vec<(usize, Place)>,
}

/// The live results of [`BLOCK_STAGES`] stages, of which there is at least one, and what is known about them.
#[derive(Clone, Debug)]
struct Block {
    results: Vec<(usize, Place)>,
    known: OnceCell<Known>,
    /// For each processor, the time that [`Places::latest`] gives.
    latest: OnceCell<[Picos; 3]>,
    /// The cost that [`Places::largest_cost`] gives, and the position up to which it holds.
    largest: Cell<Option<(f64, usize)>>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    /// When the last result is ready.
    ready: Picos,
    has_open: bool,
    are_of_npu: bool,
    /// Hashes of [`Place::at`] and [`Place::of_npu`].
    at: u64,
    of_npu: u64,
}

impl Block {
    fn new(results: Vec<(usize, Place)>) -> Rc<Self> {
        let (known, latest) = (OnceCell::new(), OnceCell::new());
        Rc::new(Self { results, known, latest, largest: Cell::new(None) })
    }

    /// Its results, to be changed.
    fn changed(self: &mut Rc<Self>) -> &mut Vec<(usize, Place)> {
        let block = Rc::make_mut(self);
        (block.known, block.latest, block.largest) = (OnceCell::new(), OnceCell::new(), Cell::new(None));
        &mut block.results
    }

    fn known(&self) -> &Known {
        self.known.get_or_init(|| {
            let [mut at, mut of_npu] = [0; 2].map(|_| FixedState::default().build_hasher());
            for (_, place) in &self.results {
                place.at.hash(&mut at);
                of_npu.write_u8(u8::from(place.of_npu));
            }
            Known {
                ready: self.results.iter().map(|(_, place)| place.ready).max().unwrap_or_default(),
                has_open: self.results.iter().any(|(_, place)| place.is_open()),
                are_of_npu: self.results.iter().all(|(_, place)| place.of_npu),
                at: at.finish(),
                of_npu: of_npu.finish(),
            }
        })
    }
}

impl FromIterator<(usize, Place)> for Places {
    fn from_iter<I: IntoIterator<Item = (usize, Place)>>(results: I) -> Self {
        Self { older: Vec::new(), recent: results.into_iter().collect() }
    }
}

impl Places {
    /// A copy with room for the results of more stages, so that adding them moves no others.
    pub(super) fn roomy_copy(&self) -> Self {
        let mut recent = Vec::with_capacity(self.recent.len() + ROOM);
        recent.extend_from_slice(&self.recent);
        Self { older: self.older.clone(), recent }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(usize, Place)> {
        self.older.iter().flat_map(|block| &block.results).chain(&self.recent)
    }

    /// The place of a stage's result, if it is live.
    pub(super) fn get(&self, stage: usize) -> Option<&Place> {
        let results = match self.block_of(stage) {
            Some(block) => &self.older[block].results,
            None => &self.recent,
        };
        let found = results.binary_search_by_key(&stage, |result| result.0).ok()?;
        Some(&results[found].1)
    }

    pub(super) fn get_mut(&mut self, stage: usize) -> Option<&mut Place> {
        let results = match self.block_of(stage) {
            Some(block) => self.older[block].changed(),
            None => &mut self.recent,
        };
        let found = results.binary_search_by_key(&stage, |result| result.0).ok()?;
        Some(&mut results[found].1)
    }

    /// Processor `by` has the whole result of a stage, too.
    pub(super) fn add_holder(&mut self, stage: usize, by: ProcessorKind) {
        if let Some(place) = self.get_mut(stage)
            && let At::With(holders) = place.at
        {
            place.at = At::With(holders.with(by));
        }
    }

    fn block_of(&self, stage: usize) -> Option<usize> {
        let first = |block: &Rc<Block>| block.results.first().map(|(first, _)| first / BLOCK_STAGES);
        self.older.binary_search_by_key(&Some(stage / BLOCK_STAGES), first).ok()
    }

    /// The place of the last recent result: that of the stage just before the position, if anything reads it.
    pub(super) fn last(&self) -> Option<&Place> {
        self.recent.last().map(|(_, place)| place)
    }

    pub(super) fn last_mut(&mut self) -> Option<&mut Place> {
        self.recent.last_mut().map(|(_, place)| place)
    }

    /// The results whose parts are in an open chain.
    pub(super) fn open(&self) -> impl Iterator<Item = &(usize, Place)> {
        let older = self.older.iter().filter(|block| block.known().has_open);
        let results = older.flat_map(|block| &block.results).chain(&self.recent);
        results.filter(|(_, place)| place.is_open())
    }

    /// Puts those results of open chains that `is_meant` at `place`.
    pub(super) fn close(&mut self, is_meant: impl Fn(&Place) -> bool, place: Place) {
        let older = self.older.iter_mut().filter(|block| block.known().has_open);
        for results in older.map(Block::changed).chain([&mut self.recent]) {
            let meant = results.iter_mut().filter(|(_, known)| known.is_open() && is_meant(known));
            meant.for_each(|(_, known)| *known = place);
        }
    }

    /// At `position`: without the results that nobody reads any more, and with `new` ones, of later stages.
    pub(super) fn advance(
        &mut self,
        position: usize,
        dead: impl Iterator<Item = usize>,
        new: impl Iterator<Item = (usize, Place)>,
    ) {
        for stage in dead {
            let Some(block) = self.block_of(stage) else {
                self.recent.retain(|result| result.0 != stage);
                continue;
            };
            let results = self.older[block].changed();
            results.retain(|result| result.0 != stage);
            if results.is_empty() {
                self.older.remove(block);
            }
        }
        self.recent.extend(new);
        let first_recent = (position / BLOCK_STAGES).saturating_sub(1) * BLOCK_STAGES;
        let count = self.recent.partition_point(|result| result.0 < first_recent);
        let blocks =
            self.recent[..count].chunk_by(|one, other| one.0 / BLOCK_STAGES == other.0 / BLOCK_STAGES);
        self.older.extend(blocks.map(|results| Block::new(results.to_vec())));
        self.recent.drain(..count);
    }

    /// Forgets times that `are_passed`, so that they are no constraint.
    pub(super) fn forget(&mut self, are_passed: impl Fn(&Place) -> bool) {
        let is_new = |place: &Place| place.ready > Picos::ZERO && are_passed(place);
        let older = self.older.iter_mut().filter(|block| {
            block.known().ready > Picos::ZERO && block.results.iter().any(|(_, place)| is_new(place))
        });
        for results in older.map(Block::changed).chain([&mut self.recent]) {
            let passed = results.iter_mut().filter(|(_, place)| are_passed(place));
            passed.for_each(|(_, place)| (place.ready, place.usable) = (Picos::ZERO, Picos::ZERO));
        }
    }

    pub(super) fn are_of_npu(&self) -> bool {
        self.older.iter().all(|block| block.known().are_of_npu)
            && self.recent.iter().all(|(_, place)| place.of_npu)
    }

    /// The latest of the times that `of` gives each result, for each processor. Always asked with the same
    /// function.
    pub(super) fn latest(&self, of: impl Fn(&(usize, Place)) -> [Picos; 3]) -> [Picos; 3] {
        let latest = |one: [Picos; 3], other: [Picos; 3]| [0, 1, 2].map(|by: usize| one[by].max(other[by]));
        let of_all = |results: &[(usize, Place)]| results.iter().map(&of).fold([Picos::ZERO; 3], latest);
        let older = self.older.iter().map(|block| *block.latest.get_or_init(|| of_all(&block.results)));
        older.fold(of_all(&self.recent), latest)
    }

    /// The largest of the costs at `position` that `of` gives each result, and the position up to which it holds.
    /// Always asked with the same function.
    pub(super) fn largest_cost(&self, position: usize, of: impl Fn(&(usize, Place)) -> (f64, usize)) -> f64 {
        let largest = |one: (f64, usize), other: (f64, usize)| (one.0.max(other.0), one.1.min(other.1));
        let of_all = |results: &[(usize, Place)]| results.iter().map(&of).fold((0.0, usize::MAX), largest);
        let of_block = |block: &Rc<Block>| {
            let known = block.largest.get().filter(|(_, until)| position <= *until);
            known.unwrap_or_else(|| {
                let found = of_all(&block.results);
                block.largest.set(Some(found));
                found
            })
        };
        self.older.iter().map(of_block).fold(of_all(&self.recent), largest).0
    }

    /// Whether every result is at a place no worse than the same one of `other`.
    pub(super) fn are_no_worse_than(&self, other: &Self, passed: Picos) -> bool {
        let are_no_worse = |own: &[(usize, Place)], others: &[(usize, Place)]| {
            own.iter().zip(others).all(|(own, other)| own.1.is_no_worse_than(&other.1, passed))
        };
        let mut older = self.older.iter().zip(&other.older);
        are_no_worse(&self.recent, &other.recent)
            && older.all(|(own, other)| Rc::ptr_eq(own, other) || are_no_worse(&own.results, &other.results))
    }

    /// Every result becomes no worse than the same one of `other`.
    pub(super) fn absorb(&mut self, other: &Self) {
        for (own, other) in self.older.iter_mut().zip(&other.older) {
            if !Rc::ptr_eq(own, other) {
                own.changed().iter_mut().zip(&other.results).for_each(|(own, other)| own.1.absorb(&other.1));
            }
        }
        self.recent.iter_mut().zip(&other.recent).for_each(|(own, other)| own.1.absorb(&other.1));
    }

    /// Hashes, for each result, whether it is `of_npu` and, given the length of a cell of time, its place.
    pub(super) fn hash_cells(&self, of_npu: bool, cell: Option<u64>, hasher: &mut impl Hasher) {
        for block in &self.older {
            let known = block.known();
            hasher.write_u64(if of_npu { known.of_npu } else { 0 });
            if let Some(cell) = cell {
                hasher.write_u64(known.at);
                let late = block.results.iter().filter(|_| known.ready.0 >= cell);
                late.for_each(|(_, place)| hasher.write_u64(place.ready.0 / cell));
            }
        }
        for (_, place) in &self.recent {
            hasher.write_u8(u8::from(place.of_npu && of_npu));
            if let Some(cell) = cell {
                hasher.write_u64(place.ready.0 / cell);
                place.at.hash(hasher);
            }
        }
    }
}
