//! Where the headers of one record are written, so that none of them is allocated.

use std::ffi::CStr;
use std::ops::Range;

/// Most headers of a record.
pub const MAX_HEADERS: usize = 16;

/// The headers of one record: reused from record to record.
#[derive(Debug, Clone, Default)]
pub struct Headers {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    /// With the zero at its end.
    name: Range<usize>,
    value: Range<usize>,
}

impl Headers {
    /// Forgets the headers of the last record.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }

    /// Adds a header.
    pub fn push(&mut self, name: &CStr, value: &[u8]) {
        let name = self.add(name.to_bytes_with_nul());
        let value = self.add(value);
        self.entries.push(Entry { name, value });
    }

    /// Takes the place of the headers of the last record, without an allocation when there is room.
    pub fn copy_from(&mut self, other: &Self) {
        self.clear();
        // Most streams have none: then this is all.
        if !other.is_empty() {
            self.bytes.extend_from_slice(&other.bytes);
            self.entries.extend_from_slice(&other.entries);
        }
    }

    /// All headers in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&CStr, &[u8])> {
        self.entries.iter().map(|entry| {
            let name = self.bytes.get(entry.name.clone()).unwrap_or_default();
            let value = self.bytes.get(entry.value.clone()).unwrap_or_default();
            (CStr::from_bytes_with_nul(name).unwrap_or_default(), value)
        })
    }

    /// Number of headers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Names and values in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn add(&mut self, bytes: &[u8]) -> Range<usize> {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        from..self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_in_order_and_are_forgotten() {
        let mut headers = Headers::default();
        headers.push(c"run", b"r1");
        headers.push(c"empty", b"");
        let all: Vec<_> = headers.iter().collect();
        assert_eq!(all, [(c"run", b"r1".as_slice()), (c"empty", b"".as_slice())]);
        let mut copy = Headers::default();
        copy.push(c"old", b"gone");
        copy.copy_from(&headers);
        assert!(copy.iter().eq(headers.iter()));
        assert_eq!((copy.len(), copy.bytes()), (2, 4 + 2 + 6));
        headers.clear();
        assert!(headers.is_empty());
        assert_eq!(headers.iter().len(), 0);
    }
}
