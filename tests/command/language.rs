//! Language models on the command line.

use std::fs;

use serde_json::Value;

use crate::{coexec, coexec_in, words};

#[test]
fn a_language_model_is_simulated_to_its_first_token_and_the_rest() {
    let document = coexec(words("simulate llama3-8b --json")).json();
    let turn = &document["generation"]["turns"][0];
    assert_eq!(turn["prefill"]["tokens"], 256);
    assert!(turn["time_to_first_token_ps"].as_u64().unwrap() > 100_000_000_000);
    assert!(turn["decode"]["tokens_per_second"].as_f64().unwrap() > 13.0);
    assert!(turn["decode"]["energy_joules"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_conversation_has_a_row_for_each_phase_of_each_turn() {
    let outcome = coexec(words("simulate llama2-7b-multi-turn"));
    for text in ["prefill 1", "decode 2", "TTFT", "TPOT", "tokens/s"] {
        assert!(outcome.stdout.contains(text), "{text}: {}{}", outcome.stdout, outcome.stderr);
    }
}

#[test]
fn all_strategies_are_compared_fastest_first() {
    let document = coexec(words("explore internlm2-1.8b --strategy all --json")).json();
    let strategies = document["strategies"].as_array().unwrap();
    assert_eq!(strategies.len(), 14);
    assert!(strategies.is_sorted_by_key(|entry| entry["latency_ps"].as_u64()));
    let other_engines = ["npu-graphs", "npu-prefill", "cpu-only"];
    let products =
        strategies.iter().filter(|entry| !other_engines.contains(&entry["strategy"].as_str().unwrap()));
    let fastest = products.map(|entry| entry["latency_ps"].as_f64().unwrap()).fold(f64::INFINITY, f64::min);
    let solver = strategies.iter().find(|entry| entry["strategy"] == "hetero-tensor").unwrap();
    assert!(solver["latency_ps"].as_f64().unwrap() < 1.01 * fastest);
}

#[test]
fn a_second_copy_of_the_weights_is_not_taken_where_no_token_is_generated() {
    let folder = tempfile::tempdir().unwrap();
    let bundled =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/llama3-8b-simple-qa.toml"));
    let scenario = bundled.unwrap().replace("generated_tokens = 340", "generated_tokens = 0");
    fs::write(folder.path().join("prompt.toml"), scenario).unwrap();
    let document = coexec_in(folder.path(), words("explore prompt.toml --json")).json();
    assert_eq!(document["plan_origin"], "plan found by npu-graphs");
    let [first, second] = [0, 1].map(|index| document["strategies"][index]["latency_ps"].as_u64());
    assert_eq!(first, second, "{}", document["strategies"]);
}

#[test]
fn a_plan_that_does_not_fit_the_memory_is_marked_and_not_advised_while_another_fits() {
    let folder = tempfile::tempdir().unwrap();
    let model = "title = \"t\"\ndevice = \"oneplus11\"\n[language_model]\nmodel = \"llama2-7b\"\n\
                 weights = \"f16\"\nprompt_tokens = 256\ngenerated_tokens = 256\n";
    fs::write(folder.path().join("f16.toml"), model).unwrap();
    let run = |line: &str| coexec_in(folder.path(), words(line));
    let document = run("explore f16.toml --strategy all --json").json();
    assert_eq!(
        (&document["plan_origin"], &document["fits_memory"]),
        (&"plan found by gpu-only".into(), &true.into())
    );
    let last = document["strategies"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&last["strategy"], &last["fits_memory"]),
        (&"npu-prefill".into(), &false.into()),
        "{document}"
    );
    let text = run("explore f16.toml --strategy all").stdout;
    for expected in [" npu-prefill ! ", "!: does not fit into the memory", "at most of 16.00 GB"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains("cannot hold") && !text.contains("others are faster"), "{text}");
    let text = run("compare f16.toml --devices oneplus11,snapdragon-8elite").stdout;
    assert!(text.contains(" oneplus11\n") && !text.contains("cannot hold"), "ranked: {text}");
    // Two models of 13 and 16 GB do not fit together.
    let application = |name: &str| {
        format!(
            "[[application]]\nname = \"{name}\"\narrivals = {{ period_ms = 60000 }}\nlanguage_model = \
             {{ model = \"{name}\", weights = \"f16\", prompt_tokens = 64, generated_tokens = 8 }}\n"
        )
    };
    let both = ["llama2-7b", "llama3-8b"].map(application).concat();
    let both = format!("title = \"t\"\ndevice = \"oneplus11\"\n{both}");
    fs::write(folder.path().join("both.toml"), both).unwrap();
    for command in ["simulate", "explore"] {
        let text = run(&format!("{command} both.toml")).stdout;
        assert!(text.contains("more than the 16.00 GB of this device, which cannot hold it"), "{text}");
    }
    assert_eq!(run("simulate both.toml --json").json()["cost"]["exceeds_memory"], true);
}

#[test]
fn whole_steps_are_compiled_where_that_is_faster_unless_a_strategy_is_named() {
    let document = |line: &str| coexec(words(line)).json();
    let found = document("explore llama3.2-3b --device snapdragon-8elite --json");
    assert_eq!(found["plan_origin"], "plan found by npu-graphs");
    let named = document("explore llama3.2-3b --device snapdragon-8elite --strategy hetero-tensor --json");
    assert_eq!(named["plan_origin"], "plan found by hetero-tensor");
    let longer =
        document("explore llama3-8b-simple-qa --device snapdragon-8elite --strategy npu-graphs --json");
    assert!(longer["generation"]["turns"][0]["decode"]["latency_ps"].as_u64() > Some(0));
    // Also in a scenario.
    let folder = tempfile::tempdir().unwrap();
    let model = "title = \"t\"\ndevice = \"snapdragon-8elite\"\nstrategy = \"hetero-tensor\"\n\
                 [language_model]\nmodel = \"llama3.2-3b\"\n";
    fs::write(folder.path().join("model.toml"), model).unwrap();
    let several = "title = \"t\"\ndevice = \"snapdragon-8elite\"\n[[application]]\nname = \"a\"\n\
                   scenario = \"model.toml\"\narrivals = { period_ms = 10000 }\n";
    fs::write(folder.path().join("several.toml"), several).unwrap();
    let document = |line: &str| coexec_in(folder.path(), words(line)).json();
    assert_eq!(document("explore model.toml --json")["plan_origin"], "plan found by hetero-tensor");
    assert_eq!(document("simulate several.toml --json")["plans"][0]["origin"], "hetero-tensor");
    // Without known times of products submitted one by one, other engines answer.
    let found = document("explore llama3.2-3b --device dimensity-9300 --json");
    assert_eq!(found["plan_origin"], "plan found by npu-graphs");
    coexec(words("explore llama3.2-3b --device pixel4 --strategy npu-graphs"))
        .assert_refused(&["npu.compiled.token_bandwidth_gbps"]);
}

#[test]
fn a_plan_that_explore_wrote_is_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.toml");
    let plan = path.to_str().unwrap();
    for strategy in ["npu-graphs", "npu-prefill", "hetero-tensor"] {
        let line = ["explore", "llama3.2-3b", "--strategy", strategy, "--out", plan, "--json"];
        let found = coexec(line).json();
        let replayed = coexec(["simulate", "llama3.2-3b", "--plan", plan, "--json"]).json();
        assert_eq!(found["generation"], replayed["generation"], "{strategy}");
    }
    let changed = fs::read_to_string(&path).unwrap().replacen("channels = 864", "channels = 865", 1);
    fs::write(&path, changed).unwrap();
    coexec(["simulate", "llama3.2-3b", "--plan", plan]).assert_refused(&["865 + 160 channels", "prefill.k"]);
}

#[test]
fn a_configuration_of_hugging_face_is_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.json");
    let content = r#"{ "model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864,
        "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
        "vocab_size": 151936, "tie_word_embeddings": true, "attention_bias": true }"#;
    fs::write(&config, content).unwrap();
    let scenario = folder.path().join("qwen.toml");
    let text = format!(
        "title = \"Qwen2-0.5B\"\ndevice = \"snapdragon-8gen3\"\n[language_model]\nmodel = {:?}\n",
        config.to_str().unwrap()
    );
    fs::write(&scenario, &text).unwrap();
    let document = coexec(["simulate", scenario.to_str().unwrap(), "--json"]).json();
    // The path of the model starts at the folder of the scenario, wherever the command runs.
    let relative = text.replace(config.to_str().unwrap(), "config.json");
    fs::write(&scenario, &relative).unwrap();
    let again = coexec(["simulate", scenario.to_str().unwrap(), "--json"]).json();
    assert_eq!(again["generation"], document["generation"]);
    fs::write(&scenario, relative.replace("config.json", "other.json")).unwrap();
    let missing = folder.path().join("other.json").display().to_string();
    coexec(["simulate", scenario.to_str().unwrap()]).assert_refused(&["cannot read", &missing]);
    fs::write(&scenario, &text).unwrap();
    // The released model has 494,032,768 parameters.
    assert_eq!(document["parameters"], 494_032_768_u64);
    fs::write(&config, content.replace("qwen2", "gpt2")).unwrap();
    coexec(["simulate", scenario.to_str().unwrap()]).assert_refused(&["gpt2", "llama"]);
}

