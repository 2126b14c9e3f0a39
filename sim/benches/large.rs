//! How `optimal` and its bound scale to models of thousands of operators, in sequence and side by side: seconds on one
//! core, and the optimality gap. All shapes are drawn, so that few operators share a price.

use std::time::Instant;

use coexec_sim::device::Profile;
use coexec_sim::explore::comparison::gap_percent;
use coexec_sim::explore::{Explorer, SearchOptions, Strategy};
use coexec_sim::kernel::Library;
use coexec_sim::simulate::{Measure, Simulator};
use coexec_sim::workload::{DataType, GraphBuilder, Shape, Source, Stage, Window, fuse};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const DEVICES: [&str; 2] = ["pixel4", "oneplus11"];

/// Seed of the shapes.
const SEED: u64 = 1;

type Stages = fn(usize) -> Vec<Stage>;

const CASES: [(&str, Stages, [usize; 2]); 2] =
    [("in sequence", sequence, [1_250, 5_000]), ("side by side", branches, [256, 1_024])];

fn main() {
    println!(
        "{:14}{:>10}  {:18}{:>9}{:>10}{:>10}",
        "convolutions", "", "device", "seconds", "to bound", "exponent"
    );
    for (name, stages, counts) in CASES {
        for device in DEVICES {
            let device = Profile::load(device).expect("bundled");
            let mut before: Option<(usize, f64)> = None;
            for count in counts {
                let (seconds, gap) = planned(&device, &stages(count));
                // Growth of the time with the number of operators.
                let growth =
                    |(few, less): (usize, f64)| (seconds / less).ln() / (count as f64 / few as f64).ln();
                let exponent = before.map_or_else(String::new, |before| format!("{:.2}", growth(before)));
                println!("{name:14}{count:>10}  {:18}{seconds:>9.1}{gap:>8.2} %{exponent:>10}", device.name);
                before = Some((count, seconds));
            }
        }
    }
}

/// Seconds that plan and bound take, and the plan's gap in percent.
fn planned(device: &Profile, stages: &[Stage]) -> (f64, f64) {
    let options = SearchOptions::on(device);
    let mut simulator =
        Simulator::new(device, Library::default_for(&device.cpu)).measuring(Measure::Inference);
    let start = Instant::now();
    let mut explorer = Explorer::new(&mut simulator, stages, &options);
    let found = explorer.find(Strategy::Optimal).expect("both devices have kernels");
    let bound = explorer.bound(&found).expect("what was simulated can be priced");
    (start.elapsed().as_secs_f64(), gap_percent(found.prediction.latency.as_seconds(), bound))
}

/// A convolution to a drawn number of channels, 1x1 or 3x3.
fn convolution(net: &mut GraphBuilder, from: Source, random: &mut ChaCha8Rng) -> Source {
    let (channels, kernel) = (4 * random.random_range(2..32), if random.random_bool(0.5) { 1 } else { 3 });
    net.conv(from, channels, Window::same(kernel))
}

fn sequence(count: usize) -> Vec<Stage> {
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let mut net = GraphBuilder::new("sequence", DataType::F32);
    let mut last = net.input(Shape::image(28, 28, 32));
    for _ in 0..count {
        last = convolution(&mut net, last, &mut random);
    }
    fuse(&net.build().expect("valid"))
}

/// Convolutions of one result, concatenated.
fn branches(count: usize) -> Vec<Stage> {
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let mut net = GraphBuilder::new("branches", DataType::F32);
    let input = net.input(Shape::image(28, 28, 16));
    let stem = net.conv(input, 32, Window::same(3));
    let ends: Vec<Source> = (0..count).map(|_| convolution(&mut net, stem, &mut random)).collect();
    net.concat(&ends);
    fuse(&net.build().expect("valid"))
}
