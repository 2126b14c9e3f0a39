//! The parameters of a kernel table as a list, so that range checks and fits iterate
//! over them instead of naming a hundred fields.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use super::Gpu;
use crate::device::{Basis, Quantity};

/// The parameters of one kernel table.
#[derive(Debug)]
pub struct Parameters<'a> {
    /// Where the values come from.
    pub source: &'a mut String,
    /// Evidence behind the values.
    pub basis: &'a mut Basis,
    /// Key and value of each parameter that has a value.
    pub quantities: Vec<(&'static str, &'a mut Quantity)>,
    /// Key and slot of each optional parameter without a value.
    pub absent: Vec<(&'static str, &'a mut Option<Quantity>)>,
}

/// The values of the parameters common to all kernel tables.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CommonParameters {
    /// Starting the kernel (t0).
    pub(crate) launch_us: f64,
    /// Start of each compute unit beyond the first that gets a group.
    pub(crate) unit_us: f64,
    /// Sharpness of the soft maximum of latency and throughput (p).
    pub(crate) roofline_sharpness: f64,
    /// Memory traffic that the loop does not hide, in microseconds per byte.
    pub(crate) traffic_us_per_byte: f64,
}

/// Declares a kernel table as a list of documented parameters: the required ones, then
/// the optional ones.
macro_rules! kernel_table {
    (
        $(#[$about:meta])*
        $table:ident { $($(#[$what:meta])+ $key:ident,)+ }
        optional { $($(#[$rare:meta])+ $optional:ident,)* }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $table {
            /// Where the values come from.
            pub source: String,
            /// Evidence behind the values.
            #[serde(default)]
            pub basis: $crate::device::basis::Basis,
            $($(#[$what])+ pub $key: $crate::device::quantity::Quantity,)+
            $($(#[$rare])+
            pub $optional: Option<$crate::device::quantity::Quantity>,)*
            /// Start of each further compute unit that gets a group. Only for CPU devices, whose
            /// sleeping cores are woken one by one.
            pub unit_us: Option<$crate::device::quantity::Quantity>,
        }

        impl $table {
            /// Mutable access to the parameters.
            pub fn parameters_mut(&mut self) -> $crate::device::gpu::Parameters<'_> {
                let mut quantities = vec![$((stringify!($key), &mut self.$key)),+];
                let mut absent = Vec::new();
                let optional =
                    [$((stringify!($optional), &mut self.$optional),)* ("unit_us", &mut self.unit_us)];
                for (key, slot) in optional {
                    match slot {
                        Some(quantity) => quantities.push((key, quantity)),
                        None => absent.push((key, slot)),
                    }
                }
                $crate::device::gpu::Parameters {
                    source: &mut self.source,
                    basis: &mut self.basis,
                    quantities,
                    absent,
                }
            }

            /// The values of the parameters common to all tables.
            pub(crate) fn common(&self) -> $crate::device::gpu::CommonParameters {
                $crate::device::gpu::CommonParameters {
                    launch_us: self.launch_us.value,
                    unit_us: $crate::device::quantity::Quantity::or_zero(self.unit_us.as_ref()),
                    roofline_sharpness: self.roofline_sharpness.value,
                    traffic_us_per_byte: self.traffic_us_per_byte.value,
                }
            }
        }
    };
}

pub(super) use kernel_table;

/// A kernel table of a GPU profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[derive(Serialize, Deserialize, JsonSchema, VariantArray, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
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
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Key of the table in `[gpu]`.
    pub fn key(self) -> &'static str {
        self.into()
    }
}

impl Gpu {
    /// The parameters of `table`; `None` if the GPU does not have the table.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table without its `source` and `basis`, as the profile writes it.
    fn keys(table: &toml::Value) -> Vec<String> {
        let mut keys: Vec<String> = table.as_table().unwrap().keys().cloned().collect();
        keys.retain(|key| key != "source" && key != "basis");
        keys.sort();
        keys
    }

    #[test]
    fn every_number_of_a_kernel_table_is_a_parameter() {
        let phones = [
            include_str!("../../../tests/golden/gpu_pixel4.toml"),
            include_str!("../../../tests/golden/gpu_iphone7.toml"),
        ];
        for text in phones {
            let mut gpu: Gpu = crate::input::from_toml(text).unwrap();
            let written = toml::Value::try_from(&gpu).unwrap();
            for &table in KernelTable::ALL {
                let Some(parameters) = gpu.parameters_mut(table) else { continue };
                let mut listed: Vec<&str> = parameters.quantities.iter().map(|(key, _)| *key).collect();
                listed.sort_unstable();
                assert_eq!(listed, keys(&written[table.key()]));
            }
        }
    }
}
