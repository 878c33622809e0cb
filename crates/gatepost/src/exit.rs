//! Exit codes that several commands share, as BSD's `sysexits.h` names them.

/// The command line or the config is wrong (`EX_CONFIG`).
pub(crate) const EXIT_CONFIG: u8 = 78;
/// The input is wrong (`EX_DATAERR`).
pub(crate) const EXIT_DATA: u8 = 65;
/// A resource that the command needs is not available (`EX_UNAVAILABLE`).
pub(crate) const EXIT_UNAVAILABLE: u8 = 69;
/// The user interrupted the command (128 + SIGINT); what was done until then is kept.
pub(crate) const EXIT_INTERRUPTED: u8 = 130;
