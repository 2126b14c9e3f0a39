//! `coexec profile`: profiles of unmeasured devices, and their errors.

mod questions;

use std::collections::BTreeMap;
use std::io::{IsTerminal, stdin, stdout};

use coexec_fit::calibrate::gpu::prior::MissingConstant;
use coexec_fit::specification::{Part, SYSTEMS, Specification};
use coexec_fit::transfer::{self, Errors, errors_of, leave_one_out, transfer};
use coexec_fit::validate::point::Point;
use coexec_fit::validate::score::score;
use coexec_fit::validate::{ErrorGroup, Group};
use coexec_sim::device::calibration::{Computed, Which};
use coexec_sim::{Calibration, DataType, InputError, ProcessorKind, Profile};
use serde::Serialize;

use crate::cli::{NewProfile, ProfileCommand, ProfileError};
use crate::output::{listed, percent, record, row, stem};
use crate::{Common, Failure, OutputFile, Result, output, report};

pub(crate) fn run(command: &ProfileCommand, common: &Common) -> Result {
    match command {
        ProfileCommand::New(options) => new(options, common),
        ProfileCommand::Error(options) => error(options, common),
    }
}

/// The failure for a hardware constant missing from a profile.
fn missing(constant: &MissingConstant) -> Failure {
    Failure::usage(constant.to_string(), "add the key to the profile")
}

fn new(options: &NewProfile, common: &Common) -> Result {
    output::check(&options.out)?;
    let NewProfile { soc, cpu, gpu, memory, npu, .. } = options;
    // With another part it is another device.
    let is_as_sold = [cpu, gpu, memory, npu].iter().all(|part| part.is_none());
    let soc = soc.as_deref().filter(|_| is_as_sold);
    if let Some(bundled) = soc.map(bundled).transpose()?.flatten() {
        common.note(format_args!("note: a profile of that name is bundled: --device {bundled}"));
    }
    let Some(specification) = specification(options)? else {
        list(common)?;
        // A program that reads the list answers no questions.
        let is_asked = !common.json && stdin().is_terminal() && stdout().is_terminal();
        let asked = is_asked.then(|| questions::ask(options, &mut stdin().lock(), &mut stdout()));
        return asked.and_then(|asked| asked.ok().flatten()).map_or(Ok(()), |options| new(&options, common));
    };
    let mut donors = transfer::donors();
    let names = |donors: &[Profile]| listed(donors.iter().map(|donor| &donor.name));
    if let Some(unknown) = options.without.iter().find(|name| donors.iter().all(|donor| donor.name != **name))
    {
        let problem = format!("--without {unknown}: profiles are not made from that device");
        return Err(Failure::usage(problem, format!("choose from {}", names(&donors))));
    }
    donors.retain(|donor| !options.without.contains(&donor.name));
    if donors.is_empty() {
        let problem =
            "--without excludes every measured device, and the profile is made from their predictions";
        return Err(Failure::usage(problem, "keep at least one of them"));
    }
    let name = stem(&options.out);
    let sheet = specified_profile(&specification, &name, &donors)?;
    let mut profile = transfer(&sheet, &donors).map_err(|error| missing(&error))?;
    // With fewer donors the errors are not known, as with an unverified value; both widen them.
    let is_wider = |kind| !options.without.is_empty() || specification.is_unverified(kind);
    let mut error = errors_of(is_wider);
    error.retain(|group| group.name.processor() != Some(ProcessorKind::Gpu) || profile.gpu.is_some());
    profile.calibration = Some(Calibration {
        source: format!(
            "made by `{}`, without a run of this device; errors: measured devices left out of each other in turn, \
             wider where a value of the specification was not verified",
            command(options)
        ),
        error: error.clone(),
        ..Calibration::default()
    });
    output::write(&[OutputFile::profile(&options.out, &profile)?])?;
    if common.json {
        return output::json(&record!(Made {
            out: &options.out,
            device: &profile.name,
            /// Errors of such profiles, on measured devices.
            error,
        }));
    }
    print_specification(&specification, (&names(&donors), !options.without.is_empty()), &error);
    let file = options.out.display();
    output::line(&format!("\nwrote {file}; next: coexec explore MODEL --device {file}"));
    output::line(&format!("runs of the phone improve it: coexec calibrate --base {file} --runs RUNS"));
    Ok(())
}

