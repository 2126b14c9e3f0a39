//! Small tensors that a model keeps in a file beside its own, such as the extents of reshapes.
//!
//! Responsible for: finding and reading them. Not for: weights, whose values no time depends on.
//! Invariant: no file outside the model's folder is read, and of none more than [`MAX_NUMBERS`] numbers a tensor.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path};

use super::messages::{GraphProto, TensorProto};
use crate::model::MAX_NUMBERS;

/// `TensorProto.DataLocation`: in another file.
const EXTERNAL: i32 = 1;

/// Bytes of the widest number.
const MAX_NUMBER_BYTES: u64 = 8;

/// Reads the small tensors of a graph and its subgraphs that are in files of `folder`. Those that cannot be read
/// stay without values.
pub(super) fn read(graph: &mut GraphProto, folder: &Path) {
    let fill = |tensor: &mut TensorProto| {
        if let Some(bytes) = bytes_of(tensor, folder).filter(|_| tensor.data_location == EXTERNAL) {
            tensor.raw_data = bytes.into();
        }
    };
    graph.initializer.iter_mut().for_each(fill);
    for attribute in graph.node.iter_mut().flat_map(|node| &mut node.attribute) {
        attribute.t.iter_mut().for_each(fill);
        attribute.g.iter_mut().for_each(|graph| read(graph, folder));
    }
}

/// The file that holds a tensor's values, if these have not been read from there.
pub(super) fn unread_file(tensor: &TensorProto) -> Option<String> {
    let is_unread = tensor.data_location == EXTERNAL && tensor.raw_data.is_empty();
    entry(tensor, "location").filter(|_| is_unread).cloned()
}

/// The value of a key of a tensor's external data.
fn entry<'a>(tensor: &'a TensorProto, key: &str) -> Option<&'a String> {
    tensor.external_data.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
}

fn bytes_of(tensor: &TensorProto, folder: &Path) -> Option<Vec<u8>> {
    let count =
        tensor.dims.iter().try_fold(1, |count: u64, &extent| count.checked_mul(extent.try_into().ok()?))?;
    let number = |key: &str| entry(tensor, key).map_or(Some(0), |text| text.parse::<u64>().ok());
    let location = Path::new(entry(tensor, "location")?);
    let (offset, length) = (number("offset")?, number("length")?);
    let is_inside =
        location.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if count > MAX_NUMBERS as u64 || length > count * MAX_NUMBER_BYTES || !is_inside {
        return None;
    }
    let mut file = File::open(folder.join(location)).ok()?;
    file.seek(SeekFrom::Start(offset)).ok()?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 == length).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::messages::EntryProto;
    use super::*;

    #[test]
    fn few_numbers_are_read_from_a_file_in_the_folder_and_nothing_from_others() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("inside");
        std::fs::create_dir(&inside).unwrap();
        std::fs::write(inside.join("own.data"), [0, 0, 1, 2, 3, 4]).unwrap();
        std::fs::write(folder.path().join("other.data"), [0; 6]).unwrap();
        let read = |location: &str, length: &str, extent: i64| {
            let entries = [("location", location), ("offset", "2"), ("length", length)];
            let entry = |(key, value): (&str, &str)| EntryProto { key: key.into(), value: value.into() };
            let external_data = entries.map(entry).to_vec();
            let tensor = TensorProto {
                dims: vec![extent],
                data_location: EXTERNAL,
                external_data,
                ..TensorProto::default()
            };
            let mut graph = GraphProto { initializer: vec![tensor], ..GraphProto::default() };
            super::read(&mut graph, &inside);
            graph.initializer[0].raw_data.to_vec()
        };
        assert_eq!(read("own.data", "4", 1), [1, 2, 3, 4]);
        for (location, length, extent) in [
            ("own.data", "5", 1),
            ("missing.data", "4", 1),
            ("../other.data", "4", 1),
            ("own.data", "4", MAX_NUMBERS as i64 + 1),
            ("own.data", "99999999", 1),
        ] {
            assert!(read(location, length, extent).is_empty(), "{location} {length} {extent}");
        }
    }
}
