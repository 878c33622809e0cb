//! The table of replies: all replies with fixed texts, ordered by code and enhanced code (RFC
//! 3463).
//!
//! Replies whose text depends on a verdict, a login or the next hop are made in [`super::reply`].

use super::reply::SmtpReply;

pub(super) const BEGIN_TLS: SmtpReply = SmtpReply::new(220, "2.0.0", "begin TLS");
pub(super) const GOOD_BYE: SmtpReply = SmtpReply::new(221, "2.0.0", "good bye");
pub(super) const AUTHENTICATED: SmtpReply = SmtpReply::new(235, "2.7.0", "logged in");
pub(super) const OK: SmtpReply = SmtpReply::new(250, "2.0.0", "ok");
pub(super) const CANNOT_VERIFY: SmtpReply = SmtpReply::new(
    252,
    "2.1.5",
    "recipients cannot be verified; send the message to find out",
);
pub(super) const GO_AHEAD: SmtpReply =
    SmtpReply::new(354, "", "go ahead; end with a dot on a line of its own");
pub(super) const SHUTTING_DOWN: SmtpReply =
    SmtpReply::new(421, "4.3.2", "shutting down, try again later");
pub(super) const TIMEOUT: SmtpReply = SmtpReply::new(
    421,
    "4.4.2",
    "waited too long; closing the \
    connection",
);
pub(super) const NOT_HTTP: SmtpReply = SmtpReply::new(
    421,
    "4.7.0",
    "this is not HTTP; closing \
    the connection",
);
pub(super) const TOO_MANY_ERRORS: SmtpReply =
    SmtpReply::new(421, "4.7.0", "too many errors; closing the connection");
pub(super) const TOO_MANY_CONNECTIONS: SmtpReply =
    SmtpReply::new(421, "4.7.0", "too many connections, try again later");
pub(super) const NOT_NOW: SmtpReply = SmtpReply::new(451, "4.3.0", "not now, try again later");
pub(super) const MAILBOX_FULL: SmtpReply = SmtpReply::new(452, "4.2.2", "the mailbox is full");
/// RFC 5321, section 4.2.3: insufficient system storage.
pub(super) const NO_ROOM: SmtpReply = SmtpReply::new(
    452,
    "4.3.1",
    "too many unfinished messages, try again later",
);
pub(super) const TOO_MANY_RECIPIENTS: SmtpReply =
    SmtpReply::new(452, "4.5.3", "too many recipients");
/// The remaining recipients belong to the client's next transaction (RFC 5321, section 4.5.3.1.10).
pub(super) const ONE_NEXT_HOP: SmtpReply = SmtpReply::new(
    452,
    "4.5.3",
    "recipients of another next hop; send to them in a separate transaction",
);
pub(super) const NO_TEXT: SmtpReply = SmtpReply::new(500, "5.5.2", "the line is not UTF-8 text");
pub(super) const LINE_TOO_LONG: SmtpReply = SmtpReply::new(500, "5.5.2", "the line is too long");
pub(super) const BARE_NEWLINE: SmtpReply =
    SmtpReply::new(500, "5.5.2", "a bare CR or LF; only CR LF ends a line");
pub(super) const BAD_PARAMETER: SmtpReply =
    SmtpReply::new(501, "5.5.4", "the parameter's value is malformed");
pub(super) const GIVEN_UP: SmtpReply = SmtpReply::new(501, "5.7.0", "the login was cancelled");
pub(super) const NOT_OFFERED: SmtpReply = SmtpReply::new(502, "5.5.1", "not offered here");
pub(super) const HELLO_FIRST: SmtpReply =
    SmtpReply::new(503, "5.5.1", "send EHLO (in LMTP: LHLO) first");
pub(super) const MAIL_FIRST: SmtpReply = SmtpReply::new(
    503,
    "5.5.1",
    "name the sender first: MAIL FROM:<anna@example.org>",
);
pub(super) const RCPT_FIRST: SmtpReply = SmtpReply::new(
    503,
    "5.5.1",
    "name a recipient first: RCPT TO:<name@localhost>",
);
pub(super) const NESTED_MAIL: SmtpReply =
    SmtpReply::new(503, "5.5.1", "a sender is named already; RSET starts again");
pub(super) const WITHIN_TRANSACTION: SmtpReply =
    SmtpReply::new(503, "5.5.1", "not within a transaction");
pub(super) const CHUNKS_BEGUN: SmtpReply = SmtpReply::new(
    503,
    "5.5.1",
    "the message has begun with BDAT; continue with BDAT",
);
pub(super) const BINARY_NEEDS_CHUNKS: SmtpReply =
    SmtpReply::new(503, "5.5.1", "BODY=BINARYMIME is sent with BDAT");
pub(super) const IS_ENCRYPTED: SmtpReply = SmtpReply::new(503, "5.5.1", "TLS is active already");
pub(super) const LOGGED_IN: SmtpReply = SmtpReply::new(503, "5.5.1", "you are logged in");
pub(super) const NO_MECHANISM: SmtpReply =
    SmtpReply::new(504, "5.5.4", "the mechanism is not supported");
pub(super) const LOGIN_FIRST: SmtpReply = SmtpReply::new(530, "5.7.0", "log in first: AUTH");
pub(super) const NOT_IN_PLAIN: SmtpReply =
    SmtpReply::new(538, "5.7.11", "a login needs TLS; send STARTTLS first");
pub(super) const NO_SUCH_USER: SmtpReply = SmtpReply::new(550, "5.1.1", "no such user here");
pub(super) const BARE_NEWLINE_IN_DATA: SmtpReply = SmtpReply::new(
    550,
    "5.5.2",
    "the message has a bare CR or LF; only CR LF ends a line",
);
pub(super) const TEXT_LINE_TOO_LONG: SmtpReply =
    SmtpReply::new(550, "5.6.0", "the message has a line that is too long");
pub(super) const NOT_TRUSTED: SmtpReply = SmtpReply::new(
    550,
    "5.7.0",
    "only peers in listeners.smtp.trusted may name other clients",
);
pub(super) const MAY_NOT_PUBLISH: SmtpReply =
    SmtpReply::new(550, "5.7.1", "you may not publish to this topic");
pub(super) const MESSAGE_TOO_LARGE: SmtpReply = SmtpReply::new(
    552,
    "5.3.4",
    "the message is larger than this server accepts",
);
pub(super) const NEEDS_UTF8: SmtpReply = SmtpReply::new(
    553,
    "5.6.7",
    "an address beyond ASCII needs the SMTPUTF8 parameter of MAIL",
);
pub(super) const LOOP: SmtpReply = SmtpReply::new(
    554,
    "5.4.6",
    "the message has too many Received fields: a loop",
);
pub(super) const TOO_EARLY: SmtpReply = SmtpReply::new(
    554,
    "5.5.0",
    "commands came before the greeting; closing the connection",
);
pub(super) const TOO_MANY_FIELDS: SmtpReply =
    SmtpReply::new(554, "5.6.0", "the message has too many header fields");
pub(super) const UNKNOWN_PARAMETER: SmtpReply =
    SmtpReply::new(555, "5.5.4", "a parameter is not supported");