/// The bundled profile of that name, ignoring case, blanks and hyphens.
fn bundled(soc: &str) -> Result<Option<String>> {
    let plain = |name: &str| name.to_lowercase().replace([' ', '-'], "");
    let found = Profile::bundled()?.into_iter().find(|profile| plain(&profile.name) == plain(soc));
    Ok(found.map(|profile| profile.name))
}

/// The specified hardware as a profile; everything else is copied from a measured device, with a GPU of
/// the same maker if there is one.
fn specified_profile(specification: &Specification, name: &str, donors: &[Profile]) -> Result<Profile> {
    let maker = |profile: &Profile| profile.gpu.as_ref().map(|gpu| gpu.family.rules().maker);
    let sheets = donors.iter().map(|donor| Ok((maker(donor), specification.profile(name, donor)?)));
    let sheets: Vec<_> = sheets.collect::<Result<_, InputError>>()?;
    let alike = sheets.iter().find(|(donor, sheet)| *donor == maker(sheet)).or(sheets.first());
    let nothing =
        || Failure::usage("no bundled profile is of a measured device", "use a build with bundled profiles");
    alike.map(|(_, sheet)| sheet.clone()).ok_or_else(nothing)
}

/// Prints what a profile was made from, and the errors of such profiles.
fn print_specification(specification: &Specification, (donors, are_fewer): (&str, bool), error: &[Group]) {
    let Specification { soc, cpu, gpu, npu, memory } = specification;
    let [gpu, npu] = [gpu, npu].map(|part| part.as_ref().map_or("not known", |part| &part.text));
    let (cpu, memory) = (&cpu.text, &memory.text);
    let [cpu_is_unverified, gpu_is_unverified] =
        [ProcessorKind::Cpu, ProcessorKind::Gpu].map(|kind| specification.is_unverified(kind));
    // Unverified can also mean that only the operations per core and cycle are unknown, which carry no
    // `?`.
    let is_unmarked = !gpu.contains('?') && !memory.contains('?');
    let unsure = if is_unmarked && gpu_is_unverified { "?" } else { "" };
    output::line(&format!(
        "{soc}: CPU {cpu}, GPU {gpu}{unsure}, NPU {npu}, memory {memory}; power not known"
    ));
    output::line(&format!("Kernel times are averages over {donors}, each scaled by clocks and widths."));
    output::line(match (are_fewer, cpu_is_unverified || gpu_is_unverified) {
        (true, _) => {
            "Errors with fewer devices are unknown. Errors with all of them, each held out in turn, widened:\n"
        }
        (false, true) => {
            "Errors of profiles made this way, each of these devices held out in turn, widened where `?` marks a \
             value that\nnobody verified:\n"
        }
        (false, false) => "Errors of profiles made this way, each of these devices held out in turn:\n",
    });
    let is_headline = |group: &&Group| KINDS.iter().any(|(kind, _)| group.name == (*kind).into());
    let cells = |group: &Group| {
        let Group { name, n, mape_percent, p95_ape_percent, bias_percent, .. } = group;
        row![name, n, percent(*mape_percent), percent(*bias_percent), percent(*p95_ape_percent)]
    };
    let header = ["group", "runs", "MAPE", "bias", "95th"];
    output::table(&header, error.iter().filter(is_headline).map(cells));
}

/// The command that makes the same profile again, without its file.
fn command(options: &NewProfile) -> String {
    let NewProfile { soc, cpu, gpu, memory, npu, without, out: _ } = options;
    let without = (!without.is_empty()).then(|| without.join(","));
    let given =
        [("soc", soc), ("cpu", cpu), ("gpu", gpu), ("memory", memory), ("npu", npu), ("without", &without)];
    let given = given.into_iter().filter_map(|(name, value)| Some(format!(" --{name} {}", value.as_ref()?)));
    format!("coexec profile new{}", given.collect::<String>())
}

