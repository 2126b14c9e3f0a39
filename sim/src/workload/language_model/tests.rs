use super::*;

fn model(name: &str) -> LanguageModel {
    language_model(name).unwrap()
}

const PREFILL: TokenStep = TokenStep { tokens: 256, context: 256 };

#[test]
fn bundled_models_have_the_released_parameter_counts() {
    let released = [
        8_030_261_248,
        6_738_415_616,
        3_212_749_824,
        1_889_110_016,
        1_235_814_400,
        7_248_023_552,
        494_032_768,
        1_543_714_304,
        7_615_616_512,
        7_615_616_512,
        // Without the norms of queries and keys, one scale per feature of a head, which are not
        // modelled.
        596_049_920 - 28 * 2 * 128,
        1_720_574_976 - 28 * 2 * 128,
        4_022_468_096 - 36 * 2 * 128,
        8_190_735_360 - 36 * 2 * 128,
        3_821_079_552,
        3_836_021_760,
        2_506_172_416,
        7_455_550_464,
    ];
    let counted: Vec<u64> = language_models().map(|(name, _)| model(name).parameters()).collect();
    assert_eq!(counted, released);
}

#[test]
fn the_operators_of_a_layer_hold_its_parameters() {
    for (name, _) in language_models() {
        let model = model(name);
        let stages = model.layer_stages(PREFILL, DataType::W4A16);
        let parameters: u64 = stages.iter().map(|stage| stage.layer.operator.parameters()).sum();
        let [features, head, wide] =
            [model.features, model.head_features, model.feed_forward_features].map(u64::from);
        let heads = u64::from(2 * model.heads + 2 * model.key_value_heads);
        let weights = features * head * heads + 3 * features * wide;
        let biased = u64::from(model.heads + 2 * model.key_value_heads) * head;
        let biases = if model.attention_bias { biased } else { 0 };
        let norms = 2 * features;
        assert_eq!(parameters, weights + norms + biases, "{name}");
        assert!(model.check(PREFILL).is_ok());
    }
}

#[test]
fn query_heads_that_share_keys_read_them_once() {
    let step = TokenStep { tokens: 1, context: 1000 };
    let stages = model("llama3-8b").layer_stages(step, DataType::W4A16);
    let scores = stages.iter().find(|stage| stage.name == "scores").unwrap();
    let [_, keys] = scores.layer.operator.inputs()[..] else { panic!("a product of two tensors") };
    assert_eq!(keys.elements(), 8 * 128 * 1000, "eight heads of keys for 32 of queries");
}

#[test]
fn attention_work_grows_with_the_cache_and_nothing_else_does() {
    let work = |context| {
        let stages = model("llama2-7b").layer_stages(TokenStep { tokens: 1, context }, DataType::W4A16);
        stages.iter().map(|stage| stage.layer.operator.macs()).sum::<u64>()
    };
    assert_eq!(work(1025) - work(1024), 2 * 32 * 128);
}

#[test]
fn the_cache_of_a_grouped_query_model_is_a_quarter_of_a_plain_one() {
    assert_eq!(model("llama3-8b").cache_bytes(1024), 134_217_728);
    assert_eq!(model("llama2-7b").cache_bytes(1024), 4 * 134_217_728);
}

const LLAMA: &str = r#"{ "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192, "rope_theta": 500000.0, "tie_word_embeddings": false }"#;

#[test]
fn a_released_configuration_is_the_bundled_model() {
    let released = LanguageModel { graph_contexts: GraphContexts::One, ..model("llama3-8b") };
    let read = LanguageModel::from_config("llama3-8b", LLAMA).unwrap();
    assert_eq!(LanguageModel { graph_contexts: GraphContexts::One, ..read }, released);
}

#[test]
fn a_configuration_of_another_architecture_is_refused() {
    let refuse =
        |from: &str, to: &str| LanguageModel::from_config("x", &LLAMA.replace(from, to)).unwrap_err();
    assert!(matches!(refuse("\"llama\"", "\"gpt2\""), ConfigError::ModelType { .. }));
    assert!(matches!(refuse("}", ", \"num_local_experts\": 8 }"), ConfigError::Experts { .. }));
    assert!(matches!(
        refuse("\"num_key_value_heads\": 8", "\"num_key_value_heads\": 5"),
        ConfigError::Dimension { .. }
    ));
    assert!(matches!(refuse("\"hidden_size\": 4096", "\"hidden_size\": 0"), ConfigError::Dimension { .. }));
    assert!(matches!(refuse("{", "["), ConfigError::Json(_)));
}
