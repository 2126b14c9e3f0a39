//! `coexec report`: the accuracy page, from cross-validation on a data set and on coexec's own runs.
//!
//! Every error on the page is of a network that its fit held out.

mod page;

use std::path::Path;

use coexec_fit::calibrate::Options;
use coexec_fit::measure::{SkippedRow, benchmark_gpu};
use coexec_fit::validate::choice::{Choices, choices};
use coexec_fit::validate::host_timed;
use coexec_fit::validate::point::Point;
use coexec_fit::validate::score::{Scored, is_in, score};
use coexec_plots::{Format, error_cdf, scatter};
use coexec_sim::{KernelTable, Library, Profile};

use crate::calibrate::fit::fit;
use crate::output::{listed, record, stem};
use crate::{Chosen, Common, DeviceRuns, Failure, OutputFile, Progress, Report, Result, output, runs};

/// Suffix of the file of runs of cut operators, after the profile's name.
const CUTS: &str = "-cuts.csv";
/// File name of the page.
const PAGE: &str = "accuracy.md";

/// Prefix of the groups, name in files and title of each section.
const PROCESSORS: [(&str, &str, &str); 4] = [
    ("gpu/", "gpu", "GPU"),
    ("cpu/", "cpu", "CPU"),
    ("split/", "split", "operators cut between both"),
    ("host_to_host/", "host-to-host", "the GPU alone, from the host's memory and back"),
];

/// The content of the page about one phone.
struct Phone {
    profile: Profile,
    measured: DeviceRuns,
    /// Each run, with its prediction by a fit that held out its network.
    points: Vec<Point>,
    /// Errors of the points by group, worst first.
    groups: Vec<Scored>,
    /// Value of choosing cuts by prediction; none without runs of cuts.
    choices: Option<Choices>,
    /// Reasons for unused rows, with the number of rows.
    left_out: Vec<(String, usize)>,
}

/// A picture of the page.
struct Picture {
    file: String,
    caption: String,
    content: Vec<u8>,
}

pub(crate) fn run(options: &Report, common: &Common) -> Result {
    if options.out.exists() && !options.out.is_dir() {
        return Err(Failure::write(&options.out, "it is not a folder"));
    }
    let prior = Chosen::of(&options.prior)?;
    let mut phones = Vec::new();
    let measured = measured(options, common)?;
    // Before the fits, so that a wrong path does not cost them.
    output::make_folder(&options.out)?;
    let path = options.out.join(PAGE);
    output::check(&path)?;
    for (profile, measured) in measured {
        phones.push(phone(profile, measured, &prior, options, common)?);
    }
    let pictures = phones.iter().map(pictures).collect::<Result<Vec<_>, _>>()?;
    let page = page::page(&phones, &pictures, options);
    let pictures = pictures.into_iter().flatten();
    let drawn = pictures.map(|picture| OutputFile::new(&options.out.join(picture.file), picture.content));
    let files: Vec<OutputFile> = std::iter::once(OutputFile::new(&path, page)).chain(drawn).collect();
    output::write(&files)?;
    if common.json {
        let device = |Phone { profile, groups, .. }| record!(Device { device: profile.name, groups });
        let devices: Vec<_> = phones.into_iter().map(device).collect();
        return output::json(&record!(Document { out: &options.out, devices }));
    }
    output::line(&format!("wrote {} and {} pictures", path.display(), files.len() - 1));
    Ok(())
}

/// The requested profiles, or all that have runs, with their runs.
fn measured(options: &Report, common: &Common) -> Result<Vec<(Profile, DeviceRuns)>> {
    let asked = options.device.iter().map(|name| Profile::load(name)).collect::<Result<Vec<_>, _>>()?;
    let mut found = Vec::new();
    for path in &options.runs {
        if path.is_file() {
            found.extend(own(path, &asked, common)?);
        } else {
            found.extend(of_data_set(path, &asked, common)?);
        }
    }
    match asked.iter().find(|profile| found.iter().all(|(known, _)| known.name != profile.name)) {
        Some(missing) => Err(Failure::usage(
            format!("there are no runs of {}", missing.name),
            "give a folder whose columns have the profile's name or an alias, or a file of runs named after the profile",
        )),
        None => Ok(found),
    }
}

