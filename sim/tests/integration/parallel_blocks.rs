//! Language-model blocks with attention parallel to the feed-forward layers: that the NPU alone is best for the
//! block does not hide that the layer after it is worth splitting.

use coexec_sim::device::Profile;
use coexec_sim::explore::{SearchOptions, Strategy, explore};
use coexec_sim::input::Text;
use coexec_sim::kernel::Library;
use coexec_sim::scenario::{Overrides, Scenario, Workload};
use coexec_sim::simulate::Simulator;

const TOKENS: &str = r#"
title = "tokens"
[[input]]
name = "tokens"
extent = [1, 1, 64, 1024]
"#;

/// A block for 64 tokens, with rotary positions in queries and keys.
const BLOCK: &str = r#"
[[operator]]
name = "norm"
norm = "layer"
[[operator]]
name = "queries"
linear = { rows = 64, input_features = 1024, output_features = 1024 }
[[operator]]
name = "query-heads"
reshape = [1, 64, 16, 64]
[[operator]]
name = "query-turned"
from = ["query-heads"]
slice = [0, 32]
[[operator]]
name = "query-sine"
function = "gelu"
[[operator]]
name = "query-kept"
from = ["query-heads"]
slice = [32, 32]
[[operator]]
name = "query-joined"
from = ["query-sine", "query-kept"]
concat = "channels"
[[operator]]
name = "queries-by-head"
from = ["query-joined"]
transpose = ["width", "batch", "height", "channels"]
[[operator]]
name = "keys"
from = ["norm"]
linear = { rows = 64, input_features = 1024, output_features = 1024 }
[[operator]]
name = "key-heads"
reshape = [1, 64, 16, 64]
[[operator]]
name = "key-turned"
from = ["key-heads"]
slice = [0, 32]
[[operator]]
name = "key-sine"
function = "gelu"
[[operator]]
name = "key-kept"
from = ["key-heads"]
slice = [32, 32]
[[operator]]
name = "key-joined"
from = ["key-sine", "key-kept"]
concat = "channels"
[[operator]]
name = "keys-by-head"
from = ["key-joined"]
transpose = ["width", "batch", "channels", "height"]
[[operator]]
name = "scores"
from = ["queries-by-head", "keys-by-head"]
matmul = { batch = 16, k = 64, m = 64, n = 64 }
[[operator]]
name = "weights"
softmax = true
[[operator]]
name = "values"
from = ["norm"]
linear = { rows = 64, input_features = 1024, output_features = 1024 }
[[operator]]
name = "value-heads"
reshape = [1, 64, 16, 64]
[[operator]]
name = "values-by-head"
transpose = ["width", "batch", "height", "channels"]
[[operator]]
name = "mixed"
from = ["weights", "values-by-head"]
matmul = { batch = 16, k = 64, m = 64, n = 64 }
[[operator]]
name = "mixed-by-token"
transpose = ["height", "width", "batch", "channels"]
[[operator]]
name = "mixed-heads"
reshape = [1, 1, 64, 1024]
[[operator]]
name = "attention"
linear = { rows = 64, input_features = 1024, output_features = 1024 }
[[operator]]
name = "wide"
from = ["norm"]
linear = { rows = 64, input_features = 1024, output_features = 4096 }
[[operator]]
name = "narrow"
linear = { rows = 64, input_features = 4096, output_features = 1024 }
[[operator]]
name = "both"
from = ["attention", "narrow"]
function = "add"
"#;

const VOCABULARY: &str = r#"
[[operator]]
name = "logits"
linear = { rows = 64, input_features = 1024, output_features = 51200 }
"#;

/// Most by which a plan may exceed the sum of its parts, in percent: the hand-over of a result.
const HAND_OVER_PERCENT: f64 = 0.5;

fn latency(operators: &str, strategy: Strategy) -> f64 {
    let text = Text { name: "graph.toml".to_owned(), content: format!("{TOKENS}{operators}") };
    let scenario = Scenario::parse("graph", &text, &Overrides::default()).unwrap();
    let Workload::Model(stages) = scenario.workload else { panic!("no model") };
    let device = Profile::load("snapdragon-8gen3").unwrap();
    let options = SearchOptions { strategy, ..SearchOptions::on(&device) };
    let mut simulator = Simulator::new(&device, Library::Xnnpack);
    explore(&mut simulator, &stages, &options).unwrap().prediction.latency.0 as f64
}

#[test]
fn a_layer_after_a_block_on_the_npu_is_still_shared() {
    let block = latency(BLOCK, Strategy::NpuOnly);
    let last = latency(VOCABULARY, Strategy::Optimal);
    let together = latency(&format!("{BLOCK}{VOCABULARY}"), Strategy::Optimal);
    let percent = 100.0 * (together / (block + last) - 1.0);
    println!("{percent:+.2} % relative to the sum of the parts");
    assert!(percent <= HAND_OVER_PERCENT, "{percent:.2} %");
}
