//! Priors of a GPU's kernel parameters: from its clock, arithmetic rate and memory
//! bandwidth, or from the fitted values of other phones.
//!
//! Responsible for: the centre of each parameter's prior. Not for: its deviation, nor the
//! fit. Invariants: a centre never depends on a measured time; tables without runs keep
//! the base's values.

mod hardware;

use std::collections::HashSet;

use thiserror::Error;

use super::optional::switch_on;
use crate::measure::GpuRun;
use coexec_sim::device::memory::Memory;
use coexec_sim::kernel::gpu::execute;
use coexec_sim::{Basis, Gpu, KernelTable, Profile, Quantity};
use hardware::Hardware;

/// The parts of a phone's profile that a prior is made from.
#[derive(Clone, Copy, Debug)]
pub struct Phone<'a> {
    /// Its GPU.
    pub gpu: &'a Gpu,
    /// Its memory, whose peak bandwidth bounds the traffic of a GPU without memory of its own.
    pub memory: &'a Memory,
}

/// Where the centre of a fit's prior comes from.
#[derive(Clone, Debug, Default)]
pub enum Prior {
    /// The base's values.
    #[default]
    Base,
    /// The phone's clock, arithmetic rate and memory bandwidth.
    Hardware,
    /// The geometric mean of other phones' fitted values, each scaled by the ratio of the
    /// hardware prior of this phone to that of the other.
    Profiles(Vec<Profile>),
}

/// A profile lacks a hardware constant that the prior needs.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the profile of the {gpu} has no {key} under [gpu], which the prior of its fit needs")]
pub struct MissingConstant {
    /// Name of the GPU.
    pub gpu: String,
    /// The missing key.
    pub key: &'static str,
}

impl Prior {
    /// `base` with the prior's centre in each table that has runs, as the base of a fit. A
    /// table that the runs need and only the other phones have is added.
    ///
    /// # Errors
    /// A profile lacks a hardware constant that the prior needs.
    pub fn centre(&self, base: Phone<'_>, runs: &[GpuRun]) -> Result<Gpu, MissingConstant> {
        let mut gpu = base.gpu.clone();
        let others: &[Profile] = match self {
            Self::Base => return Ok(gpu),
            Self::Hardware => &[],
            Self::Profiles(others) => others,
        };
        let hardware = Hardware::of(base)?;
        let others = others
            .iter()
            .filter_map(|other| Some(Phone { gpu: other.gpu.as_ref()?, memory: &other.memory }))
            .map(|other| Ok((other.gpu.clone(), Hardware::of(other)?)))
            .collect::<Result<Vec<(Gpu, Hardware)>, MissingConstant>>()?;
        lend_tables(&mut gpu, &others);
        let used: HashSet<KernelTable> = runs
            .iter()
            .filter_map(|run| execute(&run.what, &gpu).ok())
            .map(|execution| execution.detail.kernel.table())
            .collect();
        return_tables(&mut gpu, base.gpu, &used);
        // A correction learned on the base's equations does not apply to other parameters.
        if let Some(residual) = &mut gpu.residual {
            residual.table.retain(|of| !used.contains(&of.table));
        }
        for table in KernelTable::ALL.iter().copied().filter(|table| used.contains(table)) {
            // A fitted base has the optional parameters; one that was not fitted must lead to the same
            // fit.
            switch_on(&mut gpu, table);
            set_centre(&mut gpu, table, &hardware, &others);
        }
        Ok(gpu)
    }
}

/// Adds the tables that the GPU lacks and another phone has.
fn lend_tables(gpu: &mut Gpu, others: &[(Gpu, Hardware)]) {
    for (other, _) in others {
        gpu.grouped_conv = gpu.grouped_conv.take().or_else(|| other.grouped_conv.clone());
        gpu.winograd = gpu.winograd.take().or_else(|| other.winograd.clone());
        gpu.conv_constants = gpu.conv_constants.take().or_else(|| other.conv_constants.clone());
    }
}

