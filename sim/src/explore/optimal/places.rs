//! Where a label's live results are, in the order of their stages.
//!
//! Responsible for: sharing between labels. Labels of wide workloads hold hundreds of results, of which a move
//! changes few. Not for: what a move changes (`moves`). Invariant: at one position, the results of all labels are
//! divided into blocks in the same way; what is known about blocks is forgotten when one of their results changes.

use std::cell::{Cell, OnceCell};
use std::hash::{BuildHasher, Hash, Hasher};
use std::rc::Rc;

use foldhash::fast::FixedState;

use super::{At, Place};
use crate::device::ProcessorKind;
use crate::schedule::Holders;
use crate::units::Picos;

/// Stages per [`Block`].
const BLOCK_STAGES: usize = 16;

/// Results for which a copy has room.
const ROOM: usize = 2;

/// Live results: stage and place.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// Results of stages at least a block before the position, which labels share.
    older: Rc<Older>,
    recent: Vec<(usize, Place)>,
}

/// Blocks in the order of their stages, and what is known about all of them.
#[derive(Clone, Debug, Default)]
struct Older {
    blocks: Vec<Rc<Block>>,
    known: Known,
}

/// The live results of [`BLOCK_STAGES`] stages, of which there is at least one, and what is known about them.
#[derive(Clone, Debug)]
struct Block {
    results: Vec<(usize, Place)>,
    known: Known,
    hashes: OnceCell<Hashes>,
}

/// What is known about the results of one or all blocks.
#[derive(Clone, Debug, Default)]
struct Known {
    summary: OnceCell<Summary>,
    /// For each processor, the time that [`Places::latest`] gives.
    latest: OnceCell<[Picos; 3]>,
    /// The cost that [`Places::largest_cost`] gives, and the position up to which it holds.
    largest: Cell<Option<(f64, usize)>>,
}

#[derive(Clone, Copy, Debug)]
struct Summary {
    /// When the last result is ready.
    ready: Picos,
    has_open: bool,
    are_of_npu: bool,
}

/// Hashes of [`Place::at`] and [`Place::of_npu`] of all results.
#[derive(Clone, Copy, Debug)]
struct Hashes {
    at: u64,
    of_npu: u64,
}

impl Known {
    /// The largest cost at `position`, as known or, if that no longer holds, as found.
    fn largest(&self, position: usize, find: impl FnOnce() -> (f64, usize)) -> (f64, usize) {
        let known = self.largest.get().filter(|(_, until)| position <= *until);
        known.unwrap_or_else(|| {
            let found = find();
            self.largest.set(Some(found));
            found
        })
    }
}

impl Summary {
    const NOTHING: Self = Self { ready: Picos::ZERO, has_open: false, are_of_npu: true };

    fn of(place: &Place) -> Self {
        Self { ready: place.ready, has_open: place.is_open(), are_of_npu: place.of_npu }
    }

    fn and(self, other: Self) -> Self {
        Self {
            ready: self.ready.max(other.ready),
            has_open: self.has_open || other.has_open,
            are_of_npu: self.are_of_npu && other.are_of_npu,
        }
    }
}

impl Older {
    /// The blocks, to be changed.
    fn changed(self: &mut Rc<Self>) -> &mut Vec<Rc<Block>> {
        let older = Rc::make_mut(self);
        older.known = Known::default();
        &mut older.blocks
    }

    fn summary(&self) -> Summary {
        let of_all = || self.blocks.iter().map(|block| block.summary()).fold(Summary::NOTHING, Summary::and);
        *self.known.summary.get_or_init(of_all)
    }
}

impl Block {
    fn new(results: Vec<(usize, Place)>) -> Rc<Self> {
        Rc::new(Self { results, known: Known::default(), hashes: OnceCell::new() })
    }

    /// Its results, to be changed.
    fn changed(self: &mut Rc<Self>) -> &mut Vec<(usize, Place)> {
        let block = Rc::make_mut(self);
        (block.known, block.hashes) = (Known::default(), OnceCell::new());
        &mut block.results
    }

    fn summary(&self) -> Summary {
        let of_all = || self.results.iter().map(|(_, place)| Summary::of(place));
        *self.known.summary.get_or_init(|| of_all().fold(Summary::NOTHING, Summary::and))
    }

