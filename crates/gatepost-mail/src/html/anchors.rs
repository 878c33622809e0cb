//! The texts of a document's `a` elements in one buffer: a message may contain hundreds of
//! thousands of them, most of one word.

/// The text in each `a` element, in order; `<img>` represents an image.
#[derive(Clone, Debug, Default)]
pub struct Anchors {
    text: String,
    /// The start of each text.
    starts: Vec<u32>,
}

impl Anchors {
    /// Begins the next text; returns its number, unless the texts exceed the range of an offset.
    pub(super) fn open(&mut self) -> Option<u32> {
        let start = u32::try_from(self.text.len()).ok()?;
        let number = u32::try_from(self.starts.len()).ok()?;
        self.starts.push(start);
        Some(number)
    }

    /// Appends to the last text, if there is one.
    pub(super) fn add(&mut self, text: &str) {
        if !self.starts.is_empty() {
            self.text.push_str(text);
        }
    }

    /// The text of an anchor.
    pub fn get(&self, number: u32) -> Option<&str> {
        let number = number as usize;
        let start = *self.starts.get(number)? as usize;
        let end = self.starts.get(number + 1).map(|&end| end as usize);
        self.text.get(start..end.unwrap_or(self.text.len()))
    }

    /// The texts of all anchors, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.starts.len()).filter_map(|number| self.get(u32::try_from(number).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_kept_apart() {
        let mut anchors = Anchors::default();
        anchors.add("before any");
        assert_eq!(anchors.open(), Some(0));
        anchors.add("a");
        anchors.add("b");
        assert_eq!(anchors.open(), Some(1));
        assert_eq!(anchors.open(), Some(2));
        anchors.add("c");
        assert_eq!(anchors.iter().collect::<Vec<_>>(), ["ab", "", "c"]);
        assert_eq!(anchors.get(3), None);
    }
}
