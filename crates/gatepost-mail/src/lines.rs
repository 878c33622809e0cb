//! A list of byte strings in one buffer.

/// Byte strings in one buffer, with their ends.
///
/// The views of a message are lists of lines. One buffer keeps them adjacent in memory, and permits
/// a prefilter to search all of them in one pass over [`Lines::text`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Lines {
    /// Divides a text at increasing ends, the last of which is its length.
    pub(crate) fn cut(text: Vec<u8>, ends: Vec<usize>) -> Self {
        debug_assert!(ends.is_sorted() && ends.last().copied().unwrap_or(0) == text.len());
        Self { text, ends }
    }

    /// Reserves room for `length` more bytes.
    pub(crate) fn reserve(&mut self, length: usize) {
        self.text.reserve(length);
    }

    /// The number of lines.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no lines.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The line at `index`.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = match index.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.text.get(start..end)
    }

    /// All lines, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator {
        (0..self.ends.len()).map(|index| self.get(index).unwrap_or_default())
    }

    /// All lines as one text, without separators.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The end of each line in [`Lines::text`].
    pub fn ends(&self) -> &[usize] {
        &self.ends
    }

    /// Appends a line.
    pub fn push(&mut self, line: &[u8]) {
        self.text.extend_from_slice(line);
        self.ends.push(self.text.len());
    }
}

impl<'a> FromIterator<&'a [u8]> for Lines {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(lines: I) -> Self {
        let mut all = Self::default();
        for line in lines {
            all.push(line);
        }
        all
    }
}
