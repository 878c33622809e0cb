//! An MTA-STS policy (RFC 8461, section 3.2), and the TXT record that announces it (section 3.1).

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// RFC 8461, section 3.2: about a year.
const MAX_AGE_SECONDS_MAX: u64 = 31_557_600;
/// Patterns of one policy.
const HOSTS_MAX: usize = 200;

/// A domain's requirements for the hosts that receive its mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct MtaStsPolicy {
    pub(in super::super) mode: MtaStsMode,
    pub(super) max_age: Duration,
    /// In lower case.
    hosts: Vec<String>,
}

/// The treatment of mail for a host that does not prove its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in super::super) enum MtaStsMode {
    Enforce,
    Testing,
    None,
}

impl MtaStsPolicy {
    /// Returns `None` for a text that is not a policy of version 1.
    pub(in super::super) fn parse(text: &str) -> Option<Self> {
        let (mut version, mut mode, mut max_age) = (None, None, None);
        let mut hosts = Vec::new();
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let value = value.trim();
            match key.trim() {
                // Of repeated fields that may occur only once, the first counts.
                "version" => version = version.or(Some(value)),
                "mode" => mode = mode.or(Some(value)),
                "max_age" => max_age = max_age.or(Some(value)),
                "mx" if hosts.len() < HOSTS_MAX => hosts.push(value.to_ascii_lowercase()),
                _ => {}
            }
        }
        let mode = match mode? {
            "enforce" => MtaStsMode::Enforce,
            "testing" => MtaStsMode::Testing,
            "none" => MtaStsMode::None,
            _ => return None,
        };
        let max_age: u64 = max_age?.parse().ok()?;
        let has_hosts = !hosts.is_empty() || mode == MtaStsMode::None;
        (version == Some("STSv1") && has_hosts).then(|| Self {
            mode,
            max_age: Duration::from_secs(max_age.min(MAX_AGE_SECONDS_MAX)),
            hosts,
        })
    }

    /// Whether this host receives the domain's mail. `*` stands for one label (RFC 8461, section
    /// 4.1).
    pub(in super::super) fn has(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let parent = host.split_once('.').map(|(_, parent)| parent);
        self.hosts
            .iter()
            .any(|pattern| match pattern.strip_prefix("*.") {
                Some(pattern) => parent == Some(pattern),
                None => *pattern == host,
            })
    }
}

/// The id that the texts of `_mta-sts.DOMAIN` announce: there must be exactly one record of version
/// 1.
pub(super) fn announced_id(texts: &[Vec<u8>]) -> Option<String> {
    let mut records = texts
        .iter()
        .filter_map(|text| std::str::from_utf8(text).ok())
        .filter(|text| text.starts_with("v=STSv1;"));
    let (Some(record), None) = (records.next(), records.next()) else {
        return None;
    };
    let mut fields = record.split(';').filter_map(|field| field.split_once('='));
    let id = fields.find_map(|(name, value)| (name.trim() == "id").then_some(value.trim()))?;
    let is_id = (1..=32).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_id.then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "version: STSv1\r\nmode: enforce\r\nmx: mail.example.com\r\n\
        mx: *.example.net\r\nmax_age: 604800\r\n";

    #[test]
    fn a_policy_is_read_and_its_hosts_are_compared() {
        let policy = MtaStsPolicy::parse(POLICY).expect("a policy");
        assert_eq!(policy.mode, MtaStsMode::Enforce);
        assert_eq!(policy.max_age.as_secs(), 604_800);
        for (host, expected) in [
            ("mail.example.com", true),
            ("MAIL.example.com", true),
            ("mx.example.net", true),
            ("a.b.example.net", false),
            ("example.net", false),
            ("mail.example.com.evil.example", false),
            ("evilexample.net", false),
        ] {
            assert_eq!(policy.has(host), expected, "{host}");
        }
    }

    #[test]
    fn malformed_policies_are_refused() {
        for (from, to) in [
            ("STSv1", "STSv2"),
            ("mode: enforce", "mode: perhaps"),
            ("max_age: 604800", "max_age: soon"),
            ("max_age: 604800", ""),
            ("mode: enforce", ""),
        ] {
            let text = POLICY.replace(from, to);
            assert_eq!(MtaStsPolicy::parse(&text), None, "{text}");
        }
        let without_hosts = "version: STSv1\nmode: enforce\nmax_age: 1\n";
        assert_eq!(MtaStsPolicy::parse(without_hosts), None);
        let none = MtaStsPolicy::parse(&without_hosts.replace("enforce", "none"));
        assert_eq!(none.map(|policy| policy.mode), Some(MtaStsMode::None));
        let endless = POLICY.replace("604800", "99999999999");
        let policy = MtaStsPolicy::parse(&endless).expect("a policy");
        assert_eq!(policy.max_age.as_secs(), MAX_AGE_SECONDS_MAX);
    }

    #[test]
    fn one_record_announces_a_policy() {
        for (texts, expected) in [
            (
                &["v=STSv1; id=20160831085700Z;"][..],
                Some("20160831085700Z"),
            ),
            (&["v=spf1 -all", "v=STSv1;id=7"], Some("7")),
            (&["v=STSv1; id=1;", "v=STSv1; id=2;"], None),
            (&["v=STSv1; id=not-one;"], None),
            (&["v=STSv1; id=;"], None),
            (&["v=STSv1;"], None),
            (&["v=STSv10; id=1;"], None),
            (&[], None),
        ] {
            let texts: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
            assert_eq!(announced_id(&texts).as_deref(), expected, "{texts:?}");
        }
    }
}
