//! The workload of a scenario file.

use super::{Overrides, ScenarioFile, WORKLOADS, Workload, refused, unknown};
use crate::input::{InputError, Result, Text, Violation};
use crate::workload::{Graph, Layer, OPERATOR_SETS, Stage, assemble, fuse, network, networks, operator_set};

/// Help for a graph that does not support the batch size.
const BATCH_HELP: &str = "use a smaller batch or none, or export the model with that batch (if its file leaves the \
     batch open, set it with --dim)";

impl ScenarioFile {
    /// The model, the set of operators or the language model of the file.
    pub(super) fn workload(&self, name: &str, text: &Text, overrides: &Overrides) -> Result<Workload> {
        let data_type = self.data_type.unwrap_or_default();
        self.check_no_requests(text)?;
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

    /// Checks that nothing is said of requests, which only applications have.
    fn check_no_requests(&self, text: &Text) -> Result<()> {
        let given = [("duration_s", self.duration_s.is_some()), ("seed", self.seed.is_some())];
        match given.into_iter().find(|&(_, is_given)| is_given) {
            Some((key, _)) => Err(text.refuse(
                key,
                format!("{key} is of requests that arrive over time, which this scenario does not have"),
                "remove it, or describe what receives requests as [[application]] tables",
            )),
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
