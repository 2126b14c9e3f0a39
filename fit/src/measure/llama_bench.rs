//! Importer of the rates of language models that llama.cpp's `llama-bench` prints, as CSV, JSON, JSON
//! lines or markdown.
//!
//! Responsible for: the bundled model, the weights, the unit and the phase of each row. Not for:
//! predictions (`validate::language`). Invariant: an unused row is returned with its line and the
//! reason.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use super::ai_hub_llm::{Answer, OfLanguageModel, Phase};
use super::{Run, Runs, usable};
use coexec_sim::device::{Cluster, InstructionSet};
use coexec_sim::input::from_toml;
use coexec_sim::workload::{LanguageModel, MAX_DIMENSION, WeightFormat, language_model, language_models};
use coexec_sim::{InputError, ProcessorKind, Profile, Text};

/// Name of the runtime in groups of error figures.
const RUNTIME: &str = "llama_cpp";
/// Largest log ratio of numbers of parameters for the same model: markdown rounds billions to two
/// decimals.
const SAME_PARAMETERS: f64 = 0.01;
/// Value of `ngl` for all layers on the accelerator.
const ALL_LAYERS: i64 = -1;
/// Default number of prompt tokens that are computed at once.
const DEFAULT_BATCH: u32 = 512;

/// llama.cpp's names, and what they mean here.
static NAMES: LazyLock<Names> = LazyLock::new(|| {
    from_toml(include_str!("llama_bench/names.toml")).expect("tests read the bundled table")
});

#[derive(Deserialize)]
struct Names {
    /// Options that change the measurement.
    options: Vec<String>,
    default_values: Vec<String>,
    /// Prefixes of the bundled models of each architecture.
    architectures: BTreeMap<String, Vec<String>>,
    /// The supported format that is nearest to each.
    formats: BTreeMap<String, WeightFormat>,
    /// The names in CSV and JSON of columns that have another name in markdown.
    columns: BTreeMap<String, String>,
    backends: Vec<Backend>,
}

#[derive(Deserialize)]
struct Backend {
    name: String,
    processor: ProcessorKind,
    /// Maker of the processors that it supports; none where there are several.
    maker: Option<String>,
    /// Whether it computes products of many tokens even where all layers are on the CPU.
    #[serde(default)]
    offloads: bool,
}

/// A result: its cells by the names of the columns.
#[derive(Debug)]
struct Row(BTreeMap<String, String>);

/// Lines with their rows, or the reasons that they are unusable.
type Rows = Vec<(u64, Result<Row, String>)>;

/// The times in a file, measured on the device of `profile`.
///
/// # Errors
/// The file does not exist, or has no row of llama-bench.
pub fn read(path: &Path, profile: &Profile) -> Result<Runs<OfLanguageModel>, InputError> {
    let text = Text::read(path)?;
    let rows = rows(&text.content);
    if rows.is_empty() {
        let help = "give what llama-bench prints, with -o md, csv, json or jsonl";
        return Err(text.refuse("", "there is no row of llama-bench", help));
    }
    let answers =
        |(line, row): (u64, Result<Row, String>)| (line, row.and_then(|row| row.answer(line, profile)));
    let (runs, left_out) = usable(rows.into_iter().map(answers));
    Ok(Runs { runs, left_out })
}

/// The rows of a text in any of the formats; other output around them is ignored.
fn rows(content: &str) -> Rows {
    let begins_with = |mark| content.lines().any(|line| line.trim_start().starts_with(mark));
    if begins_with('|') {
        table(content, between_bars)
    } else if begins_with('{') {
        objects(content)
    } else {
        table(content, between_commas)
    }
}

/// JSON objects in a list or in sequence. After text that is not an object, the search resumes at the
/// next line that starts with one.
fn objects(content: &str) -> Rows {
    let (mut found, mut rest, mut line) = (Vec::new(), content, 1);
    let lines = |text: &str| text.matches('\n').count() as u64;
    let is_between = |letter: char| letter.is_whitespace() || "[,]".contains(letter);
    while let Some(start) = rest.find(|letter| !is_between(letter)) {
        line += lines(&rest[..start]);
        rest = &rest[start..];
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<BTreeMap<String, Value>>();
        let cell =
            |(name, value)| (name, if let Value::String(text) = value { text } else { value.to_string() });
        let row =
            values.next().transpose().map(|object| Row(object.into_iter().flatten().map(cell).collect()));
        let end = if row.is_ok() {
            values.byte_offset()
        } else {
            let (first, others) = rest.split_at(rest.find('\n').unwrap_or(rest.len()));
            let others = others.split_inclusive('\n').take_while(|line| !line.trim_start().starts_with('{'));
            first.len() + others.map(str::len).sum::<usize>()
        };
        found.push((line, row.map_err(|error| format!("is not a JSON object: {error}"))));
        line += lines(&rest[..end]);
        rest = &rest[end..];
    }
    found
}

