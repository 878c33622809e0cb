//! The map from recipients to destinations, which also determines which recipients are local.

use std::net::IpAddr;
use std::sync::Arc;

use gatepost_message::Topic;

use super::path::{self, Mailbox};
use super::reply::SmtpReply;
use super::route::{RecipientRoute, RouteTarget};
use super::settings::SmtpSettings;
use crate::forward::NextHop;

const NO_RELAY: SmtpReply = SmtpReply::new(
    550,
    "5.7.1",
    "not a relay: mail to this domain is not accepted",
);
const NO_ROUTED_RECIPIENT: SmtpReply = SmtpReply::new(
    550,
    "5.7.1",
    "not a relay: a recipient with a route ('%', '!', '@' before the domain) is not accepted",
);
const NO_TOPIC: SmtpReply = SmtpReply::new(
    550,
    "5.1.3",
    "the recipient cannot be mapped to a topic: it must have no '#', no leading '$' and no empty \
        level",
);

const NO_MAILBOX: SmtpReply = SmtpReply::new(
    550,
    "5.1.3",
    "the recipient is not a valid mailbox name: use letters, digits, '.', '-' and '_'",
);

/// The destination of one recipient's mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Destination {
    Topic(Topic),
    /// The mailbox of this user.
    Mailbox(String),
    Forward(Arc<NextHop>),
}

/// The facts about a client that decide which recipients it may name.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ClientTrust {
    pub(super) has_logged_in: bool,
    /// Whether it is a mail server of `trusted`, which has checked recipients itself.
    pub(super) is_trusted: bool,
    /// The server's address, as the client knows it.
    pub(super) connected_to: Option<IpAddr>,
}

/// The map from recipients to destinations.
#[derive(Debug, Clone)]
pub(super) struct Recipients {
    domains: Vec<String>,
    any_domain: bool,
    routes: Vec<(RecipientRoute, Option<Arc<NextHop>>)>,
}

impl Recipients {
    pub(super) fn new(settings: &SmtpSettings, hostname: &str) -> Self {
        let mut domains: Vec<String> = settings
            .domains
            .iter()
            .map(|domain| domain.to_ascii_lowercase())
            .collect();
        domains.push("localhost".to_owned());
        domains.push(hostname.to_ascii_lowercase());
        Self {
            any_domain: domains.iter().any(|domain| domain == "*"),
            domains,
            routes: settings.routes.iter().map(with_next_hop).collect(),
        }
    }

    /// The destination of this recipient's mail, or the reason of a refusal.
    ///
    /// A client that has logged in may send to every domain that a route forwards. Other clients
    /// may not name a source route inside an address that is forwarded: a next hop that trusts this
    /// host might follow it and relay their mail anywhere.
    pub(super) fn destination(
        &self,
        to: &Mailbox,
        client: ClientTrust,
    ) -> Result<Destination, SmtpReply> {
        let route = self.route_of(to);
        let is_forwarded = route.is_some_and(|(_, next_hop)| next_hop.is_some());
        let is_ours = self.is_local(to.domain(), client.connected_to);
        let may_relay = client.has_logged_in && is_forwarded;
        if !is_ours && !may_relay {
            return Err(NO_RELAY);
        }
        let may_name_a_route = client.has_logged_in || client.is_trusted;
        if is_forwarded && !may_name_a_route && to.names_a_route() {
            return Err(NO_ROUTED_RECIPIENT);
        }
        match route.map(|(route, next_hop)| (&route.to, next_hop)) {
            Some((_, Some(next_hop))) => Ok(Destination::Forward(Arc::clone(next_hop))),
            Some((RouteTarget::Mailbox(template), _)) => mailbox(template, to),
            Some((RouteTarget::Topic(template), _)) => topic(&fill(template, to)),
            _ => topic(&to.local().trim_matches('"').replace('+', "/")),
        }
    }

    /// The mailbox that a route maps this address to.
    pub(super) fn mailbox_of(&self, address: &Mailbox) -> Option<Destination> {
        let (route, _) = self.route_of(address)?;
        match &route.to {
            RouteTarget::Mailbox(template) => mailbox(template, address).ok(),
            RouteTarget::Topic(_) | RouteTarget::Forward(_) => None,
        }
    }

    /// The first route that matches this address.
    fn route_of(&self, address: &Mailbox) -> Option<&(RecipientRoute, Option<Arc<NextHop>>)> {
        let mut routes = self.routes.iter();
        routes.find(|(route, _)| matches(&route.recipients, &address.address))
    }

    /// Whether mail to this address is the user's. A route decides it if there is one; otherwise
    /// the name does, in the domains that the settings list: in another domain the same name may
    /// be another person. A user's name may also be the whole address.
    pub(super) fn are_for(&self, user: &str, address: &Mailbox) -> bool {
        let is_same = |name: &str| name.to_lowercase() == user.to_lowercase();
        if is_same(&address.address) {
            return true;
        }
        if self.route_of(address).is_some() {
            let mailbox = self.mailbox_of(address);
            return matches!(mailbox, Some(Destination::Mailbox(owner)) if is_same(&owner));
        }
        is_same(address.user()) && self.has_domain(address.domain())
    }

