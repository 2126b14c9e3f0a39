//! Tests with small models, built from the messages that also read them, and with files
//! that TensorFlow wrote.

mod broadcasts;
mod calls;
mod dimensions;
mod files;
mod folding;
mod functions;
mod generic;
mod layers;
mod loops;
mod networks;
mod runtime;
mod views;

use prost::Message;

use super::onnx::messages::{
    AttributeProto, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetId, ShapeProto,
    TensorProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use super::{ImportError, ImportOptions, Imported, ModelFormat, import};
use coexec_sim::{Graph, Operator};

/// A builder of ONNX models.
#[derive(Clone)]
pub(super) struct Builder(GraphProto);

impl Builder {
    /// A model with the input `x`; an extent of 0 is a symbolic dimension called `open`.
    pub(super) fn new(extents: &[i64]) -> Self {
        Self(GraphProto { input: vec![Self::info("x", extents)], ..GraphProto::default() })
    }

    /// Adds an input.
    pub(super) fn input(mut self, name: &str, extents: &[i64]) -> Self {
        self.0.input.push(Self::info(name, extents));
        self
    }

    /// States the extents of a tensor.
    pub(super) fn stated(mut self, name: &str, extents: &[i64]) -> Self {
        self.0.value_info.push(Self::info(name, extents));
        self
    }

    fn info(name: &str, extents: &[i64]) -> ValueInfoProto {
        let dim = |&extent: &i64| DimensionProto {
            dim_value: (extent > 0).then_some(extent),
            dim_param: (extent == 0).then(|| "open".to_owned()),
        };
        let shape = ShapeProto { dim: extents.iter().map(dim).collect() };
        let tensor_type = Some(TensorTypeProto { shape: Some(shape) });
        ValueInfoProto { name: name.into(), r#type: Some(TypeProto { tensor_type }) }
    }

    /// Adds weights without values.
    pub(super) fn weights(mut self, name: &str, extents: &[i64]) -> Self {
        let tensor =
            TensorProto { name: name.into(), dims: extents.to_vec(), data_type: 1, ..TensorProto::default() };
        self.0.initializer.push(tensor);
        self
    }

    /// Adds weights in 16-bit floats.
    pub(super) fn half_weights(self, name: &str, extents: &[i64]) -> Self {
        let mut model = self.weights(name, extents);
        model.0.initializer.last_mut().unwrap().data_type = 10;
        model
    }

    /// Adds 8-bit weights.
    pub(super) fn quantised_weights(self, name: &str, extents: &[i64]) -> Self {
        let mut model = self.weights(name, extents);
        model.0.initializer.last_mut().unwrap().data_type = 2;
        model
    }

    pub(super) fn integers(mut self, name: &str, numbers: &[i64]) -> Self {
        let (dims, int64_data) = (vec![numbers.len() as i64], numbers.to_vec());
        let tensor =
            TensorProto { name: name.into(), dims, data_type: 7, int64_data, ..TensorProto::default() };
        self.0.initializer.push(tensor);
        self
    }

    pub(super) fn scalar(mut self, name: &str, number: f32) -> Self {
        let float_data = vec![number];
        let tensor = TensorProto { name: name.into(), data_type: 1, float_data, ..TensorProto::default() };
        self.0.initializer.push(tensor);
        self
    }

    /// Adds a node with one result.
    pub(super) fn node(self, kind: &str, reads: &[&str], write: &str, attributes: &[(&str, &[i64])]) -> Self {
        self.split(kind, reads, &[write], attributes)
    }

    /// Adds a node with several results.
    pub(super) fn split(
        mut self,
        kind: &str,
        reads: &[&str],
        writes: &[&str],
        attributes: &[(&str, &[i64])],
    ) -> Self {
        let attribute = |&(name, numbers): &(&str, &[i64])| AttributeProto {
            name: name.into(),
            i: numbers.first().copied().unwrap_or(0),
            ints: numbers.to_vec(),
            ..AttributeProto::default()
        };
        self.0.node.push(NodeProto {
            input: reads.iter().map(|&name| name.to_owned()).collect(),
            output: writes.iter().map(|&name| name.to_owned()).collect(),
            name: format!("{kind}.{}", writes.first().unwrap_or(&"")),
            op_type: kind.into(),
            attribute: attributes.iter().map(attribute).collect(),
            ..NodeProto::default()
        });
        self
    }

    /// The encoded file; the last node's first result is the output.
    pub(super) fn bytes(mut self) -> Vec<u8> {
        let name = self.0.node.last().map(|node| node.output[0].clone()).unwrap_or_default();
        self.0.output.push(ValueInfoProto { name, r#type: None });
        let opset_import = vec![OperatorSetId { domain: String::new(), version: 18 }];
        ModelProto { ir_version: Some(8), graph: Some(self.0), opset_import, ..ModelProto::default() }
            .encode_to_vec()
    }

    pub(super) fn import(self) -> Result<Imported, ImportError> {
        self.import_with(&[])
    }

    pub(super) fn import_with(self, dimensions: &[(&str, u32)]) -> Result<Imported, ImportError> {
        let dimensions = dimensions.iter().map(|&(name, extent)| (name.to_owned(), extent)).collect();
        let options = ImportOptions { dimensions, ..ImportOptions::default() };
        import(ModelFormat::Onnx, "model", self.bytes(), &options)
    }

    /// Descriptions of the imported operators.
    pub(super) fn operators(self) -> Vec<String> {
        described(&self.import().unwrap().graph)
    }
}

pub(super) fn described(graph: &Graph) -> Vec<String> {
    let text = |operator: &Operator| match operator {
        Operator::Elementwise(function) => format!("{:?} {}", function.function, function.input),
        Operator::Norm(norm) => format!("{:?} norm {}", norm.kind, norm.input),
        operator => operator.to_string(),
    };
    graph.nodes().iter().map(|node| text(&node.operator)).collect()
}
