//! Memory interference of a profile: which curve a processor follows, and the effect on a
//! plan.

use coexec_sim::device::{Interference, ProcessorKind, Profile, Quantity};
use coexec_sim::input::Text;
use coexec_sim::kernel::{CoreSet, Library};
use coexec_sim::plan::{Axis, Mechanism, Placement, Plan};
use coexec_sim::simulate::Simulator;
use coexec_sim::units::Picos;
use coexec_sim::workload::{DataType, Layer, Linear, Operator, Stage};

/// A curve that slows `client` by `factor` as soon as others have traffic.
fn interference(client: &str, factor: f64) -> Interference {
    Interference {
        client: client.to_owned(),
        source: "test".to_owned(),
        onset_gbps: Quantity::plain(0.0),
        saturation_gbps: Quantity::plain(1e-6),
        alone_gbps: Quantity::plain(1e6),
        crowded_gbps: Quantity::plain(1e6),
        crowded_slowdown_factor: Quantity::plain(factor),
    }
}

fn device(entries: &[(&str, f64)]) -> Profile {
    let mut device = Profile::load("oneplus11").unwrap();
    device.memory.interference =
        entries.iter().map(|&(client, factor)| interference(client, factor)).collect();
    device
}

/// A layer of few rows, dominated by weight traffic: both parts of the cut in [`cpu_part`] take long.
fn stage() -> Stage {
    let operator = Linear { rows: 4, input_features: 2048, output_features: 4096, bias: false };
    Stage::single("fc".to_owned(), Layer::new(Operator::Linear(operator), DataType::F32))
}

/// Time of the CPU's part on `cores` next to the GPU's part, and the latency.
fn cpu_part(device: &Profile, cores: &str) -> (Picos, Picos) {
    let cores = CoreSet::parse(cores, &device.cpu).unwrap();
    let split = Placement::cpu_and_gpu(Axis::Channels, cores, [512, 3584]);
    let plan = Plan::new(Mechanism::SvmPolling, vec![split]);
    let prediction = Simulator::new(device, Library::Xnnpack).run(&[stage()], &plan).unwrap();
    let part = prediction.stages[0].parts.iter().find(|part| part.processor == ProcessorKind::Cpu).unwrap();
    (part.finish - part.start, prediction.latency)
}

#[test]
fn a_cluster_s_entry_overrides_the_cpu_s() {
    let (plain, _) = cpu_part(&device(&[]), "1large");
    let (as_cpu, _) = cpu_part(&device(&[("cpu", 1.5)]), "1large");
    let (as_cluster, _) = cpu_part(&device(&[("cpu", 1.5), ("large", 3.0)]), "1large");
    assert!(plain < as_cpu && as_cpu < as_cluster, "{plain} {as_cpu} {as_cluster}");
    let both = [("cpu", 1.5), ("large", 3.0)];
    assert_eq!(cpu_part(&device(&both), "2med"), cpu_part(&device(&both[..1]), "2med"));
    assert_eq!(cpu_part(&device(&[("npu", 9.0)]), "2med"), cpu_part(&device(&[]), "2med"));
}

#[test]
fn without_its_interference_a_device_shares_by_max_min_alone() {
    let disturbed = device(&[("cpu", 2.0), ("gpu", 2.0)]);
    assert!(cpu_part(&disturbed, "2med").1 > cpu_part(&device(&[]), "2med").1);
    assert_eq!(disturbed.without_interference(), device(&[]));
}

#[test]
fn a_processor_alone_has_no_interference() {
    let (plain, disturbed) = (device(&[]), device(&[("cpu", 5.0), ("gpu", 5.0)]));
    let plan = Plan::new(Mechanism::SvmPolling, vec![Placement::GPU]);
    let latency = |device| Simulator::new(device, Library::Xnnpack).latency(&[stage()], &plan).unwrap();
    assert_eq!(latency(&plain), latency(&disturbed));
}

#[test]
fn an_entry_for_an_unknown_client_is_refused_and_a_valid_one_survives_writing() {
    let written = |device: &Profile| Text { name: "p.toml".to_owned(), content: device.to_toml().unwrap() };
    let good = device(&[("gpu", 1.5), ("large", 1.2)]);
    let text = written(&good);
    assert!(text.content.contains("[[memory.interference]]"), "{}", text.content);
    assert_eq!(Profile::parse(&text).unwrap(), good);
    let error = Profile::parse(&written(&device(&[("dsp", 1.5)]))).unwrap_err().to_string();
    assert!(error.contains("interference[0].client"), "{error}");
}
