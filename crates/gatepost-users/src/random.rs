//! Random bytes from the operating system.

/// Fills an array. Without randomness no secret can be generated, and a server cannot run on a
/// machine whose kernel provides none.
pub(crate) fn bytes<const COUNT: usize>() -> [u8; COUNT] {
    let mut bytes = [0; COUNT];
    if let Err(error) = getrandom::fill(&mut bytes) {
        unreachable!("the operating system gives no random bytes: {error}");
    }
    bytes
}
