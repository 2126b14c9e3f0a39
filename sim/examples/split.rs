//! Which channels of a linear layer the CPU should compute alongside the GPU of a phone.

use std::error::Error;

use coexec_sim::{Scenario, Strategy};

fn main() -> Result<(), Box<dyn Error>> {
    let mut scenario = Scenario::on("vit-b32-fc1", "oneplus11")?;
    scenario.options.strategy = Strategy::ChannelSplit;
    let answer = scenario.explore()?;
    println!("{}: {:?}", answer.prediction.latency, answer.plan.placements);
    for baseline in &answer.baselines {
        println!("  {} takes {}", baseline.strategy.name(), baseline.prediction.latency);
    }
    Ok(())
}
