//! The CPU on the mobile-ml-benchmark data set: the recovered networks, and the errors on
//! held-out networks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use coexec_fit::calibrate::Options;
use coexec_fit::calibrate::cpu::calibrate;
use coexec_fit::measure::CpuRun;
use coexec_fit::measure::benchmark_cpu::{self, networks};
use coexec_fit::validate::cpu::validate;
use coexec_fit::validate::point::Point;
use coexec_fit::validate::score::{Scored, coverage_percent, score};
use coexec_sim::device::calibration::{Calibration, ErrorGroup};
use coexec_sim::device::cpu::Cpu;
use coexec_sim::kernel::cpu::{CoreSet, Library};
use coexec_sim::workload::{Operator, Shape};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;

#[derive(Deserialize)]
struct Document {
    cpu: Cpu,
}

fn cpu(text: &str) -> Cpu {
    coexec_sim::input::from_toml::<Document>(text).unwrap().cpu
}

/// The phones with their clusters; the rates in these files are not used as priors.
fn phones() -> [(&'static str, Cpu); 6] {
    [
        ("pixel4", cpu(include_str!("../../../sim/tests/golden/cpu_pixel4.toml"))),
        ("s10", cpu(include_str!("../../../sim/tests/golden/cpu_s10.toml"))),
        ("mi8se", cpu(include_str!("../../../sim/tests/golden/cpu_mi8se.toml"))),
        ("a03s", cpu(include_str!("../../../sim/tests/golden/cpu_a03s.toml"))),
        ("iphone7", cpu(include_str!("../../../sim/tests/golden/cpu_iphone7.toml"))),
        ("iphonexs", cpu(include_str!("../../../sim/tests/golden/cpu_iphonexs.toml"))),
    ]
}

/// An operator as a line of `cpu_networks.csv`.
fn line(operator: &Operator) -> String {
    let windowed = |name: &str, kernel: u32, stride: u32, input: u32, output: Shape, groups: u32| {
        format!("{name},{kernel},{stride},{input},{},{groups},{},0", output.channels, output.height)
    };
    let elements = |name: &str, shape: Shape| format!("{name},1,1,0,0,1,1,{}", shape.elements());
    match operator {
        Operator::Conv2d(conv) => {
            let name = if conv.groups > 1 { "gconv" } else { "conv" };
            windowed(
                name,
                conv.window.kernel[0],
                conv.window.stride[0],
                conv.input.channels,
                conv.output(),
                conv.groups,
            )
        }
        Operator::DepthwiseConv2d(conv) => windowed(
            "dw",
            conv.window.kernel[0],
            conv.window.stride[0],
            conv.input.channels,
            conv.output(),
            1,
        ),
        Operator::Pool(pool) => windowed(
            "pool",
            pool.window.kernel[0],
            pool.window.stride[0],
            pool.input.channels,
            pool.output(),
            1,
        ),
        Operator::Linear(linear) => {
            format!("fc,1,1,{},{},1,1,0", linear.input_features, linear.output_features)
        }
        Operator::Mean(mean) => elements("mean", mean.input),
        Operator::Concat(_) => elements("concat", operator.output()),
        Operator::Slice(_) => elements("pad", operator.output()),
        _ => elements("ew", operator.output()),
    }
}

#[test]
fn the_recovered_networks_are_those_of_the_cpu_model() {
    let folder = crate::data();
    let (networks, left_out) = networks(&folder).unwrap();
    assert_eq!((networks.len(), left_out.len()), (82, 0));
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for operator in networks.values().flatten() {
        let line = line(operator);
        *kinds.entry(line.split(',').next().unwrap().to_owned()).or_default() += 1;
    }
    // Counts of the prototype of the CPU model in these 82 networks.
    let expected = [
        ("concat", 273),
        ("conv", 3193),
        ("dw", 559),
        ("ew", 1822),
        ("fc", 63),
        ("gconv", 164),
        ("mean", 253),
        ("pad", 932),
        ("pool", 98),
    ];
    assert_eq!(kinds, expected.map(|(kind, count)| (kind.to_owned(), count)).into());

    let mut golden: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in include_str!("../../../sim/tests/golden/cpu_networks.csv").lines().skip(1) {
        let (network, operator) = row.split_once(',').unwrap();
        golden.entry(network).or_default().push(operator);
    }
    let mut compared = 0;
    for (name, expected) in golden {
        let Some(operators) = networks.get(name) else { continue };
        let lines: Vec<String> = operators.iter().map(line).collect();
        assert_eq!(lines, expected, "{name}");
        compared += 1;
    }
    assert!(compared >= 3, "{compared} networks of the golden lists are in the data set");
}

/// Kind of a core set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Single,
    Equal,
    Mixed,
}

impl Kind {
    fn of(core_set: &str, cpu: &Cpu) -> Self {
        let cores = CoreSet::parse(core_set, cpu).unwrap();
        match cores.threads() {
            1 => Self::Single,
            _ if cores.groups().count() > 1 => Self::Mixed,
            _ => Self::Equal,
        }
    }
}

