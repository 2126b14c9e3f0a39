//! The workload of a scenario file.

use super::{Overrides, ScenarioFile, WORKLOADS, Workload, refused, unknown};
use crate::input::{InputError, Result, Text, Violation};
use crate::workload::{Graph, Layer, OPERATOR_SETS, Stage, assemble, fuse, network, networks, operator_set};

/// Keys of a model of operators that a language model does not use.
const NOT_OF_LANGUAGE_MODELS: [&str; 7] =
    ["data_type", "threads", "library", "measure", "step", "effort", "pipeline"];

/// Help for a graph that does not support the batch size.
const BATCH_HELP: &str = "use a smaller batch or none, or export the model with that batch (if its file leaves the \
     batch open, set it with --dim)";

impl ScenarioFile {
    /// The model, the set of operators or the language model of the file.
    pub(super) fn workload(&self, name: &str, text: &Text, overrides: &Overrides) -> Result<Workload> {
        let workload = self.one_workload(name, text, overrides)?;
        self.check_keys(text)?;
        Ok(workload)
    }

    fn one_workload(&self, name: &str, text: &Text, overrides: &Overrides) -> Result<Workload> {
        let data_type = self.data_type.unwrap_or_default();
        if self.operator_set.is_some() || self.language_model.is_some() {
            self.check_no_batch(text, overrides)?;
        }
        match (&self.network, &self.operator_set, &self.operator, &self.language_model) {
            (Some(wanted), None, None, None) => {
                let known = networks().map(|(name, _)| name);
                let graph = network(wanted).ok_or_else(|| unknown(text, "network", wanted, known, ""))?;
                let graph = graph.with_data_type(data_type);
                Ok(Workload::Model(fuse(&self.batched(text, overrides, &graph)?)))
            }
            (None, Some(wanted), None, None) => {
                let known = OPERATOR_SETS.iter().map(|(name, ..)| *name);
                let operators =
                    operator_set(wanted).ok_or_else(|| unknown(text, "operator_set", wanted, known, ""))?;
                let stage = |(name, operator)| Stage::single(name, Layer::new(operator, data_type));
                Ok(Workload::Set(operators.into_iter().map(stage).collect()))
            }
            (None, None, Some(operators), None) => {
                let inputs = self.input.as_deref().unwrap_or_default();
                let graph = assemble::graph(text, name, data_type, inputs, operators)?;
                Ok(Workload::Model(fuse(&self.batched(text, overrides, &graph)?)))
            }
            (None, None, None, Some(table)) => Ok(Workload::Language(table.task(text, "language_model")?)),
            (None, None, None, None) => Err(text.refuse("title", "the scenario has no workload", WORKLOADS)),
            _ => Err(text.refuse("title", "the scenario has more than one workload", WORKLOADS)),
        }
    }

    /// The graph with the batch size of the caller, else of the file.
    fn batched(&self, text: &Text, overrides: &Overrides, graph: &Graph) -> Result<Graph> {
        let count = overrides.batch.or(self.batch).unwrap_or(1);
        if count == 0 {
            return Err(text.reject(Violation::new("batch", count, "at least 1")));
        }
        graph.with_batch(count).map_err(|error| match overrides.batch {
            Some(_) => InputError::Unfit {
                option: "--batch",
                found: count.to_string(),
                message: error.to_string(),
                help: BATCH_HELP.to_owned(),
            },
            None => text.refuse("batch", error.to_string(), BATCH_HELP),
        })
    }

    /// Checks that the workload uses every key of the file.
    fn check_keys(&self, text: &Text) -> Result<()> {
        let mut unused: Vec<(&[&str], _, _)> = vec![(
            &["duration_s", "seed"],
            "of requests that arrive over time, which this scenario does not have",
            "remove it, or describe what receives requests as [[application]] tables",
        )];
        if let Some(table) = &self.language_model {
            let help = "remove it: [language_model] has `weights` for their number format, and the engine chooses the rest";
            unused.push((&NOT_OF_LANGUAGE_MODELS, "not of a language model", help));
            if table.strategy.is_some() {
                unused.push((&["strategy"], "also in [language_model]", "write the strategy once"));
            }
        }
        if self.operator_set.is_some() {
            let help = "remove it: each operator of a set is run on its own";
            unused.push((&["effort", "pipeline"], "not of a set of operators", help));
        }
        if self.operator.is_none() {
            let help = "remove it: only [[operator]] tables read an [[input]]";
            unused.push((&["input"], "of operators, which this scenario does not list", help));
        }
        unused
            .into_iter()
            .try_for_each(|(keys, what, help)| self.refuse_keys(text, |key| keys.contains(&key), what, help))
    }

    /// Refuses the first key of the file that `is_unused`; `what` says of which workload it is.
    pub(super) fn refuse_keys(
        &self,
        text: &Text,
        is_unused: impl Fn(&str) -> bool,
        what: &str,
        help: &str,
    ) -> Result<()> {
        let keys = [
            ("network", self.network.is_some()),
            ("operator_set", self.operator_set.is_some()),
            ("input", self.input.is_some()),
            ("operator", self.operator.is_some()),
            ("language_model", self.language_model.is_some()),
            ("data_type", self.data_type.is_some()),
            ("batch", self.batch.is_some()),
            ("threads", self.threads.is_some()),
            ("library", self.library.is_some()),
            ("synchronisation", self.synchronisation.is_some()),
            ("measure", self.measure.is_some()),
            ("strategy", self.strategy.is_some()),
            ("objective", self.objective.is_some()),
            ("step", self.step.is_some()),
            ("effort", self.effort.is_some()),
            ("pipeline", self.pipeline.is_some()),
            ("duration_s", self.duration_s.is_some()),
            ("seed", self.seed.is_some()),
        ];
        match keys.into_iter().find(|&(key, is_written)| is_written && is_unused(key)) {
            Some((key, _)) => Err(text.refuse(key, format!("{key} is {what}"), help)),
            None => Ok(()),
        }
    }

    /// Checks that no batch size is given for a workload of fixed size.
    fn check_no_batch(&self, text: &Text, overrides: &Overrides) -> Result<()> {
        let expected = "a network or [[operator]]: sets of operators and language models have no batch size";
        match overrides.batch.or(self.batch) {
            Some(count) => Err(refused(text, overrides.batch.is_some(), "--batch", count, expected)),
            None => Ok(()),
        }
    }
}