#[test]
fn an_engine_is_chosen_by_the_objective() {
    let strategies = |objective: &str| {
        let line = format!(
            "explore llama3.2-1b --device snapdragon-8gen3 --strategy all --objective {objective} --json"
        );
        let found = coexec(words(&line)).json();
        let entries = found["strategies"].as_array().unwrap().clone();
        let of = |entry: &serde_json::Value| {
            [&entry["latency_ps"], &entry["generation"]["energy_joules"]].map(|value| value.as_f64().unwrap())
        };
        let least = |index: usize| entries.iter().map(|entry| of(entry)[index]).fold(f64::INFINITY, f64::min);
        (of(&entries[0]), [least(0), least(1)])
    };
    let (fastest, least) = strategies("latency");
    assert!(fastest[0] <= least[0], "{fastest:?} {least:?}");
    let (frugal, least) = strategies("energy");
    assert!(frugal[1] <= least[1], "{frugal:?} {least:?}");
}

#[test]
fn a_model_is_not_shared_for_a_gain_that_is_not_sure() {
    let line = "explore gemma-2b --device oneplus11";
    let found = coexec(words(&format!("{line} --json"))).json();
    let [advised, faster] = [0, 1].map(|index| &found["strategies"][index]);
    assert_eq!([&advised["strategy"], &faster["strategy"]], ["npu-graphs", "npu-prefill"]);
    assert!(faster["latency_ps"].as_u64() < advised["latency_ps"].as_u64());
    let advice = "npu-graphs is advised: others are faster, but share the model for a gain that is not sure";
    assert!(coexec(words(line)).stdout.contains(advice));
    let nominal = coexec(words(&format!("{line} --nominal"))).stdout;
    assert!(nominal.contains("plan found by npu-prefill") && !nominal.contains("is advised"), "{nominal}");
    assert!(!coexec(words(&format!("{line} --objective energy"))).stdout.contains("is advised"));
    let named = coexec(words(&format!("{line} --strategy npu-prefill"))).stdout;
    assert!(named.contains("plan found by npu-prefill") && !named.contains("is advised"), "{named}");
}

