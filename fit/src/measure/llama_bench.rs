//! Importer of the rates of language models that llama.cpp's `llama-bench` prints, as CSV, JSON, JSON lines or markdown.
//!
//! Responsible for: which bundled model, weights and unit a row is of, and which time of it. Not for: predictions
//! (`validate::language`). Invariant: a row that is not used is handed back with its place and the reason.

use std::path::Path;

use serde::Deserialize;

use super::ai_hub_llm::{Answer, OfLanguageModel, Phase};
use super::{Run, Runs, usable};
use coexec_sim::workload::{LanguageModel, WeightFormat, language_model, language_models};
use coexec_sim::{InputError, ProcessorKind, Text};

/// Who runs the models: the name of its groups.
const RUNTIME: &str = "llama_cpp";
/// How far parameters may be off those of a bundled model: markdown rounds a billion to two digits.
const SAME_PARAMETERS: f64 = 0.01;
/// What `ngl` says where all layers are on the accelerator.
const ALL_LAYERS: i64 = -1;

/// llama.cpp's names of architectures, and how bundled models of them are called.
const ARCHITECTURES: [(&str, &[&str]); 6] = [
    ("gemma", &["gemma"]),
    ("internlm2", &["internlm2"]),
    ("llama", &["falcon3", "llama", "mistral"]),
    ("phi3", &["phi"]),
    ("qwen2", &["qwen2.5"]),
    ("qwen3", &["qwen3"]),
];

/// Its names of number formats, and the nearest that is predicted.
const FORMATS: [(&str, WeightFormat); 5] = [
    ("Q4_0", WeightFormat::W4a16),
    ("Q4_1", WeightFormat::W4a16),
    ("Q4_K", WeightFormat::W4a16),
    ("Q8_0", WeightFormat::Int8),
    ("F16", WeightFormat::F16),
];

/// Its names of backends, and where they compute; the first that a row names counts.
const BACKENDS: [(&str, ProcessorKind); 11] = [
    ("HTP", ProcessorKind::Npu),
    ("Hexagon", ProcessorKind::Npu),
    ("QNN", ProcessorKind::Npu),
    ("CUDA", ProcessorKind::Gpu),
    ("ROCm", ProcessorKind::Gpu),
    ("Vulkan", ProcessorKind::Gpu),
    ("OpenCL", ProcessorKind::Gpu),
    ("Metal", ProcessorKind::Gpu),
    ("SYCL", ProcessorKind::Gpu),
    ("CPU", ProcessorKind::Cpu),
    ("BLAS", ProcessorKind::Cpu),
];

/// A result, as CSV and JSON have it.
#[derive(Deserialize)]
struct Row {
    model_type: String,
    model_n_params: f64,
    backends: String,
    n_gpu_layers: Option<i64>,
    n_prompt: u32,
    n_gen: u32,
    #[serde(default)]
    n_depth: u32,
    /// Tokens a second.
    avg_ts: f64,
    stddev_ts: f64,
}

/// A result, as markdown has it.
#[derive(Deserialize)]
struct MarkdownRow {
    model: String,
    params: String,
    backend: String,
    ngl: Option<i64>,
    test: String,
    #[serde(rename = "t/s")]
    rate: String,
}

/// The times in a file.
///
/// # Errors
/// No such file, or nothing in it is a table of llama-bench.
pub fn read(path: &Path) -> Result<Runs<OfLanguageModel>, InputError> {
    let text = Text::read(path)?;
    let rows = rows(&text.content).map_err(|reason| {
        text.refuse("", reason, "give what llama-bench prints, with -o md, csv, json or jsonl")
    })?;
    let answers = (1..).zip(rows).map(|(line, row)| (line, row.and_then(|row| row.answer(line))));
    let (runs, left_out) = usable(answers);
    Ok(Runs { runs, left_out })
}

/// The rows of a text in any of the formats; why it is none.
fn rows(content: &str) -> Result<Vec<Result<Row, String>>, String> {
    match content.trim_start().chars().next() {
        Some('[') => serde_json::from_str::<Vec<Row>>(content).map(|rows| rows.into_iter().map(Ok).collect()),
        Some('{') => serde_json::Deserializer::from_str(content).into_iter().map(|row| row.map(Ok)).collect(),
        _ => return tables(content),
    }
    .map_err(|error| error.to_string())
}

