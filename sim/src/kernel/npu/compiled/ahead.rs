//! How far the memory is ahead of the operators of a graph.
//!
//! Responsible for: what is fetched while earlier operators run, and upper bounds on it in graphs that are not known.
//! Not for: the time of an operator's own traffic (`rates`). Invariant: faster memory makes no graph slower, since what
//! is limited are bytes, whatever the rate at which they arrive.

use super::rates::Cost;
use super::{Graph, Member, Producer};
use crate::device::CompiledGraphs;
use crate::kernel::Result;
use crate::units::{NANOS_PER_MICRO, Picos};

/// Sets the times of the operators of a graph, in order: before each, the memory has moved at most `place` bytes
/// of what it and its successors move.
pub(super) fn run_ahead(costs: &mut [Cost], mut place: f64) {
    // There is place for all that the operators after `current` until `end` move, and for `place` bytes more.
    let (mut end, mut whole_us) = (0, 0.0);
    let mut ahead_us = 0.0_f64;
    for current in 0..costs.len() {
        costs[current].run_ahead(ahead_us);
        let cost = costs[current];
        if end > current {
            whole_us -= cost.traffic_us;
            place += cost.traffic_bytes();
        } else {
            end = current + 1;
        }
        while let Some(next) = costs.get(end).filter(|next| next.traffic_bytes() <= place) {
            whole_us += next.traffic_us;
            place -= next.traffic_bytes();
            end += 1;
        }
        let begun_us = costs.get(end).map_or(0.0, |next| next.traffic_us_of(place));
        ahead_us = (ahead_us + cost.micros() - cost.traffic_us).min(whole_us + begun_us);
        costs[current].ahead_us = ahead_us;
    }
}

/// Upper bounds on how far the memory is ahead at the end of a member. A graph goes on with the next member that
/// reads a result of it, or ends before that one, so what follows in it is known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MostAhead {
    /// The earlier member whose result the next members read, or the member itself.
    pub(crate) with: usize,
    /// In graphs with that member.
    pub(crate) in_graphs_with: Picos,
    /// In any graph.
    pub(crate) in_any: Picos,
}

/// How far the memory can be ahead at the end of each member of each of `graphs`, in any graph of some of all their
/// members.
///
/// # Errors
/// As [`Graph::micros`].
pub(crate) fn most_ahead(
    graphs: &[(Graph, Vec<Member<'_>>)],
    compiled: &CompiledGraphs,
) -> Result<Vec<Vec<MostAhead>>> {
    let weights =
        graphs.iter().map(|(graph, _)| graph.weights(compiled)).collect::<Result<Vec<Vec<Cost>>>>()?;
    let us_per_byte = |cost: &Cost| cost.traffic_us / cost.weight_bytes;
    let mut slowest: Vec<&Cost> = weights.iter().flatten().filter(|cost| cost.weight_bytes > 0.0).collect();
    slowest.sort_by(|one, other| us_per_byte(other).total_cmp(&us_per_byte(one)));
    let by_tile_us = |bytes: f64| bytes / compiled.bandwidth_gbps.value / NANOS_PER_MICRO;
    let fetched = |next: &[Cost]| {
        let (mut place, mut us) = (compiled.fetched_ahead_bytes.value, 0.0);
        for cost in next.iter().chain(slowest.iter().copied()) {
            let bytes = cost.weight_bytes.min(place);
            // Spilled tensors in their place move at the rate of tiles.
            us += cost.traffic_us_of(bytes).max(by_tile_us(bytes));
            place -= bytes;
        }
        Picos::from_micros(us + by_tile_us(place))
    };
    let in_any = fetched(&[]);
    let of_graph = |((_, members), weights): (&(Graph, Vec<Member<'_>>), &Vec<Cost>)| {
        let reads: Vec<Option<usize>> = members.iter().map(last_read).collect();
        let of = |index: usize| {
            let (mut with, mut end, mut bytes) = (index, index + 1, 0.0);
            while let Some(read) = reads.get(end).copied().flatten()
                && (read >= index || with == index || with == read)
                && bytes < compiled.fetched_ahead_bytes.value
            {
                with = with.min(read);
                bytes += weights[end].weight_bytes;
                end += 1;
            }
            MostAhead { with, in_graphs_with: fetched(&weights[index + 1..end]), in_any }
        };
        (0..members.len()).map(of).collect()
    };
    Ok(graphs.iter().zip(&weights).map(of_graph).collect())
}

/// The last member whose result a member reads.
fn last_read(member: &Member<'_>) -> Option<usize> {
    let inside = member.reads.iter().filter_map(|&(_, read)| match read {
        Producer::Member(member) => Some(member),
        Producer::Outside(_) => None,
    });
    inside.max()
}
