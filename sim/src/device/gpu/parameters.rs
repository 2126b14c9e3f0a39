//! The parameters of a kernel table as a list: what range checks and fits go
//! through, so that neither needs the names of a hundred fields.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ConvGenericKernel, Gpu, GpuFamily};
use crate::device::quantity::Quantity;

/// The parameters of one kernel table.
#[derive(Debug)]
pub struct Parameters<'a> {
    /// Where the values come from.
    pub source: &'a mut String,
    /// Key and value of each.
    pub quantities: Vec<(&'static str, &'a mut Quantity)>,
}

/// Gives a kernel table its list of parameters, and the check that none is below
/// zero.
macro_rules! kernel_table {
    ($table:ident { $($key:ident),+ $(,)? } $(optional { $($optional:ident),+ $(,)? })?) => {
        impl $table {
            /// Key and value of each parameter the table has.
            pub fn parameters(&self) -> Vec<(&'static str, &$crate::device::quantity::Quantity)> {
                let always = [$((stringify!($key), &self.$key)),+];
                #[allow(unused_mut, reason = "changed only where a table has optional parameters")]
                let mut list = always.to_vec();
                $($(list.extend(self.$optional.as_ref().map(|quantity| (stringify!($optional), quantity)));)+)?
                list
            }

            /// The parameters the table has, to be changed.
            pub fn parameters_mut(&mut self) -> $crate::device::gpu::Parameters<'_> {
                #[allow(unused_mut, reason = "changed only where a table has optional parameters")]
                let mut quantities = vec![$((stringify!($key), &mut self.$key)),+];
                $($(quantities.extend(self.$optional.as_mut().map(|quantity| (stringify!($optional), quantity)));)+)?
                $crate::device::gpu::Parameters { source: &mut self.source, quantities }
            }

            pub(crate) fn check(&self, checker: &mut $crate::device::check::Checker) {
                checker.sourced(&self.source);
                for (key, quantity) in self.parameters() {
                    checker.non_negative(key, quantity);
                }
            }
        }
    };
}

pub(super) use kernel_table;

/// A kernel table of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KernelTable {
    /// `[gpu.conv_generic]`.
    ConvGeneric,
    /// `[gpu.grouped_conv]`.
    GroupedConv,
    /// `[gpu.winograd]`.
    Winograd,
    /// `[gpu.conv_constants]`.
    ConvConstants,
    /// `[gpu.fully_connected]`.
    FullyConnected,
    /// `[gpu.depthwise]`.
    Depthwise,
    /// `[gpu.pool]`.
    Pool,
    /// `[gpu.mean]`.
    Mean,
    /// `[gpu.concat]`.
    Concat,
    /// `[gpu.elementwise]`.
    Elementwise,
}

impl KernelTable {
    /// Every table, in the order of the profile.
    pub const ALL: [Self; 10] = [
        Self::ConvGeneric,
        Self::GroupedConv,
        Self::Winograd,
        Self::ConvConstants,
        Self::FullyConnected,
        Self::Depthwise,
        Self::Pool,
        Self::Mean,
        Self::Concat,
        Self::Elementwise,
    ];

    /// Key of the table in `[gpu]`.
    pub fn key(self) -> &'static str {
        match self {
            Self::ConvGeneric => "conv_generic",
            Self::GroupedConv => "grouped_conv",
            Self::Winograd => "winograd",
            Self::ConvConstants => "conv_constants",
            Self::FullyConnected => "fully_connected",
            Self::Depthwise => "depthwise",
            Self::Pool => "pool",
            Self::Mean => "mean",
            Self::Concat => "concat",
            Self::Elementwise => "elementwise",
        }
    }
}

/// Where the fit of a relative rise starts: small enough to vanish if the runs say
/// so, large enough to be felt.
const START_OF_A_RISE: f64 = 0.3;
/// Where the fit of the start of a compute unit starts, in microseconds.
const START_OF_A_UNIT_US: f64 = 1.0;
/// Where the search for the size of a last-level cache starts, in bytes.
const START_OF_A_CACHE: f64 = 1e7;

