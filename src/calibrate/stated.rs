//! The errors that a calibrated profile states.
//!
//! Responsible for: which errors of the base stay beside those of the held-out runs. Not for: the held-out
//! predictions themselves (`fit`). Invariant: no error of the base stays that the runs refute, and few models on an NPU
//! make none smaller.

use coexec_fit::calibrate::SAME_DEVICE_ERROR;
use coexec_fit::validate::figures;
use coexec_fit::validate::point::Point;
use coexec_fit::validate::score::score;
use coexec_sim::device::calibration::{ErrorGroup, Group};
use coexec_sim::device::gpu::HostPath;
use coexec_sim::simulate::known_in;
use coexec_sim::{Basis, DataType, Library, ProcessorKind, Profile};

use super::fit::Fitted;
use crate::Common;
use crate::profile::kind;

/// Number of models on an NPU in one number format from which their own held-out error is stated even if the base's is
/// larger. With fewer, 90 % intervals by their own error hold 74 to 84 % of other models, by the larger of both 89 to
/// 94 % (Snapdragons of `data/aihub`, each calibrated on 3 to 20 models from another).
pub(super) const ENOUGH_MODELS: usize = 10;

/// The errors that `base` states, other than those that the runs refute: all of a processor that is `implausible`; of
/// other networks, errors smaller than those of the runs on the same processor when held out, on an NPU of those in the
/// same number format if there are any. Where too few networks ran to hold one out, errors up to [`SAME_DEVICE_ERROR`]
/// are refuted, unless the base was measured with this library and its predictions of the runs, `by_base`, are within
/// that. Networks do not refute errors of a GPU's kernels.
pub(super) fn still_stated(
    (base, library): (&Profile, Library),
    (by_base, implausible): (&[Point], &[ProcessorKind]),
    fitted: &Fitted,
) -> Vec<Group> {
    let basis = known_in(base, library, DataType::F32);
    let least_percent = ProcessorKind::ALL.map(|processor| {
        let mape_percent = |points: &[Point]| {
            let of_it = points.iter().filter(|point| point.group.processor() == Some(processor));
            let pairs: Vec<_> = of_it.map(|point| (point.predicted_us, point.measured_us)).collect();
            (!pairs.is_empty()).then(|| figures("", &pairs).mape_percent)
        };
        let same_device_percent = 100.0 * SAME_DEVICE_ERROR;
        mape_percent(&fitted.held_out).unwrap_or_else(|| match mape_percent(by_base) {
            Some(percent)
                if percent > same_device_percent || basis[processor as usize] != Basis::Measured =>
            {
                same_device_percent
            }
            Some(_) | None => 0.0,
        })
    });
    let found = score(&fitted.held_out);
    let mut stated = base.calibration.as_ref().map_or(Vec::new(), |calibration| calibration.error.clone());
    stated.retain(|group| match group.name {
        ErrorGroup::On { processor, .. } => {
            let is_of_kernels = processor == ProcessorKind::Gpu && !group.name.is_of_networks();
            let alike = found.iter().find(|found| is_on_npu(group) && found.group.name == group.name);
            let least = alike.map_or(least_percent[processor as usize], |found| found.group.mape_percent);
            let is_refuted = !is_of_kernels && group.mape_percent < least;
            !implausible.contains(&processor) && !is_refuted
        }
        ErrorGroup::LanguageModel { processor, .. } => !implausible.contains(&processor),
        ErrorGroup::Cuts | ErrorGroup::Plans | ErrorGroup::Other(_) => true,
    });
    stated
}

/// Names the tables whose errors are not known, where those of others are.
pub(super) fn note_of_never_held_out(fitted: &Fitted, common: &Common) {
    let never = fitted.tables.iter().filter(|fit| fit.held_out == 0);
    let never: Vec<String> = never.map(|fit| format!("gpu.{}", fit.table.key())).collect();
    let is_any_known = never.len() < fitted.tables.len();
    if is_any_known && !never.is_empty() {
        common.note(format_args!(
            "note: too few networks have runs of {} to hold one out: the stated errors are without these kernels",
            never.join(", ")
        ));
    }
}

/// The errors `stated` by the base, without those of GPU kernels that the runs contradict; warns if it
/// is whole inferences that contradict them.
pub(super) fn without_contradicted(mut stated: Vec<Group>, fitted: &Fitted, common: &Common) -> Vec<Group> {
    if fitted.contradicts_kernels {
        let [least, most] = HostPath::KERNEL_FACTORS;
        common.note(format_args!(
            "warning: inferences on the GPU differ from the sum of the profile's kernel times by more than clocks and \
             caches explain (gpu.host.kernel_factor is {least} to {most}): kernels without runs are scaled to match. Are \
             the runs of this device, in the same precision?"
        ));
    }
    if fitted.contradicts_kernels || fitted.tables.iter().any(|fit| fit.is_of_base == Some(false)) {
        let is_other =
            |name: &ErrorGroup| name.is_of_networks() || name.processor() != Some(ProcessorKind::Gpu);
        stated.retain(|group| is_other(&group.name));
    }
    stated
}

fn is_on_npu(group: &Group) -> bool {
    group.name.processor() == Some(ProcessorKind::Npu)
}