/// The rows below a header. `cells` splits a line into its cells, none where the line is not part of a
/// table.
fn table(content: &str, cells: fn(&str) -> Vec<String>) -> Rows {
    let (mut header, mut found) = (Vec::new(), Vec::new());
    for (line, text) in (1..).zip(content.lines()) {
        let cells = cells(text);
        if cells.iter().any(|cell| ["model", "model_type"].contains(&cell.as_str())) {
            header = cells;
        } else if !header.is_empty() && !cells.is_empty() {
            found.push((line, Row::of(&header, &cells)));
        }
    }
    found
}

fn between_bars(line: &str) -> Vec<String> {
    let cells = line.trim().strip_prefix('|').filter(|cells| !cells.trim_start().starts_with(['-', ':']));
    let cells = cells.map(|cells| cells.strip_suffix('|').unwrap_or(cells).split('|'));
    cells.into_iter().flatten().map(|cell| cell.trim().to_owned()).collect()
}

fn between_commas(line: &str) -> Vec<String> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes());
    let record = reader.records().next().and_then(Result::ok).unwrap_or_default();
    record.iter().map(str::to_owned).collect()
}

/// Parses the number `what`.
fn number<T: FromStr>(what: &str, text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| format!("{what} is {text:?}"))
}

/// Parses a number of tokens, which is limited to a model's maximum.
fn tokens(what: &str, text: &str) -> Result<u32, String> {
    let is_asked_for = |count: &u32| *count <= MAX_DIMENSION;
    let count = number(what, text).ok().filter(is_asked_for);
    count.ok_or_else(|| format!("{what} is {text:?}, expected at most {MAX_DIMENSION} tokens"))
}

impl Row {
    fn of(header: &[String], cells: &[String]) -> Result<Self, String> {
        if header.len() != cells.len() {
            return Err(format!("has {} cells below {} columns", cells.len(), header.len()));
        }
        let named = |name: &String| NAMES.columns.get(name).unwrap_or(name).clone();
        Ok(Self(header.iter().map(named).zip(cells.iter().cloned()).collect()))
    }

