//! coexec compared with the latency predictors of other work, on the same runs.

use coexec_fit::validate::score::Scored;

use super::{Phone, mean, table};
use crate::validate::baseline;

/// The GPU's group of all convolutions, with seen and unseen shapes.
const CONVOLUTIONS: &str = "gpu/conv2d/all";

/// Column of `CoDL`'s predictor with a fitted launch time.
const WITH_LAUNCH: &str = "CoDL + launch";

/// A predictor's MAPE and its share of predictions within 10 %, in percent.
type Figures = fn(&Scored) -> Option<[f64; 2]>;

/// The predictors, by their names in the table's columns.
const PREDICTORS: [(&str, Figures); 4] = [
    ("coexec", |scored| Some([scored.group.mape_percent, scored.group.within_10_percent])),
    ("CoDL", |scored| Some([scored.codl_mape_percent?, scored.codl_within_10_percent?])),
    (WITH_LAUNCH, |scored| Some([scored.codl_launch_mape_percent?, scored.codl_launch_within_10_percent?])),
    ("FLOPs-linear", |scored| {
        Some([scored.flops_linear_mape_percent?, scored.flops_linear_within_10_percent?])
    }),
];

/// The predictors that apply to whole networks; a launch time only applies to kernels.
fn of_networks() -> impl Iterator<Item = (&'static str, Figures)> {
    PREDICTORS.into_iter().filter(|(name, _)| *name != WITH_LAUNCH)
}

/// The table, one line per phone: GPU convolutions, and CPU networks averaged over all core sets and
/// formats.
pub(super) fn table_of(phones: &[Phone]) -> String {
    let is_convolution = |name: &str| name == CONVOLUTIONS;
    let is_cpu = |name: &str| name.starts_with("cpu/");
    let mut header = vec!["MAPE (within 10 %)".to_owned()];
    header.extend(PREDICTORS.map(|(name, _)| format!("GPU conv2d, {name}")));
    header.extend(of_networks().map(|(name, _)| format!("CPU, {name}")));
    let cells = |phone: &Phone| {
        let gpu = PREDICTORS.into_iter().map(|(_, figures)| figures_of(phone, is_convolution, figures));
        let cpu = of_networks().map(|(_, figures)| figures_of(phone, is_cpu, figures));
        std::iter::once(phone.profile.title.clone()).chain(gpu).chain(cpu).collect()
    };
    let rows: Vec<Vec<String>> = phones.iter().map(cells).collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    format!(
        "\nCompared with the predictors of other work, each fitted to the same runs:\n\n{}",
        table(&header, &rows)
    )
}

/// The mean of a predictor's figures over the groups selected by `is_of`.
fn figures_of(phone: &Phone, is_of: fn(&str) -> bool, figures: Figures) -> String {
    let mean = mean(&phone.groups, is_of, figures);
    baseline(mean.map(|[mape, _]| mape), mean.map(|[_, within]| within))
}
