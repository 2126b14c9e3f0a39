//! Reads an ONNX file without its weights.
//!
//! Responsible for: reading a file once, sequentially, and dropping the data of large tensors.
//! Not for: the meaning of fields (`messages.rs`); all fields other than tensor data are kept
//! as they are.
//! Invariant: only the kept bytes are held in memory, whatever the size of the file.

use std::io::{self, BufReader, Read, Seek};

use prost::encoding::encode_varint;

use crate::model::MAX_NUMBERS;

/// Maximum size of a tensor's data that is kept: [`MAX_NUMBERS`] elements, each a ten-byte varint after
/// its key.
const MAX_DATA_BYTES: u64 = 11 * MAX_NUMBERS as u64;

/// Maximum nesting depth of messages: prost's limit.
const MAX_NESTING: u32 = 100;

/// A message type that can contain tensors.
#[derive(Clone, Copy)]
enum Message {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    SparseTensor,
    Function,
}

/// The kind of a field.
enum Field {
    Message(Message),
    /// Data of a tensor, or another field that may be as large.
    Numbers,
    Other,
}

/// Field numbers: `onnx.proto3` (ONNX 1.23).
fn field(of: Message, number: u64) -> Field {
    match (of, number) {
        (Message::Model, 7) | (Message::Attribute, 6 | 11) => Field::Message(Message::Graph),
        (Message::Model, 25) => Field::Message(Message::Function),
        (Message::Graph, 1) | (Message::Function, 7) => Field::Message(Message::Node),
        (Message::Graph, 5) | (Message::Attribute, 5 | 10) | (Message::SparseTensor, 1 | 2) => {
            Field::Message(Message::Tensor)
        }
        (Message::Graph, 15) | (Message::Attribute, 22 | 23) => Field::Message(Message::SparseTensor),
        (Message::Node, 5) | (Message::Function, 11) => Field::Message(Message::Attribute),
        (Message::Tensor, 4 | 5 | 6 | 7 | 9 | 10 | 11) | (Message::Attribute, 4) => Field::Numbers,
        (
            Message::Model
            | Message::Graph
            | Message::Node
            | Message::Attribute
            | Message::Tensor
            | Message::SparseTensor
            | Message::Function,
            _,
        ) => Field::Other,
    }
}

/// A model of `length` bytes without the data of large tensors, as an encoded message.
///
/// # Errors
/// The file cannot be read, or is not a valid Protocol Buffers message.
pub(super) fn without_weights(file: impl Read + Seek, length: u64) -> io::Result<Vec<u8>> {
    Skimmer { file: BufReader::new(file) }.message(Message::Model, length, MAX_NESTING)
}

struct Skimmer<File: Read> {
    file: BufReader<File>,
}

impl<File: Read + Seek> Skimmer<File> {
    /// The kept part of a message in the next `length` bytes.
    fn message(&mut self, message: Message, length: u64, levels: u32) -> io::Result<Vec<u8>> {
        let (mut kept, mut left, mut numbers) = (Vec::new(), length, 0);
        while left > 0 {
            let key = self.varint(&mut left)?;
            let field = field(message, key >> 3);
            let begin = kept.len();
            encode_varint(key, &mut kept);
            match key & 7 {
                0 => {
                    let value = self.varint(&mut left)?;
                    encode_varint(value, &mut kept);
                }
                1 => self.copy(8, &mut left, &mut kept)?,
                2 => {
                    let length = self.varint(&mut left)?;
                    match field {
                        Field::Message(inner) => {
                            take(&mut left, length)?;
                            let levels =
                                levels.checked_sub(1).ok_or_else(|| unsound("it is nested too deeply"))?;
                            let inner = self.message(inner, length, levels)?;
                            encode_varint(inner.len() as u64, &mut kept);
                            kept.extend(inner);
                        }
                        Field::Numbers if length > MAX_DATA_BYTES => {
                            take(&mut left, length)?;
                            self.skip(length)?;
                            kept.truncate(begin);
                            continue;
                        }
                        Field::Numbers | Field::Other => {
                            encode_varint(length, &mut kept);
                            self.copy(length, &mut left, &mut kept)?;
                        }
                    }
                }
                5 => self.copy(4, &mut left, &mut kept)?,
                _ => return Err(unsound("it has a field of an unknown wire type")),
            }
            if matches!(field, Field::Numbers) {
                numbers += (kept.len() - begin) as u64;
                if numbers > 2 * MAX_DATA_BYTES {
                    kept.truncate(begin);
                }
            }
        }
        Ok(kept)
    }

    fn varint(&mut self, left: &mut u64) -> io::Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            take(left, 1)?;
            let mut byte = [0];
            self.file.read_exact(&mut byte)?;
            value |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] < 0x80 {
                return Ok(value);
            }
        }
        Err(unsound("it has a varint of more than 64 bits"))
    }

    fn copy(&mut self, length: u64, left: &mut u64, kept: &mut Vec<u8>) -> io::Result<()> {
        take(left, length)?;
        let copied = self.file.by_ref().take(length).read_to_end(kept)?;
        if (copied as u64) < length { Err(unsound("it ends too early")) } else { Ok(()) }
    }

    fn skip(&mut self, length: u64) -> io::Result<()> {
        self.file.seek_relative(i64::try_from(length).map_err(|_| unsound("it ends too early"))?)
    }
}

/// Subtracts `length` from the bytes left of a message.
fn take(left: &mut u64, length: u64) -> io::Result<()> {
    *left = left.checked_sub(length).ok_or_else(|| unsound("a field extends beyond its message"))?;
    Ok(())
}

fn unsound(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}