    /// Whether the settings list this domain as local.
    pub(super) fn has_domain(&self, domain: &str) -> bool {
        let mut domains = self.domains.iter();
        domains.any(|ours| ours.eq_ignore_ascii_case(domain))
    }

    /// Whether any mail is forwarded.
    pub(super) fn forwards(&self) -> bool {
        self.routes.iter().any(|(_, next_hop)| next_hop.is_some())
    }

    fn is_local(&self, domain: &str, connected_to: Option<IpAddr>) -> bool {
        let literal = path::literal_address(domain).map(|address| address.to_canonical());
        // `postmaster` without a domain is always local (RFC 5321, section 4.5.1). A literal is
        // local if it is the address that the client connected to; any other would be a relay.
        self.any_domain
            || domain.is_empty()
            || literal.is_some() && literal == connected_to
            || self.has_domain(domain)
    }
}

fn with_next_hop(route: &RecipientRoute) -> (RecipientRoute, Option<Arc<NextHop>>) {
    let next_hop = match &route.to {
        RouteTarget::Forward(next_hop) => Some(Arc::new(next_hop.clone())),
        RouteTarget::Topic(_) | RouteTarget::Mailbox(_) => None,
    };
    (route.clone(), next_hop)
}

fn topic(name: &str) -> Result<Destination, SmtpReply> {
    // `$` belongs to the server [MQTT-4.7.2-1].
    if name.starts_with('$') {
        return Err(NO_TOPIC);
    }
    let topic = Topic::new(name).map_err(|_| NO_TOPIC)?;
    Ok(Destination::Topic(topic))
}

/// Mailboxes have users' names, which ignore case: mail to Anna belongs to anna.
fn mailbox(template: &str, to: &Mailbox) -> Result<Destination, SmtpReply> {
    let name = fill(template, to).to_lowercase();
    let is_name = |character: char| character.is_alphanumeric() || ".-_@".contains(character);
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(NO_MAILBOX);
    }
    Ok(Destination::Mailbox(name))
}

fn fill(template: &str, to: &Mailbox) -> String {
    let local = to.local();
    let (user, detail) = local.split_once('+').unwrap_or((local, ""));
    template
        .replace("{user}", user)
        .replace("{detail}", &detail.replace('+', "/"))
        .replace("{local}", local)
        .replace("{domain}", to.domain())
}

