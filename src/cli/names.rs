//! Names of things as they are typed: the values of options.

use clap::ValueEnum;
use clap::builder::{PathBufValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};

use crate::PicturePath;

/// Format of measured runs, as typed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum RunFormat {
    /// One row a repetition, with a table of fingerprints beside it
    Coexec,
    /// The tables of the mobile-ml-benchmark data set
    MobileMlBenchmark,
    /// Qualcomm AI Hub's measurements, as data/aihub has them: measurements.csv and graphs/*.onnx
    AiHub,
    /// Qualcomm AI Hub's rates of language models, as data/aihub has them: `aihub_llm.csv`
    AiHubLlm,
    /// A folder of NAME.tflite, and the text that TFLite's `benchmark_model` printed in NAME.txt or NAME.log
    BenchmarkModel,
    /// A folder of NAME.tflite, and what `litert-benchmark --result_json` wrote in NAME.json
    LitertBenchmark,
    /// A folder of NAME.onnx, and ONNX Runtime's profile in NAME.json or `NAME_DATE.json`
    OnnxRuntime,
    /// What ncnn's `benchncnn` printed, in a file or a folder: networks that are bundled, or NAME.onnx beside it
    Ncnn,
    /// What llama.cpp's `llama-bench` printed in a file, as CSV, JSON or markdown
    LlamaBench,
}

/// A file format with a schema.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SchemaName {
    /// Device profiles
    Profile,
    /// Scenarios
    Scenario,
    /// Plans
    Plan,
    /// A row of measured runs, cell by cell
    Runs,
}

/// One of the things that an option names, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OneOrAll<T> {
    One(T),
    All,
}

impl<T> OneOrAll<T> {
    /// The one, if one was named.
    pub(crate) fn one(self) -> Option<T> {
        match self {
            Self::One(one) => Some(one),
            Self::All => None,
        }
    }
}

/// Reads the name of one `T`, or `all`.
pub(super) fn one_or_all<T: ValueEnum + Send + Sync + 'static>() -> impl TypedValueParser<Value = OneOrAll<T>>
{
    let names = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    let all = PossibleValue::new("all").help("All of these that fit the workload");
    PossibleValuesParser::new(names.chain([all]))
        .map(|name| T::from_str(&name, true).map_or(OneOrAll::All, OneOrAll::One))
}

/// Reads the path of a picture.
pub(super) fn picture() -> impl TypedValueParser<Value = PicturePath> {
    PathBufValueParser::new().try_map(PicturePath::new)
}

/// A figure, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Figure {
    /// Points: predicted against measured time
    Scatter,
    /// Points: how many predictions are how far off, beside the baselines
    ErrorCdf,
    /// Learning curve: error against number of measured runs
    LearningCurve,
}
