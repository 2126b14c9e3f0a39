//! Which rate table a library computes with in a number format.

use super::Library;
use crate::device::basis::Basis;
use crate::device::cpu::Cluster;
use crate::workload::DataType;

/// The rate tables of clusters for one library and number format.
#[derive(Clone, Copy, Debug)]
pub struct RateTable {
    /// Its key in the profile.
    pub key: &'static str,
    /// What the rates of a cluster rest on, where it has some.
    pub basis: fn(&Cluster) -> Option<Basis>,
}

/// The rate table that `library` computes products with in `format`; none where it is not modelled.
pub fn rate_table(library: Library, format: DataType) -> Option<RateTable> {
    let table = |key, basis| Some(RateTable { key, basis });
    match (library, format) {
        (Library::Ruy, DataType::F32) => {
            table("ruy_f32", |cluster| cluster.ruy_f32.as_ref().map(|rates| rates.basis))
        }
        (Library::Ruy, DataType::I8 | DataType::I8Dynamic) => {
            table("ruy_i8", |cluster| cluster.ruy_i8.as_ref().map(|rates| rates.basis))
        }
        (Library::Xnnpack, DataType::F32) => {
            table("xnnpack_f32", |cluster| cluster.xnnpack_f32.as_ref().map(|rates| rates.basis))
        }
        (Library::Xnnpack, DataType::F16) => {
            table("xnnpack_f16", |cluster| cluster.xnnpack_f16.as_ref().map(|rates| rates.basis))
        }
        (Library::Xnnpack, DataType::I8 | DataType::I8Dynamic) => {
            table("xnnpack_i8", |cluster| cluster.xnnpack_i8.as_ref().map(|rates| rates.basis))
        }
        (Library::Coexec, DataType::F32) => {
            table("coexec_f32", |cluster| cluster.coexec_f32.as_ref().map(|rates| rates.basis))
        }
        (Library::Ruy, DataType::F16)
        | (Library::Coexec, DataType::F16 | DataType::I8 | DataType::I8Dynamic)
        | (_, DataType::W4A16 | DataType::W8A16) => None,
    }
}
