//! Profiles of devices that nobody measured.

use crate::{coexec, words};

#[test]
fn a_phone_s_name_is_enough_for_a_plan_with_its_interval_and_what_it_rests_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    let file = file.to_str().unwrap();
    let unknown = coexec(words(&format!("profile new --soc pixel-70-pro --out {file}")));
    unknown.assert_refused(&["there is no system-on-chip or phone named \"pixel 70 pro\""]);
    let text = coexec(["profile", "new", "--soc", "Pixel 7 Pro", "--out", file]).stdout;
    for expected in ["Tensor G2: CPU 2xX1@2.85", "GPU mali-g710mp7@848", "gpu/end_to_end/unseen", "no NPU"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let answer = coexec(words(&format!("explore mobilenet-v2 --device {file} --effort quick --json"))).json();
    let [low, high] = [0, 1].map(|end| answer["trust"]["interval_ps"][end].as_f64().unwrap());
    let latency = answer["prediction"]["latency_ps"].as_f64().unwrap();
    assert!(low < latency && latency < high && high > 1.5 * low, "{low} {latency} {high}");
    let basis = |processor: &str| {
        let known = answer["known"].as_array().unwrap();
        known.iter().find(|known| known["processor"] == processor).unwrap()["basis"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!([basis("cpu"), basis("gpu")], ["scaled", "transferred"]);
    let text = coexec(words(&format!("simulate resnet18 --device {file} --strategy gpu-only"))).stdout;
    assert!(text.contains("GPU transferred (off by 22 %)"), "{text}");
}

#[test]
fn parts_of_a_specification_take_the_place_of_what_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    let file = file.to_str().unwrap();
    let gpu = "adreno-750@1000";
    coexec(["profile", "new", "--soc", "Snapdragon 8 Gen 3", "--gpu", gpu, "--out", file, "--json"]).json();
    let content = std::fs::read_to_string(file).unwrap();
    assert!(content.contains("clock_mhz = { value = 1000.0"), "{content}");
    assert!(content.contains("name = \"mine\""), "{content}");
    let text = coexec(words("profile new")).stdout;
    assert!(text.contains("Dimensity 9400") && text.contains("vivo X200 Pro"), "{text}");
}
