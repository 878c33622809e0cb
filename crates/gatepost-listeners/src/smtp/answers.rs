//! What a session answers, in words.

use super::reply::Reply;

pub(super) const OK: Reply = Reply::new(250, "2.0.0", "ok");
pub(super) const GO_AHEAD: Reply =
    Reply::new(354, "", "go ahead; end with a dot on a line of its own");
pub(super) const GOOD_BYE: Reply = Reply::new(221, "2.0.0", "good bye");
pub(super) const HELLO_FIRST: Reply = Reply::new(503, "5.5.1", "say EHLO (in LMTP: LHLO) first");
pub(super) const MAIL_FIRST: Reply = Reply::new(
    503,
    "5.5.1",
    "name the sender first: MAIL FROM:<anna@example.org>",
);
pub(super) const RCPT_FIRST: Reply = Reply::new(
    503,
    "5.5.1",
    "name a recipient first: RCPT TO:<name@localhost>",
);
pub(super) const NESTED_MAIL: Reply =
    Reply::new(503, "5.5.1", "a sender is named already; RSET starts anew");
pub(super) const TOO_MANY_RECIPIENTS: Reply = Reply::new(452, "4.5.3", "too many recipients");
pub(super) const TOO_LARGE: Reply =
    Reply::new(552, "5.3.4", "the message is larger than is taken here");
pub(super) const CANNOT_VERIFY: Reply = Reply::new(
    252,
    "2.1.5",
    "recipients are not looked up; send, and it will be seen",
);
pub(super) const NOT_TRUSTED: Reply = Reply::new(
    550,
    "5.7.0",
    "only peers in listeners.smtp.trusted may speak for others",
);
pub(super) const WITHIN_TRANSACTION: Reply = Reply::new(503, "5.5.1", "not within a transaction");
pub(super) const CHUNKS_BEGUN: Reply =
    Reply::new(503, "5.5.1", "the message has begun with BDAT; go on so");
pub(super) const BINARY_NEEDS_CHUNKS: Reply =
    Reply::new(503, "5.5.1", "BODY=BINARYMIME is sent with BDAT");
pub(super) const BEGIN_TLS: Reply = Reply::new(220, "2.0.0", "begin TLS");
pub(super) const IS_ENCRYPTED: Reply = Reply::new(503, "5.5.1", "this is TLS already");
pub(super) const LOGIN_FIRST: Reply = Reply::new(530, "5.7.0", "log in first: AUTH");
pub(super) const LOGGED_IN: Reply = Reply::new(503, "5.5.1", "you are logged in");
pub(super) const NOT_IN_PLAIN: Reply =
    Reply::new(538, "5.7.11", "not without TLS: say STARTTLS first");
pub(super) const MAY_NOT_PUBLISH: Reply =
    Reply::new(550, "5.7.1", "you may not publish to this topic");
pub(super) const NEEDS_UTF8: Reply = Reply::new(
    553,
    "5.6.7",
    "an address beyond ASCII needs the SMTPUTF8 parameter of MAIL",
);
pub(super) const BAD_PARAMETER: Reply =
    Reply::new(501, "5.5.4", "the parameter's value is malformed");
pub(super) const UNKNOWN_PARAMETER: Reply =
    Reply::new(555, "5.5.4", "a parameter is not known here");
pub(super) const NO_TEXT: Reply = Reply::new(500, "5.5.2", "the line is no UTF-8 text");
pub(super) const NOT_OFFERED: Reply = Reply::new(502, "5.5.1", "not offered here");
