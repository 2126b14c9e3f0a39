//! The part of ONNX's public schema that a workload needs, as handwritten prost messages.
//!
//! Names, numbers and types of the fields: `onnx.proto3` (ONNX 1.23). The decoder skips
//! all other fields, such as documentation and training. Raw data is not copied: it refers
//! to the decoded buffer.

use bytes::Bytes;
use prost::Message;

/// Declares messages, with the type, kind and number of each field.
macro_rules! messages {
    ($($(#[$about:meta])* $message:ident {
        $($(#[$what:meta])* $field:ident: $type:ty = ($($kind:tt)*) $number:literal;)*
    })*) => {
        $(
            $(#[$about])*
            #[derive(Clone, PartialEq, Message)]
            pub(crate) struct $message {
                $($(#[$what])* #[prost($($kind)*, tag = $number)] pub(crate) $field: $type,)*
            }
        )*
    };
}

messages! {
    ModelProto {
        ir_version: Option<i64> = (int64, optional) 1;
        graph: Option<GraphProto> = (message, optional) 7;
        opset_import: Vec<OperatorSetId> = (message, repeated) 8;
        functions: Vec<FunctionProto> = (message, repeated) 25;
    }

    /// A function that the model defines.
    FunctionProto {
        name: String = (string) 1;
        input: Vec<String> = (string, repeated) 4;
        output: Vec<String> = (string, repeated) 5;
        node: Vec<NodeProto> = (message, repeated) 7;
        domain: String = (string) 10;
        /// Attributes with default values.
        attribute_proto: Vec<AttributeProto> = (message, repeated) 11;
    }

    OperatorSetId {
        domain: String = (string) 1;
        version: i64 = (int64) 2;
    }

    GraphProto {
        node: Vec<NodeProto> = (message, repeated) 1;
        initializer: Vec<TensorProto> = (message, repeated) 5;
        input: Vec<ValueInfoProto> = (message, repeated) 11;
        output: Vec<ValueInfoProto> = (message, repeated) 12;
        value_info: Vec<ValueInfoProto> = (message, repeated) 13;
        sparse_initializer: Vec<SparseTensorProto> = (message, repeated) 15;
    }

    NodeProto {
        input: Vec<String> = (string, repeated) 1;
        output: Vec<String> = (string, repeated) 2;
        name: String = (string) 3;
        op_type: String = (string) 4;
        attribute: Vec<AttributeProto> = (message, repeated) 5;
        domain: String = (string) 7;
    }

    AttributeProto {
        name: String = (string) 1;
        f: f32 = (float) 2;
        i: i64 = (int64) 3;
        s: Bytes = (bytes = "bytes") 4;
        t: Option<TensorProto> = (message, optional) 5;
        /// A subgraph: a branch, or the body of a loop.
        g: Option<GraphProto> = (message, optional) 6;
        floats: Vec<f32> = (float, repeated) 7;
        ints: Vec<i64> = (int64, repeated) 8;
        strings: Vec<Bytes> = (bytes = "bytes", repeated) 9;
        /// In a function: the name of the caller's attribute that provides the value.
        ref_attr_name: String = (string) 21;
        sparse_tensor: Option<SparseTensorProto> = (message, optional) 22;
    }

    /// A tensor of which only the elements other than 0 are stored.
    SparseTensorProto {
        values: Option<TensorProto> = (message, optional) 1;
        dims: Vec<i64> = (int64, repeated) 3;
    }

    TensorProto {
        dims: Vec<i64> = (int64, repeated) 1;
        data_type: i32 = (int32) 2;
        float_data: Vec<f32> = (float, repeated) 4;
        int32_data: Vec<i32> = (int32, repeated) 5;
        int64_data: Vec<i64> = (int64, repeated) 7;
        name: String = (string) 8;
        raw_data: Bytes = (bytes = "bytes") 9;
        double_data: Vec<f64> = (double, repeated) 10;
        /// Where the data are, if they are in another file.
        external_data: Vec<EntryProto> = (message, repeated) 13;
        data_location: i32 = (int32) 14;
    }

    /// A key and its value (`StringStringEntryProto`).
    EntryProto {
        key: String = (string) 1;
        value: String = (string) 2;
    }

    ValueInfoProto {
        name: String = (string) 1;
        r#type: Option<TypeProto> = (message, optional) 2;
    }

    TypeProto {
        tensor_type: Option<TensorTypeProto> = (message, optional) 1;
    }

    TensorTypeProto {
        shape: Option<ShapeProto> = (message, optional) 2;
    }

    ShapeProto {
        dim: Vec<DimensionProto> = (message, repeated) 1;
    }

    /// A dimension: a number, or the name of a symbolic dimension.
    DimensionProto {
        dim_value: Option<i64> = (int64, optional) 1;
        dim_param: Option<String> = (string, optional) 2;
    }
}
