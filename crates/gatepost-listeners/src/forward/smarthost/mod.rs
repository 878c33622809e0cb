//! The smarthost: the one next hop that takes mail of the server itself, over the client that
//! forwards mail. All of it is signed here, so that the server sends no unsigned mail.

mod settings;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use gatepost_rules::{DkimKey, DkimSigner};
use gatepost_sinks::{Checking, MailSubmission, RefusedRecipient, SendOutcome, Sending};

use super::error::HopError;
use super::hop::HopConnection;
use super::login::HopLogin;
use super::next_hop::NextHop;
use super::relay::{HopTransaction, RelayClient, RelayMail, RelayStart};
use super::reply::HopReply;
use super::{ForwardContext, HopTls};
pub use settings::{DkimKeySettings, SmarthostSettings};

/// The permissions of a key file that let others read it.
const MODE_OTHERS: u32 = 0o007;

/// A mistake in `[smarthost]`: the key, and what is wrong with its value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct SmarthostMistake {
    /// The dotted key.
    pub key: String,
    /// The cause and the remedy.
    pub reason: String,
}

/// The smarthost, ready to send.
pub struct Smarthost {
    next_hop: Arc<NextHop>,
    forward: ForwardContext,
    hostname: String,
    signers: Vec<DkimSigner>,
}

impl Smarthost {
    /// Reads the files that the settings name; `None` where there is no smarthost.
    pub fn new(settings: &SmarthostSettings) -> Result<Option<Self>, SmarthostMistake> {
        if !settings.is_on() {
            return if settings.dkim.is_empty() {
                Ok(None)
            } else {
                Err(mistake(
                    "server",
                    "there are DKIM keys, and no server to send to",
                ))
            };
        }
        let next_hop: NextHop = settings.server.parse().map_err(|_| {
            mistake(
                "server",
                "write smtp://mail.example.org:587 or smtps://mail.example.org:465",
            )
        })?;
        if next_hop.speaks_lmtp || next_hop.domain().is_some() {
            return Err(mistake("server", "a smarthost has smtp:// or smtps://"));
        }
        let mut forward = ForwardContext::new(settings.forward());
        forward.login = login(settings, &next_hop)?;
        let signers = settings.dkim.iter().enumerate();
        let signers = signers.map(|(number, key)| signer(number, key));
        Ok(Some(Self {
            next_hop: Arc::new(next_hop),
            forward,
            hostname: settings.hostname.clone(),
            signers: signers.collect::<Result<_, _>>()?,
        }))
    }

    /// The mail with a signature of each key of the sender's domain.
    fn signed(&self, text: &[u8]) -> Vec<u8> {
        let host = from_host(text);
        let signers = self.signers.iter();
        let signers =
            signers.filter(|signer| host.as_deref().is_some_and(|host| signer.signs_for(host)));
        let now = SystemTime::now();
        let fields = signers.filter_map(|signer| signer.signature_field(text, now));
        [fields.collect::<String>().as_bytes(), text].concat()
    }

    async fn submit(&self, submission: &MailSubmission) -> Result<Vec<RefusedRecipient>, HopError> {
        let text = self.signed(&submission.text);
        let mail = RelayMail {
            from: submission.sender.clone(),
            size: Some(text.len() as u64),
            ..RelayMail::default()
        };
        let origin = RelayClient::default();
        let begun =
            HopTransaction::begin(&self.next_hop, &self.forward, &self.hostname, &origin, mail);
        let mut relay = match begun.await? {
            RelayStart::Open(relay) => relay,
            RelayStart::Refused(reply) => return Ok(refused(&submission.recipients, &reply)),
        };
        let mut refusals = Vec::new();
        let mut accepted = Vec::new();
        for address in &submission.recipients {
            let reply = relay.recipient(address, &[]).await?;
            if reply.is_positive() {
                accepted.push(address.clone());
            } else {
                refusals.extend(refused(std::slice::from_ref(address), &reply));
            }
        }
        if !accepted.is_empty() {
            let replies = relay.deliver(&text, 1).await?;
            if let Some(reply) = replies.first().filter(|reply| !reply.is_positive()) {
                refusals.extend(refused(&accepted, reply));
            }
        }
        relay.end().await;
        Ok(refusals)
    }

    async fn connect(&self) -> Result<(), String> {
        let opened = HopConnection::open(&self.next_hop, &self.forward, &self.hostname).await;
        opened.map(drop).map_err(|error| error.with_cause())
    }
}

impl gatepost_sinks::MailTransport for Smarthost {
    fn target(&self) -> String {
        self.next_hop.to_string()
    }

    fn send<'a>(&'a self, mail: &'a MailSubmission) -> Sending<'a> {
        Box::pin(async {
            let outcome: SendOutcome = self.submit(mail).await.map_err(|error| error.with_cause());
            outcome
        })
    }

    fn check(&self) -> Checking<'_> {
        Box::pin(self.connect())
    }
}

fn mistake(field: &str, reason: impl Into<String>) -> SmarthostMistake {
    SmarthostMistake {
        key: format!("smarthost.{field}"),
        reason: reason.into(),
    }
}

/// The same reply for each of these.
fn refused(addresses: &[String], reply: &HopReply) -> Vec<RefusedRecipient> {
    // RFC 4954, section 6: if the smarthost requires a login, the operator must act, and the mail
    // itself is not at fault.
    let is_about_login = matches!(reply.code, 530 | 534 | 535 | 538);
    let one = |address: &String| RefusedRecipient {
        address: address.clone(),
        reply: format!("{} {}", reply.code, reply.lines.join(" ")),
        is_transient: reply.is_transient() || is_about_login,
    };
    addresses.iter().map(one).collect()
}