/// Whether `text` matches `pattern`, in which `*` stands for any text.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.to_lowercase(), text.to_lowercase());
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return rest.ends_with(piece);
        }
        match rest.find(piece) {
            Some(found) => rest = &rest[found + piece.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(settings: &SmtpSettings, address: &str) -> Result<String, SmtpReply> {
        let (mailbox, _) = path::parse(&format!("<{address}>")).expect("a path");
        let recipients = Recipients::new(settings, "gate.example.org");
        let client = ClientTrust {
            connected_to: "127.0.0.1".parse().ok(),
            ..ClientTrust::default()
        };
        let destination = recipients.destination(&mailbox.expect("a mailbox"), client)?;
        Ok(match destination {
            Destination::Topic(topic) => topic.to_string(),
            Destination::Mailbox(user) => format!("mailbox {user}"),
            Destination::Forward(next_hop) => next_hop.to_string(),
        })
    }

    #[test]
    fn plus_makes_levels_and_foreign_domains_are_refused() {
        let settings = SmtpSettings::default();
        for (address, expected) in [
            ("alarms+fire@localhost", Ok("alarms/fire")),
            ("alarms@LOCALHOST", Ok("alarms")),
            ("a+b+c@gate.example.org", Ok("a/b/c")),
            ("alarms+fire@[127.0.0.1]", Ok("alarms/fire")),
            ("alarms+fire@[IPv6:::ffff:127.0.0.1]", Ok("alarms/fire")),
            ("alarms@[203.0.113.5]", Err(NO_RELAY)),
            ("alarms@[IPv6:2001:db8::1]", Err(NO_RELAY)),
            ("postmaster", Ok("postmaster")),
            ("alarms@example.net", Err(NO_RELAY)),
            ("a#b@localhost", Err(NO_TOPIC)),
            ("$SYS+x@localhost", Err(NO_TOPIC)),
        ] {
            assert_eq!(
                topic(&settings, address),
                expected.map(str::to_owned),
                "{address}"
            );
        }
    }

    #[test]
    fn the_first_rule_that_fits_names_the_topic() {
        let route = |recipients: &str, to: RouteTarget| RecipientRoute {
            recipients: recipients.to_owned(),
            to,
        };
        let topic_of = |template: &str| RouteTarget::Topic(template.to_owned());
        let next_hop: NextHop = "smtp://127.0.0.1:10026".parse().expect("a next hop");
        let settings = SmtpSettings {
            domains: vec!["*".to_owned()],
            routes: vec![
                route("*@cameras.example.org", topic_of("cameras/{user}/{detail}")),
                route("root@*", topic_of("system/{domain}")),
                route(
                    "*@people.example.org",
                    RouteTarget::Mailbox("{user}".to_owned()),
                ),
                route("*@next.example.org", RouteTarget::Forward(next_hop)),
            ],
            ..SmtpSettings::default()
        };
        for (address, expected) in [
            ("door+night@Cameras.example.org", "cameras/door/night"),
            ("root@db.example.org", "system/db.example.org"),
            ("other@db.example.org", "other"),
            ("Anna+x@people.example.org", "mailbox anna"),
            ("x@next.example.org", "smtp://127.0.0.1:10026"),
        ] {
            assert_eq!(
                topic(&settings, address),
                Ok(expected.to_owned()),
                "{address}"
            );
        }
    }

    #[test]
    fn mail_belongs_to_the_user_that_it_would_be_delivered_to() {
        let route = |recipients: &str, to: RouteTarget| RecipientRoute {
            recipients: recipients.to_owned(),
            to,
        };
        let next_hop: NextHop = "smtp://127.0.0.1:10026".parse().expect("a next hop");
        let settings = SmtpSettings {
            domains: vec!["example.org".to_owned(), "*".to_owned()],
            routes: vec![
                route("sales@example.org", RouteTarget::Mailbox("otto".to_owned())),
                route("door@example.org", RouteTarget::Topic("door".to_owned())),
                route(
                    "*@people.example",
                    RouteTarget::Mailbox("{user}".to_owned()),
                ),
                route("*@next.example", RouteTarget::Forward(next_hop)),
            ],
            ..SmtpSettings::default()
        };
        let recipients = Recipients::new(&settings, "gate.example.org");
        for (user, address, expected) in [
            ("anna", "anna@example.org", true),
            ("anna", "Anna+lists@example.org", true),
            ("anna", "annabel@example.org", false),
            ("anna", "otto+anna@example.org", false),
            ("anna", "anna@gate.example.org", true),
            ("anna", "anna@elsewhere.example", false),
            ("anna@elsewhere.example", "Anna@elsewhere.example", true),
            ("anna", "anna+x@people.example", true),
            ("anna", "anna@next.example", false),
            ("anna@next.example", "anna@next.example", true),
            ("otto", "sales@example.org", true),
            ("sales", "sales@example.org", false),
            ("door", "door@example.org", false),
            ("postmaster", "postmaster", true),
        ] {
            let (mailbox, _) = path::parse(&format!("<{address}>")).expect("a path");
            let are_for = recipients.are_for(user, &mailbox.expect("a mailbox"));
            assert_eq!(are_for, expected, "{user} {address}");
        }
    }

    #[test]
    fn a_forward_route_relays_for_no_unauthenticated_client() {
        let next_hop: NextHop = "smtp://127.0.0.1:10026".parse().expect("a next hop");
        let settings = SmtpSettings {
            domains: vec!["ours.example".to_owned()],
            routes: vec![RecipientRoute {
                recipients: "*".to_owned(),
                to: RouteTarget::Forward(next_hop),
            }],
            ..SmtpSettings::default()
        };
        let recipients = Recipients::new(&settings, "gate.example.org");
        let stranger = ClientTrust::default();
        let user = ClientTrust {
            has_logged_in: true,
            ..stranger
        };
        let trusted = ClientTrust {
            is_trusted: true,
            ..stranger
        };
        for (path, to_stranger, to_trusted) in [
            ("<anna@ours.example>", None, None),
            ("<victim@[203.0.113.5]>", Some(NO_RELAY), Some(NO_RELAY)),
            (
                "<victim%far.example@ours.example>",
                Some(NO_ROUTED_RECIPIENT),
                None,
            ),
            (
                "<far.example!victim@ours.example>",
                Some(NO_ROUTED_RECIPIENT),
                None,
            ),
            (
                "<\"victim@far.example\"@ours.example>",
                Some(NO_ROUTED_RECIPIENT),
                None,
            ),
            (
                "<\"victim\\@far.example\"@ours.example>",
                Some(NO_ROUTED_RECIPIENT),
                None,
            ),
            (
                "<@far.example:anna@ours.example>",
                Some(NO_ROUTED_RECIPIENT),
                None,
            ),
            (
                "<@ours.example:victim@far.example>",
                Some(NO_RELAY),
                Some(NO_RELAY),
            ),
        ] {
            let (mailbox, _) = path::parse(path).expect("a path");
            let mailbox = mailbox.expect("a mailbox");
            let refusal = |client| recipients.destination(&mailbox, client).err();
            assert_eq!(refusal(stranger), to_stranger, "{path}");
            assert_eq!(refusal(trusted), to_trusted, "{path}");
            assert_eq!(refusal(user), None, "{path}");
        }
    }

    #[test]
    fn patterns_match_whole_addresses() {
        for (pattern, text, expected) in [
            ("*", "anything", true),
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "abcd", false),
            ("*b*d", "abcd", true),
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("*aa", "aaa", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
