//! Plans that do not fit their workload or device are refused with line and key.

use std::fs;

use crate::{coexec_in, words};

const PLAN: &str = r#"scenario = "vit-b32-mlp"
device = "pixel4"
synchronisation = "svm-polling"

[[operator]]
name = "mlp.linear1"
partition = "output-channels"

[[operator.shares]]
processor = "cpu"
cores = "1large2med"
channels = 608

[[operator.shares]]
processor = "gpu"
channels = 2464

[[operator]]
name = "mlp.linear2"
partition = "none"

[[operator.shares]]
processor = "gpu"
"#;

fn simulate(plan: &str) -> crate::Outcome {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("plan.toml"), plan).unwrap();
    fs::write(folder.path().join("run.svg"), "old").unwrap();
    let line =
        "simulate vit-b32-mlp --device pixel4 --plan plan.toml --plot run.svg --trace run.trace --json";
    let outcome = coexec_in(folder.path(), words(line));
    if outcome.status != 0 {
        assert_eq!(fs::read_to_string(folder.path().join("run.svg")).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
    outcome
}

fn refused(from: &str, to: &str, expected: &[&str]) {
    assert!(PLAN.contains(from));
    simulate(&PLAN.replacen(from, to, 1)).assert_refused(expected);
}

#[test]
fn the_plan_these_tests_damage_is_good() {
    assert_eq!(simulate(PLAN).json()["plan_origin"], "plan plan.toml");
}

#[test]
fn cores_are_those_of_one_part_on_the_cpu() {
    let gpu = "processor = \"gpu\"\n";
    refused(
        "processor = \"gpu\"\nchannels = 2464",
        &format!("{gpu}cores = \"1large\"\nchannels = 2464"),
        &["shares[1].cores is \"1large\"", "only the CPU has them"],
    );
    refused(
        "processor = \"gpu\"\nchannels = 2464",
        "processor = \"cpu\"\ncores = \"1large\"\nchannels = 2464",
        &["shares is 2 parts, expected one CPU core set per operator, not 1large2med and 1large"],
    );
}

#[test]
fn a_plan_with_an_unknown_key_or_word_is_refused() {
    refused("channels = 608", "chanels = 608", &["plan.toml:12:1: unknown field `chanels`"]);
    refused("\"svm-polling\"", "\"polling\"", &["plan.toml:3:19: unknown variant `polling`", "svm-polling"]);
    refused("\"output-channels\"", "\"depth\"", &["plan.toml:7:13:", "output-channels"]);
    refused("processor = \"gpu\"", "processor = \"tpu\"", &["plan.toml:15:13:", "unknown variant `tpu`"]);
}

#[test]
fn shares_add_up_to_the_output_channels() {
    refused(
        "channels = 2464",
        "channels = 2465",
        &["operator[0].shares is 608 + 2465", "3072 output channels"],
    );
    refused("channels = 2464", "channels = 4294967295", &["608 + 4294967295 channels"]);
    refused("channels = 608", "channels = 0", &["plan.toml:12:12: operator[0].shares[0].channels is 0"]);
    refused("channels = 2464\n", "", &["operator[0].shares[1].channels is absent"]);
    refused("channels = 608", "channels = -1", &["plan.toml:12:12", "-1"]);
    refused("channels = 608", "channels = 608.5", &["plan.toml:12:12", "608.5"]);
}

#[test]
fn a_plan_is_for_its_workload() {
    refused(
        "mlp.linear2",
        "mlp.linear3",
        &["plan.toml:19:8: operator[1].name", "\"mlp.linear2\", the workload's next"],
    );
    refused("mlp.linear2", "mlp.linear1", &["plan.toml:19:8: operator[1].name", "each operator once"]);
    refused("mlp.linear1", "mlp.linear2", &["operator[0].name", "\"mlp.linear1\" before it, which it reads"]);
    let at = PLAN.rfind("[[operator]]").unwrap();
    simulate(&PLAN[..at]).assert_refused(&["2 operators; \"mlp.linear2\" is missing"]);
    let extra = format!("{PLAN}\n{}", PLAN[at..].replace("linear2", "linear3"));
    simulate(&extra).assert_refused(&["plan.toml:26:8: operator[2].name is \"mlp.linear3\"", "no more than"]);
    simulate("").assert_refused(&["plan.toml:1:1: missing field"]);
}

#[test]
fn a_plan_is_for_processors_the_device_has() {
    let npu = PLAN
        .replace("[[operator.shares]]\nprocessor = \"gpu\"\n", "[[operator.shares]]\nprocessor = \"npu\"\n");
    let alone = npu.replacen("processor = \"npu\"\nchannels", "processor = \"gpu\"\nchannels", 1);
    simulate(&alone).assert_refused(&["operator[1].shares[0].processor is \"npu\"", "no [npu] table"]);
    simulate(&npu).assert_refused(&["operator[0].shares[1].processor is \"npu\"", "pixel4 has"]);
    refused(
        "1large2med",
        "2large1med",
        &["plan.toml:11:9: operator[0].shares[0].cores", "1 core of cluster large"],
    );
    let whole = PLAN.replacen("partition = \"output-channels\"\n", "partition = \"none\"\n", 1);
    simulate(&whole).assert_refused(&["shares is 2 shares, expected 1, since partition is \"none\""]);
    refused("1large2med", "1prime", &["clusters out of large, med, small"]);
    refused("1large2med", "99999999999999999999large", &["counts and cluster names"]);
    refused("1large2med", "", &["operator[0].shares[0].cores is \"\""]);
    refused("cores = \"1large2med\"\n", "", &["operator[0].shares[0].cores is absent"]);
}

#[test]
fn a_truncated_plan_is_refused() {
    for part in 1..8 {
        simulate(&PLAN[..PLAN.len() * part / 8]).assert_refused(&["plan.toml:"]);
    }
}

#[test]
fn a_chain_is_refused_where_the_processors_would_have_to_exchange_something() {
    let both =
        PLAN.replacen("partition = \"output-channels\"\n", "partition = \"output-channels\"\nchain = 1\n", 1);
    simulate(&both).json();
    let alone = PLAN.replacen("partition = \"none\"\n", "partition = \"none\"\nchain = 1\n", 1);
    simulate(&alone).assert_refused(&["operator[1].chain is 1", "one processor computes it alone"]);
    let cut = r#"partition = "output-channels"
chain = 1
shares = [
    { processor = "cpu", cores = "1large2med", channels = 64 },
    { processor = "gpu", channels = 704 },
]
"#;
    let second = both.find("name = \"mlp.linear2\"").unwrap();
    let linears = format!("{}name = \"mlp.linear2\"\n{cut}", &both[..second]);
    simulate(&linears).assert_refused(&["operator[1].chain is 1", "reads every channel"]);
}