/// The specification from the options, completed by the facts of `--soc`; none if no option was given.
fn specification(options: &NewProfile) -> Result<Option<Specification>> {
    let NewProfile { soc, cpu, gpu, memory, npu, .. } = options;
    let given = |text: &Option<String>| text.as_deref().map(Part::given);
    let needed = [("--cpu", cpu), ("--memory", memory)].into_iter();
    let missing: Vec<&str> = needed.filter(|(_, part)| part.is_none()).map(|(option, _)| option).collect();
    let known = match soc {
        None if [cpu, memory, gpu, npu].iter().all(|part| part.is_none()) => return Ok(None),
        None if !missing.is_empty() => {
            return Err(Failure::usage(
                format!("neither {} nor --soc is given", missing.join(" and ")),
                "give --soc, or both --cpu and --memory, and --gpu if the GPU is to be modelled",
            ));
        }
        Some(name) if !missing.is_empty() => Specification::of(name)?,
        name => {
            let soc = name.clone().unwrap_or_else(|| "a system-on-chip".to_owned());
            Specification { soc, ..Specification::default() }
        }
    };
    Ok(Some(Specification {
        cpu: given(cpu).unwrap_or(known.cpu),
        gpu: given(gpu).or(known.gpu),
        memory: given(memory).unwrap_or(known.memory),
        npu: given(npu).or(known.npu),
        soc: known.soc,
    }))
}

/// Lists the known systems-on-chip.
fn list(common: &Common) -> Result {
    if common.json {
        return output::json(&*SYSTEMS);
    }
    let rows = SYSTEMS.iter().map(|system| row![system.soc, system.phones]);
    output::table(&["--soc", "phones"], rows);
    common.note("name one, or give --cpu, --gpu and --memory");
    Ok(())
}

/// The headline figures: kinds of groups, and their titles.
const KINDS: [(&str, &str); 7] = [
    ("gpu/conv2d/unseen", "GPU conv2d"),
    ("gpu/depthwise_conv2d/unseen", "GPU depthwise"),
    ("gpu/end_to_end/unseen", "GPU networks"),
    ("cpu/one/float", "CPU float, 1 core"),
    ("cpu/several/float", "several"),
    ("cpu/one/quant", "CPU int8, 1 core"),
    ("cpu/several/quant", "several"),
];

/// The kind of a group. A CPU group's kind is whether one core, several cores of one cluster, or cores
/// of several clusters ran.
pub(crate) fn kind(group: &ErrorGroup) -> ErrorGroup {
    match group {
        ErrorGroup::On { processor: ProcessorKind::Cpu, what: Computed::Kind(cores), runs } => {
            let threads: Vec<u32> = cores.chars().filter_map(|letter| letter.to_digit(10)).collect();
            let cores = match threads.as_slice() {
                [1] => "one",
                [_] => "several",
                [_, ..] => "mixed",
                [] => return group.clone(),
            };
            let is_float = matches!(runs, Some(Which::Format(format)) if format == "float");
            format!("cpu/{cores}/{}", if is_float { "float" } else { "quant" }).as_str().into()
        }
        other => other.clone(),
    }
}

/// Figures of a device, in percent: the MAPE of each kind, correct choices of processor, and coverage
/// of intervals.
type Figures = [f64; KINDS.len() + 2];

fn means(rows: impl ExactSizeIterator<Item = Figures>) -> Figures {
    let count = rows.len() as f64;
    let sums =
        rows.fold(Figures::default(), |sums, row| std::array::from_fn(|figure| sums[figure] + row[figure]));
    sums.map(|sum| sum / count)
}

