//! Timeline of the beginning of a run of several applications: the requests of each, and the processors'
//! computing. Hand-overs, which the host does in parallel, are not shown.

use super::report::end;
use super::{ApplicationSimulator, Load, report};
use crate::engine::{Recorder, TaskId};
use crate::simulate::timeline::{Drawing, bandwidth, slice};
use crate::simulate::{PricedCommand, Result};
use crate::timeline::{Activity, Timeline, Track, TrackKind};
use crate::units::Picos;

/// Application, stage and command that a task of the program belongs to.
type Owner<'l> = (&'l str, &'l str, &'l PricedCommand);

/// Start and end of each phase of a computed command.
type Spans = Vec<(Picos, Picos)>;

impl ApplicationSimulator<'_> {
    /// The timeline of the run up to `until`.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn timeline(&mut self, loads: &[Load<'_>], until: Picos) -> Result<Timeline> {
        let mut recorder = Recorder::default();
        // Later requests do not affect what is shown.
        let mut shown = loads.to_vec();
        for load in &mut shown {
            load.stream.arrivals.retain(|&arrival| arrival < until);
        }
        self.execute(&shown, &mut recorder)?;
        let count = |loads: &[Load<'_>]| loads.iter().map(|load| load.stream.arrivals.len()).sum::<usize>();
        let is_all = count(&shown) == count(loads);
        let end = if is_all { end(report::requests(&self.engine, loads)).min(until) } else { until };
        let owners = owners(loads);
        let mut drawing = Drawing::without_waits(self.device);
        for (task, spans) in executions(&recorder, &owners, end) {
            let (application, stage, command) = owners[task];
            drawing.task(&format!("{application}: {stage}"), command, &spans);
        }
        let mut tracks: Vec<Track> =
            (0..loads.len()).map(|index| requests(self, loads, index, end)).collect();
        tracks.extend(drawing.finish());
        Ok(Timeline { tracks, counters: vec![bandwidth::total(&recorder, end)], end })
    }
}

/// The track of one application's requests, each from its start.
fn requests(simulator: &ApplicationSimulator<'_>, loads: &[Load<'_>], index: usize, end: Picos) -> Track {
    let of_application = simulator.engine.requests().iter().filter(|request| request.application == index);
    let shown = (1..).zip(of_application).filter(|(_, request)| request.start < end);
    let slices = shown
        .map(|(number, request)| {
            slice(format!("request {number}"), Activity::Compute, request.start, request.finish.min(end))
        })
        .collect();
    Track { name: loads[index].name.to_owned(), kind: TrackKind::Application, slices }
}

/// The owner of each task of the applications' requests, in the program's order.
fn owners<'l>(loads: &'l [Load<'_>]) -> Vec<Owner<'l>> {
    let of_load = |load: &'l Load<'_>| {
        load.request.runs.iter().flat_map(move |run| {
            let named = |command: &'l PricedCommand| (load.name, run.names[command.stage].as_str(), command);
            run.lowered.tasks.iter().map(named)
        })
    };
    loads.iter().flat_map(of_load).collect()
}

/// Computed commands that started before `end`, cut off there and sorted by start, with their task numbers.
fn executions(recorder: &Recorder, owners: &[Owner<'_>], end: Picos) -> Vec<(usize, Spans)> {
    let mut pending: Vec<Spans> = vec![Vec::new(); owners.len()];
    let mut executions = Vec::new();
    for &(TaskId(task), start, finish) in &recorder.phases {
        let task = task as usize;
        let Some((_, _, command)) = owners.get(task).filter(|(_, _, command)| command.computes()) else {
            continue;
        };
        let spans = &mut pending[task];
        spans.push((start, finish));
        if spans.len() == command.phases.as_slice().len() {
            executions.push((task, std::mem::take(spans)));
        }
    }
    executions.retain(|(_, spans): &(usize, Spans)| spans[0].0 < end);
    for (start, finish) in executions.iter_mut().flat_map(|(_, spans)| spans) {
        (*start, *finish) = ((*start).min(end), (*finish).min(end));
    }
    executions.sort_by_key(|(task, spans)| (spans[0].0, *task));
    executions
}