impl Gpu {
    /// The parameters of `table`; none where the GPU does not have it.
    pub fn parameters_mut(&mut self, table: KernelTable) -> Option<Parameters<'_>> {
        Some(match table {
            KernelTable::ConvGeneric => self.conv_generic.parameters_mut(),
            KernelTable::GroupedConv => self.grouped_conv.as_mut()?.parameters_mut(),
            KernelTable::Winograd => self.winograd.as_mut()?.parameters_mut(),
            KernelTable::ConvConstants => self.conv_constants.as_mut()?.parameters_mut(),
            KernelTable::FullyConnected => self.fully_connected.parameters_mut(),
            KernelTable::Depthwise => self.depthwise.parameters_mut(),
            KernelTable::Pool => self.pool.parameters_mut(),
            KernelTable::Mean => self.mean.parameters_mut(),
            KernelTable::Concat => self.concat.parameters_mut(),
            KernelTable::Elementwise => self.elementwise.parameters_mut(),
        })
    }

    /// The start of a compute unit in `table`, for the tables that may have one.
    fn unit_us_mut(&mut self, table: KernelTable) -> Option<&mut Option<Quantity>> {
        Some(match table {
            KernelTable::ConvGeneric => &mut self.conv_generic.unit_us,
            KernelTable::GroupedConv => &mut self.grouped_conv.as_mut()?.unit_us,
            KernelTable::FullyConnected => &mut self.fully_connected.unit_us,
            KernelTable::Depthwise => &mut self.depthwise.unit_us,
            KernelTable::Pool => &mut self.pool.unit_us,
            KernelTable::Mean => &mut self.mean.unit_us,
            KernelTable::Concat => &mut self.concat.unit_us,
            KernelTable::Elementwise => &mut self.elementwise.unit_us,
            KernelTable::Winograd | KernelTable::ConvConstants => return None,
        })
    }

    /// Gives the optional parameters that `table` lacks, and that any GPU has, a value
    /// a fit can start from: that of the parameter of their own table they stand
    /// closest to, or of a small rise. Those that only some families have: a last-level
    /// cache (NVIDIA), cores that are woken one by one (CPU devices). A value of 0 keeps a
    /// parameter switched off.
    pub(crate) fn switch_on_optional(&mut self, table: KernelTable) {
        let switch_on = |optional: &mut Option<Quantity>, start: &Quantity| {
            optional.get_or_insert_with(|| Quantity { source: None, ci95: None, ..start.clone() });
        };
        let rise = Quantity::plain(START_OF_A_RISE);
        if self.family == GpuFamily::Generic
            && let Some(unit) = self.unit_us_mut(table)
        {
            switch_on(unit, &Quantity::plain(START_OF_A_UNIT_US));
        }
        let has_cache = self.family == GpuFamily::Nvidia;
        let switch_on_reuse = |conv: &mut ConvGenericKernel| {
            switch_on(&mut conv.window_reuse_factor, &rise);
            switch_on(&mut conv.row_reuse_factor, &rise);
            if has_cache {
                switch_on(&mut conv.cache_bytes, &Quantity::plain(START_OF_A_CACHE));
                switch_on(&mut conv.spill_latency_factor, &rise);
            }
        };
        match table {
            KernelTable::ConvGeneric => switch_on_reuse(&mut self.conv_generic),
            KernelTable::GroupedConv => {
                if let Some(grouped) = &mut self.grouped_conv {
                    switch_on_reuse(grouped);
                }
            }
            KernelTable::ConvConstants => {
                if let Some(constants) = &mut self.conv_constants {
                    switch_on(&mut constants.dot_latency_factor, &rise);
                }
            }
            KernelTable::Pool => switch_on(&mut self.pool.wave_us, &self.pool.throughput_us),
            KernelTable::Mean => switch_on(&mut self.mean.reduction_step_us, &self.mean.wave_us),
            KernelTable::Concat => switch_on(&mut self.concat.latency_slice_us, &self.concat.latency_us),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table without its `source`, as the profile writes it.
    fn keys(table: &toml::Value) -> Vec<String> {
        let mut keys: Vec<String> = table.as_table().unwrap().keys().cloned().collect();
        keys.retain(|key| key != "source");
        keys.sort();
        keys
    }

    #[test]
    fn an_optional_parameter_is_switched_on_unless_it_has_a_value() {
        let mut gpu: Gpu = toml::from_str(include_str!("../../../tests/golden/gpu_pixel4.toml")).unwrap();
        gpu.pool.wave_us = Some(Quantity::plain(0.0));
        for table in KernelTable::ALL {
            gpu.switch_on_optional(table);
        }
        let value = |optional: &Option<Quantity>| optional.as_ref().unwrap().value;
        assert_eq!(value(&gpu.pool.wave_us).to_bits(), 0);
        assert_eq!(value(&gpu.mean.reduction_step_us).to_bits(), gpu.mean.wave_us.value.to_bits());
        assert_eq!(value(&gpu.concat.latency_slice_us).to_bits(), gpu.concat.latency_us.value.to_bits());
        assert_eq!(value(&gpu.conv_generic.window_reuse_factor).to_bits(), START_OF_A_RISE.to_bits());
    }

    #[test]
    fn only_the_families_that_have_them_get_a_last_level_cache_and_cores_to_wake() {
        let pixel4: Gpu = toml::from_str(include_str!("../../../tests/golden/gpu_pixel4.toml")).unwrap();
        let switched_on = |family: GpuFamily| {
            let mut gpu = Gpu { family, ..pixel4.clone() };
            for table in KernelTable::ALL {
                gpu.switch_on_optional(table);
            }
            (gpu.conv_generic.cache_bytes.is_some(), gpu.mean.unit_us.is_some())
        };
        assert_eq!(switched_on(GpuFamily::Nvidia), (true, false));
        assert_eq!(switched_on(GpuFamily::Generic), (false, true));
        assert_eq!(switched_on(GpuFamily::Adreno6xx), (false, false));
    }

    #[test]
    fn every_number_of_a_kernel_table_is_a_parameter() {
        let phones = [
            include_str!("../../../tests/golden/gpu_pixel4.toml"),
            include_str!("../../../tests/golden/gpu_iphone7.toml"),
        ];
        for text in phones {
            let mut gpu: Gpu = toml::from_str(text).unwrap();
            let written = toml::Value::try_from(&gpu).unwrap();
            for table in KernelTable::ALL {
                let Some(parameters) = gpu.parameters_mut(table) else { continue };
                let mut listed: Vec<&str> = parameters.quantities.iter().map(|(key, _)| *key).collect();
                listed.sort_unstable();
                assert_eq!(listed, keys(&written[table.key()]));
            }
        }
    }
}
