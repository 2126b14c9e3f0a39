//! Several applications at once: how their requests are served, and the plans that are best for all of
//! them together.

use std::borrow::Cow;
use std::path::PathBuf;

use coexec_sim::explore::applications::{
    Application, Applications, Choice, Cost, Job, JointPlans, MAX_SEARCHED_COMMANDS, explore_applications,
    simulate_applications,
};
use coexec_sim::simulate::applications::ApplicationReport;
use coexec_sim::simulate::generation::planned_stages;
use coexec_sim::timeline::Timeline;
use coexec_sim::{Picos, PlanFile, Scenario};
use serde::Serialize;

use crate::output::{listed, percent, record, row, stem};
use crate::simulate::{print_excess, timeline_files};
use crate::{
    Column, Common, Explore, Failure, OutputFile, Result, ScenarioOptions, Simulate, advice, gantt, or_dash,
    output,
};

/// Length of the timeline shown: 200 ms, six frames of a camera.
const SHOWN: Picos = Picos(200_000_000_000);

/// The failure of running a scenario of several applications, which can only be simulated.
pub(crate) fn only_simulated(scenario: &str) -> Failure {
    Failure::usage(
        format!("{scenario} has several applications, which coexec simulates but does not run together"),
        "use `coexec simulate` or `coexec explore`, or run the scenario of one application",
    )
}

pub(crate) fn simulate(
    scenario: &Scenario,
    applications: &Applications,
    options: &Simulate,
    common: &Common,
) -> Result {
    refuse_strategy(&options.place)?;
    let of_one = [("--plan", options.plan.is_some()), ("--samples", options.samples.is_some())];
    refuse(&of_one, "name each application's `plan` in the scenario, whose `seed` draws the requests")?;
    let choice = simulate_applications(&scenario.device, applications)?;
    let timeline = choice.timeline(&scenario.device, applications, SHOWN)?;
    output::write(&timeline_files(&timeline, scenario, options.plot.as_ref(), options.trace.as_deref())?)?;
    if common.json {
        return document(scenario, applications, &choice);
    }
    heading(scenario, applications, &choice);
    print_choice(&choice, &timeline);
    Ok(())
}

pub(crate) fn explore(
    scenario: &Scenario,
    applications: &Applications,
    options: &Explore,
    common: &Common,
) -> Result {
    refuse_strategy(&options.place)?;
    advice::refuse(options, "for models")?;
    let of_one = [("--shares", options.shares.is_some()), ("--plot", options.plot.is_some())];
    refuse(&of_one, "draw the --timeline of all, or explore the scenario of one application")?;
    let objective = [("--objective", options.place.overrides.objective.is_some())];
    refuse(&objective, "all together are planned for their deadlines, then for time")?;
    let out = plan_paths(applications, options)?;
    let together = explore_applications(&scenario.device, applications)?;
    let found = &together.found;
    let timeline = found.timeline(&scenario.device, applications, SHOWN)?;
    let mut files = timeline_files(&timeline, scenario, options.timeline.as_ref(), options.trace.as_deref())?;
    for ((path, application), planned) in out.iter().zip(&applications.applications).zip(&found.plans) {
        let stages = match &application.job {
            Job::Model(model) => Cow::Borrowed(&model.stages),
            Job::Language(model) => Cow::Owned(planned_stages(&model.task)),
            Job::Frames(_) => continue,
        };
        let Some(plan) = &planned.plan else { continue };
        let plan = PlanFile::new(&scenario.name, &scenario.device, &stages, plan);
        files.push(OutputFile::encoded(path, toml::to_string_pretty(&plan))?);
    }
    output::write(&files)?;
    if common.json {
        return document(scenario, applications, &together);
    }
    heading(scenario, applications, found);
    compare(&together);
    print_choice(found, &timeline);
    Ok(())
}

fn refuse_strategy(place: &ScenarioOptions) -> Result {
    refuse(&[("--strategy", place.strategy.is_some())], "write `strategy` into each [[application]]")
}

fn refuse(options: &[(&str, bool)], help: &str) -> Result {
    Failure::refuse_given(options, "of one model, not of several applications", help)
}

