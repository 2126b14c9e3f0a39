//! The place of one live result: which processors have how much of it, and from when on.
//!
//! Responsible for: which place is no worse than another. Not for: when results get there (`moves`). Invariant: the
//! best of two places is no worse than either.

use crate::device::ProcessorKind;
use crate::plan::Axis;
use crate::schedule::Holders;
use crate::units::Picos;

/// How a stage or a chain is cut: the axis, and the index of the core set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Cutting {
    pub(super) axis: Axis,
    pub(super) cores: u8,
}

/// Which processors have a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum At {
    /// These have all of it.
    With(Holders),
    /// Its parts are in an open chain, not joined yet.
    Open(Cutting),
}

/// The place of a live result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) at: At,
    pub(super) ready: Picos,
    /// Earliest start of a stage that reads it: `ready`, or in an open chain the end of the earlier
    /// part.
    pub(super) usable: Picos,
    /// Whether the NPU computed all of it, so that the NPU's graph can continue with it.
    pub(super) of_npu: bool,
    /// In an open chain, the end of the CPU's part and the start of the GPU's. Of a joined cut with a
    /// GPU that has memory of its own, the lines of the CPU's part and of all. Otherwise zero.
    pub(super) lines: [u32; 2],
}

/// Bits of NPU graphs, and of parts of chains along either axis, above those of the processors.
const NPU_GRAPH: u8 = 0b1000;
const CHAIN_PARTS: u8 = 0b1111_0000;

impl At {
    /// Whether a result here serves every reader no later than one at `other`.
    fn is_no_worse_than(self, other: Self) -> bool {
        match (self, other) {
            (Self::With(own), Self::With(others)) => own.has_all(others),
            (Self::With(own), Self::Open(_)) => own.has_all(Holders::joined(false)),
            (own @ Self::Open(_), other) => own == other,
        }
    }

    /// A place no worse than both: a result that CPU and GPU have is no worse than one in parts.
    fn best_of(self, other: Self) -> Self {
        let both = Holders::joined(false);
        match (self, other) {
            (Self::With(own), Self::With(others)) => Self::With(own.with_all(others)),
            (Self::With(own), Self::Open(_)) | (Self::Open(_), Self::With(own)) => {
                Self::With(own.with_all(both))
            }
            (Self::Open(own), Self::Open(others)) if own == others => self,
            (Self::Open(_), Self::Open(_)) => Self::With(both),
        }
    }
}

impl Place {
    /// A result that `holders` have from `ready` on.
    pub(super) fn with(holders: Holders, ready: Picos) -> Self {
        Self { at: At::With(holders), ready, usable: ready, of_npu: false, lines: [0; 2] }
    }

    /// The readers that this place serves, and those that any place no worse must serve, as bits: one
    /// for each processor, one for NPU graphs, and those for parts of chains, which a result with CPU
    /// and GPU serves, too.
    pub(super) fn holders(&self) -> [u8; 2] {
        match self.at {
            At::With(holders) => {
                let bit = |kind: ProcessorKind| u8::from(holders.has(kind)) << kind as u8;
                let of_npu = if self.of_npu { NPU_GRAPH } else { 0 };
                let needs = ProcessorKind::ALL.into_iter().map(bit).fold(of_npu, |bits, bit| bits | bit);
                let serves_parts = holders.has(ProcessorKind::Cpu) && holders.has(ProcessorKind::Gpu);
                [if serves_parts { needs | CHAIN_PARTS } else { needs }, needs]
            }
            // All core sets share the two bits of an axis: an equal bit need not mean the same chain.
            At::Open(Cutting { axis, cores }) => [1 << (4 + 2 * (axis as u8) + cores % 2); 2],
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.at, At::Open(_))
    }

    /// Becomes the best of itself and `other`.
    pub(super) fn absorb(&mut self, other: &Self) {
        self.ready = self.ready.min(other.ready);
        self.usable = self.usable.min(other.usable);
        self.of_npu |= other.of_npu;
        self.at = self.at.best_of(other.at);
        self.lines = if self.lacking() <= other.lacking() { self.lines } else { other.lines };
    }

    /// The fraction of a result that a GPU with memory of its own lacks where the host has all of it.
    pub(super) fn lacking(&self) -> f64 {
        let [part, all] = self.lines;
        if all > 0 { f64::from(part) / f64::from(all) } else { 1.0 }
    }

    /// Times up to `passed`, which every queue of the other label has reached, count as equal.
    pub(super) fn is_no_worse_than(&self, other: &Self, passed: Picos) -> bool {
        let has_lines = match (self.at, other.at) {
            (At::Open(_), At::Open(_)) => self.lines[0] >= other.lines[0] && self.lines[1] <= other.lines[1],
            (At::With(own), At::With(_)) => {
                own.has_all(Holders::joined(false)) || self.lacking() <= other.lacking()
            }
            (At::With(_), At::Open(_)) | (At::Open(_), At::With(_)) => true,
        };
        has_lines
            && self.ready <= other.ready.max(passed)
            && self.usable <= other.usable.max(passed)
            && (self.of_npu || !other.of_npu)
            && self.at.is_no_worse_than(other.at)
    }
}