    fn hashes(&self) -> &Hashes {
        self.hashes.get_or_init(|| {
            let [mut at, mut of_npu] = [0; 2].map(|_| FixedState::default().build_hasher());
            for (_, place) in &self.results {
                place.at.hash(&mut at);
                of_npu.write_u8(u8::from(place.of_npu));
            }
            Hashes { at: at.finish(), of_npu: of_npu.finish() }
        })
    }
}

impl FromIterator<(usize, Place)> for Places {
    fn from_iter<I: IntoIterator<Item = (usize, Place)>>(results: I) -> Self {
        Self { older: Rc::default(), recent: results.into_iter().collect() }
    }
}

impl Places {
    /// A copy with room for the results of more stages, so that adding them moves no others.
    pub(super) fn roomy_copy(&self) -> Self {
        let mut recent = Vec::with_capacity(self.recent.len() + ROOM);
        recent.extend_from_slice(&self.recent);
        Self { older: Rc::clone(&self.older), recent }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(usize, Place)> {
        self.older.blocks.iter().flat_map(|block| &block.results).chain(&self.recent)
    }

    /// The place of a stage's result, if it is live.
    pub(super) fn get(&self, stage: usize) -> Option<&Place> {
        let results = match self.block_of(stage) {
            Some(block) => &self.older.blocks[block].results,
            None => &self.recent,
        };
        let found = results.binary_search_by_key(&stage, |result| result.0).ok()?;
        Some(&results[found].1)
    }

    pub(super) fn get_mut(&mut self, stage: usize) -> Option<&mut Place> {
        let results = match self.block_of(stage) {
            Some(block) => self.older.changed()[block].changed(),
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
        self.older.blocks.binary_search_by_key(&Some(stage / BLOCK_STAGES), first).ok()
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
        let blocks = if self.older.summary().has_open { self.older.blocks.as_slice() } else { &[] };
        let older = blocks.iter().filter(|block| block.summary().has_open);
        let results = older.flat_map(|block| &block.results).chain(&self.recent);
        results.filter(|(_, place)| place.is_open())
    }

    /// Puts those results of open chains that `is_meant` at `place`.
    pub(super) fn close(&mut self, is_meant: impl Fn(&Place) -> bool, place: Place) {
        self.change(
            |summary| summary.has_open,
            |known| known.is_open() && is_meant(known),
            |known| *known = place,
        );
    }

    /// Changes the results that `is_meant`; `may_be_in` tells which blocks may have one.
    fn change(
        &mut self,
        may_be_in: impl Fn(Summary) -> bool,
        is_meant: impl Fn(&Place) -> bool,
        change: impl Fn(&mut Place),
    ) {
        let has_any = |block: &Block| {
            may_be_in(block.summary()) && block.results.iter().any(|(_, place)| is_meant(place))
        };
        if may_be_in(self.older.summary()) && self.older.blocks.iter().any(|block| has_any(block)) {
            for block in self.older.changed().iter_mut().filter(|block| has_any(block)) {
                let meant = block.changed().iter_mut().filter(|(_, place)| is_meant(place));
                meant.for_each(|(_, place)| change(place));
            }
        }
        let meant = self.recent.iter_mut().filter(|(_, place)| is_meant(place));
        meant.for_each(|(_, place)| change(place));
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
            let older = self.older.changed();
            let results = older[block].changed();
            results.retain(|result| result.0 != stage);
            if results.is_empty() {
                older.remove(block);
            }
        }
        self.recent.extend(new);
        let first_recent = (position / BLOCK_STAGES).saturating_sub(1) * BLOCK_STAGES;
        let count = self.recent.partition_point(|result| result.0 < first_recent);
        if count > 0 {
            let is_same =
                |one: &(usize, Place), other: &(usize, Place)| one.0 / BLOCK_STAGES == other.0 / BLOCK_STAGES;
            let blocks = self.recent[..count].chunk_by(is_same);
            self.older.changed().extend(blocks.map(|results| Block::new(results.to_vec())));
            self.recent.drain(..count);
        }
    }

    /// Forgets times that `are_passed`, so that they are no constraint.
    pub(super) fn forget(&mut self, are_passed: impl Fn(&Place) -> bool) {
        let is_new = |place: &Place| place.ready > Picos::ZERO && are_passed(place);
        let forget = |place: &mut Place| (place.ready, place.usable) = (Picos::ZERO, Picos::ZERO);
        self.change(|summary| summary.ready > Picos::ZERO, is_new, forget);
    }

    /// The recent results from `first` on that only the NPU has are of a graph that ends no earlier than `end`. Others
    /// of it may be taken to be ready earlier: there can be too many to change.
    pub(super) fn outlast(&mut self, first: usize, end: Picos) {
        let of_npu = At::With(Holders::one(ProcessorKind::Npu));
        for (_, place) in self.recent.iter_mut().filter(|result| result.0 >= first && result.1.at == of_npu) {
            (place.ready, place.usable) = (place.ready.max(end), place.usable.max(end));
        }
    }

    pub(super) fn are_of_npu(&self) -> bool {
        self.older.summary().are_of_npu && self.recent.iter().all(|(_, place)| place.of_npu)
    }

    /// The latest of the times that `of` gives each result, for each processor. Always asked with the same
    /// function.
    pub(super) fn latest(&self, of: impl Fn(&(usize, Place)) -> [Picos; 3]) -> [Picos; 3] {
        let latest = |one: [Picos; 3], other: [Picos; 3]| [0, 1, 2].map(|by: usize| one[by].max(other[by]));
        let of_all = |results: &[(usize, Place)]| results.iter().map(&of).fold([Picos::ZERO; 3], latest);
        let of_block = |block: &Rc<Block>| *block.known.latest.get_or_init(|| of_all(&block.results));
        let of_blocks = || self.older.blocks.iter().map(of_block).fold([Picos::ZERO; 3], latest);
        latest(*self.older.known.latest.get_or_init(of_blocks), of_all(&self.recent))
    }

    /// The largest of the costs at `position` that `of` gives each result, and the position up to which it holds.
    /// Always asked with the same function.
    pub(super) fn largest_cost(&self, position: usize, of: impl Fn(&(usize, Place)) -> (f64, usize)) -> f64 {
        let largest = |one: (f64, usize), other: (f64, usize)| (one.0.max(other.0), one.1.min(other.1));
        let of_all = |results: &[(usize, Place)]| results.iter().map(&of).fold((0.0, usize::MAX), largest);
        let of_block = |block: &Rc<Block>| block.known.largest(position, || of_all(&block.results));
        let of_blocks = || self.older.blocks.iter().map(of_block).fold((0.0, usize::MAX), largest);
        largest(self.older.known.largest(position, of_blocks), of_all(&self.recent)).0
    }

    /// Whether every result is at a place no worse than the same one of `other`.
    pub(super) fn are_no_worse_than(&self, other: &Self, passed: Picos) -> bool {
        let are_no_worse = |own: &[(usize, Place)], others: &[(usize, Place)]| {
            own.iter().zip(others).all(|(own, other)| own.1.is_no_worse_than(&other.1, passed))
        };
        let mut older = self.older.blocks.iter().zip(&other.older.blocks);
        are_no_worse(&self.recent, &other.recent)
            && (Rc::ptr_eq(&self.older, &other.older)
                || older
                    .all(|(own, other)| Rc::ptr_eq(own, other) || are_no_worse(&own.results, &other.results)))
    }

    /// Every result becomes no worse than the same one of `other`.
    pub(super) fn absorb(&mut self, other: &Self) {
        if !Rc::ptr_eq(&self.older, &other.older) {
            let blocks = self.older.changed().iter_mut().zip(&other.older.blocks);
            for (own, other) in blocks.filter(|(own, other)| !Rc::ptr_eq(own, other)) {
                own.changed().iter_mut().zip(&other.results).for_each(|(own, other)| own.1.absorb(&other.1));
            }
        }
        self.recent.iter_mut().zip(&other.recent).for_each(|(own, other)| own.1.absorb(&other.1));
    }

    /// Hashes, for each result, whether it is `of_npu` and, given the length of a cell of time, its place.
    pub(super) fn hash_cells(&self, of_npu: bool, cell: Option<u64>, hasher: &mut impl Hasher) {
        for block in &self.older.blocks {
            hasher.write_u64(if of_npu { block.hashes().of_npu } else { 0 });
            if let Some(cell) = cell {
                hasher.write_u64(block.hashes().at);
                let late = block.results.iter().filter(|_| block.summary().ready.0 >= cell);
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
