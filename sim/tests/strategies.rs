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
    for name in ["vgg16", "resnet34", "inception-v3", "codl-yolov2", "mobilenet-v2"] {
        let stages = named(name);
        for device in phones() {
            let library = Library::default_for(&device.cpu);
            for mechanism in [Mechanism::SvmPolling, Mechanism::EventWait] {
                let options = options(&device, mechanism);
                let mut simulator = Simulator::new(&device, library).measuring(Measure::Inference);
                let mut explorer = Explorer::new(&mut simulator, &stages, &options);
                print!("{name:14} {:18} {mechanism:16}", device.name);
                for strategy in Strategy::ALL {
                    let start = std::time::Instant::now();
                    match explorer.find(strategy) {
                        Ok(found) => print!(
                            " {} {:.1} ({:.0}ms)",
                            strategy.name(),
                            found.prediction.latency.as_micros() / 1e3,
                            start.elapsed().as_secs_f64() * 1e3
                        ),
                        Err(_) => print!(" {} -", strategy.name()),
                    }
                }
                println!();
            }
        }
    }
}
