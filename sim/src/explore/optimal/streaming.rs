//! Lower bound of the end of parts that stream from memory at the same time. The memory is shared
//! max-min fairly, so a fast part may be slowed by a slow one more than the slow one contributes.
//!
//! Responsible for: the least time in which several processors compute all rows or channels of one
//! operator, as the dual of the linear programme over which set of processors streams when. Not for:
//! parts that the memory does not slow (`shares`), or interference beyond sharing, which only adds
//! time. Invariant: no schedule of such parts ends earlier.
//!
//! While a set of processors streams, each runs at the speed that max-min sharing leaves it next to the
//! least demands of the others. Alone, a part takes at least a fixed time plus a time per row, along
//! any tangent of the lower convex hull of its times. So each set computes at most a certain number of
//! rows per picosecond, the best set of the processors that have started bounds the end, and the
//! tangents are chosen for the highest bound.

use std::collections::BTreeMap;

use arrayvec::ArrayVec;

use super::shares::ROUNDING;
use super::{CPU, Priced, ShareTable, Shared, Sharing};
use crate::units::Picos;

/// Most tangents kept for one part.
const MAX_TANGENTS: usize = 24;

/// Ranges of part sizes, each up to all rows or channels, with a hull of their own: the hull of a
/// smaller range is tighter.
const HULLS: u32 = 8;

/// Parts of up to 1/`SMALL_PART_DIVISOR` of all rows or channels are small. They are a case of their own
/// if their rate is below `SLOW_RATE` times that of larger parts.
const SMALL_PART_DIVISOR: u32 = 128;
const SLOW_RATE: f64 = 0.9;

/// Widest range of part sizes whose demands are examined one by one; for a wider one, those of all
/// larger parts count, too.
const MAX_EXAMINED_SIZES: u32 = 64;

/// Reciprocal of the step by which the assumed end grows in each round, relative to the time until then.
const END_STEP_DIVISOR: u64 = 32;

/// Most processors that compute parts of one operator.
const PARTS: usize = 3;

/// Memory demands of the parts of one operator on one processor.
#[derive(Clone, Debug)]
pub(super) struct Streaming {
    /// For part sizes from each multiple of `all` / [`HULLS`] on, tangents below the picoseconds during
    /// which a part alone moves bytes, over its rows or channels.
    hulls: Vec<Vec<Tangent>>,
    /// Least demands of parts of each size, and of parts of that size or larger.
    own: Vec<Least>,
    or_more: Vec<Least>,
    /// Most equal streams of any part.
    streams: f64,
}

/// A line: a time per row or channel, and a fixed time, in picoseconds.
#[derive(Clone, Copy, Debug)]
struct Tangent {
    /// The part size up to which it is the tightest.
    until: f64,
    each: f64,
    fixed: f64,
}

/// Least demands: bytes per picosecond while streaming, the number of equal streams, and the streaming
/// time in picoseconds.
#[derive(Clone, Copy, Debug)]
struct Least {
    rate: f64,
    streams: f64,
    time: f64,
}

/// A processor that computes a part.
#[derive(Clone, Copy, Debug)]
struct Sharer<'s> {
    tangents: &'s [Tangent],
    /// Index of the tangent that is tightest at about its part size.
    closest: usize,
    /// When it can start to stream.
    first: Picos,
    least: Least,
    /// Most equal streams.
    streams: f64,
}

impl Streaming {
    /// The demands of priced parts, each with its rows or channels, up to `all`. A size between two
    /// priced ones takes no less time than the smaller and no more than the larger one, and moves no
    /// less than the smaller one.
    pub(super) fn of(parts: impl Iterator<Item = (u32, Priced)>, all: u32) -> Self {
        let mut priced: BTreeMap<u32, (Least, f64)> = BTreeMap::new();
        for (count, part) in parts.filter(|(count, part)| *count > 0 && part.cost.is_known()) {
            let time = part.streaming.0 as f64;
            let own = Least { rate: part.least_rate, streams: part.streams, time };
            let known = priced.entry(count).or_insert((own, time));
            *known = (known.0.least(own), known.1.max(time));
        }
        let (mut own, mut times) = (vec![Least::NOTHING; all as usize + 1], Vec::new());
        let mut before: Option<(u32, Least)> = None;
        for (&count, &(least, most)) in &priced {
            if let Some((lower, of_lower)) = before.filter(|&(lower, _)| lower + 1 < count) {
                let between = Least { rate: of_lower.rate * of_lower.time / most, ..of_lower };
                own[lower as usize + 1..count as usize].fill(between);
                times.push((f64::from(count - 1), between.time));
            }
            own[count as usize] = least;
            times.push((f64::from(count), least.time));
            before = Some((count, least));
        }
        let mut or_more = own.clone();
        for count in (0..all as usize).rev() {
            or_more[count] = or_more[count].least(or_more[count + 1]);
        }
        let streams = priced.values().map(|(least, _)| least.streams).fold(1.0, f64::max);
        let from = |hull: u32| f64::from(all) * f64::from(hull) / f64::from(HULLS);
        let from_hull = |hull: u32| &times[times.partition_point(|time| time.0 < from(hull))..];
        Self { hulls: (0..HULLS).map(|hull| tangents(from_hull(hull))).collect(), own, or_more, streams }
    }