/// The plan file of each application: `out` with the application's name appended to the stem.
fn plan_paths(applications: &Applications, options: &Explore) -> Result<Vec<PathBuf>> {
    let Some(out) = options.out.as_deref() else { return Ok(Vec::new()) };
    let ending = out.extension().map(|ending| format!(".{}", ending.display())).unwrap_or_default();
    let stem = stem(out);
    let mut paths: Vec<PathBuf> = Vec::new();
    for Application { name, .. } in &applications.applications {
        let safe = name.replace(|letter: char| !letter.is_alphanumeric(), "-");
        let path = out.with_file_name(format!("{stem}-{safe}{ending}"));
        if paths.contains(&path) {
            let problem =
                format!("the plans of two applications would both be written to {}", path.display());
            return Err(Failure::usage(problem, "give applications names that differ in letters or digits"));
        }
        options.place.check_distinct(Some(&path), None)?;
        output::check(&path)?;
        paths.push(path);
    }
    Ok(paths)
}

fn document(scenario: &Scenario, applications: &Applications, found: &impl Serialize) -> Result {
    output::json(&record!(Document {
        scenario: &scenario.name,
        device: &scenario.device.name,
        seed: applications.seed,
        #[serde(flatten)]
        found,
    }))
}

fn heading(scenario: &Scenario, applications: &Applications, choice: &Choice) {
    let Applications { duration, seed, .. } = applications;
    output::line(&format!(
        "{}\non {}, requests arrive for {duration}, seed {seed}\n",
        scenario.title, scenario.device.title
    ));
    print_excess(&choice.memory(), &scenario.device);
}

/// Prints the plans found, compared with planning each application as if it were alone.
fn compare(together: &JointPlans) {
    let JointPlans { found, as_if_alone, considered, is_complete } = together;
    let rows = found.served.applications.iter().zip(&as_if_alone.served.applications);
    let origins = found.plans.iter().zip(&as_if_alone.plans);
    let rows = rows.zip(origins).map(|((found, alone), (plan, plan_alone))| {
        row![found.name, plan.origin, p99(found), missed(found), plan_alone.origin, p99(alone), missed(alone)]
    });
    let header = ["application", "plan found", "p99", "missed", "plan as if alone", "p99", "missed"];
    output::keyed_table(&header, 1, rows);
    let (Cost { mean_slowdown: now, .. }, Cost { mean_slowdown: before, .. }) =
        (found.cost, as_if_alone.cost);
    output::line(&format!(
        "\nUnder the plans found, a request takes on average {now:.2} times as long as if its application ran alone; under \
         the plans as if alone, {before:.2} times.\nOf {considered} choices of plans, those found miss the fewest \
         deadlines; of equal choices, requests take the least time\n"
    ));
    if !is_complete {
        output::line(&format!(
            "The search stopped at its limit of {MAX_SEARCHED_COMMANDS} simulated commands; a shorter duration_s allows more \
             choices\n"
        ));
    }
}

fn p99(report: &ApplicationReport) -> String {
    or_dash(report.latency.map(|latency| latency.p99))
}

fn missed(report: &ApplicationReport) -> String {
    or_dash(report.deadline_miss_percent.map(percent))
}

/// Prints how requests were served, how busy processors were, and the start of the timeline.
fn print_choice(choice: &Choice, timeline: &Timeline) {
    let Choice { served, plans, .. } = choice;
    let columns: [Column<(&ApplicationReport, &str)>; 12] = [
        ("application", |(report, _)| report.name.clone()),
        ("plan", |(_, origin)| (*origin).to_owned()),
        ("requests", |(report, _)| format!("{} of {}", report.completed, report.requests)),
        ("a second", |(report, _)| format!("{:.2}", report.throughput_per_second)),
        ("mean", |(report, _)| or_dash(report.latency.map(|latency| latency.mean))),
        ("over alone", |(report, _)| or_dash(report.slowdown.map(|slowdown| format!("{slowdown:.2}x")))),
        ("p50", |(report, _)| or_dash(report.latency.map(|latency| latency.p50))),
        ("p90", |(report, _)| or_dash(report.latency.map(|latency| latency.p90))),
        ("p99", |(report, _)| p99(report)),
        ("max", |(report, _)| or_dash(report.latency.map(|latency| latency.max))),
        ("deadline", |(report, _)| or_dash(report.deadline)),
        ("missed", |(report, _)| missed(report)),
    ];
    let origins = plans.iter().map(|plan| plan.origin.as_str());
    let applications: Vec<_> = served.applications.iter().zip(origins).collect();
    let (header, rows) = output::cells(&columns, &applications);
    output::keyed_table(&header, 1, rows);
    let busy =
        served.processors.iter().map(|usage| format!("{} {:.1} %", usage.processor, usage.busy_percent));
    output::line(&format!("\nbusy: {}\n", listed(busy)));
    output::line(&gantt::text(timeline));
}
