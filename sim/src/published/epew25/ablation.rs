//! Table 4 and section 5.5: what prediction and synchronisation are worth on one phone.

use super::operators::{Means, Measured, SETS};
use super::{MOTO, choosing_loss, published_loss};
use crate::published::{BarSeries, Bars, Comparison, Drawing, Limit, Picture};

/// Sets ours beside the ablation's numbers.
pub(super) fn compare(comparison: &mut Comparison, measured: &[Measured]) {
    let of_phone = || measured.iter().filter(|measured| measured.phone.key == MOTO);
    comparison.group("Table 4: what the parts of the method are worth", Limit::each(10.0));
    for Measured { set, means, .. } in of_phone() {
        for (threads, means) in (1..).zip(means) {
            let plain = choosing_loss(
                comparison.number(&format!("augmentation/{set}/without")),
                comparison.number(&format!("mape/{MOTO}/{set}/cpu-{threads}")),
            );
            let loss = published_loss(comparison, MOTO, set, threads);
            comparison.row(&format!("ablation/{set}/plain-predictor/{threads}"), means.speedup * plain);
            comparison.row(&format!("ablation/{set}/event-wait/{threads}"), means.event_wait_speedup * loss);
        }
    }
    comparison.group("Synchronisation: what is added to the slower processor's time", Limit::each(10.0));
    for Measured { set, means, .. } in of_phone() {
        let [Some(alone), ..] = [means.first()] else { continue };
        comparison
            .row(&format!("sync/{set}/polling-us"), alone.overhead_us[0])
            .note("one constant a phone, as the paper's section 2 says: set from linear layers");
        comparison.row(&format!("sync/{set}/event-wait-us"), alone.overhead_us[1]);
        comparison.row(&format!("sync/{set}/event-wait-share"), alone.event_wait_share_percent).note(&format!(
            "mean over the operators that both compute; {:.1} % over all, {:.1} % of the summed time. Which is meant \
             is unknown, and of the linear layers, which of the printed set were run",
            alone.share_of_all_percent, alone.share_of_sum_percent
        ));
    }
    for (set, _) in SETS {
        if let Some(measured) = of_phone().find(|measured| measured.set == set) {
            let figure = effect(comparison, &measured.means, set);
            comparison.figure(figure);
        }
    }
}

/// Bars of the speedup with polling and with event waits, the paper's and ours.
fn effect(comparison: &Comparison, means: &[Means], set: &str) -> Picture {
    let loss = |threads| published_loss(comparison, MOTO, set, threads);
    let mut series = Vec::new();
    for (name, key) in [("polling", "ours"), ("event wait", "event-wait")] {
        let speedup = |means: &Means| if key == "ours" { means.speedup } else { means.event_wait_speedup };
        let published = |threads: usize| comparison.number(&format!("ablation/{set}/{key}/{threads}"));
        series.push(BarSeries {
            name: format!("{name}, published"),
            is_published: true,
            values: (1..=means.len()).map(|threads| Some(published(threads))).collect(),
        });
        series.push(BarSeries {
            name: format!("{name}, coexec"),
            is_published: false,
            values: (1..).zip(means).map(|(threads, means)| Some(speedup(means) * loss(threads))).collect(),
        });
    }
    let operators = if set == "conv" { "convolutions" } else { "linear layers" };
    Picture {
        name: format!("synchronisation-{set}"),
        title: format!("What synchronisation does to the speedup of {operators}"),
        subtitle: "Motorola Edge Plus 2022, over the GPU alone (EPEW'25, Table 4)".to_owned(),
        drawing: Drawing::GroupedBars(Bars {
            y: "speedup".to_owned(),
            categories: (1..=means.len()).map(|threads| format!("{threads} threads")).collect(),
            series,
        }),
    }
}