/// Mean MAPE of the groups, in percent, by number format and kind of core set.
fn mean_mapes(points: &[Point], cpu: &Cpu) -> BTreeMap<(String, Kind), f64> {
    let mut sums: BTreeMap<(String, Kind), (f64, f64)> = BTreeMap::new();
    for Scored { group, .. } in score(points) {
        let ErrorGroup::On { what, runs: Some(format), .. } = group.name else { continue };
        let (sum, count) = sums.entry((format.to_string(), Kind::of(&what.to_string(), cpu))).or_default();
        *sum += group.mape_percent;
        *count += 1.0;
    }
    sums.into_iter().map(|(key, (sum, count))| (key, sum / count)).collect()
}

const OPTIONS: Options<'static> =
    Options { folds: 5, seed: 7, from_scratch: true, library: Library::Ruy, ..Options::of("test") };

/// The runs of the networks in `names` if `within`, else of all others.
fn part(runs: &[CpuRun], names: &[&str], within: bool) -> Vec<CpuRun> {
    runs.iter().filter(|run| names.contains(&run.network.as_str()) == within).cloned().collect()
}

fn read(folder: &Path, device: &str) -> Vec<CpuRun> {
    benchmark_cpu::read(folder, device).unwrap().runs
}

/// The networks with known operators, in random order.
fn shuffled(runs: &[CpuRun], seed: u64) -> Vec<&str> {
    let known = runs.iter().filter(|run| !run.what.layers.is_empty());
    let names: BTreeSet<&str> = known.map(|run| run.network.as_str()).collect();
    let mut names: Vec<&str> = names.into_iter().collect();
    names.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    names
}

/// Random draws of few networks to average.
const DRAWS: u64 = 3;
/// Limits of the float MAPE after a fit to ten networks, averaged over phones, in percent:
/// on one core, and on several equal ones.
const TEN_NETWORKS_LIMITS: [f64; 2] = [4.0, 7.0];

/// Mean MAPE over phones and draws after fits to this many networks.
fn after_few(
    networks: usize,
    phones: &[(&str, Cpu)],
    tables: &[Vec<CpuRun>],
    others: &dyn Fn(usize) -> Vec<Cpu>,
) -> BTreeMap<(String, Kind), f64> {
    let mut means: BTreeMap<(String, Kind), f64> = BTreeMap::new();
    for (index, ((_, cpu), table)) in phones.iter().zip(tables).enumerate() {
        let others = others(index);
        for draw in 0..DRAWS {
            let names = &shuffled(table, draw)[..networks];
            let options = Options { folds: 2, others: &others, ..OPTIONS };
            let few = calibrate(cpu, &part(table, names, true), &options, &|_, _| ());
            let rest = validate(&few.cpu, None, &part(table, names, false), None, Library::Ruy);
            for (key, mape) in mean_mapes(&rest.points, cpu) {
                *means.entry(key).or_default() += mape / (DRAWS as f64 * tables.len() as f64);
            }
        }
    }
    means.retain(|(_, kind), _| *kind != Kind::Mixed);
    means
}

#[test]
fn ten_networks_calibrate_a_cpu() {
    let folder = crate::data();
    let phones = phones();
    let tables: Vec<Vec<CpuRun>> = phones.iter().map(|(device, _)| read(&folder, device)).collect();
    let fit = |(cpu, table): (&Cpu, &Vec<CpuRun>)| {
        calibrate(cpu, table, &Options { folds: 2, ..OPTIONS }, &|_, _| ()).cpu
    };
    let fitted: Vec<Cpu> = phones.iter().map(|(_, cpu)| cpu).zip(&tables).map(fit).collect();
    let all_but = |index: usize| {
        fitted.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, cpu)| cpu.clone()).collect()
    };
    let none = |_: usize| Vec::new();
    for (prior, others) in
        [("generic prior", &none as &dyn Fn(usize) -> Vec<Cpu>), ("other phones", &all_but)]
    {
        for ((format, kind), mean) in after_few(10, &phones, &tables, others) {
            println!("{prior}, {format}, {kind:?} cores: {mean:.2} %");
            let held = format != "float" || mean < TEN_NETWORKS_LIMITS[kind as usize];
            assert!(held, "{prior}, {kind:?}: {mean} %");
        }
    }
}

/// Accepted coverage of 90 % intervals on runs of held-out networks, in percent.
const COVERAGE_LIMITS: std::ops::RangeInclusive<f64> = 85.0..=95.0;
/// Number of folds of networks; each is predicted by a fit to the others.
const PARTS: usize = 5;

#[test]
fn intervals_cover_nine_in_ten_held_out_networks() {
    let folder = crate::data();
    // These two have core sets of one cluster and of several; the accuracy page covers all phones.
    for (device, cpu) in phones().into_iter().take(2) {
        let table = read(&folder, device);
        let names = shuffled(&table, 1);
        let mut points = Vec::new();
        for unseen in names.chunks(names.len().div_ceil(PARTS)) {
            let seen = part(&table, unseen, false);
            let fitted = calibrate(&cpu, &seen, &OPTIONS, &|_, _| ());
            let calibration = Calibration { cpu_core_set: fitted.spreads, ..Calibration::default() };
            let rest = part(&table, unseen, true);
            points.extend(validate(&fitted.cpu, Some(&calibration), &rest, Some(&seen), Library::Ruy).points);
        }
        assert!(points.iter().all(|point| point.unseen && point.flops_linear_us.is_some()));
        let coverage = coverage_percent(points.iter()).unwrap();
        println!("{device}: {coverage:.1} % of {} runs within their interval", points.len());
        assert!(COVERAGE_LIMITS.contains(&coverage), "{device}: {coverage} %");
    }
}
