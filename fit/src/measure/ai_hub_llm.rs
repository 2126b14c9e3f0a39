//! Importer of the rates of language models that Qualcomm AI Hub publishes: the time to the first
//! token and per further token, on one unit of a chip under a runtime.
//!
//! Responsible for: which rows of `aihub_llm.csv` are usable, and the bundled model of each. Not
//! for: predictions (`validate::language`). Invariant: an unused row is returned with its line and
//! the reason, never dropped.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::sync::LazyLock;

use serde::Deserialize;

use super::{Run, Runs, SkippedRow, no_such_device, time, usable};
use crate::csv_rows;
use coexec_sim::device::calibration::{AnswerPart, ErrorGroup};
use coexec_sim::input::from_toml;
use coexec_sim::workload::{LanguageModel, Turn, WeightFormat, language_model};
use coexec_sim::{InputError, ProcessorKind, Text};

/// Names of the tables in their folder.
const TABLE: &str = "aihub_llm.csv";
const APPLE_TABLE: &str = "apple_llm_bench.csv";

/// Tokens of the prompt with the shortest time to the first token: with contexts of 2048 tokens and
/// more, the longest time is the shortest times the context over 128.
const SHORT_PROMPT_TOKENS: u32 = 128;

/// The bundled model of the same dimensions, by the prefix of the published name.
static MODELS: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    from_toml(include_str!("ai_hub_llm/models.toml")).expect("a test reads the table, which is bundled")
});

/// A time of a language model.
pub type Answer = Run<OfLanguageModel>;

/// A phase of a language model on one unit.
#[derive(Clone, Debug, PartialEq)]
pub struct OfLanguageModel {
    /// The model's published name.
    pub title: String,
    /// The bundled model of the same dimensions.
    pub model: LanguageModel,
    /// Storage format of its weights.
    pub weights: WeightFormat,
    /// The published name of that format: `w4a16`, `q4_0`.
    pub format: String,
    /// The unit that computes the products.
    pub unit: ProcessorKind,
    /// The published name of the runtime: `genie`.
    pub runtime: String,
    /// Context for which it was compiled, in tokens.
    pub context: u32,
    /// The timed phase.
    pub phase: Phase,
}

/// A timed phase of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Time to the first token: prefill of a prompt of this many tokens.
    FirstToken(u32),
    /// Time per further token (decode), with this many tokens of context.
    NextToken(u32),
}

impl OfLanguageModel {
    /// A turn whose prompt and answer together fill the context.
    pub fn whole_context(&self) -> Turn {
        let prompt_tokens = match self.phase {
            Phase::FirstToken(tokens) => tokens,
            Phase::NextToken(context) => context.min(SHORT_PROMPT_TOKENS),
        };
        Turn { prompt_tokens, generated_tokens: self.context.saturating_sub(prompt_tokens) }
    }

    /// Its group of error figures.
    pub fn group(&self) -> ErrorGroup {
        let answer = match self.phase {
            Phase::FirstToken(_) => AnswerPart::FirstToken,
            Phase::NextToken(_) => AnswerPart::NextToken,
        };
        let (runtime, format) = (self.runtime.clone(), self.format.clone());
        ErrorGroup::LanguageModel { processor: self.unit, runtime, format, answer }
    }
}

#[derive(Clone, Deserialize)]
struct Cells {
    model: String,
    precision: String,
    chipset: String,
    runtime: String,
    compute_unit: String,
    context_length: u32,
    /// Time to the first token with the shortest prompt.
    ttft_min_ms: f64,
    /// The same with a prompt of the whole context.
    ttft_max_ms: f64,
    decode_tok_s: f64,
}

impl Cells {
    fn problem(&self) -> Option<String> {
        let times = [1e3 * self.ttft_min_ms, 1e3 * self.ttft_max_ms, 1e6 / self.decode_tok_s];
        let problem = times.into_iter().find_map(|micros| time(micros, format_args!("{micros:?} us")).err());
        let problem = problem.or((self.context_length == 0).then(|| "the context has no tokens".to_owned()));
        problem.map(|problem| format!("{}: {problem}", self.model))
    }

    /// The chip's name in `measurements.csv`: `8elite`.
    fn chip(&self) -> String {
        self.chipset.trim_start_matches("qualcomm-snapdragon-").replace('-', "")
    }

    /// The unit; the runtime's name determines it where the row does not.
    fn unit(&self) -> Result<ProcessorKind, String> {
        let unit = if self.compute_unit.is_empty() {
            self.runtime.strip_prefix("llama_cpp_").unwrap_or("npu")
        } else {
            self.compute_unit.as_str()
        };
        ProcessorKind::named(unit).ok_or_else(|| format!("the unit is {unit:?}, expected npu, gpu or cpu"))
    }

