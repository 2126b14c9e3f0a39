//! Random draws of few runs out of many, for calibrations from few measurements.

use std::collections::BTreeSet;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::GpuRun;

/// The items shuffled; the order depends only on the seed and its stream.
pub fn shuffled<T>(items: impl IntoIterator<Item = T>, seed: u64, stream: u64) -> Vec<T> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(stream);
    let mut items: Vec<T> = items.into_iter().collect();
    items.shuffle(&mut random);
    items
}

/// A random draw of `count` runs, in their order; all where there are no more.
pub fn rows(runs: &[GpuRun], count: usize, seed: u64) -> Vec<GpuRun> {
    let mut indices = shuffled(0..runs.len(), seed, 0);
    indices.truncate(count);
    indices.sort_unstable();
    indices.into_iter().map(|index| runs[index].clone()).collect()
}

/// A random draw of `count` of the distinct names; all where there are no more.
pub fn networks<'a>(names: impl Iterator<Item = &'a str>, count: usize, seed: u64) -> BTreeSet<&'a str> {
    let distinct: BTreeSet<&str> = names.collect();
    shuffled(distinct, seed, 0).into_iter().take(count).collect()
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
