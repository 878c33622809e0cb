//! The exit codes, as each calling program interprets them.

use crate::failure::CallFailure;
use crate::spool::Layout;
use crate::wire::AnswerAction;

/// The command line is wrong (`EX_USAGE`); the code lacks bit 16, so XMail accepts the message.
pub(crate) const USAGE: u8 = 64;
/// A temporary failure (`EX_TEMPFAIL`).
pub(crate) const LATER: u8 = 75;
/// Not permitted (`EX_NOPERM`).
const REFUSED: u8 = 77;
/// XMail, off-line and at SMTP time: skip the remaining filters of the list.
const STOP: u8 = 16;
/// XMail off-line: the file was rewritten and must be read again.
const REWRITTEN: u8 = 7;

/// The program that reads the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitMode {
    /// A script.
    Plain,
    /// XMail, filtering after the message was spooled.
    XmailOffline,
    /// XMail, filtering during the SMTP session.
    XmailSmtp,
    /// Programs that know `sysexits.h`.
    Sysexits,
}

impl ExitMode {
    /// The layout of the message file.
    pub(crate) const fn layout(self) -> Layout {
        match self {
            Self::Plain | Self::Sysexits => Layout::Plain,
            Self::XmailOffline => Layout::XmailOffline,
            Self::XmailSmtp => Layout::XmailSmtp,
        }
    }

    /// Whether the code is one of XMail's.
    pub(crate) const fn is_xmail(self) -> bool {
        matches!(self, Self::XmailOffline | Self::XmailSmtp)
    }
}

/// The exit code if there is no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnFailure {
    Accept,
    Reject,
    Defer,
}

/// The caller's options for XMail's codes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct XmailOptions {
    /// Add the stop bit to every verdict.
    pub(crate) stop: bool,
    /// Reject without a notice to the sender.
    pub(crate) silent: bool,
}

// The table is written mode by mode, as in the documentation.
#[allow(clippy::match_same_arms)]
/// The exit code of a verdict; `rewritten` if the file was changed.
pub(crate) fn of_verdict(
    mode: ExitMode,
    action: AnswerAction,
    options: XmailOptions,
    rewritten: bool,
) -> u8 {
    let code = match (mode, action) {
        (_, AnswerAction::Defer) => return LATER,
        (ExitMode::XmailOffline, AnswerAction::Accept | AnswerAction::Tag) if rewritten => {
            REWRITTEN
        }
        (_, AnswerAction::Accept | AnswerAction::Tag) => 0,
        (ExitMode::Plain, AnswerAction::Reject) => 1,
        (ExitMode::Plain, AnswerAction::Drop) => 2,
        (ExitMode::Plain, AnswerAction::Quarantine) => 3,
        (ExitMode::XmailOffline, AnswerAction::Reject) if options.silent => 4,
        (ExitMode::XmailOffline, AnswerAction::Reject) => 6,
        (ExitMode::XmailOffline, AnswerAction::Drop) => 4,
        (ExitMode::XmailOffline, AnswerAction::Quarantine) => 5,
        (ExitMode::XmailSmtp, _) => 3,
        (ExitMode::Sysexits, _) => REFUSED,
    };
    if options.stop && mode.is_xmail() {
        code + STOP
    } else {
        code
    }
}

/// The exit code if there is no verdict.
///
/// Unless the caller chose otherwise, no mail is accepted by accident: the code is "try later",
/// which every mail server except XMail understands. XMail accepts the message at every code that
/// it does not know, so there the code at least describes the failure.
pub(crate) fn of_failure(
    mode: ExitMode,
    choice: Option<OnFailure>,
    options: XmailOptions,
    failure: &CallFailure,
) -> u8 {
    match choice {
        Some(OnFailure::Accept) => 0,
        Some(OnFailure::Reject) => of_verdict(mode, AnswerAction::Reject, options, false),
        None if mode.is_xmail() => failure.xmail_code(),
        Some(OnFailure::Defer) | None => LATER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error, ErrorKind};

    const MODES: [ExitMode; 4] = [
        ExitMode::Plain,
        ExitMode::XmailOffline,
        ExitMode::XmailSmtp,
        ExitMode::Sysexits,
    ];

    #[test]
    fn verdicts_have_the_documented_codes() {
        let table = [
            (AnswerAction::Accept, [0, 7, 0, 0]),
            (AnswerAction::Tag, [0, 7, 0, 0]),
            (AnswerAction::Reject, [1, 6, 3, 77]),
            (AnswerAction::Drop, [2, 4, 3, 77]),
            (AnswerAction::Quarantine, [3, 5, 3, 77]),
            (AnswerAction::Defer, [75, 75, 75, 75]),
        ];
        for (action, codes) in table {
            for (mode, code) in MODES.into_iter().zip(codes) {
                let options = XmailOptions::default();
                assert_eq!(
                    of_verdict(mode, action, options, true),
                    code,
                    "{mode:?} {action:?}"
                );
            }
        }
    }

    #[test]
    fn the_stop_bit_is_xmails_alone_and_never_on_defer() {
        let stop = XmailOptions {
            stop: true,
            silent: true,
        };
        assert_eq!(
            of_verdict(ExitMode::XmailOffline, AnswerAction::Reject, stop, false),
            20
        );
        assert_eq!(
            of_verdict(ExitMode::XmailSmtp, AnswerAction::Reject, stop, false),
            19
        );
        assert_eq!(
            of_verdict(ExitMode::XmailOffline, AnswerAction::Accept, stop, false),
            16
        );
        assert_eq!(
            of_verdict(ExitMode::XmailOffline, AnswerAction::Defer, stop, false),
            75
        );
        assert_eq!(
            of_verdict(ExitMode::Plain, AnswerAction::Reject, stop, false),
            1
        );
    }

    #[test]
    fn a_failure_accepts_the_message_only_where_chosen_or_where_xmail_has_no_other_code() {
        let none = XmailOptions::default();
        let lost = CallFailure::Lost(Error::from(ErrorKind::UnexpectedEof));
        assert_eq!(of_failure(ExitMode::Plain, None, none, &lost), 75);
        assert_eq!(of_failure(ExitMode::Sysexits, None, none, &lost), 75);
        assert_eq!(of_failure(ExitMode::XmailSmtp, None, none, &lost), 203);
        assert_eq!(
            of_failure(ExitMode::XmailOffline, Some(OnFailure::Reject), none, &lost),
            6
        );
        assert_eq!(
            of_failure(ExitMode::Plain, Some(OnFailure::Accept), none, &lost),
            0
        );
        // XMail masks bit 16 and compares the rest, which must not be 3 to 7 for any of these
        // codes.
        for code in [USAGE, LATER, 202, 203, 204, 205, 206, 207] {
            assert_eq!(code & STOP, 0, "{code}");
            assert!(!(3..=7).contains(&code), "{code}");
        }
    }
}
