//! Number formats of a file and its operators.
//!
//! Responsible for: deriving them from the element types of tensors. Not for: the semantics of operators.

use std::collections::HashMap;

use super::element;
use crate::majority::most;
use crate::model::{SourceNode, SourceTensor, TensorId, Work, elements};
use coexec_sim::DataType;

/// Formats of files; ties go to the last one.
const FORMATS: [DataType; 7] = [
    DataType::I8,
    DataType::W8A16,
    DataType::W4A16,
    DataType::I4Dynamic,
    DataType::I8Dynamic,
    DataType::F16,
    DataType::F32,
];

/// Element types of one byte, and those packed several to a byte.
const INTEGERS: [u8; 2] = [element::INT8, element::UINT8];
const PACKED: [u8; 3] = [element::INT2, element::INT4, element::UINT4];

/// The tensors of a file, with their element types.
pub(super) struct Formats<'a> {
    pub(super) tensors: &'a [SourceTensor],
    pub(super) types: &'a [u8],
}

impl Formats<'_> {
    /// The format of the file: the prevailing one of activations, since weights are often stored in 16 bits
    /// before a `DEQUANTIZE` and computed with in 32. For float activations, integer weights read directly
    /// by products mean that activations are quantised dynamically.
    pub(super) fn of_file(&self, inputs: &[TensorId], nodes: &[SourceNode]) -> DataType {
        let activations = (0..self.tensors.len())
            .filter(|id| self.tensors[*id].constant.is_none() && !inputs.contains(id))
            .filter_map(|id| Some((id, self.of_activation(id)?)));
        let of_activations = self.most(activations);
        if of_activations != DataType::F32 {
            return of_activations;
        }
        let products = nodes.iter().filter(|node| node.work.multiplies());
        let weights: HashMap<TensorId, DataType> = products.flat_map(|node| self.of_weights(node)).collect();
        self.most(weights.into_iter())
    }

    /// The format of a node in a file of the format `of_file`; `None` if the file's format applies. Without weights it
    /// is that of the activations, where only the difference between integers and floats counts.
    pub(super) fn of_node(&self, node: &SourceNode, of_file: DataType) -> Option<DataType> {
        if node.work.multiplies() && self.of_weights(node).next().is_some() {
            return Some(self.most(self.of_weights(node)));
        }
        let activation = self.of_activation(node.result(0)?)?;
        let of_integers = [DataType::I8, DataType::W8A16, DataType::W4A16];
        let [own, others] = [activation, of_file].map(|format| of_integers.contains(&format));
        (own != others || activation == DataType::I8 || of_file == DataType::I8).then_some(activation)
    }

    fn of_activation(&self, id: TensorId) -> Option<DataType> {
        match *self.types.get(id)? {
            element::FLOAT32 => Some(DataType::F32),
            element::FLOAT16 => Some(DataType::F16),
            element if INTEGERS.contains(&element) => Some(DataType::I8),
            // With 8-bit weights by default.
            element::INT16 => Some(DataType::W8A16),
            _ => None,
        }
    }

    /// The weights of a product, and the format of the product that each implies.
    fn of_weights(&self, node: &SourceNode) -> impl Iterator<Item = (TensorId, DataType)> {
        let unpacks = matches!(node.work, Work::Product { .. } | Work::Linear { .. });
        let activation = node.result(0).and_then(|id| self.of_activation(id));
        let of = move |&id: &TensorId| {
            self.tensors[id].constant.as_ref()?;
            let element = *self.types.get(id)?;
            let is_packed = PACKED.contains(&element);
            let format = match activation? {
                DataType::W8A16 if is_packed => DataType::W4A16,
                // Only matrix products have kernels that unpack weights on the fly; others expand them to 8 bits.
                DataType::F32 if is_packed && unpacks => DataType::I4Dynamic,
                DataType::F32 if is_packed || INTEGERS.contains(&element) => DataType::I8Dynamic,
                of_activation => of_activation,
            };
            Some((id, format))
        };
        node.reads.iter().flatten().filter_map(of)
    }

    /// The format of most elements; floats if there are none.
    fn most(&self, tensors: impl Iterator<Item = (TensorId, DataType)>) -> DataType {
        let elements = |id: TensorId| self.tensors[id].extents.as_deref().map_or(0, elements);
        most(FORMATS, tensors.map(|(id, format)| (format, elements(id)))).unwrap_or_default()
    }
}

/// Sets the format of each node that differs from the file's.
pub(super) fn set_formats(formats: &Formats<'_>, of_file: DataType, nodes: &mut [SourceNode]) {
    for node in nodes {
        node.data_type = formats.of_node(node, of_file);
        if let Work::Loop(body) = &mut node.work {
            set_formats(formats, of_file, &mut body.nodes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Constant;

    #[test]
    fn integer_weights_of_products_imply_dynamic_quantisation() {
        let tensor = |extents: &[u32], is_constant: bool| SourceTensor {
            extents: Some(extents.to_vec()),
            constant: is_constant.then(Constant::default),
            ..SourceTensor::default()
        };
        let tensors =
            [tensor(&[1, 8], false), tensor(&[4, 8], true), tensor(&[4], true), tensor(&[1, 4], false)];
        let of = |weights: u8, work: Work| {
            let types = [element::FLOAT32, weights, element::FLOAT32, element::FLOAT32];
            let node = SourceNode {
                name: String::new(),
                kind: String::new(),
                branches: 0,
                data_type: None,
                work,
                reads: vec![Some(0), Some(1), Some(2)],
                writes: vec![Some(3)],
            };
            let formats = Formats { tensors: &tensors, types: &types };
            let of_file = formats.of_file(&[0], std::slice::from_ref(&node));
            assert_eq!(formats.of_node(&node, of_file).unwrap_or(of_file), of_file);
            of_file
        };
        let product = || Work::Product { transpose: [false, true], flatten: false };
        assert_eq!(of(element::INT8, product()), DataType::I8Dynamic);
        assert_eq!(of(element::INT4, product()), DataType::I4Dynamic);
        assert_eq!(of(element::FLOAT32, product()), DataType::F32);
        // After a `DEQUANTIZE` they are floats.
        assert_eq!(of(element::INT8, Work::Identity), DataType::F32);
    }
}
