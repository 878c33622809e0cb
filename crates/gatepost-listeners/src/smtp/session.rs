//! The conversation: which command fits which state, and what it answers. Without I/O.

use gatepost_message::Topic;

use super::command::{self, Command, Hello, MailCommand};
use super::dialect::Dialect;
use super::path::Mailbox;
use super::recipients::Recipients;
use super::reply::Reply;
use super::settings::SmtpSettings;

/// One client's conversation.
#[derive(Debug)]
pub(super) struct Session<'a> {
    dialect: Dialect,
    settings: &'a SmtpSettings,
    recipients: &'a Recipients,
    hostname: &'a str,
    client: Option<Client>,
    transaction: Option<Transaction>,
}

/// What the client said of itself.
#[derive(Debug, Clone)]
pub(super) struct Client {
    pub(super) name: String,
    pub(super) extended: bool,
}

/// A message on its way: sender and recipients, before DATA.
#[derive(Debug, Clone, Default)]
pub(super) struct Transaction {
    /// `None` is the null reverse path.
    pub(super) from: Option<Mailbox>,
    pub(super) utf8: bool,
    /// Each recipient with the topic that its mail goes to.
    pub(super) to: Vec<(Mailbox, Topic)>,
}

/// What happens after a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Reply(Reply),
    /// The reply says "go ahead", and the message follows.
    Data(Reply),
    /// The connection ends after the reply.
    End(Reply),
}

const OK: Reply = Reply::new(250, "2.0.0", "ok");
const GO_AHEAD: Reply = Reply::new(354, "", "go ahead; end with a dot on a line of its own");
const GOOD_BYE: Reply = Reply::new(221, "2.0.0", "good bye");
const HELLO_FIRST: Reply = Reply::new(503, "5.5.1", "say EHLO (in LMTP: LHLO) first");
const MAIL_FIRST: Reply = Reply::new(
    503,
    "5.5.1",
    "name the sender first: MAIL FROM:<anna@example.org>",
);
const RCPT_FIRST: Reply = Reply::new(
    503,
    "5.5.1",
    "name a recipient first: RCPT TO:<name@localhost>",
);
const NESTED_MAIL: Reply = Reply::new(503, "5.5.1", "a sender is named already; RSET starts anew");
const TOO_MANY_RECIPIENTS: Reply = Reply::new(452, "4.5.3", "too many recipients");
const TOO_LARGE: Reply = Reply::new(552, "5.3.4", "the message is larger than is taken here");
const CANNOT_VERIFY: Reply = Reply::new(
    252,
    "2.1.5",
    "recipients are not looked up; send, and it will be seen",
);
const NEEDS_UTF8: Reply = Reply::new(
    553,
    "5.6.7",
    "an address beyond ASCII needs the SMTPUTF8 parameter of MAIL",
);

impl<'a> Session<'a> {
    pub(super) fn new(
        dialect: Dialect,
        settings: &'a SmtpSettings,
        recipients: &'a Recipients,
        hostname: &'a str,
    ) -> Self {
        Self {
            dialect,
            settings,
            recipients,
            hostname,
            client: None,
            transaction: None,
        }
    }

    pub(super) fn greeting(&self) -> Reply {
        Reply::with(
            220,
            "",
            format!("{} {} Gatepost", self.hostname, self.dialect.banner()),
        )
    }

    /// One command line, without its CR LF.
    pub(super) fn line(&mut self, line: &[u8]) -> Next {
        match command::parse(line) {
            Err(reply) => Next::Reply(reply),
            Ok(Command::Quit) => Next::End(GOOD_BYE),
            Ok(Command::Data) => match &self.transaction {
                None => Next::Reply(MAIL_FIRST),
                Some(transaction) if transaction.to.is_empty() => Next::Reply(RCPT_FIRST),
                Some(_) => Next::Data(GO_AHEAD),
            },
            Ok(command) => Next::Reply(self.reply_to(command)),
        }
    }

    fn reply_to(&mut self, command: Command) -> Reply {
        match command {
            Command::Hello { verb, name } => self.hello(verb, name),
            Command::Mail(command) => self.mail(command),
            Command::Rcpt { to } => self.rcpt(to),
            Command::Reset => {
                self.transaction = None;
                OK
            }
            Command::Verify => CANNOT_VERIFY,
            Command::Help => Reply::new(214, "2.0.0", self.dialect.help()),
            Command::Noop | Command::Data | Command::Quit => OK,
        }
    }

    fn hello(&mut self, verb: Hello, name: String) -> Reply {
        if !self.dialect.speaks(verb) {
            return self.dialect.wrong_hello();
        }
        let extended = verb != Hello::Helo;
        // RFC 5321 § 4.1.4: a new greeting starts anew.
        self.transaction = None;
        let text = if extended {
            format!(
                "{} greets {name}\nPIPELINING\nSIZE {}\n8BITMIME\nSMTPUTF8\nENHANCEDSTATUSCODES\nHELP",
                self.hostname,
                self.settings.message_max.bytes()
            )
        } else {
            format!("{} greets {name}", self.hostname)
        };
        self.client = Some(Client { name, extended });
        Reply::with(250, "", text)
    }

    fn mail(&mut self, command: MailCommand) -> Reply {
        if self.client.is_none() {
            return HELLO_FIRST;
        }
        if self.transaction.is_some() {
            return NESTED_MAIL;
        }
        // RFC 1870 § 6.1: refused before a byte of it is sent.
        if command
            .size
            .is_some_and(|size| size > self.settings.message_max.bytes())
        {
            return TOO_LARGE;
        }
        let ascii = command
            .from
            .as_ref()
            .is_none_or(|from| from.address.is_ascii());
        if !ascii && !command.utf8 {
            return NEEDS_UTF8;
        }
        self.transaction = Some(Transaction {
            from: command.from,
            utf8: command.utf8,
            to: Vec::new(),
        });
        OK
    }

    fn rcpt(&mut self, to: Mailbox) -> Reply {
        let Some(transaction) = &mut self.transaction else {
            return MAIL_FIRST;
        };
        if transaction.to.len() >= self.settings.recipients_max {
            return TOO_MANY_RECIPIENTS;
        }
        if !to.address.is_ascii() && !transaction.utf8 {
            return NEEDS_UTF8;
        }
        match self.recipients.topic(&to) {
            Ok(topic) => {
                transaction.to.push((to, topic));
                OK
            }
            Err(reply) => reply,
        }
    }

    /// The transaction that DATA completed; the next command starts without one.
    pub(super) fn take_transaction(&mut self) -> Transaction {
        self.transaction.take().unwrap_or_default()
    }

    pub(super) const fn client(&self) -> Option<&Client> {
        self.client.as_ref()
    }
}
