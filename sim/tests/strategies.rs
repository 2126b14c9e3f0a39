//! What every strategy's plans have in common, and what tells them apart.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use coexec_sim::device::profile::Profile;
use coexec_sim::explore::{Explorer, Objective, Options, Strategy};
use coexec_sim::kernel::cpu::{CoreSet, Library};
use coexec_sim::plan::synchronisation::Mechanism;
use coexec_sim::simulate::{Measure, Simulator};
use coexec_sim::workload::{Stage, fuse, network};

/// The devices whose processors share one memory: phones.
fn phones() -> Vec<Profile> {
    let is_phone = |device: &Profile| device.gpu.as_ref().is_some_and(|gpu| gpu.memory.is_none());
    Profile::bundled().unwrap().into_iter().filter(is_phone).collect()
}

fn named(name: &str) -> Vec<Stage> {
    fuse(&network(name).unwrap())
}

fn options(device: &Profile, synchronisation: Mechanism) -> Options {
    let threads = 1..=device.cpu.cores().min(3);
    Options {
        strategy: Strategy::ChannelSplit,
        objective: Objective::Latency,
        synchronisation,
        core_sets: threads.map(|threads| CoreSet::fastest(&device.cpu, threads).unwrap()).collect(),
        step: 8,
    }
}

#[test]
fn strategies_print() {
    let only = std::env::var("ONLY").unwrap_or_default();
    for mechanism in [Mechanism::SvmPolling, Mechanism::EventWait] {
        let mut gains = Vec::new();
        for (name, _, build) in
            coexec_sim::workload::NETWORKS.iter().filter(|(name, ..)| name.contains(&only))
        {
            let stages = fuse(&build());
            for device in phones() {
                let library = Library::default_for(&device.cpu);
                let options = options(&device, mechanism);
                let mut simulator = Simulator::new(&device, library).measuring(Measure::Inference);
                let mut explorer = Explorer::new(&mut simulator, &stages, &options);
                print!("{name:14} {:18} {mechanism:12}", device.name);
                let mut times = Vec::new();
                let mut millis = 0.0;
                for strategy in Strategy::ALL {
                    let start = std::time::Instant::now();
                    match explorer.find(strategy) {
                        Ok(found) => {
                            let ms = start.elapsed().as_secs_f64() * 1e3;
                            millis += ms;
                            let time = found.prediction.latency.as_micros() / 1e3;
                            times.push((strategy, time));
                            print!(" {} {time:.2} ({ms:.0}ms)", strategy.name());
                        }
                        Err(_) => print!(" {} -", strategy.name()),
                    }
                }
                let of = |wanted| times.iter().find(|(s, _)| *s == wanted).unwrap().1;
                let gain = of(Strategy::Codl) / of(Strategy::Optimal) - 1.0;
                let others = times.iter().filter(|(s, _)| *s != Strategy::Optimal);
                let best = others.map(|t| t.1).fold(f64::INFINITY, f64::min);
                gains.push(gain);
                println!(
                    " | codl +{:.1}% best other +{:.1}% total {millis:.0} ms",
                    gain * 1e2,
                    (best / of(Strategy::Optimal) - 1.0) * 1e2
                );
            }
        }
        println!(
            "MEAN {mechanism}: {:.2}% over {}",
            gains.iter().sum::<f64>() / gains.len() as f64 * 1e2,
            gains.len()
        );
    }
}
