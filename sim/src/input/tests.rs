use serde::Deserialize;

use std::collections::BTreeMap;

use super::*;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[allow(dead_code, reason = "only parsed")]
    clock_mhz: f64,
}

fn text(content: &str) -> Text {
    Text { name: "test.toml".into(), content: content.into() }
}

#[test]
fn an_unknown_key_is_found_in_its_line() {
    let error = text("clock_mhz = 1.0\nclok = 2\n").parse::<Document>().unwrap_err();
    assert!(error.to_string().starts_with("test.toml:2:1: unknown field `clok`"), "{error}");
}

#[test]
fn a_rejected_value_is_found_by_its_path() {
    let text = text("[cpu]\n[[cpu.cluster]]\nclock_mhz = 1\n[[cpu.cluster]]\nclock_mhz = -5\n");
    let violation = Violation {
        key: "cpu.cluster[1].clock_mhz".into(),
        found: "-5".into(),
        expected: "a number above 0".into(),
    };
    let error = text.reject(violation);
    let (_, place) = error.place().unwrap();
    assert_eq!((place.line, place.column), (5, 13));
    assert_eq!(&text.content[place.span.clone()], "-5");
}

#[test]
fn a_truncated_file_is_a_syntax_error_at_its_end() {
    let error = text("clock_mhz = [1, 2").parse::<Document>().unwrap_err();
    assert!(error.help().starts_with("correct the value"), "{error}");
}

#[test]
fn a_misspelt_name_is_suggested() {
    let known = vec!["oneplus11".to_owned(), "pixel4".to_owned()];
    assert_eq!(nearest("onplus11", &known), Some("oneplus11"));
    assert_eq!(nearest("PIXEL4", &known), Some("pixel4"));
    assert_eq!(nearest("galaxy", &known), None);
    assert_eq!(nearest("nope", &["base".to_owned()]), None, "one letter in four is right");
    assert_eq!(nearest("plus11", &known), Some("oneplus11"), "a part of a name");
}

#[test]
fn a_number_of_another_kind_is_refused_in_words() {
    #[derive(Debug, Deserialize)]
    struct Count {
        #[allow(dead_code, reason = "only parsed")]
        threads: u32,
    }
    for wrong in ["1.5", "-1", "99999999999"] {
        let error = text(&format!("threads = {wrong}")).parse::<Count>().unwrap_err().to_string();
        assert!(error.ends_with("expected a whole number from 0 to 4294967295"), "{error}");
    }
}

#[test]
fn a_line_is_pointed_at_from_its_first_character_to_its_last() {
    let text = text("run,network\r\n0,fc1\r\n");
    let error = text.refuse_at(None, 2, "wrong", "mend it");
    let (_, place) = error.place().unwrap();
    assert_eq!((place.line, place.column, &text.content[place.span.clone()]), (2, 1, "0,fc1"));
    assert_eq!(text.refuse_at(None, 9, "wrong", "").place().unwrap().1.line, 3);
}

#[test]
fn columns_count_characters_not_bytes() {
    let text = text("name = \"é\" é");
    assert_eq!(text.place(12..13).column, 12);
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Everything {
    count: Option<u32>,
    large: Option<u64>,
    share: Option<f64>,
    ready: Option<bool>,
    names: Option<Vec<String>>,
    pair: Option<[i8; 2]>,
    shape: Option<Shape>,
    either: Option<Either>,
    by_name: Option<BTreeMap<String, Inner>>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Shape {
    Flat,
    Round { radius: u8 },
    Square(u8),
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected a number or a table")]
enum Either {
    Number(f64),
    Table(Inner),
}

#[derive(Debug, PartialEq, Deserialize)]
struct Inner {
    value: u8,
    #[serde(flatten)]
    more: BTreeMap<String, i64>,
}

#[test]
fn data_is_read_as_the_parser_reads_it_and_refused_at_the_same_place() {
    for content in [
        "count = 3\nlarge = 0xffff_ffff_ffff_ffff\nshare = -1_0.5e-1\nready = true\nnames = [\"a\", 'b\\c']",
        "share = inf\npair = [-128, 0b11]\nshape = \"flat\"\neither = 1.5",
        "shape.round.radius = 7\neither.value = 2\n[by_name.first]\nvalue = 1\nother = -4",
        "shape = { square = 4 }\neither = { value = 2, one = 1 }",
        "count = -3",
        "count = 4294967296",
        "large = 18446744073709551616",
        "share = 1e999",
        "share = \"much\"",
        "share = 2026-11-26",
        "names = [\"a\", 3]",
        "pair = [1, 2, 3]",
        "pair = [1, 200]",
        "shape = \"oval\"",
        "shape = {}",
        "shape = 3",
        "shape = { round = { radius = \"wide\" } }",
        "either = [1]",
        "either = { value = -2 }",
        "ready = true\n\n[by_name]\nfirst = { other = 1 }",
        "ready = true\nreday = false",
        "ready = true\nready = false",
        "ready = tru",
    ] {
        let theirs = toml::from_str::<Everything>(content).map_err(|error| error.span());
        let ours = from_toml::<Everything>(content);
        assert_eq!(
            ours.as_ref().map_err(|misfit| misfit.span.clone()),
            theirs.as_ref().map_err(Clone::clone),
            "{ours:?}"
        );
    }
}

#[test]
fn line_ends_of_two_characters_count_once() {
    let path = std::env::temp_dir().join(format!("line-ends-{}.csv", std::process::id()));
    std::fs::write(&path, "\u{feff}run,network\r\n0,fc1\r\n").unwrap();
    assert_eq!(Text::read(&path).unwrap().content, "run,network\n0,fc1\n");
    std::fs::remove_file(path).unwrap();
}
