//! Random bytes from the operating system.

/// Fills an array. Without randomness no secret may be made, so there is nothing to go on with:
/// a kernel that has none is no machine that a server can run on.
pub(crate) fn bytes<const COUNT: usize>() -> [u8; COUNT] {
    let mut bytes = [0; COUNT];
    if let Err(error) = getrandom::fill(&mut bytes) {
        unreachable!("the operating system gives no random bytes: {error}");
    }
    bytes
}
