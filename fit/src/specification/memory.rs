//! A memory from the description of its interface.
//!
//! Responsible for: parsing type, clock and width, and the bandwidths from them. Not for: capacities.
//! Invariant: equal descriptions give equal memories.

use coexec_sim::device::memory::Memory;
use coexec_sim::{InputError, Quantity};

use super::known::MEMORIES;
use super::{number_in, refused};

/// Fraction of a memory's peak bandwidth that one client, and two together, achieve (as the bundled
/// phones' profiles assume).
const ACHIEVED: [f64; 2] = [0.8, 0.9];

/// Clocks that are rounded in names, in MHz, with the exact transfers per second, in 10^6.
const ROUNDED_CLOCKS: [(f64, f64); 3] = [(2133.0, 4266.0), (4266.0, 8533.0), (5333.0, 10_667.0)];
const BITS_PER_BYTE: f64 = 8.0;

/// Data rate and width of a memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interface {
    /// Transfers per second, in 10^6.
    transfers: f64,
    bits: f64,
}

impl Interface {
    /// Parses text like `lpddr5x-4800x64`: type, clock in MHz, width in bits.
    pub(super) fn parse(text: &str) -> Result<Self, InputError> {
        let parts = text.trim_end_matches('?').split_once('-');
        let known = parts.and_then(|(kind, rest)| {
            let (kind, most) = MEMORIES.iter().find(|(known, _)| kind.eq_ignore_ascii_case(known))?;
            Some((kind, most, rest.split_once('x')?))
        });
        let numbers = known.and_then(|(.., (clock, bits))| {
            Some((number_in(clock, 100.0..=2e4)?, number_in(bits, 8.0..=8192.0)?))
        });
        let types = MEMORIES.iter().map(|(kind, _)| kind.as_str()).collect::<Vec<_>>().join(", ");
        let expected = format!(
            "a memory as lpddr5x-4800x64: type ({types}), clock in MHz from 100 to 20000, 8 to 8192 bits"
        );
        let (clock_mhz, bits) = numbers.ok_or_else(|| refused("--memory", text, &expected))?;
        if let Some((kind, most, (clock, bits))) = known.filter(|(_, most, _)| clock_mhz > **most) {
            return Err(InputError::Unfit {
                option: "--memory",
                found: text.to_owned(),
                message: format!("the fastest clock of {kind} is {most} MHz, of two transfers each"),
                help: format!(
                    "write the clock, half of {clock} MT/s: {kind}-{}x{bits}",
                    (clock_mhz / 2.0).floor()
                ),
            });
        }
        let exact = ROUNDED_CLOCKS.iter().find(|(name, _)| (name - clock_mhz).abs() < 1.0);
        Ok(Self { transfers: exact.map_or(2.0 * clock_mhz, |(_, transfers)| *transfers), bits })
    }

    /// Assumed bandwidth of a processor's port, relative to one at the `other` memory: proportional to
    /// the transfers, and to the width where this is narrower. A wider memory counts by the square root
    /// of the width, as the port need not be wider too.
    pub(super) fn faster_than(self, other: Self) -> f64 {
        let width = self.bits / other.bits;
        self.transfers / other.transfers * width.min(width.sqrt())
    }

    /// The memory; `source` is that of the description.
    pub(super) fn memory(self, source: &str) -> Memory {
        let peak = self.transfers * self.bits / BITS_PER_BYTE / 1e3;
        let share = |part: f64| Quantity::plain((part * peak * 10.0).round() / 10.0);
        Memory {
            source: format!("{source}; {ACHIEVED:?} of the peak for one client and two assumed"),
            capacity_gb: None,
            peak_bandwidth_gbps: share(1.0),
            concurrent_bandwidth_gbps: ACHIEVED.map(share).to_vec(),
            streams: None,
            interference: Vec::new(),
        }
    }
}
