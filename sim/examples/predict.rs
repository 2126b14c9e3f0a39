//! How long a bundled network takes on the GPU of a phone, and where the time goes.

use std::error::Error;

use coexec_sim::{Mechanism, Placement, Plan, Scenario};

fn main() -> Result<(), Box<dyn Error>> {
    let scenario = Scenario::on("mobilenet-v2", "pixel4")?;
    let placements = vec![Placement::GPU; scenario.stages().len()];
    let plan = Plan::new(Mechanism::SvmPolling, placements);
    let prediction = scenario.simulator().run(scenario.stages(), &plan)?;
    println!("{} on {}: {}", scenario.title, scenario.device.title, prediction.latency);
    for usage in &prediction.processors {
        println!("  {:?} computes for {}", usage.processor, usage.busy);
    }
    Ok(())
}