/// The errors found, and those the base states for groups without any found; worst first. GPU kernels
/// count as one group, CPU kernels are grouped by number format and kind of core set; whole networks,
/// language models, cuts and plans are groups of their own, on an NPU in each number format. What the base states
/// there replaces what was found with few models.
pub(super) fn with_stated(mut errors: Vec<Group>, stated: Vec<Group>) -> Vec<Group> {
    errors.retain(|found| {
        let is_few = is_on_npu(found) && found.n < ENOUGH_MODELS;
        !is_few || stated.iter().all(|group| group.name != found.name)
    });
    let on_cpu = |name: &ErrorGroup| (name.processor() == Some(ProcessorKind::Cpu)).then(|| kind(name));
    let is_alike = |found: &Group, group: &Group| {
        let (found_name, name) = (&found.name, &group.name);
        if is_on_npu(found) {
            found_name == name
        } else {
            found_name.shares_runs_with(name) && on_cpu(found_name) == on_cpu(name)
        }
    };
    let is_found = |group: &Group| errors.iter().any(|found| is_alike(found, group));
    let kept: Vec<Group> = stated.into_iter().filter(|group| !is_found(group)).collect();
    errors.extend(kept);
    errors.sort_by(|a, b| b.mape_percent.total_cmp(&a.mape_percent));
    errors
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn what_the_base_states_stays_unless_the_runs_are_further_off() {
        let base = Profile::load("pixel4").unwrap();
        let off = |group: &str, factor: f64| Point {
            group: group.into(),
            measured_us: 1.0,
            predicted_us: factor,
            ..Point::default()
        };
        let stated_on = |processor: &str, by_base: Point, held_out: Vec<Point>, library| {
            let fitted = Fitted { held_out, ..Fitted::default() };
            let stated = still_stated((&base, library), (&[by_base], &[]), &fitted);
            stated.iter().filter(|group| group.name.to_string().starts_with(processor)).count()
        };
        let on_gpu = |by_base: f64, held_out: &[f64]| {
            let held_out = held_out.iter().map(|&factor| off("gpu/conv2d/all", factor)).collect();
            stated_on("gpu/end_to_end", off("gpu/end_to_end/all", by_base), held_out, Library::Ruy)
        };
        assert_eq!(on_gpu(1.1, &[]), 2, "a base that predicts the runs keeps its errors");
        assert_eq!(on_gpu(1.2, &[]), 0, "none is above 15 %");
        assert_eq!([1.01, 1.07].map(|off| on_gpu(1.1, &[off])), [2, 0], "they are 2.6 %");
        let on_cpu = |library| stated_on("cpu", off("cpu/1large/float", 1.1), Vec::new(), library);
        assert!(on_cpu(Library::Ruy) > 10);
        assert_eq!(on_cpu(Library::Xnnpack), 0, "the errors are not of this library");
    }

    #[test]
    fn few_models_on_an_npu_do_not_make_its_errors_smaller() {
        let group = |name: &str, runs: usize, percent: f64| Group {
            n: runs,
            mape_percent: percent,
            ..coexec_fit::validate::figures(name, &[(1.1, 1.0)])
        };
        let stated = |found: Group| -> Vec<(String, f64)> {
            let base = [("npu/end_to_end/float", 12.9), ("npu/end_to_end/w8a8", 13.5)];
            let base = base.map(|(name, percent)| group(name, 44, percent)).to_vec();
            let all = with_stated(vec![found], base).into_iter();
            all.map(|group| (group.name.to_string(), group.mape_percent)).collect()
        };
        let [float, integers] = ["npu/end_to_end/float", "npu/end_to_end/w8a8"].map(str::to_owned);
        let few = stated(group(&float, 3, 1.0));
        assert_eq!(few, [(integers.clone(), 13.5), (float.clone(), 12.9)]);
        let enough = stated(group(&float, ENOUGH_MODELS, 1.0));
        assert_eq!(enough, [(integers, 13.5), (float, 1.0)]);
    }

    #[test]
    fn a_fit_of_kernels_and_cuts_leaves_what_a_probe_stated_of_networks_and_plans() {
        let groups = |names: &[&str]| -> Vec<Group> {
            names.iter().map(|&name| coexec_fit::validate::figures(name, &[(1.1, 1.0)])).collect()
        };
        let stated = groups(&[
            "gpu/conv2d/unseen",
            "gpu/pool/unseen",
            "gpu/end_to_end/float",
            "cpu/end_to_end/float",
            "cpu/1large/float",
            "cut/all",
            "plan/all",
            "mine",
        ]);
        let found = groups(&["gpu/conv2d/all", "gpu/conv2d/unseen", "cut/all"]);
        let names: BTreeSet<String> =
            with_stated(found, stated).into_iter().map(|group| group.name.to_string()).collect();
        let expected = [
            "cpu/1large/float",
            "cpu/end_to_end/float",
            "cut/all",
            "gpu/conv2d/all",
            "gpu/conv2d/unseen",
            "gpu/end_to_end/float",
            "mine",
            "plan/all",
        ];
        assert_eq!(names, expected.map(str::to_owned).into());
    }
}