/// The rows of a table: of lines with bars where there are some, else of CSV.
fn tables(content: &str) -> Result<Vec<Result<Row, String>>, String> {
    let mut lines: Vec<&str> = content.lines().map(str::trim).filter(|line| line.starts_with('|')).collect();
    if lines.is_empty() {
        let rows = csv::Reader::from_reader(content.as_bytes()).into_deserialize::<Row>();
        return rows.map(|row| row.map(Ok).map_err(|error| error.to_string())).collect();
    }
    lines.retain(|line| !line.starts_with("| -") && !line.starts_with("|-"));
    let is_header = |line: &str| line.trim_start_matches(['|', ' ']).starts_with("model ");
    let mut found = Vec::new();
    for table in lines.chunk_by(|_, next| !is_header(next)) {
        let table = table.join("\n");
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(b'|')
            .quoting(false)
            .trim(csv::Trim::All)
            .from_reader(table.as_bytes());
        for row in reader.deserialize::<MarkdownRow>() {
            found.push(row.map_err(|error| error.to_string())?.row());
        }
    }
    Ok(found)
}

impl MarkdownRow {
    fn row(self) -> Result<Row, String> {
        let Self { model, params, backend, ngl, test, rate } = self;
        let billions = params.strip_suffix(" B").map(|count| (count, 1e9));
        let counted = billions.or_else(|| Some((params.strip_suffix(" M")?, 1e6)));
        let parameters = counted.and_then(|(count, unit)| Some(count.parse::<f64>().ok()? * unit));
        let (mean, deviation) = rate.split_once('±').ok_or("the rate has no deviation")?;
        let [mean, deviation] = [mean, deviation].map(|number| number.trim().parse::<f64>());
        // `pp512`, `tg 128`, `tg128 @ d512`
        let (test, depth) = test.split_once("@ d").unwrap_or((&test, "0"));
        let tokens = |kind| test.trim().strip_prefix(kind)?.trim().parse::<u32>().ok();
        let [n_prompt, n_gen] = ["pp", "tg"].map(tokens);
        if n_prompt.is_none() && n_gen.is_none() {
            return Err(format!("the test {test:?} is not of a prompt or an answer alone"));
        }
        Ok(Row {
            model_type: model,
            model_n_params: parameters.ok_or_else(|| format!("the parameters are {params:?}"))?,
            backends: backend,
            n_gpu_layers: ngl,
            n_prompt: n_prompt.unwrap_or(0),
            n_gen: n_gen.unwrap_or(0),
            n_depth: depth.trim().parse().map_err(|_| format!("the depth is {depth:?}"))?,
            avg_ts: mean.map_err(|_| format!("the rate is {rate:?}"))?,
            stddev_ts: deviation.unwrap_or(0.0),
        })
    }
}

impl Row {
    fn answer(&self, line: u64) -> Result<Answer, String> {
        let model = self.model().ok_or_else(|| format!("{}: the model is not bundled", self.model_type))?;
        let format = FORMATS.iter().find(|(name, _)| self.model_type.contains(name));
        let &(format, weights) =
            format.ok_or_else(|| format!("{}: the number format is not predicted", self.model_type))?;
        let unit = self.unit(&model)?;
        // An answer is of tokens behind 0 to `n_gen` others; the middle stands for all.
        let (phase, tokens) = match (self.n_prompt, self.n_gen, self.n_depth) {
            (prompt, 0, 0) if prompt > 0 => (Phase::FirstToken(prompt), prompt),
            (0, tokens, depth) if tokens > 0 => (Phase::NextToken(depth + tokens.div_ceil(2)), 1),
            (prompt, 0, _) if prompt > 0 => return Err("a prompt behind others is not predicted".to_owned()),
            _ => return Err("a test of a prompt and its answer together is not predicted".to_owned()),
        };
        let Self { avg_ts: rate, stddev_ts: deviation, .. } = self;
        let micros = 1e6 * f64::from(tokens) / rate;
        let run = Run::timed(&model.name, (micros, Some(micros * deviation / rate)), line);
        let run = run.map_err(|reason| format!("at {rate:?} tokens a second {reason}"))?;
        Ok(run.of(OfLanguageModel {
            title: model.name.clone(),
            model,
            weights,
            format: format.to_lowercase(),
            unit,
            runtime: RUNTIME.to_owned(),
            context: self.n_depth + self.n_prompt + self.n_gen,
            phase,
        }))
    }

    /// The bundled model of that architecture with the nearest number of parameters. A file may hold the table of embeddings
    /// twice.
    fn model(&self) -> Option<LanguageModel> {
        let (_, names) =
            ARCHITECTURES.iter().find(|(name, _)| self.model_type.split(' ').next() == Some(name))?;
        let distance = |model: &LanguageModel| {
            let table = if model.tied_embedding { model.features * model.vocabulary } else { 0 };
            let counts = [0, table].map(|more| (model.parameters() + u64::from(more)) as f64);
            counts.map(|count| (self.model_n_params / count).ln().abs()).into_iter().fold(f64::MAX, f64::min)
        };
        let is_so = |model: &str| names.iter().any(|name| model.starts_with(name));
        let known = language_models().filter_map(|(name, _)| language_model(name).filter(|_| is_so(name)));
        let nearest = known.min_by(|one, other| distance(one).total_cmp(&distance(other)))?;
        (distance(&nearest) <= SAME_PARAMETERS).then_some(nearest)
    }