/// Removes the added tables that have no runs.
fn return_tables(gpu: &mut Gpu, base: &Gpu, used: &HashSet<KernelTable>) {
    if !used.contains(&KernelTable::GroupedConv) {
        gpu.grouped_conv.clone_from(&base.grouped_conv);
    }
    if !used.contains(&KernelTable::Winograd) {
        gpu.winograd.clone_from(&base.winograd);
    }
    if !used.contains(&KernelTable::ConvConstants) {
        gpu.conv_constants.clone_from(&base.conv_constants);
    }
}

/// Writes the prior's centre into a table. A parameter that is 0 is switched off and stays
/// so; one that neither the hardware nor another phone informs keeps its value.
fn set_centre(gpu: &mut Gpu, table: KernelTable, hardware: &Hardware, others: &[(Gpu, Hardware)]) {
    let mut others: Vec<(Gpu, &Hardware)> =
        others.iter().map(|(gpu, hardware)| (gpu.clone(), hardware)).collect();
    let Some(parameters) = gpu.parameters_mut(table) else { return };
    *parameters.source = match others.len() {
        0 => format!("prior from {hardware}"),
        count => format!("prior from {count} other phones' values, scaled to {hardware}"),
    };
    *parameters.basis = Basis::Scaled;
    for (key, quantity) in parameters.quantities {
        if quantity.value <= 0.0 {
            continue;
        }
        let scale_of = |hardware: &Hardware| hardware.scale(table, key);
        let ratios: Vec<f64> = others
            .iter_mut()
            .filter_map(|(other, hardware)| {
                let value = value_of(other, table, key)?;
                Some((value / scale_of(hardware).unwrap_or(1.0)).ln())
            })
            .collect();
        let centre = match ratios.len() {
            0 => hardware.expected(table, key).unwrap_or(quantity.value),
            count => {
                let ratio = (ratios.iter().sum::<f64>() / count as f64).exp();
                scale_of(hardware).unwrap_or(1.0) * ratio
            }
        };
        *quantity = Quantity::plain(centre);
    }
}