    fn cell(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn needed(&self, name: &str) -> Result<&str, String> {
        self.cell(name).ok_or_else(|| format!("has no {name}"))
    }

    /// An optional number.
    fn optional<T: FromStr>(&self, name: &str) -> Result<Option<T>, String> {
        self.cell(name).map(|text| number(name, text)).transpose()
    }

    /// Number of parameters of the model, which markdown abbreviates.
    fn parameters(&self) -> Result<f64, String> {
        let text = self.needed("model_n_params")?;
        let mut units = [(" B", 1e9), (" M", 1e6)].into_iter();
        let counted = units.find_map(|(end, unit)| Some((text.strip_suffix(end)?, unit)));
        let (count, unit) = counted.unwrap_or((text, 1.0));
        Ok(number::<f64>("the number of parameters", count)? * unit)
    }

    /// Tokens of the prompt, of the answer, and of the context before both; in markdown from `pp512`,
    /// `tg 128` or `tg128 @ d512`.
    fn tokens(&self) -> Result<[u32; 3], String> {
        let Some(test) = self.cell("test") else {
            let [prompt, answer] = ["n_prompt", "n_gen"].map(|name| tokens(name, self.needed(name)?));
            return Ok([prompt?, answer?, tokens("n_depth", self.cell("n_depth").unwrap_or("0"))?]);
        };
        let (what, depth) = test.split_once("@ d").unwrap_or((test, "0"));
        let [prompt, answer] = ["pp", "tg"].map(|kind| tokens(kind, what.trim().strip_prefix(kind)?).ok());
        if prompt.is_none() && answer.is_none() {
            return Err(format!("the test {test:?} is not of a prompt or an answer alone"));
        }
        Ok([prompt.unwrap_or(0), answer.unwrap_or(0), tokens("the depth", depth)?])
    }

    /// Tokens per second, and their standard deviation.
    fn rate(&self) -> Result<[f64; 2], String> {
        let (mean, deviation) = match self.cell("t/s") {
            Some(rate) => rate.split_once('±').ok_or("the rate has no deviation")?,
            None => (self.needed("avg_ts")?, self.needed("stddev_ts")?),
        };
        Ok([number("the rate", mean)?, number("the deviation", deviation)?])
    }

    /// Rejects measurements with options other than the predicted defaults.
    fn check(&self, [prompt, _, _]: [u32; 3]) -> Result<(), String> {
        let is_default = |value: &str| NAMES.default_values.iter().any(|default| default == value);
        for name in &NAMES.options {
            if let Some(value) = self.cell(name).filter(|value| !is_default(value)) {
                return Err(format!("was measured with {name} {value}: llama-bench's default is predicted"));
            }
        }
        let batches = [self.optional::<u32>("n_batch")?, self.optional("n_ubatch")?]
            .map(|size| size.unwrap_or(u32::MAX));
        let at_once = match batches {
            [batch, u32::MAX] => batch.min(DEFAULT_BATCH),
            [batch, part] => batch.min(part),
        };
        if prompt.min(at_once) == prompt.min(DEFAULT_BATCH) {
            return Ok(());
        }
        Err(format!(
            "{at_once} tokens of the prompt were computed at once: {DEFAULT_BATCH} of them, the default, are predicted"
        ))
    }

    fn answer(&self, line: u64, profile: &Profile) -> Result<Answer, String> {
        let named = self.needed("model_type")?;
        let model = self.model(named)?.ok_or_else(|| format!("{named}: the model is not bundled"))?;
        let format = named.split(' ').find_map(|word| NAMES.formats.get_key_value(word));
        let (format, &weights) =
            format.ok_or_else(|| format!("{named}: the number format is not predicted"))?;
        let tokens = self.tokens()?;
        // The tokens of an answer follow 0 to `n_gen` others; the middle one represents them.
        let (phase, timed) = match tokens {
            [prompt, 0, 0] if prompt > 0 => (Phase::FirstToken(prompt), prompt),
            [0, tokens, depth] if tokens > 0 => (Phase::NextToken(depth + tokens.div_ceil(2)), 1),
            [prompt, 0, _] if prompt > 0 => {
                return Err("a prompt at a depth above 0 is not predicted".to_owned());
            }
            _ => return Err("a test of a prompt and its answer together is not predicted".to_owned()),
        };
        self.check(tokens)?;
        let unit = self.unit(&model, phase, profile)?;
        let [rate, deviation] = self.rate()?;
        let micros = 1e6 * f64::from(timed) / rate;
        let run = Run::timed(&model.name, (micros, Some(micros * deviation / rate)), line);
        let run = run.map_err(|reason| format!("at {rate:?} tokens a second {reason}"))?;
        Ok(run.of(OfLanguageModel {
            title: model.name.clone(),
            model,
            weights,
            format: format.to_lowercase(),
            unit,
            runtime: RUNTIME.to_owned(),
            context: tokens.iter().sum(),
            phase,
        }))
    }

    /// The bundled model of that architecture with the nearest number of parameters. A file may contain
    /// a tied embedding table twice.
    fn model(&self, named: &str) -> Result<Option<LanguageModel>, String> {
        let parameters = self.parameters()?;
        let architecture = named.split(' ').next().unwrap_or_default();
        let Some(names) = NAMES.architectures.get(architecture) else { return Ok(None) };
        let distance = |model: &LanguageModel| {
            let table = if model.tied_embedding { model.features * model.vocabulary } else { 0 };
            let counts = [0, table].map(|more| (model.parameters() + u64::from(more)) as f64);
            counts.map(|count| (parameters / count).ln().abs()).into_iter().fold(f64::MAX, f64::min)
        };
        let is_so = |model: &str| names.iter().any(|name| model.starts_with(name.as_str()));
        let known = language_models().filter_map(|(name, _)| language_model(name).filter(|_| is_so(name)));
        let nearest = known.min_by(|one, other| distance(one).total_cmp(&distance(other)));
        Ok(nearest.filter(|nearest| distance(nearest) <= SAME_PARAMETERS))
    }

    /// The processor of the profile that ran all layers.
    fn unit(&self, model: &LanguageModel, phase: Phase, profile: &Profile) -> Result<ProcessorKind, String> {
        let backends = self.needed("backends")?;
        let is_here = |known: &&Backend| backends.contains(&known.name);
        let known = NAMES.backends.iter().find(is_here);
        let known = known.ok_or_else(|| format!("the backend {backends} is not known"))?;
        let of_x86 = |cluster: &Cluster| cluster.instruction_set.is_some_and(InstructionSet::is_x86);
        let is_x86 = profile.cpu.clusters.iter().any(of_x86);
        let machine = self.cell("cpu_info").unwrap_or_default();
        if !is_x86 && ["Intel", "AMD"].iter().any(|maker| machine.contains(maker)) {
            return Err(format!("was measured on a machine with {machine}, which is not the profile's CPU"));
        }
        let unit = match self.optional("n_gpu_layers")?.unwrap_or(ALL_LAYERS) {
            0 => ProcessorKind::Cpu,
            layers
                if known.processor != ProcessorKind::Cpu
                    && (1..=i64::from(model.layers)).contains(&layers) =>
            {
                return Err(format!("{layers} layers ran on {backends}, the others on the CPU"));
            }
            _ => known.processor,
        };
        if unit == ProcessorKind::Cpu {
            let is_of_others = NAMES.backends.iter().filter(is_here).any(|known| known.offloads);
            if is_of_others && matches!(phase, Phase::FirstToken(_)) {
                return Err(format!("the prompt's products ran on {backends}, though no layer is offloaded"));
            }
            let cores = profile.cpu.cores();
            let threads = self.optional("n_threads")?.unwrap_or(cores);
            if threads != cores {
                return Err(format!(
                    "{threads} threads ran: language models are predicted on all {cores} cores, measure with -t {cores}"
                ));
            }
        } else if let (Some(maker), Some(gpu)) = (&known.maker, &profile.gpu)
            && gpu.family.rules().maker != maker
        {
            return Err(format!("ran on {backends}, which the profile's device lacks"));
        }
        Ok(unit)
    }
}

#[cfg(test)]
mod tests;
