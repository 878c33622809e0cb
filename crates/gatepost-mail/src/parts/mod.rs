//! The tree of MIME parts, and its traversal.
//!
//! All parts are in one list, in the order in which they were found; children are indices into it,
//! so a traversal needs no recursion, however deeply a sender nests parts. [`dissection`] builds
//! the tree.

mod dissection;
mod multipart;

use super::limits::MailLimits;
use super::part::MimePart;

/// Irregularities of a message's MIME structure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParseFlags {
    /// A boundary is not followed by a field.
    pub part_head_missing: bool,
    /// No blank line ends a part's head.
    pub part_separator_missing: bool,
    /// There is text after the last boundary.
    pub epilogue: bool,
    /// A multipart has more parts than the limit.
    pub too_many_parts: bool,
}

/// All parts of a message.
#[derive(Debug)]
pub struct Parts {
    limits: MailLimits,
    list: Vec<MimePart>,
    order: Vec<usize>,
    /// Irregularities of the structure.
    pub flags: ParseFlags,
    /// Boundaries that were opened, and whether they were closed.
    pub boundaries: Vec<(Vec<u8>, i32)>,
}

impl Parts {
    /// All parts, containers included, in reading order.
    pub fn all(&self) -> impl Iterator<Item = &MimePart> {
        self.order.iter().filter_map(|&index| self.list.get(index))
    }

    /// The texts and files, in reading order.
    pub fn leaves(&self) -> impl Iterator<Item = &MimePart> {
        self.all().filter(|part| part.is_leaf)
    }

    /// The children of a part.
    pub fn children<'b>(&'b self, part: &'b MimePart) -> impl Iterator<Item = &'b MimePart> {
        part.children
            .iter()
            .filter_map(|&index| self.list.get(index))
    }

    /// A part and all its descendants, in reading order.
    pub fn below<'b>(&'b self, part: &'b MimePart) -> impl Iterator<Item = &'b MimePart> {
        let mut stack = vec![part];
        std::iter::from_fn(move || {
            let part = stack.pop()?;
            stack.extend(
                part.children
                    .iter()
                    .rev()
                    .filter_map(|&index| self.list.get(index)),
            );
            Some(part)
        })
    }

    /// The message itself.
    pub fn root(&self) -> Option<&MimePart> {
        self.list.first()
    }
}

#[cfg(test)]
mod tests {
    use crate::Mail;

    #[test]
    fn each_leaf_has_its_own_rendering() {
        let message = b"Content-Type: multipart/mixed; boundary=a\n\n--a\n\
            Content-Type: multipart/alternative; boundary=b\n\n--b\n\nplain\n--b\n\
            Content-Type: text/html\n\n<p>one\n--b--\n--a\n\
            Content-Type: text/html\n\n<p>two\n--a--\n";
        let mail = Mail::parse(message);
        let leaves: Vec<_> = mail.parts().leaves().collect();
        assert_eq!(leaves.len(), 3);
        for (leaf, rendered) in leaves.iter().zip(mail.rendered()) {
            let own = mail.rendered_of(leaf).map(std::ptr::from_ref);
            assert_eq!(own, rendered.as_ref().map(std::ptr::from_ref));
        }
        let texts: Vec<_> = leaves
            .iter()
            .filter_map(|leaf| mail.text_of(leaf))
            .collect();
        let texts: Vec<&str> = texts.iter().map(|text| text.trim()).collect();
        assert_eq!(texts, ["plain", "one", "two"]);
        assert!(
            mail.parts()
                .root()
                .is_some_and(|root| mail.rendered_of(root).is_none())
        );
    }
}