    /// Where all layers ran.
    fn unit(&self, model: &LanguageModel) -> Result<ProcessorKind, String> {
        let known = BACKENDS.iter().find(|(name, _)| self.backends.contains(name));
        let &(_, unit) = known.ok_or_else(|| format!("the backend {} is not known", self.backends))?;
        match (unit, self.n_gpu_layers.unwrap_or(ALL_LAYERS)) {
            (ProcessorKind::Cpu, _) | (_, 0) => Ok(ProcessorKind::Cpu),
            (unit, ALL_LAYERS) => Ok(unit),
            (unit, layers) if layers > i64::from(model.layers) => Ok(unit),
            (_, layers) => Err(format!("{layers} layers ran on {}, the others on the CPU", self.backends)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(name: &str) -> Runs<OfLanguageModel> {
        read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inputs").join(name)).unwrap()
    }

    #[test]
    fn every_format_says_the_same() {
        for name in ["llama-bench.csv", "llama-bench.json"] {
            let table = input(name);
            assert!(table.left_out.is_empty(), "{:?}", table.left_out);
            let [prompt, answer] = &table.runs[..] else { panic!("{name}: {:?}", table.runs) };
            assert_eq!((prompt.network.as_str(), prompt.what.unit), ("qwen2.5-7b", ProcessorKind::Gpu));
            assert_eq!(
                (prompt.what.phase, answer.what.phase),
                (Phase::FirstToken(512), Phase::NextToken(64))
            );
            assert_eq!(prompt.what.format, "q4_k");
            // Within the spread of the runs: nanoseconds of each, beside the mean of their rates.
            assert!((prompt.measured_us / 71e3 - 1.0).abs() < 0.03, "{name}: {prompt:?}");
            assert!((answer.measured_us / 8.4e3 - 1.0).abs() < 0.02, "{name}: {answer:?}");
        }
    }

    #[test]
    fn markdown_is_read_with_what_is_printed_around_it() {
        let table = input("llama-bench-8elite.md");
        let found: Vec<(&str, String, f64)> =
            table.runs.iter().map(|run| (&*run.network, run.what.group(), run.measured_us)).collect();
        let expected = [
            ("llama3.2-1b", "npu/llama_cpp/q4_0/first_token".to_owned(), 128e6 / 169.42),
            ("llama3.2-1b", "npu/llama_cpp/q4_0/next_token".to_owned(), 1e6 / 51.54),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn rows_of_what_is_not_predicted_say_why() {
        let row = |model: &str, params: &str, backend: &str, ngl: &str, test: &str| {
            format!("| {model} | 1 GiB | {params} | {backend} | {ngl} | {test} | 10.00 ± 0.10 |\n")
        };
        let header = "| model | size | params | backend | ngl | test | t/s |\n| --- | ---: | ---: | --- | --: | ---: | ---: |\n";
        let cases = [
            (row("bloom 7B Q4_0", "7.07 B", "CPU", "0", "tg128"), "not bundled"),
            (row("llama 1B Q6_K", "1.24 B", "CPU", "0", "tg128"), "number format"),
            (row("llama 1B Q4_0", "1.24 B", "OpenCL", "8", "tg128"), "8 layers ran on OpenCL"),
            (row("llama 1B Q4_0", "1.24 B", "OpenCL", "99", "pp512 @ d128"), "behind others"),
            (row("llama 1B Q4_0", "1.24 B", "OpenCL", "99", "pp512+tg128"), "not of a prompt"),
        ];
        for (line, reason) in cases {
            let found =
                rows(&format!("log\n{header}{line}")).unwrap().remove(0).and_then(|row| row.answer(1));
            assert!(found.as_ref().unwrap_err().contains(reason), "{reason}: {found:?}");
        }
        // On the CPU, and with a table of embeddings of its own.
        let line = row("qwen2 1.5B Q8_0", "1.78 B", "Metal,BLAS", "0", "tg 32");
        let found =
            rows(&format!("{header}{line}")).unwrap().remove(0).and_then(|row| row.answer(1)).unwrap();
        assert_eq!((found.network.as_str(), found.what.unit), ("qwen2.5-1.5b", ProcessorKind::Cpu));
    }
}