/// The profile that a file of coexec's own runs is named after, and its runs; none if `asked` does not
/// include it.
fn own(path: &Path, asked: &[Profile], common: &Common) -> Result<Option<(Profile, DeviceRuns)>> {
    let name = stem(path);
    let profile = match asked.iter().find(|profile| profile.name == name) {
        Some(profile) => profile.clone(),
        None if asked.is_empty() => Profile::load(&name)?,
        None => return Ok(None),
    };
    let mut measured = runs::own(&profile, path, common)?;
    let cuts = path.with_file_name(format!("{name}{CUTS}"));
    if cuts.is_file() {
        // Runs on one processor in this file are the baseline of the cuts and are not fitted to.
        let beside = runs::own(&profile, &cuts, common)?;
        (measured.runs.host_timed, measured.measurements) = (beside.runs.host_timed, beside.measurements);
    }
    Ok(Some((profile, measured)))
}

/// The profiles that the data set has columns for, with their runs.
pub(crate) fn of_data_set(
    folder: &Path,
    asked: &[Profile],
    common: &Common,
) -> Result<Vec<(Profile, DeviceRuns)>> {
    let columns = benchmark_gpu::devices(folder)?;
    let profiles = if asked.is_empty() { Profile::bundled()? } else { asked.to_vec() };
    let mut found = Vec::new();
    for profile in profiles {
        let mut names = std::iter::once(&profile.name).chain(&profile.aliases);
        if let Some(column) = names.find(|name| columns.contains(name)).cloned() {
            let measured = runs::benchmark(&profile, folder, &column, common)?;
            found.push((profile, measured));
        }
    }
    if found.is_empty() && asked.is_empty() {
        return Err(Failure::usage(
            format!("no bundled profile matches a phone in {}", folder.display()),
            format!("its columns are for {}; name profiles with --device", listed(columns)),
        ));
    }
    Ok(found)
}

/// Cross-validates one phone.
fn phone(
    mut profile: Profile,
    measured: DeviceRuns,
    prior: &Chosen,
    options: &Report,
    common: &Common,
) -> Result<Phone> {
    let source = format!("fit on {}, prior {}", measured.source(), prior.name);
    let library = Library::of_runs(&profile.cpu);
    let (seed, correctable) = (options.seed, KernelTable::ALL);
    let how = Options { seed, correctable, from_scratch: true, library, ..Options::of(&source) };
    let mut fitted = fit(&mut profile, &measured, (prior, how), &Progress::new(common))?;
    let mut left_out = measured.runs.left_out.clone();
    left_out.append(&mut fitted.left_out);
    // No fit uses cuts, so predictions of the final profile hold them out too.
    let cuts = host_timed::validate(&profile, &measured.runs.host_timed, library);
    fitted.held_out.extend(cuts.points);
    left_out.extend(cuts.left_out);
    Ok(Phone {
        groups: score(&fitted.held_out),
        choices: choices(&profile, &measured.measurements, library),
        points: fitted.held_out,
        left_out: reasons(&left_out),
        profile,
        measured,
    })
}

/// The reasons for unused rows with their counts, most frequent first.
fn reasons(left_out: &[SkippedRow]) -> Vec<(String, usize)> {
    let counts = runs::reasons(left_out).into_iter();
    let mut counts: Vec<(String, usize)> = counts.map(|(reason, count)| (reason.to_owned(), count)).collect();
    counts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    counts
}

/// The pictures of one phone.
fn pictures(phone: &Phone) -> Result<Vec<Picture>> {
    let mut pictures = Vec::new();
    for (prefix, file, processor) in PROCESSORS {
        let of: Vec<Point> = phone.points.iter().filter(|point| is_in(point, prefix)).cloned().collect();
        if of.is_empty() {
            continue;
        }
        let title = format!("{}, {processor}", phone.profile.title);
        let subtitle = "held-out networks";
        // Thousands of points take less space as pixels than as SVG.
        pictures.push(Picture {
            file: format!("{}-{file}.png", phone.profile.name),
            caption: format!("{title}: predicted against measured"),
            content: scatter(&of)?.titled(&title, subtitle).draw(Format::Png)?,
        });
        pictures.push(Picture {
            file: format!("{}-{file}-errors.svg", phone.profile.name),
            caption: format!("{title}: cumulative distribution of errors"),
            content: error_cdf(&of)?.titled(&title, subtitle).draw(Format::Svg)?,
        });
    }
    Ok(pictures)
}
