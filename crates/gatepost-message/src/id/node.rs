//! The number of a server among all servers of one operator. It is part of every message id, so
//! that ids of different servers differ.

use std::fmt;
use std::num::NonZeroU8;

/// The number of a server: 1 to 255.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeNumber(NonZeroU8);

impl NodeNumber {
    /// The number of a server that has been given none.
    pub const FIRST: Self = Self(NonZeroU8::MIN);
    /// The highest number.
    pub const LAST: Self = Self(NonZeroU8::MAX);

    /// The node of this number, if there may be one.
    pub fn new(number: u16) -> Option<Self> {
        let number = u8::try_from(number).ok()?;
        NonZeroU8::new(number).map(Self)
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0.get()
    }
}

impl fmt::Display for NodeNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_numbered_from_1_to_255() {
        assert_eq!(NodeNumber::new(1), Some(NodeNumber::FIRST));
        assert_eq!(NodeNumber::new(255), Some(NodeNumber::LAST));
        for number in [0, 256, u16::MAX] {
            assert_eq!(NodeNumber::new(number), None, "{number}");
        }
    }
}