    /// Both times of the row.
    fn answers(&self, line: u64) -> Result<[Answer; 2], String> {
        let bundled = MODELS.iter().find(|(begin, _)| self.model.starts_with(begin.as_str()));
        let model = bundled.and_then(|(_, name)| language_model(name)).ok_or("the model is not bundled")?;
        let weights = match self.precision.as_str() {
            "w4a16" | "w4" | "q4_0" => WeightFormat::W4a16,
            "q8_0" => WeightFormat::Int8,
            other => return Err(format!("the number format {other:?} is not known")),
        };
        let unit = self.unit()?;
        let run = |phase, micros| {
            let what = OfLanguageModel {
                title: self.model.clone(),
                model: model.clone(),
                weights,
                format: self.precision.clone(),
                unit,
                runtime: self.runtime.clone(),
                context: self.context_length,
                phase,
            };
            Ok::<_, String>(Run::timed(&model.name, (micros, None), line)?.of(what))
        };
        // The longest time is that of a prompt of the whole context; if only one is given, it is that
        // too. With an engine without compiled graphs, a token takes longer the more context precedes
        // it, but its shortest time is published as a fraction of the longest, and only the longest was
        // measured.
        let is_whole = self.ttft_max_ms <= self.ttft_min_ms || self.runtime.contains("llama");
        // Number of shortest prompts that fill the context.
        let prompts = f64::from(self.context_length) / f64::from(SHORT_PROMPT_TOKENS);
        if self.ttft_max_ms > self.ttft_min_ms && 2.0 * self.ttft_max_ms < self.ttft_min_ms * prompts {
            return Err("the times of its shortest and its longest prompt contradict each other".to_owned());
        }
        let (prompt, first_ms) = if is_whole {
            (self.context_length, self.ttft_max_ms)
        } else {
            (SHORT_PROMPT_TOKENS, self.ttft_min_ms)
        };
        Ok([
            run(Phase::FirstToken(prompt), 1e3 * first_ms)?,
            run(Phase::NextToken(self.context_length), 1e6 / self.decode_tok_s)?,
        ])
    }
}

/// The times on `chip` in a folder's table; of rows that differ only in their dates, the newest.
///
/// # Errors
/// The file does not exist, is not such a table, or has no such chip.
pub fn read(folder: &Path, chip: &str) -> Result<Runs<OfLanguageModel>, InputError> {
    let text = Text::read(&folder.join(TABLE))?;
    let rows = csv_rows::read(&text, "give a folder such as data/aihub", Cells::problem)?;
    let known: BTreeSet<String> = rows.iter().map(Cells::chip).collect();
    if !known.contains(chip) {
        return Err(no_such_device(&text, chip, "chips", known));
    }
    let mut seen = HashSet::new();
    let of_chip = rows.iter().enumerate().filter(|(_, row)| row.chip() == chip);
    // The newest row is the last.
    let (mut answers, mut left_out) = usable(of_chip.rev().map(|(index, row)| {
        let line = index as u64 + 2;
        let key = (&row.model, &row.precision, &row.runtime, row.unit().ok(), row.context_length);
        let is_newest = seen.insert(key);
        (line, if is_newest { row.answers(line) } else { Err("a newer measurement is listed".to_owned()) })
    }));
    answers.reverse();
    left_out.reverse();
    if let Ok(text) = Text::read(&folder.join(APPLE_TABLE)) {
        let reason = format!("in {APPLE_TABLE}, whose chips have no profile");
        let rows = (2..).zip(text.content.lines().skip(1));
        left_out.extend(rows.map(|(line, _)| SkippedRow { line, reason: reason.clone() }));
    }
    Ok(Runs { runs: answers.concat(), left_out })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_of_128_tokens_unless_the_longest_takes_no_longer() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/aihub");
        let table = read(&folder, "8gen3").unwrap();
        let found: Vec<(&str, Phase)> =
            table.runs.iter().map(|run| (run.network.as_str(), run.what.phase)).collect();
        let expected = [
            ("llama2-7b", Phase::FirstToken(1024)),
            ("llama2-7b", Phase::NextToken(1024)),
            ("phi-3.5-mini", Phase::FirstToken(128)),
            ("phi-3.5-mini", Phase::NextToken(4096)),
        ];
        assert_eq!(found, expected);
        assert!((table.runs[3].measured_us - 1e6 / 13.01).abs() < 1e-6);
    }

    #[test]
    fn the_newest_of_rows_that_differ_in_their_dates_counts_and_others_say_why_not() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/aihub");
        let table = read(&folder, "8elite").unwrap();
        let of = |title: &str, group: &str| {
            let is_it = |run: &&Answer| run.what.title == title && run.what.group() == group.into();
            table.runs.iter().filter(is_it).map(|run| run.measured_us).collect::<Vec<f64>>()
        };
        assert_eq!(of("llama_v3_1_8b_instruct", "npu/geniex_qairt/w4a16/first_token"), [174_400.0]);
        let left_out = |reason: &str| table.left_out.iter().filter(|row| row.reason.contains(reason)).count();
        let apple = left_out("apple");
        assert_eq!(table.runs.len() / 2 + table.left_out.len() - apple, 86);
        assert_eq!((apple, left_out("not bundled")), (141, 9));
        assert!(read(&folder, "9gen9").unwrap_err().to_string().contains("8elite, 8gen3"));
    }
}
