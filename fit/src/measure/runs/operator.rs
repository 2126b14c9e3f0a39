//! The operator of a run as the file has it: the scenario's syntax for the
//! operator, and beside it the extents it reads and the functions linked to it.

use serde::{Deserialize, Serialize};

use coexec_sim::workload::{Function, Layer, Linked, Operator, OperatorTable, Shape};

/// What stands between extents, and between functions.
const SEPARATOR: char = ';';
/// What stands between the numbers of an extent.
const TIMES: char = 'x';

/// The cells that say what a layer is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cells {
    pub(super) operator: String,
    pub(super) inputs: Option<String>,
    pub(super) linked: Option<String>,
}

/// The cells for a layer of that name, or what cannot be said.
pub(super) fn write(name: &str, layer: &Layer) -> Result<Cells, String> {
    let table = OperatorTable::new(name, &layer.operator);
    let value = table.serialize(toml_edit::ser::ValueSerializer::new()).map_err(|error| error.to_string())?;
    let inputs = layer.operator.takes_extents().then(|| {
        let inputs = layer.operator.inputs();
        let extents: Vec<String> = inputs.iter().map(extent).collect();
        extents.join(&SEPARATOR.to_string())
    });
    let linked = layer.linked.functions();
    let names = linked.iter().map(|function| name_of(*function)).collect::<Result<Vec<_>, _>>()?;
    Ok(Cells {
        operator: value.to_string(),
        inputs,
        linked: (!names.is_empty()).then(|| names.join(&SEPARATOR.to_string())),
    })
}

/// The name, the operator and what is linked to it, or what is wrong with the cells.
pub(super) fn read(cells: &Cells) -> Result<(String, Operator, Linked), String> {
    let deserializer = toml::de::ValueDeserializer::parse(&cells.operator)
        .map_err(|error| format!("the operator is no inline table: {}", first_line(error.message())))?;
    let table = OperatorTable::deserialize(deserializer)
        .map_err(|error| format!("the operator is none of a scenario: {}", first_line(error.message())))?;
    if table.from.is_some() {
        return Err("the operator has a key from, which only a scenario has".to_owned());
    }
    let given = split(cells.inputs.as_deref()).map(shape).collect::<Result<Vec<Shape>, _>>()?;
    let operator = table.operator(&given).map_err(|violation| {
        format!("the operator has {}, expected {}", violation.found, violation.expected)
    })?;
    operator.check().map_err(|error| error.to_string())?;
    if !given.is_empty() && given != operator.inputs() {
        let expected: Vec<String> = operator.inputs().iter().map(extent).collect();
        return Err(format!(
            "the inputs are {:?}, but the operator reads {}",
            cells.inputs.as_deref().unwrap_or_default(),
            expected.join(&SEPARATOR.to_string())
        ));
    }
    let mut linked = Linked::default();
    for name in split(cells.linked.as_deref()) {
        if !linked.push(function(name)?) {
            return Err("more functions are linked than one launch takes".to_owned());
        }
    }
    Ok((table.name, operator, linked))
}

fn split(cell: Option<&str>) -> impl Iterator<Item = &str> {
    cell.into_iter().flat_map(|cell| cell.split(SEPARATOR)).map(str::trim).filter(|part| !part.is_empty())
}

/// `1x56x56x64`: batch, height, width, channels.
fn extent(shape: &Shape) -> String {
    let Shape { batch, height, width, channels } = shape;
    format!("{batch}{TIMES}{height}{TIMES}{width}{TIMES}{channels}")
}

fn shape(text: &str) -> Result<Shape, String> {
    match numbers(text)?[..] {
        [batch, height, width, channels] => Ok(Shape { batch, height, width, channels }),
        _ => Err(format!("{text:?} is no extent, expected batch x height x width x channels")),
    }
}

/// The whole numbers of `8x4x1`.
pub(super) fn numbers(text: &str) -> Result<Vec<u32>, String> {
    text.split(TIMES)
        .map(|number| number.parse().map_err(|_| format!("{text:?} is no product of whole numbers")))
        .collect()
}

fn function(name: &str) -> Result<Function, String> {
    let deserializer: serde::de::value::StrDeserializer<'_, serde::de::value::Error> =
        serde::de::IntoDeserializer::into_deserializer(name);
    Function::deserialize(deserializer).map_err(|error| format!("the linked function: {error}"))
}

/// The name a scenario has for a function.
fn name_of(function: Function) -> Result<String, String> {
    let value =
        function.serialize(toml_edit::ser::ValueSerializer::new()).map_err(|error| error.to_string())?;
    Ok(value.as_str().unwrap_or_default().to_owned())
}

fn first_line(message: &str) -> &str {
    message.lines().next().unwrap_or_default()
}
