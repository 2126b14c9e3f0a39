use serde::Deserialize;

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
