//! The bundled language models, from `bundled.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

use super::LanguageModel;

/// A model of the table.
#[derive(Deserialize)]
struct Entry {
    /// One line about it.
    summary: String,
    #[serde(flatten)]
    model: LanguageModel,
}

#[derive(Deserialize)]
struct Table {
    model: Vec<Entry>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    crate::input::from_toml(include_str!("bundled.toml"))
        .expect("the table is part of the program, and tests read it")
});

/// Names and summaries of the bundled language models.
pub fn language_models() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLE.model.iter().map(|Entry { summary, model }| (model.name.as_str(), summary.as_str()))
}

/// The bundled language model called `name`.
pub fn language_model(name: &str) -> Option<LanguageModel> {
    let models = TABLE.model.iter().map(|entry| &entry.model);
    models.into_iter().find(|model| model.name.eq_ignore_ascii_case(name)).cloned()
}
