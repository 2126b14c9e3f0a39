//! The output of ncnn's `benchncnn`: the minimum, maximum and mean time of each of its networks.

use coexec_sim::DataType;

use super::ToolResult;
use coexec_sim::units::MICROS_PER_MILLI;

/// The value of `powersave` that uses only the small cores.
const SMALL_CORES: i64 = 1;

/// Reads one or several concatenated outputs; each network is a result.
pub(super) fn of_text(content: &str) -> Vec<Result<ToolResult, String>> {
    let (mut threads, mut powersave, mut gpu_device) = (None, 0, -1);
    let mut found = Vec::new();
    for (number, line) in (1..).zip(content.lines()) {
        match *line.split_whitespace().collect::<Vec<_>>() {
            ["num_threads", "=", value] => threads = value.parse().ok(),
            ["powersave", "=", value] => powersave = value.parse().unwrap_or(0),
            ["gpu_device", "=", value] => gpu_device = value.parse().unwrap_or(-1),
            [name, "min", "=", _, "max", "=", _, "avg", "=", mean] => {
                let on_gpu = gpu_device >= 0;
                let (model, data_type) = match name.strip_suffix("int8") {
                    Some(model) => (model.trim_end_matches(['_', '-']), DataType::I8),
                    None => (name, DataType::F32),
                };
                found.push(if powersave == SMALL_CORES && !on_gpu {
                    Err("ran on the small cores alone (powersave 1): measure with 0 or 2".to_owned())
                } else {
                    Ok(ToolResult {
                        line: number,
                        model: Some(model.to_owned()),
                        data_type: Some(data_type),
                        on_gpu,
                        threads: threads.unwrap_or(1),
                        micros: MICROS_PER_MILLI * mean.parse().unwrap_or(f64::NAN),
                        ..ToolResult::default()
                    })
                });
            }
            _ => {}
        }
    }
    found
}
