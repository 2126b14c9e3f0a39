//! The text of the accuracy page.

mod baselines;

use std::fmt::Write as _;

use coexec_fit::calibrate::FOLDS;
use coexec_fit::validate::score::{Scored, worst};

use super::{PROCESSORS, Phone, Picture};
use crate::output::percent;
use crate::validate::{COLUMNS, choice_summary};
use crate::{Report, or_dash, output, points};

/// Most reasons for unused rows that are listed.
const MAX_REASONS: usize = 5;

/// The page as Markdown.
pub(super) fn page(phones: &[Phone], pictures: &[Vec<Picture>], options: &Report) -> String {
    let mut text = format!(
        "# Accuracy\n\n\
         Predicted against measured times: for phones, those of the mobile-ml-benchmark data set; for machines \
         whose conditions are stated, coexec's own. Each network is predicted by a fit that held it out, in \
         {FOLDS}-fold cross-validation by network; a layer that was timed alone counts as a network of its own. \
         Groups `unseen` contain the layers whose operation and shape occur in no network of the fit. Made by \
         coexec {} with\n\n```sh\n{}\n```\n\n",
        env!("CARGO_PKG_VERSION"),
        command(options)
    );
    text.push_str(EXPLANATION);
    text.push_str(&summary(phones));
    text.push_str(&baselines::table_of(phones));
    for (phone, pictures) in phones.iter().zip(pictures) {
        section(&mut text, phone, pictures, options.worst);
    }
    text
}

/// Explanation of the columns.
const EXPLANATION: &str = "\
MAPE is the mean absolute percentage error. *Physics only* is the MAPE of the same fit without its residual, \
*FLOPs-linear* that of a launch time plus a time per operation, fitted to the same runs, *CoDL* that of \
the predictor of CoDL (MobiSys'22, section 5.2), fitted to them as well (on CPU cores, where only networks are timed, \
to the sums over their operators), and *CoDL + launch* that of the same predictor with a fitted launch time; in \
brackets is the share of their predictions within 10 %. *Repeat noise* is the deviation of the measurements of one \
layer from their median (for a network on CPU cores, the standard deviation of its repetitions), and *in interval* the \
share of measured times inside the predicted 90 % interval.\n\n";

/// The command that writes the page, with data set folders replaced by `DATA`.
fn command(options: &Report) -> String {
    let paths = options.runs.iter().map(|path| {
        // The location of the data set is of no interest to a reader.
        if path.is_file() { path.display().to_string() } else { "DATA".to_owned() }
    });
    let runs = paths.collect::<Vec<_>>().join(",");
    let mut command = format!("coexec report --runs {runs} --out DIR --prior {}", options.prior);
    let _ = write!(command, " --seed {}", options.seed);
    if !options.device.is_empty() {
        let _ = write!(command, " --device {}", options.device.join(","));
    }
    command
}

/// The summary table, one line per phone.
fn summary(phones: &[Phone]) -> String {
    let columns = [
        ("GPU conv2d, unseen", "gpu/conv2d/unseen", ""),
        ("GPU end to end", "gpu/end_to_end/all", ""),
        ("CPU float", "cpu/", "/float"),
        ("CPU int8", "cpu/", "/quant"),
    ];
    let rows: Vec<Vec<String>> = phones
        .iter()
        .map(|phone| {
            let errors = columns.iter().map(|(_, start, end)| {
                let mape = |scored: &Scored| Some([scored.group.mape_percent]);
                let is_of = |name: &str| name.starts_with(start) && name.ends_with(end);
                or_dash(mean(&phone.groups, is_of, mape).map(|[mape]| percent(mape)))
            });
            std::iter::once(phone.profile.title.clone()).chain(errors).collect()
        })
        .collect();
    let header: Vec<&str> = std::iter::once("MAPE").chain(columns.iter().map(|(name, ..)| *name)).collect();
    format!("{}\nCPU figures are means over the core sets.\n", table(&header, &rows))
}

/// Means of the figures of the groups selected by `is_of`; none if there is no such group, or one lacks
/// a figure.
fn mean<const COUNT: usize>(
    groups: &[Scored],
    is_of: impl Fn(&str) -> bool,
    figures: impl Fn(&Scored) -> Option<[f64; COUNT]>,
) -> Option<[f64; COUNT]> {
    let of = groups.iter().filter(|scored| is_of(&scored.group.name.to_string())).map(figures);
    let of = of.collect::<Option<Vec<_>>>().filter(|of| !of.is_empty())?;
    Some(std::array::from_fn(|which| of.iter().map(|one| one[which]).sum::<f64>() / of.len() as f64))
}

/// Appends the section of one phone.
fn section(text: &mut String, phone: &Phone, pictures: &[Picture], count: usize) {
    let _ = write!(text, "\n## {}\n\n{} runs.\n", phone.profile.title, phone.measured.runs.count());
    for line in phone.measured.conditions() {
        let _ = write!(text, "\nMeasured on {line}.\n");
    }
    for (prefix, _, title) in PROCESSORS {
        let of_processor = |scored: &&Scored| scored.group.name.to_string().starts_with(prefix);
        let (header, rows) = output::cells(&COLUMNS, phone.groups.iter().filter(of_processor));
        if !rows.is_empty() {
            let _ = write!(text, "\n### {title}, worst groups first\n\n{}", table(&header, &rows));
        }
    }
    if let Some(choices) = &phone.choices {
        let _ = write!(text, "\n{}.\n", choice_summary(choices));
    }
    let worst = worst(&phone.points, count);
    if !worst.is_empty() {
        let (header, rows) = output::cells(&points::COLUMNS, worst);
        let _ = write!(text, "\n### Worst predictions\n\n{}", table(&header, &rows));
    }
    if !phone.left_out.is_empty() {
        let rows: usize = phone.left_out.iter().map(|(_, count)| count).sum();
        let _ = writeln!(text, "\n### Not used: {rows} rows or cells\n");
        for (reason, count) in phone.left_out.iter().take(MAX_REASONS) {
            let _ = writeln!(text, "- {count} times: {reason}");
        }
        let more = phone.left_out.len().saturating_sub(MAX_REASONS);
        if more > 0 {
            let _ = writeln!(text, "- and for {more} other reasons");
        }
    }
    for picture in pictures {
        let _ = write!(text, "\n![{}]({})\n", picture.caption, picture.file);
    }
}

/// A Markdown table.
fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &mut dyn Iterator<Item = String>| {
        let cells: Vec<String> = cells.map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut text = line(&mut header.iter().map(|cell| (*cell).to_owned()));
    text.push_str(&line(&mut header.iter().map(|_| "---".to_owned())));
    for row in rows {
        text.push_str(&line(&mut row.iter().cloned()));
    }
    text
}
