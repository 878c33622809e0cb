//! Names and addresses in a field such as `From`.

/// One entry of a list of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) phrase: Option<Vec<u8>>,
    pub(super) address: Option<Vec<u8>>,
}

/// The entries of a field's value.
pub(super) fn parse(value: &[u8]) -> Vec<Address> {
    let _ = value;
    Vec::new()
}