fn login(
    settings: &SmarthostSettings,
    next_hop: &NextHop,
) -> Result<Option<HopLogin>, SmarthostMistake> {
    let SmarthostSettings {
        user,
        password_file,
        ..
    } = settings;
    if user.is_empty() {
        return Ok(None);
    }
    if settings.tls == HopTls::Off && !next_hop.is_encrypted && !next_hop.is_local() {
        let reason = "the password would be sent in plain text; write tls = \"required\"";
        return Err(mistake("tls", reason));
    }
    let text = secret_text(password_file).map_err(|reason| mistake("password_file", reason))?;
    let password = text.lines().next().unwrap_or_default().to_owned();
    if password.is_empty() || password.contains('\0') || user.contains('\0') {
        return Err(mistake(
            "password_file",
            "its first line must be the password",
        ));
    }
    Ok(Some(HopLogin {
        user: user.clone(),
        password,
    }))
}

fn signer(number: usize, settings: &DkimKeySettings) -> Result<DkimSigner, SmarthostMistake> {
    let DkimKeySettings {
        domain,
        selector,
        key,
    } = settings;
    let wrong = |field: &str, reason: String| mistake(&format!("dkim.{number}.{field}"), reason);
    let is_label = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    for (field, name) in [("domain", domain), ("selector", selector)] {
        if name.is_empty() || !name.bytes().all(is_label) {
            return Err(wrong(field, "write a name as DNS has it".to_owned()));
        }
    }
    let text = secret_text(key).map_err(|reason| wrong("key", reason))?;
    let key = DkimKey::from_pem(&text).map_err(|error| wrong("key", error.to_string()))?;
    Ok(DkimSigner::new(domain, selector, key))
}

/// The text of a file that others may not read.
fn secret_text(file: &Path) -> Result<String, String> {
    let failed = |error| format!("{}: {error}", file.display());
    let mode = fs::metadata(file).map_err(failed)?.permissions().mode();
    if mode & MODE_OTHERS != 0 {
        let file = file.display();
        return Err(format!(
            "{file}: every user of this machine has access; fix: chmod o= {file}"
        ));
    }
    fs::read_to_string(file).map_err(failed)
}

/// The domain of the address in `From`.
fn from_host(text: &[u8]) -> Option<String> {
    let mail = gatepost_mail::Mail::parse(text);
    let from = mail.header(&gatepost_mail::HeaderSelector::parse("From:addr"))?;
    let from = String::from_utf8_lossy(&from).trim().to_owned();
    from.rsplit_once('@').map(|(_, host)| host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(change: impl FnOnce(&mut SmarthostSettings)) -> SmarthostSettings {
        let mut settings = SmarthostSettings {
            server: "smtp://mail.example.org:587".to_owned(),
            ..SmarthostSettings::default()
        };
        change(&mut settings);
        settings
    }

    #[test]
    fn each_mistake_is_found_at_its_key() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = folder.path().join("open");
        let bad = folder.path().join("bad");
        for (file, mode) in [(&open, 0o644), (&bad, 0o600)] {
            fs::write(file, "\n").expect("written");
            fs::set_permissions(file, fs::Permissions::from_mode(mode)).expect("set");
        }
        let key = |domain: &str, file: &Path| DkimKeySettings {
            domain: domain.to_owned(),
            selector: "s1".to_owned(),
            key: file.to_owned(),
        };
        for (expected, wrong) in [
            (
                "smarthost.server",
                settings(|it| it.server = "mail:25".to_owned()),
            ),
            (
                "smarthost.server",
                settings(|it| it.server = "lmtp://mail:24".to_owned()),
            ),
            (
                "smarthost.server",
                settings(|it| it.server = "mx://example.org".to_owned()),
            ),
            (
                "smarthost.password_file",
                settings(|it| it.user = "gate".to_owned()),
            ),
            (
                "smarthost.tls",
                settings(|it| {
                    it.user = "gate".to_owned();
                    it.tls = HopTls::Off;
                }),
            ),
            (
                "smarthost.password_file",
                settings(|it| {
                    it.user = "gate".to_owned();
                    it.password_file.clone_from(&open);
                }),
            ),
            (
                "smarthost.password_file",
                settings(|it| {
                    it.user = "gate".to_owned();
                    it.password_file.clone_from(&bad);
                }),
            ),
            (
                "smarthost.dkim.0.domain",
                settings(|it| it.dkim = vec![key("a b", &bad)]),
            ),
            (
                "smarthost.dkim.0.key",
                settings(|it| it.dkim = vec![key("a", &open)]),
            ),
            (
                "smarthost.dkim.0.key",
                settings(|it| it.dkim = vec![key("a", &bad)]),
            ),
            (
                "smarthost.server",
                settings(|it| {
                    it.server.clear();
                    it.dkim = vec![key("a", &bad)];
                }),
            ),
        ] {
            let found = Smarthost::new(&wrong).err().expect(expected);
            assert_eq!(found.key, expected, "{found:?}");
        }
        assert!(Smarthost::new(&SmarthostSettings::default()).is_ok_and(|it| it.is_none()));
        assert!(Smarthost::new(&settings(|_| {})).is_ok_and(|it| it.is_some()));
    }

    #[test]
    fn a_password_makes_the_proof_of_the_server_required() {
        let with_user = settings(|it| it.user = "gate".to_owned());
        assert_eq!(with_user.forward().tls, HopTls::Required);
        assert_eq!(settings(|_| {}).forward().tls, HopTls::Opportunistic);
    }
}
