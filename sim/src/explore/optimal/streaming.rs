//! When parts end that move bytes at the same time: the memory serves them by max-min, so that a fast part beside
//! a slow one may be slowed more than the slow one adds.
//!
//! Responsible for: the least time in which several processors compute all rows or channels of one operator, as the
//! dual of the linear programme over who streams when. Not for: parts that the memory does not slow (`shares`), nor
//! interference beyond sharing, which only adds to the time. Invariant: no schedule of such parts ends earlier.
//!
//! While a set of processors streams, each is as fast as max-min leaves it beside the least that the others ask
//! for. A part with so many rows takes, alone, at least a fixed time and another for each row, along any tangent of
//! the convex hull of its times. So each set computes so many rows a picosecond at most, the best set of those that
//! have begun bounds how soon all are computed, and the tangents are those that bound it best.

use std::collections::BTreeMap;

use arrayvec::ArrayVec;

use super::shares::ROUNDING;
use super::{CPU, Priced, ShareTable, Shared, Sharing};
use crate::units::Picos;

/// Tangents of one part that are tried.
const MOST_TANGENTS: usize = 24;

/// Ranges of rows or channels, each up to all, of which the hull is known: it lies closer over fewer.
const HULLS: u32 = 8;

/// Which part of all rows or channels is small: such parts are looked at apart where they ask for less than larger
/// ones, and how much less that is.
const SMALL: u32 = 128;
const LESS: f64 = 0.9;

/// Numbers of rows or channels that are looked at one by one; of more, what larger parts ask for counts as well.
const FEW: u32 = 64;

/// How much later than without contention parts may end, at first, of the time until then.
const LATER: u64 = 32;

/// Most processors that compute parts of one operator.
const MOST: usize = 3;

/// What the parts that a processor may compute of one operator ask of the memory.
#[derive(Clone, Debug)]
pub(super) struct Streaming {
    /// Lines below the picoseconds in which a part moves bytes, alone, over its rows or channels, from each of
    /// [`HULLS`] parts of all on.
    hulls: Vec<Vec<Tangent>>,
    /// The least of parts of as many as the index says, and of those of as many or more.
    own: Vec<Least>,
    or_more: Vec<Least>,
    /// Equal streams at most.
    streams: f64,
}

/// A line: so much for each row or channel, and so much in any case.
#[derive(Clone, Copy, Debug)]
struct Tangent {
    /// Up to where it is the closest.
    until: f64,
    each: f64,
    fixed: f64,
}

/// Bytes a picosecond while any move, the equal streams that they are, and how long they move.
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
    /// The closest to what it will compute about.
    closest: usize,
    /// From when on it can stream.
    first: Picos,
    least: Least,
    /// Equal streams at most.
    streams: f64,
}

impl Streaming {
    /// Of parts with so many rows or channels each, up to `all`, of which not every number is priced: what lies between
    /// two takes no less time than the lower and no more than the higher one, and moves no less than the lower one.
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
        let those = |hull: u32| &times[times.partition_point(|time| time.0 < from(hull))..];
        Self { hulls: (0..HULLS).map(|hull| tangents(those(hull))).collect(), own, or_more, streams }
    }

    /// Up to how many rows or channels a part is looked at apart that has so many at least.
    fn small(&self, fewest: u32) -> Option<u32> {
        let small = (self.own.len() as u32 - 1) / SMALL;
        let is_less = self.or_more[fewest as usize].rate < LESS * self.or_more[small as usize].rate;
        (fewest < small && is_less).then_some(small)
    }

    /// Of a part that has so many rows or channels at least, at most and about, and can stream from then on; none
    /// where too little is known of such parts.
    fn sharer(&self, [fewest, most, about]: [u32; 3], first: Picos) -> Option<Sharer<'_>> {
        let all = self.own.len() as u32 - 1;
        let tangents = self.hulls[(fewest * HULLS / all).min(HULLS - 1) as usize].as_slice();
        let closest = tangents.partition_point(|tangent| tangent.until < f64::from(about));
        let closest = closest.min(tangents.len().checked_sub(1)?);
        let least = if most < fewest + FEW {
            let those = self.own[fewest as usize..=most.max(fewest) as usize].iter().copied();
            those.fold(Least::NOTHING, Least::least)
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

/// The sides of the lower convex hull of points from left to right, thinned out, that rise.
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
    let step = rising.len().div_ceil(MOST_TANGENTS).max(1);
    rising.iter().rev().step_by(step).rev().copied().collect()
}