#[test]
fn what_is_simulated_is_what_explore_advises_unless_a_strategy_is_named() {
    for device in ["snapdragon-8elite", "pixel4"] {
        let document =
            |command: &str| coexec(words(&format!("{command} llama3.2-1b --device {device} --json"))).json();
        let (simulated, found) = (document("simulate"), document("explore"));
        assert_eq!(simulated["plan_origin"], found["plan_origin"]);
        assert_eq!(simulated["generation"], found["generation"]);
    }
}

#[test]
fn a_device_without_an_engine_says_which_strategies_have_one_or_that_none_has() {
    coexec(words("explore llama3.2-1b --device apple-m1"))
        .assert_refused(&["no strategy has times", "profile new"]);
    let refused = coexec(words("simulate llama3.2-1b --device pixel4 --strategy hetero-tensor"));
    refused.assert_refused(&["pixel4 has no NPU", "available on pixel4 (gpu-only"]);
}

#[test]
fn a_prompt_that_is_too_long_is_reported_by_its_key() {
    let folder = tempfile::tempdir().unwrap();
    for (tokens, key) in [
        ("prompt_tokens = 1000000\n", "long.toml:5:17"),
        ("[[language_model.turn]]\nprompt_tokens = 1000000\ngenerated_tokens = 1\n", "long.toml:6:17"),
    ] {
        let text = format!(
            "title = \"t\"\ndevice = \"snapdragon-8elite\"\n[language_model]\nmodel = \"llama3-8b\"\n{tokens}"
        );
        fs::write(folder.path().join("long.toml"), text).unwrap();
        coexec_in(folder.path(), words("explore long.toml")).assert_refused(&[
            key,
            "1000000 tokens are too many",
            "ask for fewer tokens",
        ]);
    }
}

