//! Which repetitions count.
//!
//! Responsible for: the one rule by which repetitions of a run are marked as disturbed,
//! whoever measured them. Not for: what the others say. Invariant: nothing is dropped
//! here; a mark is all a repetition gets.

/// Distances of the lower quartile from the least time that a repetition may lie above
/// the quartile: ten normal errors spread 0.9 deviations below their lower quartile, so
/// that an undisturbed one hardly ever exceeds it, and even flat ones seldom do.
const OUTLIER_DISTANCES: f64 = 8.0;
/// Part of the lower quartile that it may lie above in any case: caches and clocks.
const UNDISTURBED: f64 = 0.05;

/// Which repetitions were disturbed. Other work on the machine only ever lengthens a
/// time, and may lengthen most of them: what is usual is told by the quickest quarter.
pub(crate) fn outliers(times: &[f64]) -> Vec<bool> {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some((&least, &quartile)) = sorted.first().zip(sorted.get(times.len() / 4)) else {
        return Vec::new();
    };
    let usual = (OUTLIER_DISTANCES * (quartile - least)).max(UNDISTURBED * quartile);
    times.iter().map(|&time| time > quartile + usual).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disturbed_repetition_is_marked_and_ordinary_ones_are_not() {
        let times = [10.0, 10.2, 9.9, 10.1, 25.0, 10.0, 9.8];
        assert_eq!(outliers(&times).iter().filter(|&&outlier| outlier).count(), 1);
        assert!(outliers(&times)[4]);
        assert_eq!(outliers(&[5.0, 5.0, 5.1]), [false; 3]);
    }

    #[test]
    fn times_of_a_machine_that_is_shared_most_of_the_time_are_those_of_the_quick_quarter() {
        let times = [30.0, 10.0, 28.0, 10.1, 31.0, 10.2, 29.0, 33.0, 10.1, 30.0];
        let kept: Vec<f64> = times
            .iter()
            .zip(outliers(&times))
            .filter(|(_, outlier)| !outlier)
            .map(|(&time, _)| time)
            .collect();
        assert!(kept.iter().all(|&time| time < 11.0) && kept.len() == 4, "{kept:?}");
        assert!(outliers(&[]).is_empty());
    }
}
