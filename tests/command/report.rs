//! `report`: the accuracy page.

use std::fs;
use std::path::Path;

use super::calibrate::table;
use super::pictures::parsed;
use crate::{coexec_in, words};

/// A data set of the Pixel 4, whose columns are found by its profile's name, and of a
/// phone without a profile: three networks on the GPU and on CPU cores.
fn write_data(folder: &Path) {
    let data = folder.join("data");
    fs::create_dir(&data).unwrap();
    let gpu = table(|index| 50.0 + index as f64)
        .replace("phone|gpu|float,phone|gpu|kernel", "pixel4|gpu|float,pixel4|gpu|kernel");
    let both: Vec<String> = gpu
        .lines()
        .map(|line| {
            let brick = if line.starts_with("model") {
                "brick|gpu|float,brick|gpu|kernel"
            } else {
                "1,convolution_2d_0"
            };
            format!("{line},{brick}\n")
        })
        .collect();
    fs::write(
        data.join("tflite_cnn_ops_gpu.csv"),
        format!("{}network3,CONV_4D,{{}},1,a,1,a\n", both.concat()),
    )
    .unwrap();
    let cpu = "model,pixel4|1med|float|mean,pixel4|1med|float|std\nnetwork0,9000,90\nnetwork1,5000,50\n\
               network2,20000,90\n";
    fs::write(data.join("tflite_cnn_e2e.csv"), cpu).unwrap();
}

#[test]
fn the_page_has_a_table_a_phone_and_says_how_it_was_made() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path());
    let line = "report --runs data --out page --seed 3 --quiet";
    let outcome = coexec_in(folder.path(), words(line));
    assert_eq!((outcome.status, outcome.stderr.as_str()), (0, ""));
    let page = fs::read_to_string(folder.path().join("page/accuracy.md")).unwrap();
    for words in [
        "coexec report --runs DATA --out DIR --prior hardware --seed 3",
        "## Google Pixel 4",
        "| cpu/1med/float | 3 |",
        "| gpu/conv2d/all | 56 |",
        "### Worst predictions",
        "times: the operation \"CONV_4D\" is not known",
        "![",
    ] {
        assert!(page.contains(words), "{words:?} is not in {page}");
    }
    assert!(!page.contains("brick"), "a phone without a profile is not reported");
    for picture in page.lines().filter(|line| line.starts_with("![")) {
        let file = picture.rsplit(['(', ')']).nth(1).unwrap();
        let content = fs::read(folder.path().join("page").join(file)).unwrap();
        if Path::new(file).extension().is_some_and(|extension| extension == "png") {
            assert!(content.starts_with(b"\x89PNG"), "{file}");
        } else {
            parsed(&String::from_utf8(content).unwrap());
        }
    }
    let document = coexec_in(folder.path(), words(line).chain(["--json"])).json();
    assert_eq!(document["devices"][0]["device"], "pixel4");
    assert_eq!(page, fs::read_to_string(folder.path().join("page/accuracy.md")).unwrap(), "repeatable");
}

#[test]
#[cfg(target_os = "linux")]
fn a_report_that_cannot_be_written_is_refused_before_the_fits() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path());
    let outcome = coexec_in(folder.path(), words("report --runs data --out /proc/page"));
    outcome.assert_refused(&["cannot write /proc/page"]);
    assert!(!outcome.stderr.contains("fits"), "{}", outcome.stderr);
}

#[test]
fn a_report_on_what_is_not_there_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_data(folder);
    let refused = |line: &str, expected: &[&str]| {
        coexec_in(folder, words(&format!("report {line}"))).assert_refused(expected);
        assert!(!folder.join("page").exists(), "{line}");
    };
    refused("--runs nowhere --out page", &["cannot read nowhere"]);
    refused("--runs data --out page --device mi8se", &["there are no runs of mi8se"]);
    refused("--runs data --out page --device mi9", &["no device profile named \"mi9\""]);
    refused("--runs data --out page --prior mi9", &["no device profile named \"mi9\""]);
    fs::write(folder.join("file"), "").unwrap();
    refused("--runs data --out file", &["cannot write file", "it is not a folder"]);
    let table = fs::read_to_string(folder.join("data/tflite_cnn_ops_gpu.csv")).unwrap();
    fs::write(folder.join("data/tflite_cnn_ops_gpu.csv"), table.replace("pixel4|", "stone|")).unwrap();
    refused("--runs data --out page", &["no bundled profile matches a phone in data", "stone, brick"]);
}
