//! A minimal `FlatBuffers` reader for tables.
//!
//! Responsible for: following offsets (in the public format, a table points back to its
//! vtable, and vectors and strings start with their length). Not for: the meaning of
//! fields.
//! Invariant: nothing outside the bytes is read, and nothing panics; a field behind an
//! invalid offset is absent.

/// A table in a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table<'a> {
    bytes: &'a [u8],
    place: usize,
}

/// Bytes of an offset, and of a vector's length.
const OFFSET_BYTES: usize = 4;

/// Most bytes of a text that are read. Longer names list the nodes that a tensor was fused from.
const MAX_TEXT: usize = 512;

fn array<const N: usize>(bytes: &[u8], place: usize) -> Option<[u8; N]> {
    bytes.get(place..place.checked_add(N)?)?.first_chunk().copied()
}

/// The place that the offset at `place` points to.
fn target(bytes: &[u8], place: usize) -> Option<usize> {
    place.checked_add(u32::from_le_bytes(array(bytes, place)?) as usize)
}

impl<'a> Table<'a> {
    /// The root table of a file.
    pub(super) fn root(bytes: &'a [u8]) -> Option<Self> {
        Some(Self { bytes, place: target(bytes, 0)? })
    }

    /// The place of a field; `None` if the table does not have it.
    fn field(&self, slot: usize) -> Option<usize> {
        let back = i32::from_le_bytes(array(self.bytes, self.place)?);
        let offsets = usize::try_from(self.place as i64 - i64::from(back)).ok()?;
        let size = u16::from_le_bytes(array(self.bytes, offsets)?) as usize;
        // The vtable starts with its own size and that of the table.
        let entry = 4 + 2 * slot;
        if entry + 2 > size {
            return None;
        }
        match u16::from_le_bytes(array(self.bytes, offsets.checked_add(entry)?)?) {
            0 => None,
            offset => self.place.checked_add(offset as usize),
        }
    }

    pub(super) fn byte(&self, slot: usize) -> Option<u8> {
        Some(array::<1>(self.bytes, self.field(slot)?)?[0])
    }

    pub(super) fn int(&self, slot: usize) -> Option<i32> {
        Some(i32::from_le_bytes(array(self.bytes, self.field(slot)?)?))
    }

    pub(super) fn long(&self, slot: usize) -> Option<u64> {
        Some(u64::from_le_bytes(array(self.bytes, self.field(slot)?)?))
    }

    /// `count` bytes of the table's file from offset `first`; `None` beyond its end.
    pub(super) fn slice_of_file(&self, first: u64, count: u64) -> Option<&'a [u8]> {
        let first = usize::try_from(first).ok()?;
        self.bytes.get(first..first.checked_add(usize::try_from(count).ok()?)?)
    }

    pub(super) fn table(&self, slot: usize) -> Option<Self> {
        Some(Self { bytes: self.bytes, place: target(self.bytes, self.field(slot)?)? })
    }

    /// The place of a vector's first element and the elements' bytes, truncated at the end of the file.
    fn vector(&self, slot: usize, element_bytes: usize) -> Option<(usize, &'a [u8])> {
        let place = target(self.bytes, self.field(slot)?)?;
        let length = u32::from_le_bytes(array(self.bytes, place)?) as usize;
        let first = place.checked_add(OFFSET_BYTES)?;
        let rest = self.bytes.get(first..)?;
        Some((first, &rest[..length.min(rest.len() / element_bytes) * element_bytes]))
    }

    /// A vector of bytes.
    pub(super) fn bytes(&self, slot: usize) -> Option<&'a [u8]> {
        self.vector(slot, 1).map(|(_, bytes)| bytes)
    }

    /// A vector of tables.
    pub(super) fn tables(&self, slot: usize) -> impl Iterator<Item = Self> + use<'a> {
        let bytes = self.bytes;
        let places = self.vector(slot, OFFSET_BYTES).map(|(first, all)| first..first + all.len());
        let places = places.into_iter().flatten().step_by(OFFSET_BYTES);
        places.filter_map(move |place| Some(Self { bytes, place: target(bytes, place)? }))
    }

    /// A vector of 32-bit integers.
    pub(super) fn ints(&self, slot: usize) -> Vec<i32> {
        let bytes = self.vector(slot, OFFSET_BYTES).map_or(&[][..], |(_, bytes)| bytes);
        bytes.as_chunks().0.iter().copied().map(i32::from_le_bytes).collect()
    }

    /// A text, truncated to [`MAX_TEXT`].
    pub(super) fn text(&self, slot: usize) -> Option<String> {
        let bytes = self.bytes(slot)?;
        Some(String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_TEXT)]).into_owned())
    }
}
