//! The operator of a run in its file: the operator in the scenario's syntax, and in further
//! cells the extents that it reads and the functions linked to it.

use serde::de::value::{Error, StrDeserializer};
use serde::{Deserialize, Serialize};

use super::Row;
use coexec_sim::input::from_toml_value;
use coexec_sim::workload::{Function, Layer, Linked, Operator, OperatorTable, SecondOperand, Shape};

/// Separator of extents, and of functions.
const SEPARATOR: &str = ";";
/// Separator of the numbers of an extent.
const TIMES: char = 'x';

/// Panic message of serialising an operator.
const SERIALISABLE: &str = "TOML can express words and whole numbers";

/// The row with the cells of a layer of that name.
pub(super) fn write(name: &str, layer: &Layer, row: Row) -> Row {
    let table = OperatorTable::new(name, &layer.operator);
    let value = table.serialize(toml_edit::ser::ValueSerializer::new()).expect(SERIALISABLE);
    let inputs = layer.operator.takes_extents().then(|| extents(&layer.operator));
    let names: Vec<String> = layer.linked.functions().iter().map(|function| name_of(*function)).collect();
    let linked = (!names.is_empty()).then(|| names.join(SEPARATOR));
    Row { operator: Some(value.to_string()), inputs, linked, ..row }
}

/// The name and the layer in the cells of `row`, whose operator is `text`, or an error that
/// states what is wrong.
pub(super) fn read(text: &str, row: &Row) -> Result<(String, Layer), String> {
    let table: OperatorTable = from_toml_value(text).map_err(|misfit| {
        let first_line = misfit.message.lines().next().unwrap_or_default();
        format!("the operator is not an inline table of a scenario: {first_line}")
    })?;
    for (key, is_there) in [("from", table.from.is_some()), ("data_type", table.data_type.is_some())] {
        if is_there {
            return Err(format!("the operator has a key {key}, which only a scenario has"));
        }
    }
    let given = split(row.inputs.as_deref()).map(shape).collect::<Result<Vec<Shape>, _>>()?;
    let operator = table.operator(&given).map_err(|violation| {
        format!("the operator has {}, expected {}", violation.found, violation.expected)
    })?;
    operator.check().map_err(|error| error.to_string())?;
    if !given.is_empty() && given != operator.inputs() {
        return Err(format!(
            "the inputs are {:?}, but the operator reads {}",
            row.inputs.as_deref().unwrap_or_default(),
            extents(&operator)
        ));
    }
    let mut linked = Linked::default();
    for name in split(row.linked.as_deref()) {
        let function = Function::deserialize(StrDeserializer::<Error>::new(name));
        let function = function.map_err(|error| format!("the linked function: {error}"))?;
        if !linked.push(function, SecondOperand::WHOLE) {
            return Err("more functions are linked than one launch takes".to_owned());
        }
    }
    Ok((table.name, Layer { operator, linked, data_type: row.data_type }))
}

fn split(cell: Option<&str>) -> impl Iterator<Item = &str> {
    cell.into_iter().flat_map(|cell| cell.split(SEPARATOR)).map(str::trim).filter(|part| !part.is_empty())
}

/// Extents of the inputs: batch, height, width and channels of each, as `1x56x56x64`.
fn extents(operator: &Operator) -> String {
    let extent = |shape: Shape| {
        let Shape { batch, height, width, channels } = shape;
        format!("{batch}{TIMES}{height}{TIMES}{width}{TIMES}{channels}")
    };
    operator.input_shapes().map(extent).collect::<Vec<_>>().join(SEPARATOR)
}

fn shape(text: &str) -> Result<Shape, String> {
    match numbers(text)?[..] {
        [batch, height, width, channels] => Ok(Shape { batch, height, width, channels }),
        _ => Err(format!("{text:?} is not an extent, expected batch x height x width x channels")),
    }
}

/// The whole numbers of `8x4x1`.
pub(super) fn numbers(text: &str) -> Result<Vec<u32>, String> {
    text.split(TIMES)
        .map(|number| number.parse().map_err(|_| format!("{text:?} is not a product of whole numbers")))
        .collect()
}

/// The name of a function in a scenario.
fn name_of(function: Function) -> String {
    let value = function.serialize(toml_edit::ser::ValueSerializer::new()).expect(SERIALISABLE);
    value.as_str().expect(SERIALISABLE).to_owned()
}