#[test]
fn a_conversation_longer_than_the_model_can_attend_to_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    for (prompt, is_noted) in [(4000, false), (4100, true)] {
        let text = format!(
            "title = \"t\"\ndevice = \"snapdragon-8gen3\"\n[language_model]\nmodel = \"llama2-7b\"\n\
             strategy = \"gpu-only\"\nprompt_tokens = {prompt}\ngenerated_tokens = 1\n"
        );
        fs::write(folder.path().join("long.toml"), text).unwrap();
        for command in ["simulate", "explore"] {
            let stderr = coexec_in(folder.path(), words(&format!("{command} long.toml"))).stderr;
            assert_eq!(stderr.contains("more than the 4096 that llama2-7b"), is_noted, "{stderr}");
        }
    }
}

#[test]
fn a_strategy_of_another_workload_is_refused() {
    coexec(words("explore llama3-8b --strategy channel-split"))
        .assert_refused(&["channel-split", "hetero-tensor"]);
    coexec(words("explore resnet18 --strategy hetero-tensor"))
        .assert_refused(&["hetero-tensor", "channel-split"]);
}

#[test]
fn a_picture_that_a_workload_lacks_is_refused() {
    for picture in ["--plot", "--shares"] {
        coexec(words(&format!("explore llama3-8b {picture} a.svg"))).assert_refused(&[picture, "--timeline"]);
        let set = format!("explore epew-linear-sample --device pixel4 {picture} a.svg");
        coexec(words(&set)).assert_refused(&[picture, "single operators"]);
    }
}

#[test]
fn the_timeline_of_an_answer_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let [trace, plot] = ["t.json", "t.svg"].map(|name| folder.path().join(name));
    let arguments =
        ["simulate", "internlm2-1.8b", "--trace", trace.to_str().unwrap(), "--plot", plot.to_str().unwrap()];
    assert_eq!(coexec(arguments).status, 0);
    assert!(fs::metadata(trace).unwrap().len() > 100_000);
    assert!(fs::read_to_string(plot).unwrap().starts_with("<svg"));
}

#[test]
fn rates_of_a_language_model_say_how_sure_they_are_on_what_they_rest_and_what_checks_them() {
    let line = "explore llama3.2-3b --device snapdragon-8elite";
    let document = coexec(words(&format!("{line} --json"))).json();
    let holds = |interval: &Value, value: &Value| {
        let [low, value, high] = [&interval[0], value, &interval[1]].map(|value| value.as_f64().unwrap());
        assert!(low < value && value < high, "{low} {value} {high}");
        high / low
    };
    let turn = &document["generation"]["turns"][0];
    let trust = &document["trust"];
    let first = holds(&trust["time_to_first_token_interval_ps"], &turn["time_to_first_token_ps"]);
    let rate = holds(&trust["tokens_per_second_interval"], &turn["decode"]["tokens_per_second"]);
    assert!(rate < first, "tokens behind the first were fitted to, prompts were not");
    holds(&trust["interval_ps"], &document["generation"]["latency_ps"]);
    assert_eq!(document["trust"]["known"][0][0]["basis"], "transferred");
    for entry in document["strategies"].as_array().unwrap() {
        holds(&entry["interval_ps"], &entry["latency_ps"]);
    }
    let simulated = coexec(words(&format!("{} --json", line.replace("explore", "simulate")))).json();
    assert!(simulated["trust"]["tokens_per_second_interval"][0].as_f64() > Some(0.0));
    let stdout = coexec(words(&format!("{line} --strategy gpu-only"))).stdout;
    for expected in
        ["First token after", "tokens/s, in 90 %", "Basis: prompt GPU", "llama-bench -p 256 -n 32"]
    {
        assert!(stdout.contains(expected), "{expected}: {stdout}");
    }
}