impl ShareTable {
    /// When the last part of any shares ends at the earliest that are those of `shared` without contention.
    pub(super) fn contended(&self, sharing: &Sharing, shared: Shared) -> Picos {
        // Where those shares are not slowed, others that are slowed take longer.
        let rate = |by: usize| {
            let own =
                self.streaming[by].iter().map(|streaming| streaming.own[shared.counts[by] as usize].rate);
            own.filter(|rate| rate.is_finite()).fold(0.0, f64::max)
        };
        let wanted: f64 = sharing.those().map(rate).sum();
        let Some((least, largest)) = self.possible(sharing).filter(|_| wanted > self.together(sharing)[0])
        else {
            return shared.end;
        };
        let first = self.first_bytes(sharing.starts);
        let begun = sharing.those().map(|by| sharing.starts[by]).min().unwrap_or_default();
        let core_sets = if sharing.members[CPU] { self.streaming[CPU].len() } else { 1 };
        let mut end = shared.end;
        loop {
            // What is found holds for shares that end by then; if it is later, all end later.
            let latest = end + Picos(end.saturating_sub(begun).0 / LATER + 1);
            let most = self.by_then(sharing, latest, [[0; 3], largest]).map(|most| most as u32);
            let mut fewest = self.fewest(sharing, self.moved(sharing, latest));
            for by in sharing.those() {
                let others: u32 = sharing.those().filter(|&other| other != by).map(|other| most[other]).sum();
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

    /// When all is computed at the earliest by those that have so many at least, at most and about, or `enough` if that
    /// is no later: the least of all cases in which some of them have a small part, and of the others each asks for
    /// more.
    fn least_of(
        &self,
        sharing: &Sharing,
        (streaming, first): ([Option<&Streaming>; MOST], [Picos; MOST]),
        [fewest, most, about]: [[u32; MOST]; 3],
        enough: Picos,
    ) -> Picos {
        let small = |by: usize| streaming[by].and_then(|streaming| streaming.small(fewest[by]));
        let of_case = |case: usize, enough: Picos| {
            let (mut sharers, mut left) = (ArrayVec::<Sharer<'_>, MOST>::new(), self.all);
            for by in sharing.those() {
                match (small(by), case & (1 << by) != 0) {
                    (Some(small), true) => left = left.saturating_sub(small),
                    (small, _) => {
                        let fewest = small.map_or(fewest[by], |small| fewest[by].max(small));
                        sharers.push(streaming[by]?.sharer([fewest, most[by], about[by]], first[by])?);
                    }
                }
            }
            // Small parts alone are not all.
            let is_possible = !sharers.is_empty();
            Some(if is_possible { least_end(&sharers, left, self.together(sharing), enough) } else { enough })
        };
        let cases = sharing.those().filter(|&by| small(by).is_some()).fold(0, |cases, by| cases | 1 << by);
        let mut all = (0..=cases).filter(|case| case & cases == *case);
        all.try_fold(enough, |least, case| of_case(case, least)).unwrap_or_default()
    }

    /// How many each computes at least where they move no more than so many bytes: who moves least for one all but
    /// what the others can move.
    fn fewest(&self, sharing: &Sharing, moved: f64) -> [u32; 3] {
        let mut fewest = [1; 3];
        let mut those = self.lightest.iter().filter(|&&by| sharing.members[by]);
        if let (Some(&lightest), Some(&next)) = (those.next(), those.next()) {
            let [of_one, of_next] = [lightest, next].map(|by| self.traffic[by].bytes);
            let saved: f64 = sharing.those().map(|by| self.traffic[by].saved).sum();
            let left = (f64::from(self.all) * of_next - saved) / ROUNDING - moved;
            if of_next > of_one * ROUNDING && left > 0.0 {
                fewest[lightest] = ((left / (of_next - of_one)) as u32).clamp(1, self.all);
            }
        }
        fewest
    }
}

/// When `sharers` have computed `all` rows or channels at the earliest, where the memory moves so many bytes a
/// picosecond for two of them and for three; or `enough` if that is no later.
fn least_end(sharers: &[Sharer<'_>], all: u32, together: [f64; 2], enough: Picos) -> Picos {
    let most = enough.0 as f64;
    let mut chosen = [0; MOST];
    for (chosen, sharer) in chosen.iter_mut().zip(sharers) {
        *chosen = sharer.closest;
    }
    let speeds = speeds(sharers, together);
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

/// The tangents next to those that are chosen: of each part the one before, the same, or the next.
fn neighbours(sharers: &[Sharer<'_>], chosen: [usize; MOST]) -> impl Iterator<Item = [usize; MOST]> {
    const STEPS: usize = 3;
    let all = (0..STEPS.pow(sharers.len() as u32)).map(move |step| {
        [0, 1, 2].map(|by| (chosen[by] + step / STEPS.pow(by as u32) % STEPS).checked_sub(1))
    });
    all.filter_map(move |steps| {
        let mut tangents = [0; MOST];
        for ((tangent, step), sharer) in tangents.iter_mut().zip(steps).zip(sharers) {
            *tangent = step.filter(|&step| step < sharer.tangents.len())?;
        }
        Some(tangents)
    })
}

/// By who streams (a bit each), how fast each is at most, compared to alone.
fn speeds(sharers: &[Sharer<'_>], together: [f64; 2]) -> [[f64; MOST]; 1 << MOST] {
    let mut speeds = [[1.0; MOST]; 1 << MOST];
    for (set, speeds) in speeds.iter_mut().enumerate().take(1 << sharers.len()) {
        for (own, speed) in speeds.iter_mut().enumerate().take(sharers.len()) {
            if set.count_ones() > 1 && set & (1 << own) != 0 {
                let capacity = together[usize::from(set.count_ones() > 2)];
                *speed = speed_of(own, set, sharers, capacity);
            }
        }
    }
    speeds
}

/// How fast one of a set is by max-min, the others asking for as little as they may.
fn speed_of(own: usize, set: usize, sharers: &[Sharer<'_>], capacity: f64) -> f64 {
    let demand = |by: usize| {
        let Sharer { least, streams, .. } = sharers[by];
        Least { streams: if by == own { streams } else { least.streams }, ..least }
    };
    let mut flows = [(f64::INFINITY, 0.0); MOST];
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

/// When all are computed at the earliest by what the chosen tangents say.
fn end_along(
    sharers: &[Sharer<'_>],
    chosen: &[usize; MOST],
    speeds: &[[f64; MOST]; 1 << MOST],
    all: u32,
) -> f64 {
    let (mut rates, mut left) = ([0.0; MOST], f64::from(all));
    for (by, sharer) in sharers.iter().enumerate() {
        let Tangent { each, fixed, .. } = sharer.tangents[chosen[by]];
        rates[by] = 1.0 / each;
        left += fixed / each;
    }
    end_of(sharers, speeds, (rates, left))
}

/// When two have streamed as long as the least of their parts takes, at the earliest.
fn end_of_two(sharers: &[Sharer<'_>], [one, other]: [usize; 2], speeds: &[[f64; MOST]; 1 << MOST]) -> f64 {
    let of_both = speeds[1 << one | 1 << other];
    let end = |one: usize, other: usize| {
        // One picosecond of the other counts for as much as makes streaming together worth that of one alone.
        let weight = ((1.0 - of_both[one]) / of_both[other]).clamp(0.0, 1.0);
        let mut rates = [0.0; MOST];
        (rates[one], rates[other]) = (1.0, weight);
        end_of(sharers, speeds, (rates, sharers[one].least.time + weight * sharers[other].least.time))
    };
    end(one, other).max(end(other, one))
}

/// When so much is done at the earliest, where each does so much a picosecond alone.
fn end_of(
    sharers: &[Sharer<'_>],
    speeds: &[[f64; MOST]; 1 << MOST],
    (rates, mut left): ([f64; MOST], f64),
) -> f64 {
    let mut order = [0, 1, 2];
    let order = &mut order[..sharers.len()];
    order.sort_by_key(|&by: &usize| sharers[by].first);
    let mut begun = 0;
    for (place, &by) in order.iter().enumerate() {
        begun |= 1 << by;
        let now = sharers[by].first.0 as f64;
        let of_set = |set: usize| -> f64 {
            let those = (0..MOST).filter(|by| set & (1 << by) != 0);
            those.map(|by| rates[by] * speeds[set][by]).sum()
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
