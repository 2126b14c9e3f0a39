//! A model file of two gigabytes takes no more memory than its operators need.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};

use coexec_import::{ImportOptions, ImportedScenario};

/// Most memory that the import may have held at any time.
const MAX_MEMORY: u64 = 100_000_000;

/// Inputs and outputs of a product whose weights, of 32 bits, fill the file.
const FEATURES: [u64; 2] = [1_000, 500_000];

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A field of Protocol Buffers that holds a number.
fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

/// The key and length of a field that holds `length` bytes.
fn head(field: u64, length: u64) -> Vec<u8> {
    [varint(field << 3 | 2), varint(length)].concat()
}

fn bytes(field: u64, content: &[u8]) -> Vec<u8> {
    [head(field, content.len() as u64), content.to_vec()].concat()
}

/// The fields of `onnx.proto3` up to the weights' numbers, which are a hole in the file.
fn model() -> (Vec<u8>, u64) {
    let dims = |extents: &[u64]| {
        extents.iter().flat_map(|&extent| bytes(1, &number(1, extent))).collect::<Vec<u8>>()
    };
    let input = [bytes(1, b"x"), bytes(2, &bytes(1, &bytes(2, &dims(&[8, FEATURES[0]]))))].concat();
    let node = [bytes(1, b"x"), bytes(1, b"w"), bytes(2, b"y"), bytes(4, b"MatMul")].concat();
    let graph = [bytes(1, &node), bytes(11, &input), bytes(12, &bytes(1, b"y"))].concat();
    let weights_bytes = 4 * FEATURES[0] * FEATURES[1];
    let tensor = [number(1, FEATURES[0]), number(1, FEATURES[1]), number(2, 1), bytes(8, b"w")].concat();
    let tensor = [tensor, head(9, weights_bytes)].concat();
    let initializer = head(5, tensor.len() as u64 + weights_bytes);
    let graph_bytes = (graph.len() + initializer.len() + tensor.len()) as u64 + weights_bytes;
    let model = [number(1, 8), bytes(8, &number(2, 18)), head(7, graph_bytes)].concat();
    ([model, graph, initializer, tensor].concat(), weights_bytes)
}

#[test]
fn weights_of_two_gigabytes_are_skipped() {
    let folder = std::env::temp_dir().join(format!("coexec-large-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("large.onnx");
    let (head, hole) = model();
    let mut file = File::create(&path).unwrap();
    file.write_all(&head).unwrap();
    let length = file.seek(SeekFrom::Current(hole.cast_signed())).unwrap();
    file.set_len(length).unwrap();
    let imported = ImportedScenario::load(&path, &ImportOptions::default());
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(imported.unwrap().model.graph.macs(), 8 * FEATURES[0] * FEATURES[1]);
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let most: u64 = most.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(most * 1024 < MAX_MEMORY, "{most} KiB");
}
