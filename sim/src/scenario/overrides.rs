//! What a caller says instead of the scenario file.

use crate::explore::language::LanguageStrategy;
use crate::explore::{Objective, Strategy};
use crate::input::InputError;
use crate::kernel::cpu::Library;
use crate::plan::synchronisation::Mechanism;

/// What a caller says instead of the scenario file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Device profile, by name or path.
    pub device: Option<String>,
    /// Images (or sequences of tokens) at once.
    pub batch: Option<u32>,
    /// Most CPU threads.
    pub threads: Option<u32>,
    /// CPU kernels.
    pub library: Option<Library>,
    /// Synchronisation between processors.
    pub synchronisation: Option<Mechanism>,
    /// How to find a plan.
    pub strategy: Option<Strategy>,
    /// How to find a plan of a language model.
    pub language_strategy: Option<LanguageStrategy>,
    /// What the search minimises.
    pub objective: Option<Objective>,
    /// Grid of output channels.
    pub step: Option<u32>,
}

impl Overrides {
    /// That a strategy asked for is one of the workload's.
    pub(super) fn check_strategy(&self, of_language: bool) -> Result<(), InputError> {
        let names = |names: Vec<&str>| format!("one of {}", names.join(", "));
        let (found, expected) = match (of_language, self.strategy, self.language_strategy) {
            (true, Some(strategy), None) => {
                let known = LanguageStrategy::ALL.iter().map(|known| known.name());
                (strategy.name(), names(known.collect()) + ", for a language model")
            }
            (false, None, Some(strategy)) => {
                let known = Strategy::ALL.iter().map(|known| known.name());
                (strategy.name(), names(known.collect()) + ", for anything but a language model")
            }
            _ => return Ok(()),
        };
        Err(InputError::Option { option: "--strategy", found: found.to_owned(), expected })
    }
}
