//! `FlatBuffers`, as far as reading tables goes.
//!
//! Responsible for: following offsets (the public format: a table points back
//! to its field offsets, vectors and strings begin with their length). Not for: what
//! fields mean.
//! Invariant: nothing is read outside the bytes, and nothing panics; what a bad offset
//! points to is absent.

/// A place in a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table<'a> {
    bytes: &'a [u8],
    place: usize,
}

/// Elements one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vector<'a> {
    bytes: &'a [u8],
    first: usize,
    /// Number of elements, as far as they are in the file.
    pub(super) count: usize,
}

/// Bytes of an offset, and of a vector's length.
const OFFSET_BYTES: usize = 4;

fn array<const N: usize>(bytes: &[u8], place: usize) -> Option<[u8; N]> {
    bytes.get(place..place.checked_add(N)?)?.first_chunk().copied()
}

/// Where the offset at `place` points to.
fn target(bytes: &[u8], place: usize) -> Option<usize> {
    place.checked_add(u32::from_le_bytes(array(bytes, place)?) as usize)
}

impl<'a> Table<'a> {
    /// The root of a file.
    pub(super) fn root(bytes: &'a [u8]) -> Option<Self> {
        Some(Self { bytes, place: target(bytes, 0)? })
    }

    /// Where a field is, if the table has it.
    fn field(&self, slot: usize) -> Option<usize> {
        let back = i32::from_le_bytes(array(self.bytes, self.place)?);
        let offsets = usize::try_from(self.place as i64 - i64::from(back)).ok()?;
        let size = u16::from_le_bytes(array(self.bytes, offsets)?) as usize;
        // Behind the size of the list and that of the table.
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

    pub(super) fn table(&self, slot: usize) -> Option<Self> {
        Some(Self { bytes: self.bytes, place: target(self.bytes, self.field(slot)?)? })
    }

    /// A vector of elements of so many bytes.
    pub(super) fn vector(&self, slot: usize, element_bytes: usize) -> Option<Vector<'a>> {
        let place = target(self.bytes, self.field(slot)?)?;
        let said = u32::from_le_bytes(array(self.bytes, place)?) as usize;
        let first = place.checked_add(OFFSET_BYTES)?;
        let count = said.min(self.bytes.len().saturating_sub(first) / element_bytes.max(1));
        Some(Vector { bytes: self.bytes, first, count })
    }

    /// The tables of a vector.
    pub(super) fn tables(&self, slot: usize) -> impl Iterator<Item = Self> + use<'a> {
        let vector = self.vector(slot, OFFSET_BYTES);
        vector.into_iter().flat_map(|vector| {
            (0..vector.count).filter_map(move |index| {
                let place = target(vector.bytes, vector.first + index * OFFSET_BYTES)?;
                Some(Self { bytes: vector.bytes, place })
            })
        })
    }

    /// The whole numbers of a vector.
    pub(super) fn ints(&self, slot: usize) -> Vec<i32> {
        self.vector(slot, OFFSET_BYTES).map(|vector| vector.ints()).unwrap_or_default()
    }

    pub(super) fn text(&self, slot: usize) -> Option<String> {
        Some(String::from_utf8_lossy(self.vector(slot, 1)?.bytes(1)?).into_owned())
    }
}

impl<'a> Vector<'a> {
    fn ints(&self) -> Vec<i32> {
        let at = |index: usize| array(self.bytes, self.first + index * OFFSET_BYTES).map(i32::from_le_bytes);
        (0..self.count).filter_map(at).collect()
    }

    /// Its bytes.
    pub(super) fn bytes(&self, element_bytes: usize) -> Option<&'a [u8]> {
        self.bytes.get(self.first..self.first.checked_add(self.count.checked_mul(element_bytes)?)?)
    }
}
