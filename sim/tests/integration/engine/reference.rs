//! The slow reference of the engine: a second implementation of its semantics.

use super::{Spec, predecessors};

/// The same semantics in real-valued time, with every rate found by bisection
/// and every phase advanced at every step.
pub(super) fn reference(specs: &[Spec], curve: &[f64], interference: &[[f64; 5]]) -> Vec<f64> {
    let mut finish = vec![None; specs.len()];
    let mut at: Vec<usize> = vec![0; specs.len()];
    let mut left: Vec<f64> =
        specs.iter().map(|spec| spec.phases.first().map_or(0.0, |p| p.0 as f64)).collect();
    let mut now = 0.0;
    loop {
        let running: Vec<usize> = (0..specs.len())
            .filter(|&t| finish[t].is_none() && predecessors(specs, t).all(|other| finish[other].is_some()))
            .collect();
        if running.is_empty() {
            return finish.into_iter().flatten().collect();
        }
        let ended: Vec<usize> = running.iter().copied().filter(|&task| left[task] < 1e-3).collect();
        for &task in &ended {
            at[task] += 1;
            match specs[task].phases.get(at[task]) {
                Some(phase) => left[task] = phase.0 as f64,
                None => finish[task] = Some(now),
            }
        }
        if !ended.is_empty() {
            continue;
        }
        let speeds = reference_speeds(specs, &at, &running, curve, interference);
        let step =
            running.iter().zip(&speeds).map(|(&t, speed)| left[t] / speed).fold(f64::INFINITY, f64::min);
        now += step;
        for (&task, speed) in running.iter().zip(&speeds) {
            left[task] -= step * speed;
        }
    }
}

/// Slowdown of a client with demand `own` by the demand `others`, on its interference `curve`.
fn reference_slowdown(curve: [f64; 5], rate: f64, own: f64, others: f64) -> f64 {
    let [onset, saturation, alone, crowded, slowdown] = curve;
    let others = others / rate;
    let part = match () {
        () if others <= onset => return 1.0,
        () if others >= saturation => 1.0,
        () => (others - onset) / (saturation - onset),
    };
    let left = rate * (alone * (1.0 - part) + crowded * part);
    let time_for_room = own.min(rate * alone) / left;
    time_for_room.max(1.0 - part + slowdown * part)
}

/// The speed of each running task.
fn reference_speeds(
    specs: &[Spec],
    at: &[usize],
    running: &[usize],
    curve: &[f64],
    interference: &[[f64; 5]],
) -> Vec<f64> {
    let ceiling = |task: usize| {
        let (duration, bytes) = specs[task].phases[at[task]];
        bytes as f64 / duration as f64 / f64::from(specs[task].streams)
    };
    let demand = |task: usize| ceiling(task) * f64::from(specs[task].streams);
    let cap = |task: usize| {
        let others = running.iter().filter(|&&other| other != task).map(|&other| demand(other)).sum();
        let curve_of = specs[task].processor.and_then(|processor| interference.get(usize::from(processor)));
        match curve_of {
            Some(&points) if ceiling(task) > 0.0 => {
                ceiling(task) / reference_slowdown(points, curve[0], demand(task), others)
            }
            _ => ceiling(task),
        }
    };
    let caps: Vec<f64> = running.iter().map(|&task| cap(task)).collect();
    let total = |level: f64| -> f64 {
        // Bandwidth lost to interference is not given to others: they share as if the flow still used it.
        running.iter().map(|&t| f64::from(specs[t].streams) * ceiling(t).min(level)).sum()
    };
    let flows = caps.iter().filter(|&&cap| cap > 0.0).count();
    let capacity = curve[flows.clamp(1, curve.len()) - 1];
    let (mut low, mut high) = (0.0, capacity);
    if flows < 2 || total(f64::INFINITY) <= capacity {
        low = f64::INFINITY;
    } else {
        for _ in 0..100 {
            let middle = f64::midpoint(low, high);
            if total(middle) > capacity { high = middle } else { low = middle }
        }
    }
    let speed = |(&task, &cap): (&usize, &f64)| if cap > 0.0 { cap.min(low) / ceiling(task) } else { 1.0 };
    running.iter().zip(&caps).map(speed).collect()
}
