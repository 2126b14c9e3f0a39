//! A few of many runs, drawn at random: what a calibration from few measurements
//! sees.

use std::collections::BTreeSet;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::GpuRun;

/// `count` of the runs, in their order; all where there are no more.
pub fn rows(runs: &[GpuRun], count: usize, seed: u64) -> Vec<GpuRun> {
    let mut indices: Vec<usize> = (0..runs.len()).collect();
    indices.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    indices.truncate(count);
    indices.sort_unstable();
    indices.into_iter().map(|index| runs[index].clone()).collect()
}

/// `count` of the networks of these names; all where there are no more.
pub fn networks<'a>(names: impl Iterator<Item = &'a str>, count: usize, seed: u64) -> BTreeSet<&'a str> {
    let distinct: BTreeSet<&str> = names.collect();
    let mut shuffled: Vec<&str> = distinct.into_iter().collect();
    shuffled.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    shuffled.truncate(count);
    shuffled.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_has_its_size_and_depends_on_the_seed_alone() {
        let names: Vec<String> = (0..40).map(|number| format!("net{number}")).collect();
        let draw = |seed| networks(names.iter().chain(&names).map(String::as_str), 10, seed);
        assert_eq!((draw(1).len(), draw(1)), (10, draw(1)));
        assert_ne!(draw(1), draw(2));
        assert_eq!(networks(["a", "b"].into_iter(), 10, 0).len(), 2);
    }
}
