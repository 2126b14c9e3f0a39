//! `coexec`: predicts how long neural-network operators take when split over
//! the CPU cores, GPU and NPU of a phone, and finds the best split.
//!
//! Responsible for: arguments, files, tables and pictures. No modelling here. Exit status: 0 success, 1
//! invalid input or undeliverable output, 2 a check missed its limit, 3 an unsound measurement, 4 the
//! requested hardware is absent.

#![forbid(unsafe_code)]

mod advice;
mod applications;
mod calibrate;
mod cli;
mod compare;
mod curve;
mod delegates;
mod devices;
mod explore;
mod failure;
mod gantt;
mod import;
mod known;
mod language;
mod output;
mod plot;
mod points;
mod probe;
mod profile;
mod progress;
mod report;
mod reproduce;
mod run;
mod runs;
mod schema;
mod simulate;
mod strategies;
mod sweep;
mod this_machine;
mod trust;
mod validate;
mod why;
mod workers;

use std::process::ExitCode;

// Shared by the commands.
use calibrate::prior::Chosen;
use cli::{
    Calibrate, Common, Compare, Devices, Explore, Figure, Import, ModelOptions, OneOrAll, Plot, Probe,
    Report, Reproduce, Run, RunFormat, Runs, ScenarioOptions, Schema, SchemaName, Simulate, Validate,
};
use failure::{Failure, Result};
use output::{Column, OutputFile, PicturePath, or_dash};
use progress::Progress;
use runs::DeviceRuns;
use trust::Trust;

fn main() -> ExitCode {
    let arguments = match cli::Arguments::of_process() {
        Ok(arguments) => arguments,
        Err(message) => return failure::usage(&message),
    };
    match run(&arguments) {
        Ok(()) if output::is_delivered() => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(failure) => failure.report(),
    }
}

fn run(arguments: &cli::Arguments) -> Result<(), failure::Failure> {
    let common = &arguments.common;
    // Building fails only if the pool already exists; ignoring that is safe because results do not
    // depend on the pool's size.
    let _ = rayon::ThreadPoolBuilder::new().num_threads(common.jobs.map_or(0, usize::from)).build_global();
    match &arguments.command {
        cli::Command::Devices(options) => devices::run(options, common),
        cli::Command::Simulate(options) => simulate::run(options, common),
        cli::Command::Explore(options) => explore::run(options, common),
        cli::Command::Compare(options) => compare::run(options, common),
        cli::Command::Import(options) => import::run(options, common),
        cli::Command::Run(options) => run::run(options, common),
        cli::Command::Probe(options) => probe::run(options, common),
        cli::Command::Profile(options) => profile::run(&options.command, common),
        cli::Command::Calibrate(options) => calibrate::run(options, common),
        cli::Command::Validate(options) => validate::run(options, common),
        cli::Command::Plot(options) => plot::run(options, common),
        cli::Command::Report(options) => report::run(options, common),
        cli::Command::Reproduce(options) => reproduce::run(options, common),
        cli::Command::Schema(options) => schema::run(options),
    }
}
