//! The values of options, as typed.

use clap::ValueEnum;
use clap::builder::{PathBufValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};

use crate::PicturePath;

/// Format of measured runs, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RunFormat {
    /// coexec's own runs: one row per repetition, and a table of fingerprints next to the file
    Coexec,
    /// The tables of the mobile-ml-benchmark data set
    MobileMlBenchmark,
    /// Qualcomm AI Hub's measurements in the layout of data/aihub: measurements.csv and graphs/*.onnx
    AiHub,
    /// Qualcomm AI Hub's language-model rates in the layout of data/aihub: `aihub_llm.csv`
    AiHubLlm,
    /// A folder of NAME.tflite, each with the output of TFLite's `benchmark_model` in NAME.txt or
    /// NAME.log
    BenchmarkModel,
    /// A folder of NAME.tflite, each with the output of `litert-benchmark --result_json` in NAME.json
    LitertBenchmark,
    /// A folder of NAME.onnx, each with ONNX Runtime's profile in NAME.json or `NAME_DATE.json`
    OnnxRuntime,
    /// Output of ncnn's `benchncnn`, in a file or a folder, for bundled networks or a NAME.onnx next to
    /// it
    Ncnn,
    /// Output of llama.cpp's `llama-bench` in a file, as CSV, JSON or markdown
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

/// The value of an option that names one `T`, or `all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OneOrAll<T> {
    One(T),
    All,
}

impl<T> OneOrAll<T> {
    /// The value named, or none for `all`.
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
    let all = PossibleValue::new("all").help("All of the above that apply");
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
    /// Points: cumulative distribution of the errors, with those of the baselines
    ErrorCdf,
    /// Learning curve: error against number of measured runs
    LearningCurve,
}
