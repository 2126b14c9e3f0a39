//! Rows in every format, and which of them are rejected.

use super::*;

/// A file's rows on a bundled device.
fn input(name: &str, device: &str) -> Runs<OfLanguageModel> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inputs").join(name);
    read(&path, &Profile::load(device).unwrap()).unwrap()
}

/// The only row of a text, on a bundled device.
fn only(content: &str, device: &str) -> Result<Answer, String> {
    let (line, row) = rows(content).remove(0);
    row.and_then(|row| row.answer(line, &Profile::load(device).unwrap()))
}

#[test]
fn every_format_says_the_same() {
    for (name, lines) in [("llama-bench.csv", [2, 3]), ("llama-bench.json", [2, 21])] {
        // Measured on a PC: neither the machine, which CSV names, nor CUDA is a phone's.
        let table = input(name, "pixel4");
        assert!(table.runs.is_empty() && table.left_out.len() == 2, "{name}");
        let table = input(name, "h200");
        assert!(table.left_out.is_empty(), "{:?}", table.left_out);
        let [prompt, answer] = &table.runs[..] else { panic!("{name}: {:?}", table.runs) };
        assert_eq!([prompt.line, answer.line], lines, "{name}");
        assert_eq!((prompt.network.as_str(), prompt.what.unit), ("qwen2.5-7b", ProcessorKind::Gpu));
        assert_eq!((prompt.what.phase, answer.what.phase), (Phase::FirstToken(512), Phase::NextToken(64)));
        assert_eq!(prompt.what.format, "q4_k");
        // The mean of the rates and the rate of the mean time agree within the spread of the runs.
        assert!((prompt.measured_us / 71e3 - 1.0).abs() < 0.03, "{name}: {prompt:?}");
        assert!((answer.measured_us / 8.4e3 - 1.0).abs() < 0.02, "{name}: {answer:?}");
    }
}

#[test]
fn markdown_is_read_with_what_is_printed_around_it() {
    let table = input("llama-bench-8elite.md", "snapdragon-8elite");
    let found: Vec<(&str, String, f64)> =
        table.runs.iter().map(|run| (&*run.network, run.what.group().to_string(), run.measured_us)).collect();
    let expected = [
        ("llama3.2-1b", "npu/llama_cpp/q4_0/first_token".to_owned(), 128e6 / 169.42),
        ("llama3.2-1b", "npu/llama_cpp/q4_0/next_token".to_owned(), 1e6 / 51.54),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_row_that_is_cut_off_or_broken_does_not_take_the_others_with_it() {
    for (name, cut) in [
        ("llama-bench.csv", ",\"100.064434\""),
        ("llama-bench.json", "72135640"),
        ("llama-bench-8elite.md", " 169.42 ± 1.75 |"),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inputs").join(name);
        let broken = std::fs::read_to_string(path).unwrap().replacen(cut, "", 1);
        let found = rows(&broken);
        assert_eq!(found.iter().map(|(_, row)| row.is_ok()).collect::<Vec<_>>(), [false, true], "{name}");
        assert!(found[0].0 > 1 && found[1].0 > found[0].0, "{name}: {found:?}");
    }
}

#[test]
fn rows_of_what_is_not_predicted_say_why() {
    let header = "| model | size | params | backend | ngl | test | t/s |\n| --- | ---: | ---: | --- | --: | ---: | ---: |\n";
    let text = |[model, params, backend, ngl, test]: [&str; 5]| {
        format!("log\n{header}| {model} | 1 GiB | {params} | {backend} | {ngl} | {test} | 10.00 ± 0.10 |\n")
    };
    let cases = [
        (["bloom 7B Q4_0", "7.07 B", "CPU", "0", "tg128"], "not bundled"),
        (["llama 1B Q6_K", "1.24 B", "CPU", "0", "tg128"], "number format"),
        (["llama 1B BF16", "1.24 B", "CPU", "0", "tg128"], "number format"),
        (["llama 1B Q4_0", "1.24 B", "OpenCL", "8", "tg128"], "8 layers ran on OpenCL"),
        (["llama 1B Q4_0", "1.24 B", "Vulkan", "0", "pp512"], "the prompt's products ran on Vulkan"),
        (["llama 1B Q4_0", "1.24 B", "BLAS", "0", "pp512"], "the prompt's products ran on BLAS"),
        (["llama 1B Q4_0", "1.24 B", "CUDA", "99", "tg128"], "the profile's device lacks"),
        (["llama 1B Q4_0", "1.24 B", "Metal,BLAS", "99", "tg128"], "the profile's device lacks"),
        (["llama 1B Q4_0", "1.24 B", "OpenCL", "99", "pp512 @ d128"], "at a depth above 0"),
        (["llama 1B Q4_0", "1.24 B", "OpenCL", "99", "pp512+tg128"], "not of a prompt"),
    ];
    for (row, reason) in cases {
        let found = only(&text(row), "snapdragon-8elite");
        assert!(found.as_ref().unwrap_err().contains(reason), "{reason}: {found:?}");
    }
    // On the CPU, and with the tied embedding table stored twice.
    let row = ["qwen2 1.5B Q8_0", "1.78 B", "Metal,BLAS", "0", "tg 32"];
    let found = only(&text(row), "apple-m4").unwrap();
    assert_eq!((found.network.as_str(), found.what.unit), ("qwen2.5-1.5b", ProcessorKind::Cpu));
}

#[test]
fn options_that_change_the_measurement_are_reported() {
    let found = |backend: &str, prompt: u32, options: &str| {
        let text = format!(
            r#"{{"model_type": "llama 1B Q4_0", "model_n_params": 1235814400, "backends": "{backend}", "n_prompt": {prompt},
            "n_gen": 0, {options}, "avg_ts": 10.0, "stddev_ts": 0.1}}"#
        );
        only(&text, "snapdragon-8elite").map(|answer| answer.what.unit)
    };
    let usual = r#""n_batch": 2048, "n_ubatch": 512, "n_threads": 8, "type_k": "f16", "flash_attn": -1, "embeddings": false"#;
    assert_eq!(found("CPU", 1024, usual), Ok(ProcessorKind::Cpu));
    assert_eq!(found("OpenCL", 128, r#""n_batch": 128, "n_threads": 4"#), Ok(ProcessorKind::Gpu));
    for (prompt, options, reason) in [
        (128, r#""n_threads": 4"#, "language models are predicted on all 8 cores"),
        (128, r#""flash_attn": true"#, "with flash_attn true"),
        (128, r#""flash_attn": 1"#, "with flash_attn 1"),
        (128, r#""type_v": "q8_0""#, "with type_v q8_0"),
        (512, r#""n_ubatch": 256"#, "256 tokens of the prompt"),
        (1024, r#""n_batch": 2048, "n_ubatch": 1024"#, "1024 tokens of the prompt"),
    ] {
        let found = found("CPU", prompt, options);
        assert!(found.as_ref().unwrap_err().contains(reason), "{reason}: {found:?}");
    }
}
