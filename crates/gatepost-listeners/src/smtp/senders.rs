//! The sender addresses that a client may use after login (RFC 6409, section 6.1).
//!
//! A user's own addresses are those whose mail the user would receive, by name or by a mailbox
//! route, and those that the settings add. Administrators may use any sender address. The null
//! reverse path is not an address and always permitted, since reports need it.

use gatepost_mail::Mail;
use gatepost_users::Identity;

use super::path::{self, Mailbox};
use super::recipients::{Destination, Recipients, matches};
use super::reply::SmtpReply;
use super::settings::{SenderLogin, SmtpSettings};

const NOT_YOUR_ADDRESS: SmtpReply = SmtpReply::new(
    553,
    "5.7.1",
    "this sender address belongs to another user; log in as that user",
);
/// RFC 5321, section 4.3.2 has no 553 after DATA.
const NOT_YOUR_FROM: SmtpReply = SmtpReply::new(
    550,
    "5.7.1",
    "the From field must have an address of yours, and no other",
);

/// Whether the sender of MAIL is refused.
pub(super) fn check_envelope(
    settings: &SmtpSettings,
    recipients: &Recipients,
    identity: &Identity,
    from: Option<&Mailbox>,
) -> Result<(), SmtpReply> {
    let is_free = settings.sender_login == SenderLogin::Any || identity.is_admin();
    let (Some(from), Some(user)) = (from.filter(|_| !is_free), identity.user()) else {
        return Ok(());
    };
    if is_own(settings, recipients, user, from) {
        Ok(())
    } else {
        Err(NOT_YOUR_ADDRESS)
    }
}

/// Whether the message is refused for its From field.
pub(super) fn check_from(
    settings: &SmtpSettings,
    recipients: &Recipients,
    identity: &Identity,
    message: &[u8],
) -> Result<(), SmtpReply> {
    if settings.sender_login != SenderLogin::EnvelopeAndFrom || identity.is_admin() {
        return Ok(());
    }
    let Some(user) = identity.user() else {
        return Ok(());
    };
    let authors = Mail::parse(message).from_addresses();
    let is_own = |address: &String| {
        let path = format!("<{address}>");
        path::parse(&path).is_some_and(|(mailbox, _)| {
            mailbox.is_some_and(|mailbox| is_own(settings, recipients, user, &mailbox))
        })
    };
    if !authors.is_empty() && authors.iter().all(is_own) {
        Ok(())
    } else {
        Err(NOT_YOUR_FROM)
    }
}

fn is_own(settings: &SmtpSettings, recipients: &Recipients, user: &str, address: &Mailbox) -> bool {
    let is_same = |name: &str| name.to_lowercase() == user.to_lowercase();
    // A name may be a complete address; a name without a domain stands for all local domains.
    let by_name = is_same(address.user()) && recipients.has_domain(address.domain());
    if by_name || is_same(&address.address) {
        return true;
    }
    let mailbox = recipients.mailbox_of(address);
    if matches!(&mailbox, Some(Destination::Mailbox(owner)) if is_same(owner)) {
        return true;
    }
    let permitted = settings.sender_addresses.iter();
    permitted
        .filter(|(name, _)| name.as_str() == "*" || is_same(name))
        .flat_map(|(_, patterns)| patterns)
        .any(|pattern| matches(pattern, &address.address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_are_those_of_the_name_the_routes_and_the_settings() {
        let settings: SmtpSettings = toml::from_str(
            "domains = ['example.org', '*']\n\
             sender_addresses = { '*' = ['lists@example.org'], Anna = ['*@shop.example'] }\n\
             [[routes]]\nrecipients = 'sales@example.org'\nmailbox = 'anna'\n\
             [[routes]]\nrecipients = '*@people.example'\nmailbox = '{user}'\n",
        )
        .expect("settings");
        let recipients = Recipients::new(&settings, "gate.example");
        let is_own = |user: &str, address: &str| {
            let (mailbox, _) = path::parse(&format!("<{address}>")).expect("a path");
            is_own(&settings, &recipients, user, &mailbox.expect("a mailbox"))
        };
        for (user, address, expected) in [
            ("anna", "anna@example.org", true),
            ("anna", "Anna+news@EXAMPLE.org", true),
            ("anna", "sales@example.org", true),
            ("anna", "anna@people.example", true),
            ("anna", "info@shop.example", true),
            ("anna", "lists@example.org", true),
            ("anna@elsewhere.example", "anna@elsewhere.example", true),
            ("anna", "anna@elsewhere.example", false),
            ("anna", "bert@example.org", false),
            ("anna", "bert@people.example", false),
            ("bert", "sales@example.org", false),
            ("bert", "info@shop.example", false),
            ("anna", "info@shop.example.evil.example", false),
            ("anna", "\"anna@example.org\"@evil.example", false),
        ] {
            assert_eq!(is_own(user, address), expected, "{user} {address}");
        }
    }
}
