//! Validation of operators that the host timed: cut between processors, or on the GPU alone
//! from the host's memory and back.
//!
//! Responsible for: predicted against measured time from the host's call until the host sees
//! the end. Not for: the choice between placements (`choice`). Invariant: nothing is fitted to
//! these runs, so all of them are held out.

use super::Validation;
use super::point::Point;
use crate::measure::runs::ExecutedOn;
use crate::measure::{ByHost, HostTimed};
use coexec_sim::device::calibration::ErrorGroup;
use coexec_sim::{CoreSet, Library, Mechanism, Placement, Plan, Profile, Simulator, Stage};

/// Compares predictions of `profile` with `runs`; `library` ran on the CPU cores.
pub fn validate(profile: &Profile, runs: &[HostTimed], library: Library) -> Validation {
    let mut simulator = Simulator::new(profile, library).timed_by_host();
    Validation::of(runs, |run| Ok::<_, String>(point(run, predict(&run.what, &mut simulator)?)))
}

/// Predicted time from the host's call until it sees the end, in microseconds.
pub(super) fn predict(run: &ByHost, simulator: &mut Simulator<'_>) -> Result<f64, String> {
    let plan = plan(run, simulator.device())?;
    let stage = Stage::single(String::new(), run.layer.clone());
    let time = simulator.latency(&[stage], &plan).map_err(|error| error.to_string())?;
    Ok(time.as_micros())
}

/// The plan under which an operator ran.
pub(super) fn plan(run: &ByHost, profile: &Profile) -> Result<Plan, String> {
    if let Some(plan) = &run.plan {
        return plan.resolve(profile);
    }
    let synchronisation = run.synchronisation.unwrap_or(Mechanism::EventWait);
    Ok(Plan::new(synchronisation, vec![placement(&run.ran, profile)?]))
}

/// The placement of an operator; an error where a plan of one operator cannot express it.
fn placement(ran: &ExecutedOn, profile: &Profile) -> Result<Placement, String> {
    let cores_of = |text: &str| CoreSet::parse(text, &profile.cpu).map_err(|error| error.to_string());
    match ran {
        ExecutedOn::Split { axis, cores, cpu, gpu } => {
            Ok(Placement::cpu_and_gpu(*axis, cores_of(cores)?, [*cpu, *gpu]))
        }
        ExecutedOn::Cpu(cores) => Ok(Placement::cpu(cores_of(cores)?)),
        ExecutedOn::Gpu => Ok(Placement::GPU),
        ExecutedOn::Npu | ExecutedOn::Plan(_) => {
            Err(format!("a run on {ran} cannot be compared with a prediction"))
        }
    }
}

fn point(run: &HostTimed, predicted_us: f64) -> Point {
    let ByHost { layer, ran, .. } = &run.what;
    let operator = &layer.operator;
    let how = if *ran == ExecutedOn::Gpu { "host_to_host" } else { "split" };
    let group = ErrorGroup::Other(format!("{how}/{}", operator.name().replace(' ', "_")));
    Point { unseen: true, ..Point::of(run, group, format!("{operator} as {ran}"), predicted_us) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coexec_sim::device::gpu::{Direction, LinkTransfer};
    use coexec_sim::plan::Axis;
    use coexec_sim::units::Bytes;
    use coexec_sim::workload::{DataType, Layer, Linear, Operator};

    fn run(ran: ExecutedOn) -> HostTimed {
        let linear = Linear { rows: 50, input_features: 768, output_features: 3072, bias: true };
        HostTimed {
            network: "vit-b32".to_owned(),
            what: ByHost {
                layer: Layer::new(Operator::Linear(linear), DataType::F32),
                ran,
                synchronisation: Some(Mechanism::SvmPolling),
                plan: None,
            },
            measured_us: 1_000.0,
            deviation_us: None,
            line: 7,
        }
    }

    #[test]
    fn a_cut_is_predicted_as_the_simulator_runs_it() {
        let profile = Profile::load("oneplus11").unwrap();
        let split = |cores: &str, cpu| ExecutedOn::Split {
            axis: Axis::Channels,
            cores: cores.to_owned(),
            cpu,
            gpu: 3072 - cpu,
        };
        let runs = [
            run(split("1large", 512)),
            run(split("1large", 2048)),
            run(split("9large", 8)),
            run(ExecutedOn::Npu),
        ];
        let Validation { points, left_out, .. } = validate(&profile, &runs, Library::Xnnpack);
        assert_eq!((points.len(), left_out.len()), (2, 2), "{left_out:?}");
        assert_eq!(points[0].group, "split/linear".into());
        assert!(points[0].what.ends_with("as 1large:512+gpu:2560"), "{}", points[0].what);
        // Four times the CPU's share on one core is the slower cut.
        assert!(points[0].predicted_us < points[1].predicted_us, "{points:?}");
        assert_eq!(left_out[0].line, 7);
    }

    #[test]
    fn a_gpu_alone_is_predicted_from_the_call_to_the_end_copies_included() {
        let profile = Profile::load("h200").unwrap();
        let Validation { points, left_out, .. } =
            validate(&profile, &[run(ExecutedOn::Gpu)], Library::Coexec);
        assert!(left_out.is_empty(), "{left_out:?}");
        assert_eq!(points[0].group, "host_to_host/linear".into());
        let link = &profile.gpu.as_ref().unwrap().memory.as_ref().unwrap().link;
        let crossing = LinkTransfer::whole(Bytes(50 * 3072 * 4));
        let copy_us = link.transfer(crossing, Direction::ToHost).as_micros();
        assert!(points[0].predicted_us > copy_us, "{points:?}");
    }
}