    /// The size up to which parts of at least `fewest` rows or channels are a case of their own, if any.
    fn small(&self, fewest: u32) -> Option<u32> {
        let small = (self.own.len() as u32 - 1) / SMALL_PART_DIVISOR;
        let is_less = self.or_more[fewest as usize].rate < SLOW_RATE * self.or_more[small as usize].rate;
        (fewest < small && is_less).then_some(small)
    }

    /// A processor whose part has at least, at most and about these rows or channels, and can stream
    /// from `first` on; `None` if no tangent is known for such parts.
    fn sharer(&self, [fewest, most, about]: [u32; 3], first: Picos) -> Option<Sharer<'_>> {
        let all = self.own.len() as u32 - 1;
        let tangents = self.hulls[(fewest * HULLS / all).min(HULLS - 1) as usize].as_slice();
        let closest = tangents.partition_point(|tangent| tangent.until < f64::from(about));
        let closest = closest.min(tangents.len().checked_sub(1)?);
        let least = if most < fewest + MAX_EXAMINED_SIZES {
            let sizes = self.own[fewest as usize..=most.max(fewest) as usize].iter().copied();
            sizes.fold(Least::NOTHING, Least::least)
        } else {
            self.or_more[fewest as usize]
        };
        Some(Sharer { tangents, closest, first, least, streams: self.streams })
    }
}

impl Least {
    const NOTHING: Self = Self { rate: f64::INFINITY, streams: f64::INFINITY, time: f64::INFINITY };

    fn least(self, other: Self) -> Self {
        Self {
            rate: self.rate.min(other.rate),
            streams: self.streams.min(other.streams),
            time: self.time.min(other.time),
        }
    }
}

/// The rising sides of the lower convex hull of points, from left to right, thinned out.
fn tangents(points: &[(f64, f64)]) -> Vec<Tangent> {
    let slope = |one: &(f64, f64), other: &(f64, f64)| (other.1 - one.1) / (other.0 - one.0);
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for &point in points {
        while let [.., before, last] = hull[..]
            && slope(&before, &last) >= slope(&last, &point)
        {
            hull.pop();
        }
        hull.push(point);
    }
    let sides = hull.windows(2).map(|side| {
        let each = slope(&side[0], &side[1]);
        Tangent { until: side[1].0, each, fixed: side[0].1 - each * side[0].0 }
    });
    let rising: Vec<Tangent> = sides.filter(|side| side.each > 0.0).collect();
    let step = rising.len().div_ceil(MAX_TANGENTS).max(1);
    rising.iter().rev().step_by(step).rev().copied().collect()
}

impl ShareTable {
    /// Lower bound, with contention, of the end of any shares; `shared` are the best ones without
    /// contention.
    pub(super) fn contended(&self, sharing: &Sharing, shared: Shared) -> Picos {
        // If contention does not slow these shares, no others end earlier.
        let rate = |by: usize| {
            let own =
                self.streaming[by].iter().map(|streaming| streaming.own[shared.counts[by] as usize].rate);
            own.filter(|rate| rate.is_finite()).fold(0.0, f64::max)
        };
        let wanted: f64 = sharing.indices().map(rate).sum();
        let Some((least, largest)) = self.possible(sharing).filter(|_| wanted > self.capacity(sharing)[0])
        else {
            return shared.end;
        };
        let first = self.first_bytes(sharing.starts);
        let begun = sharing.indices().map(|by| sharing.starts[by]).min().unwrap_or_default();
        let core_sets = if sharing.members[CPU] { self.streaming[CPU].len() } else { 1 };
        let mut end = shared.end;
        loop {
            // The bound found holds for shares that end by `latest`; if it is not earlier, all shares
            // end later.
            let latest = end + Picos(end.saturating_sub(begun).0 / END_STEP_DIVISOR + 1);
            let most = self.counts_by(sharing, latest, [[0; 3], largest]).map(|most| most as u32);
            let mut fewest = self.fewest(sharing, self.moved(sharing, latest));
            for by in sharing.indices() {
                let others: u32 =
                    sharing.indices().filter(|&other| other != by).map(|other| most[other]).sum();
                fewest[by] = fewest[by].max(self.all.saturating_sub(others)).max(least[by]);
            }
            let found = (0..core_sets).fold(latest, |least, set| {
                let of = [0, 1, 2].map(|by: usize| self.streaming[by].get(if by == CPU { set } else { 0 }));
                self.least_of(sharing, (of, first), [fewest, most, shared.counts], least)
            });
            if found < latest {
                return found.max(end);
            }
            end = latest;
        }
    }