/// A parameter of another phone; none where the phone lacks it or has it switched off.
fn value_of(gpu: &mut Gpu, table: KernelTable, key: &str) -> Option<f64> {
    let parameters = gpu.parameters_mut(table)?.quantities;
    let (_, quantity) = parameters.into_iter().find(|(other, _)| *other == key)?;
    Some(quantity.value).filter(|&value| value > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use coexec_sim::workload::{Conv2d, DataType, Layer, Operator, Shape, Window};

    fn profile(name: &str) -> Profile {
        Profile::load(name).unwrap()
    }

    fn phone(profile: &Profile) -> Phone<'_> {
        Phone { gpu: gpu(profile), memory: &profile.memory }
    }

    fn gpu(profile: &Profile) -> &Gpu {
        profile.gpu.as_ref().unwrap()
    }

    fn gpu_mut(profile: &mut Profile) -> &mut Gpu {
        profile.gpu.as_mut().unwrap()
    }

    /// A convolution of many channels, with a window and without.
    fn runs() -> Vec<GpuRun> {
        let run = |window: u32| {
            let conv = Conv2d::new(Shape::image(14, 14, 96), 96, Window::same(window));
            GpuRun {
                network: "net".to_owned(),
                what: Layer::new(Operator::Conv2d(conv), DataType::F32),
                measured_us: 1.0,
                deviation_us: None,
                line: 1,
            }
        };
        vec![run(1), run(3)]
    }

    #[test]
    fn a_texel_costs_what_the_arithmetic_peak_says() {
        // Adreno 640: 64 lanes of 16 products on 768 of 1536 multipliers at 585 MHz.
        let hardware = Hardware::of(phone(&profile("pixel4"))).unwrap();
        assert!((hardware.texel_us() - 64.0 * 16.0 / (768.0 * 585.0)).abs() < 1e-12);
        let bytes = hardware.expected(KernelTable::ConvGeneric, "traffic_us_per_byte").unwrap();
        assert!((bytes - 0.5 / 34_100.0).abs() < 1e-15);
    }

    #[test]
    fn every_parameter_of_every_table_has_an_expectation() {
        for device in ["pixel4", "galaxy-s10", "mi8se", "galaxy-a03s", "iphone7", "iphone-xs"] {
            let mut profile = profile(device);
            let hardware = Hardware::of(phone(&profile)).unwrap();
            for &table in KernelTable::ALL {
                let Some(parameters) = gpu_mut(&mut profile).parameters_mut(table) else { continue };
                for (key, _) in parameters.quantities {
                    let expected = hardware.expected(table, key);
                    assert!(expected.is_some_and(|value| value > 0.0), "{device} {table:?} {key}");
                }
            }
        }
    }

    #[test]
    fn the_hardware_prior_resets_fitted_values_and_keeps_the_others() {
        let base = profile("pixel4");
        let mut other = base.clone();
        gpu_mut(&mut other).conv_generic.throughput_texel_us.value *= 7.0;
        let centre = |base: &Profile| Prior::Hardware.centre(phone(base), &runs()).unwrap();
        assert_eq!(centre(&base).conv_generic, centre(&other).conv_generic);
        assert_ne!(centre(&base).conv_generic, gpu(&base).conv_generic);
        assert_eq!(centre(&base).mean, gpu(&base).mean);
        assert_eq!(centre(&base).residency, gpu(&base).residency);
    }

    #[test]
    fn a_single_identical_donor_transfers_its_values_unchanged() {
        let pixel4 = profile("pixel4");
        let centre = Prior::Profiles(vec![pixel4.clone()]).centre(phone(&pixel4), &runs()).unwrap();
        let (mut expected, mut found) = (gpu(&pixel4).conv_generic.clone(), centre.conv_generic);
        for ((key, expected), (_, found)) in
            expected.parameters_mut().quantities.into_iter().zip(found.parameters_mut().quantities)
        {
            assert!((found.value / expected.value - 1.0).abs() < 1e-12, "{key}");
        }
    }

    #[test]
    fn doubling_the_clock_halves_transferred_times_and_keeps_factors() {
        let slow = profile("pixel4");
        let mut fast = slow.clone();
        gpu_mut(&mut fast).clock_mhz.as_mut().unwrap().value *= 2.0;
        let centre = Prior::Profiles(vec![slow.clone()]).centre(phone(&fast), &runs()).unwrap();
        let half = gpu(&slow).conv_generic.throughput_texel_us.value / 2.0;
        assert!((centre.conv_generic.throughput_texel_us.value / half - 1.0).abs() < 1e-12);
        let factor = gpu(&slow).conv_generic.window_latency_factor.value;
        assert!((centre.conv_generic.window_latency_factor.value / factor - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_table_is_transferred_only_where_runs_need_it() {
        let donor = profile("galaxy-s10");
        let mut base = donor.clone();
        gpu_mut(&mut base).winograd = None;
        let lent = |runs: &[GpuRun]| {
            Prior::Profiles(vec![donor.clone()]).centre(phone(&base), runs).unwrap().winograd
        };
        assert!(lent(&runs()).is_none());
        let mut wide = runs();
        if let Operator::Conv2d(conv) = &mut wide[1].what.operator {
            conv.input = Shape::image(56, 56, 256);
            conv.output_channels = 256;
        }
        assert!(lent(&wide).is_some());
    }

    #[test]
    fn a_profile_without_a_clock_is_named() {
        let mut base = profile("pixel4");
        gpu_mut(&mut base).clock_mhz = None;
        let error = Prior::Hardware.centre(phone(&base), &runs()).unwrap_err();
        assert_eq!((error.key, error.gpu.as_str()), ("clock_mhz", "Adreno 640"));
        assert!(Prior::Base.centre(phone(&base), &runs()).is_ok());
    }
}
