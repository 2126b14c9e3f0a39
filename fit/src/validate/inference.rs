//! Validation of whole inferences on one unit, simulated under a plan that places every
//! operator there.
//!
//! Each prediction comes with two baselines from totals alone (FLOPs-linear and roofline), fitted
//! to the other networks of its group, so that they have not seen the network either. Not for:
//! fitting a unit's parameters.

use std::collections::HashMap;

use rayon::prelude::*;

use super::Validation;
use super::flops_linear::FlopsLinear;
use super::point::Point;
use super::roofline::{Roofline, Totals};
use crate::measure::ai_hub::{Network, OnUnit};
use crate::measure::{Inference, grouped};
use coexec_sim::device::calibration::ErrorGroup;
use coexec_sim::{CoreSet, Library, Measure, Mechanism, Placement, Plan, ProcessorKind, Profile, Simulator};

/// Threads of an inference on the CPU, on its fastest cores: AI Hub does not publish their number,
/// and four is common for LiteRT's CPU delegate and its benchmark.
const CPU_THREADS: u32 = 4;

/// Fewest other networks for a baseline.
const MIN_OTHERS: usize = 5;

/// Predicted time of an inference, in microseconds.
///
/// # Errors
/// The device lacks the unit, or the unit a kernel for an operator.
pub fn predict(profile: &Profile, run: &OnUnit, library: Library) -> Result<f64, String> {
    let placement = match run.unit {
        ProcessorKind::Npu => Placement::NPU,
        ProcessorKind::Gpu => Placement::GPU,
        ProcessorKind::Cpu => {
            let cores = (1..=CPU_THREADS).rev().find_map(|threads| CoreSet::fastest(&profile.cpu, threads));
            Placement::cpu(cores.ok_or("the profile has no cores")?)
        }
    };
    let stages = &run.network.stages;
    let plan = Plan::new(Mechanism::EventWait, vec![placement; stages.len()]);
    let mut simulator = Simulator::new(profile, library).measuring(Measure::Inference);
    let latency = simulator.latency(stages, &plan).map_err(|error| error.to_string())?;
    Ok(latency.as_micros())
}

/// Compares predictions of `profile` with `runs`.
pub fn validate(profile: &Profile, runs: &[Inference], library: Library) -> Validation {
    let groups = grouped(runs.iter().map(|run| (run.what.group(), run)));
    let groups: HashMap<ErrorGroup, Vec<&Inference>> = groups.into_iter().collect();
    let point = |run: &Inference| {
        let predicted_us = predict(profile, &run.what, library)?;
        let point = Point::of(run, run.what.group(), run.network.clone(), predicted_us);
        Ok::<_, String>(with_baselines(run, &groups[&point.group], point))
    };
    Validation::found(runs, runs.par_iter().map(point).collect())
}

/// The point of `run` with the predictions of baselines fitted to the other networks of its group.
fn with_baselines(run: &Inference, group: &[&Inference], point: Point) -> Point {
    let own = totals(&run.what.network);
    let point = Point { bytes: Some(own.bytes as u64), ..point };
    let others = group.iter().filter(|other| other.network != run.network);
    let others: Vec<(Totals, f64)> =
        others.map(|other| (totals(&other.what.network), other.measured_us)).collect();
    if others.len() < MIN_OTHERS {
        return point;
    }
    let linear = FlopsLinear::fit(others.iter().map(|(totals, micros)| (totals.operations, *micros)));
    Point {
        flops_linear_us: linear.map(|linear| linear.predict(own.operations)),
        roofline_us: Roofline::fit(&others).map(|line| line.predict(own)),
        ..point
    }
}

/// Operations and bytes of a network; each tensor counts as often as it is read or written.
fn totals(network: &Network) -> Totals {
    let data_type = network.graph.data_type();
    let nodes = network.graph.nodes().iter();
    let elements = nodes.map(|node| node.operator.input_elements() + node.operator.output().elements());
    let bytes = elements.sum::<u64>() * data_type.activation_bytes()
        + data_type.weight_bytes(network.graph.parameters()).0;
    Totals { operations: network.graph.macs() as f64, bytes: bytes as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::score::score;
    use std::sync::Arc;

    use crate::measure::Run;
    use crate::measure::ai_hub::{Format, Runtime};
    use coexec_sim::workload::{DataType, GraphBuilder, Shape, fuse};

    /// A linear layer on a unit, with a time.
    fn run(unit: ProcessorKind, features: u32, measured_us: f64) -> Inference {
        let name = format!("net{features}");
        let mut builder = GraphBuilder::new(&name, DataType::F32);
        let input = builder.input(Shape::tokens(8, 512));
        builder.linear(input, features);
        let graph = builder.build().unwrap();
        let what = OnUnit {
            family: "cnn".into(),
            unit,
            runtime: Runtime::Tflite,
            format: Format::Float,
            is_reference: true,
            job: String::new(),
            network: Arc::new(Network { stages: fuse(&graph), graph }),
        };
        Run { network: name, what, measured_us, deviation_us: None, line: u64::from(features) }
    }

    #[test]
    fn a_gpu_network_is_predicted_by_us_and_by_held_out_baselines() {
        let profile = Profile::load("pixel4").unwrap();
        let runs = [64, 128, 256, 512, 1024, 2048]
            .map(|features| run(ProcessorKind::Gpu, features, 10.0 + f64::from(features) / 10.0));
        let found = validate(&profile, &runs, Library::of_runs(&profile.cpu));
        assert_eq!((found.points.len(), found.left_out.len()), (6, 0));
        // The time is linear in operations.
        for point in &found.points {
            assert!((point.flops_linear_us.unwrap() / point.measured_us - 1.0).abs() < 1e-6, "{point:?}");
            assert!(point.roofline_us.unwrap() > 0.0);
        }
        let scored = score(&found.points);
        assert_eq!(scored[0].group.name, "gpu/end_to_end/float".into());
        assert!((scored[0].rank_correlation.unwrap() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_unit_that_is_not_there_is_named_and_cores_are_always() {
        let profile = Profile::load("pixel4").unwrap();
        let runs = [run(ProcessorKind::Npu, 256, 10.0), run(ProcessorKind::Cpu, 256, 10.0)];
        let found = validate(&profile, &runs, Library::of_runs(&profile.cpu));
        assert_eq!(found.points.len(), 1);
        assert!(found.left_out[0].reason.contains("NPU"), "{:?}", found.left_out);
    }
}