    /// Earliest end of members with at least, at most and about these rows or channels, or `enough` if
    /// that is no later: the least over all cases in which some members have a small part, and the
    /// others, with larger ones, demand more.
    fn least_of(
        &self,
        sharing: &Sharing,
        (streaming, first): ([Option<&Streaming>; PARTS], [Picos; PARTS]),
        [fewest, most, about]: [[u32; PARTS]; 3],
        enough: Picos,
    ) -> Picos {
        let small = |by: usize| streaming[by].and_then(|streaming| streaming.small(fewest[by]));
        let of_case = |case: usize, enough: Picos| {
            let (mut sharers, mut left) = (ArrayVec::<Sharer<'_>, PARTS>::new(), self.all);
            for by in sharing.indices() {
                match (small(by), case & (1 << by) != 0) {
                    (Some(small), true) => left = left.saturating_sub(small),
                    (small, _) => {
                        let fewest = small.map_or(fewest[by], |small| fewest[by].max(small));
                        sharers.push(streaming[by]?.sharer([fewest, most[by], about[by]], first[by])?);
                    }
                }
            }
            // Small parts alone cannot cover the operator.
            let is_possible = !sharers.is_empty();
            Some(if is_possible { least_end(&sharers, left, self.capacity(sharing), enough) } else { enough })
        };
        let cases = sharing.indices().filter(|&by| small(by).is_some()).fold(0, |cases, by| cases | 1 << by);
        let mut all = (0..=cases).filter(|case| case & cases == *case);
        all.try_fold(enough, |least, case| of_case(case, least)).unwrap_or_default()
    }

    /// Fewest rows or channels of each member if all move at most `moved` bytes: the member that moves
    /// least per row must compute everything that the others cannot move.
    fn fewest(&self, sharing: &Sharing, moved: f64) -> [u32; 3] {
        let mut fewest = [1; 3];
        let mut sharers = self.lightest.iter().filter(|&&by| sharing.members[by]);
        if let (Some(&lightest), Some(&next)) = (sharers.next(), sharers.next()) {
            let [of_one, of_next] = [lightest, next].map(|by| self.traffic[by].bytes);
            let saved: f64 = sharing.indices().map(|by| self.traffic[by].saved).sum();
            let left = (f64::from(self.all) * of_next - saved) / ROUNDING - moved;
            if of_next > of_one * ROUNDING && left > 0.0 {
                fewest[lightest] = ((left / (of_next - of_one)) as u32).clamp(1, self.all);
            }
        }
        fewest
    }
}

/// Earliest time at which `sharers` have computed `all` rows or channels, or `enough` if that is no
/// later; `capacities` is the memory's capacity for two and for three of them, in bytes per picosecond.
fn least_end(sharers: &[Sharer<'_>], all: u32, capacities: [f64; 2], enough: Picos) -> Picos {
    let most = enough.0 as f64;
    let mut chosen = [0; PARTS];
    for (chosen, sharer) in chosen.iter_mut().zip(sharers) {
        *chosen = sharer.closest;
    }
    let speeds = speeds(sharers, capacities);
    let pairs = (0..sharers.len()).flat_map(|one| (0..one).map(move |other| [one, other]));
    let of_two = pairs.map(|pair| end_of_two(sharers, pair, &speeds));
    let mut latest = of_two.fold(end_along(sharers, &chosen, &speeds, all), f64::max);
    while latest < most {
        let mut near =
            neighbours(sharers, chosen).map(|near| (end_along(sharers, &near, &speeds, all), near));
        match near.find(|(end, _)| *end > latest) {
            Some((end, better)) => (latest, chosen) = (end, better),
            None => break,
        }
    }
    Picos(latest.min(most) as u64)
}

/// The choices of tangents next to `chosen`: for each part the previous, the same, or the next one.
fn neighbours(sharers: &[Sharer<'_>], chosen: [usize; PARTS]) -> impl Iterator<Item = [usize; PARTS]> {
    const STEPS: usize = 3;
    let all = (0..STEPS.pow(sharers.len() as u32)).map(move |step| {
        [0, 1, 2].map(|by| (chosen[by] + step / STEPS.pow(by as u32) % STEPS).checked_sub(1))
    });
    all.filter_map(move |steps| {
        let mut tangents = [0; PARTS];
        for ((tangent, step), sharer) in tangents.iter_mut().zip(steps).zip(sharers) {
            *tangent = step.filter(|&step| step < sharer.tangents.len())?;
        }
        Some(tangents)
    })
}

/// For each set of streaming processors (one bit each), the highest speed of each, relative to its
/// speed alone.
fn speeds(sharers: &[Sharer<'_>], capacities: [f64; 2]) -> [[f64; PARTS]; 1 << PARTS] {
    let mut speeds = [[1.0; PARTS]; 1 << PARTS];
    for (set, speeds) in speeds.iter_mut().enumerate().take(1 << sharers.len()) {
        for (own, speed) in speeds.iter_mut().enumerate().take(sharers.len()) {
            if set.count_ones() > 1 && set & (1 << own) != 0 {
                let capacity = capacities[usize::from(set.count_ones() > 2)];
                *speed = speed_of(own, set, sharers, capacity);
            }
        }
    }
    speeds
}

/// The speed of one processor of a set under max-min sharing, with the least demands of the others.
fn speed_of(own: usize, set: usize, sharers: &[Sharer<'_>], capacity: f64) -> f64 {
    let demand = |by: usize| {
        let Sharer { least, streams, .. } = sharers[by];
        Least { streams: if by == own { streams } else { least.streams }, ..least }
    };
    let mut flows = [(f64::INFINITY, 0.0); PARTS];
    for by in (0..sharers.len()).filter(|by| set & (1 << by) != 0) {
        let Least { rate, streams, .. } = demand(by);
        flows[by] = (rate / streams, streams);
    }
    let (ceiling, _) = flows[own];
    flows.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (mut left, mut streams) = (capacity, flows.iter().map(|flow| flow.1).sum::<f64>());
    for (least, count) in flows {
        if least * streams > left {
            return (left / streams / ceiling).min(1.0);
        }
        (left, streams) = (left - least * count, streams - count);
    }
    1.0
}

/// Earliest time at which all rows or channels are computed, by the chosen tangents.
fn end_along(
    sharers: &[Sharer<'_>],
    chosen: &[usize; PARTS],
    speeds: &[[f64; PARTS]; 1 << PARTS],
    all: u32,
) -> f64 {
    let (mut rates, mut left) = ([0.0; PARTS], f64::from(all));
    for (by, sharer) in sharers.iter().enumerate() {
        let Tangent { each, fixed, .. } = sharer.tangents[chosen[by]];
        rates[by] = 1.0 / each;
        left += fixed / each;
    }
    end_of(sharers, speeds, (rates, left))
}

/// Earliest time at which two processors have streamed for as long as their smallest parts take.
fn end_of_two(sharers: &[Sharer<'_>], [one, other]: [usize; 2], speeds: &[[f64; PARTS]; 1 << PARTS]) -> f64 {
    let of_both = speeds[1 << one | 1 << other];
    let end = |one: usize, other: usize| {
        // The weight of the other's picosecond makes streaming together worth as much as streaming
        // alone.
        let weight = ((1.0 - of_both[one]) / of_both[other]).clamp(0.0, 1.0);
        let mut rates = [0.0; PARTS];
        (rates[one], rates[other]) = (1.0, weight);
        end_of(sharers, speeds, (rates, sharers[one].least.time + weight * sharers[other].least.time))
    };
    end(one, other).max(end(other, one))
}

/// Earliest time at which the work `left` is done, if each processor alone does `rates` per picosecond.
fn end_of(
    sharers: &[Sharer<'_>],
    speeds: &[[f64; PARTS]; 1 << PARTS],
    (rates, mut left): ([f64; PARTS], f64),
) -> f64 {
    let mut order = [0, 1, 2];
    let order = &mut order[..sharers.len()];
    order.sort_by_key(|&by: &usize| sharers[by].first);
    let mut begun = 0;
    for (place, &by) in order.iter().enumerate() {
        begun |= 1 << by;
        let now = sharers[by].first.0 as f64;
        let of_set = |set: usize| -> f64 {
            let active = (0..PARTS).filter(|by| set & (1 << by) != 0);
            active.map(|by| rates[by] * speeds[set][by]).sum()
        };
        let fastest = (1..=begun).filter(|set| set & begun == *set).map(of_set).fold(0.0, f64::max);
        let next = order.get(place + 1).map_or(f64::INFINITY, |&next| sharers[next].first.0 as f64);
        if left <= fastest * (next - now) {
            return now + left.max(0.0) / fastest;
        }
        left -= (next - now) * fastest;
    }
    0.0
}
