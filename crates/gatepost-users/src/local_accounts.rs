//! The accounts of this machine whose programs count as local.
//!
//! While there is no user, a local peer without a login is an administrator. That is meant for
//! people at this machine, not for service accounts, which act for others: a web server's account
//! forwards requests of strangers, and runs their scripts.

use std::ops::RangeInclusive;

use rustix::process::geteuid;

use crate::peer_account::PeerAccount;

const ROOT: u32 = 0;
/// The accounts of people. systemd's ranges (UIDS-GIDS): 1,000 to 60,000 are users of the machine,
/// 60,001 to 60,513 those of systemd-homed. Above are services with a dynamic account, and
/// the accounts inside of containers.
const PEOPLE: RangeInclusive<u32> = 1_000..=60_513;
/// Read here rather than by the C library: its name service could query the network.
const ACCOUNTS_FILE: &str = "/etc/passwd";

/// Decides whether an account counts as local.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LocalAccounts {
    /// The accounts of the setting `access.local_accounts`.
    named: Vec<u32>,
}

impl LocalAccounts {
    /// The accounts with the names and numbers of a setting. A name that this machine does not
    /// know is reported in the log, and grants nothing.
    pub(crate) fn named(names: &[String]) -> Self {
        let accounts = std::fs::read_to_string(ACCOUNTS_FILE).unwrap_or_default();
        let number = |name: &String| {
            let number = name.parse().ok().or_else(|| number_of(&accounts, name));
            if number.is_none() {
                tracing::warn!(
                    target: "users",
                    "access.local_accounts: this machine has no account '{name}'"
                );
            }
            number
        };
        Self {
            named: names.iter().filter_map(number).collect(),
        }
    }

    /// Whether the account counts as local.
    pub(crate) fn include(&self, account: &PeerAccount) -> bool {
        account.satisfies(|number| {
            number == ROOT
                || PEOPLE.contains(&number)
                || number == geteuid().as_raw()
                || self.named.contains(&number)
        })
    }
}

/// An account as an operator knows it.
pub(crate) fn describe(account: &PeerAccount) -> String {
    let Some(number) = account.number() else {
        return "an account that the kernel does not name".to_owned();
    };
    let accounts = std::fs::read_to_string(ACCOUNTS_FILE).unwrap_or_default();
    let fields = accounts.lines().map(|line| line.split(':'));
    let named = fields
        .filter(|fields| {
            let entry = fields.clone().nth(2);
            entry.and_then(|entry| entry.parse().ok()) == Some(number)
        })
        .find_map(|mut fields| fields.next());
    match named {
        Some(name) => format!("the account '{name}' ({number})"),
        None => format!("the account {number}"),
    }
}

/// `name:password:number:…`
fn number_of(accounts: &str, name: &str) -> Option<u32> {
    let mut entries = accounts.lines().map(|line| line.split(':'));
    let mut fields = entries.find(|fields| fields.clone().next() == Some(name))?;
    fields.nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn names_have_numbers() {
        let accounts = "root:x:0:0::/root:/bin/sh\nwww-data:x:33:33::/:/sbin/nologin\nbad\n";
        assert_eq!(number_of(accounts, "www-data"), Some(33));
        assert_eq!(number_of(accounts, "www"), None);
        assert_eq!(number_of(accounts, "bad"), None);
        let numbers = LocalAccounts::named(&["77".to_owned(), "no such account".to_owned()]);
        assert_eq!(numbers.named, [77]);
    }

    #[test]
    fn the_servers_own_account_counts_and_an_unknown_one_does_not() {
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let own = PeerAccount::of(gatepost_message::Peer::Local, socket.as_fd());
        assert!(LocalAccounts::default().include(&own));
        assert!(!LocalAccounts::default().include(&PeerAccount::UNKNOWN));
        assert!(describe(&own).contains("account"));
    }
}