fn error(options: &ProfileError, common: &Common) -> Result {
    let measured = report::of_data_set(&options.runs, &transfer::donors(), common)?;
    let measured: Vec<_> = measured.into_iter().map(|(profile, measured)| (profile, measured.runs)).collect();
    let seeds = options.seed..options.seed + options.draws;
    let points =
        leave_one_out(&measured, options.networks as usize, seeds).map_err(|error| missing(&error))?;
    let devices: Vec<(&str, Figures)> = (measured.iter().enumerate())
        .map(|(index, (profile, _))| {
            (profile.name.as_str(), means(points.iter().map(|draw| figures(&draw[index]))))
        })
        .collect();
    let renamed =
        points.concat().concat().into_iter().map(|point| Point { group: kind(&point.group), ..point });
    let groups = score(&renamed.collect::<Vec<_>>());
    if let Some(path) = &options.out {
        let is_stated = |group: &&Group| !group.name.is_of_all();
        let error = groups.iter().map(|scored| &scored.group).filter(is_stated).cloned().collect();
        output::write(&[OutputFile::encoded(path, toml::to_string(&Errors { error }))?])?;
    }
    if common.json {
        let devices: Vec<_> = devices.into_iter().map(left_out).collect();
        return output::json(&record!(Document {
            devices,
            /// Errors by group over all devices, worst first.
            groups,
        }));
    }
    let titles = KINDS.map(|(_, title)| title);
    let header = [&["left out"], &titles[..], &["GPU or CPU right", "in interval"]].concat();
    let cells = |(name, figures): (&str, Figures)| {
        std::iter::once(name.to_owned()).chain(figures.map(percent)).collect::<Vec<_>>()
    };
    let mean = ("mean", means(devices.iter().map(|(_, figures)| *figures)));
    output::table(&header, devices.into_iter().chain([mean]).map(cells));
    Ok(())
}

/// A device and its figures, as JSON.
fn left_out((device, figures): (&str, Figures)) -> impl Serialize {
    let [errors @ .., choice_percent, in_interval_percent] = figures;
    record!(LeftOut {
        device,
        /// MAPE by kind, in percent.
        mape_percent: KINDS.iter().map(|(kind, _)| *kind).zip(errors).collect::<BTreeMap<_, _>>(),
        /// Percentage of networks for which the faster of GPU and CPU is predicted correctly.
        choice_percent,
        /// Percentage of networks, and of layers on the GPU, whose measured time is in the 90 %
        /// interval.
        in_interval_percent,
    })
}

/// The figures of one draw of a device.
fn figures(points: &[Point]) -> Figures {
    // Each core set of a device has the same weight.
    let groups = score(points);
    let mape = |of: &str| {
        let of = ErrorGroup::from(of);
        let alike: Vec<f64> = groups
            .iter()
            .filter(|scored| kind(&scored.group.name) == of)
            .map(|scored| scored.group.mape_percent)
            .collect();
        alike.iter().sum::<f64>() / alike.len() as f64
    };
    let held: Vec<bool> = points
        .iter()
        .filter_map(|point| Some(point.low_us? <= point.measured_us && point.measured_us <= point.high_us?))
        .collect();
    let beside = [choice_percent(points), share(&held)];
    std::array::from_fn(|figure| match KINDS.get(figure) {
        Some((kind, _)) => mape(kind),
        None => beside[figure - KINDS.len()],
    })
}

/// Percentage of networks for which the faster of the GPU and the best CPU core set, in floating point,
/// is predicted correctly.
fn choice_percent(points: &[Point]) -> f64 {
    let mut networks: BTreeMap<&str, [[f64; 2]; 2]> = BTreeMap::new();
    for point in points {
        let on_cpu = point.group.processor() == Some(ProcessorKind::Cpu);
        let processor = usize::from(on_cpu);
        if point.group.is_of_networks() || (on_cpu && point.group.is_of_format(DataType::F32)) {
            let best = networks.entry(&point.network).or_insert([[f64::INFINITY; 2]; 2]);
            for (best, time) in best.iter_mut().zip([point.predicted_us, point.measured_us]) {
                best[processor] = best[processor].min(time);
            }
        }
    }
    let both = networks.values().filter(|times| times.iter().flatten().all(|time| time.is_finite()));
    let right: Vec<bool> = both
        .map(|[predicted, measured]| (predicted[0] < predicted[1]) == (measured[0] < measured[1]))
        .collect();
    share(&right)
}

fn share(of: &[bool]) -> f64 {
    100.0 * of.iter().filter(|&&is| is).count() as f64 / of.len() as f64
}
