//! SPF results that trusted servers recorded in header fields: `Received-SPF` and
//! `Authentication-Results`.

use crate::authentication::spf::SpfResult;

/// The fields one by one, each on one line.
pub(super) fn unfold(fields: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for line in fields.lines() {
        match all.last_mut() {
            Some(field) if line.starts_with([' ', '\t']) => field.push_str(line),
            _ => all.push(line.to_owned()),
        }
    }
    all
}

/// The recorded result of a field (in lower case) for the requested identity.
pub(super) fn recorded_results_in(field: &str, helo: bool) -> Option<SpfResult> {
    let word = |text: &str| -> String {
        let end = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != '-';
        text.split(end).next().unwrap_or_default().to_owned()
    };
    let (result, identity) = if let Some(value) = field.strip_prefix("received-spf:") {
        let identity = value.split_once("identity=").map(|(_, rest)| word(rest));
        (word(value.trim_start()), identity)
    } else {
        let value = field
            .strip_prefix("arc-")
            .unwrap_or(field)
            .strip_prefix("authentication-results:")?;
        let clause = value.split(';').map(str::trim).find_map(|clause| {
            let rest = clause.strip_prefix("spf")?.trim_start().strip_prefix('=')?;
            Some(rest.trim_start())
        })?;
        let identity = clause.split_once("smtp.").map(|(_, rest)| word(rest));
        (word(clause), identity)
    };
    let is_of_greeting = match identity.as_deref() {
        None | Some("mfrom" | "mailfrom") => false,
        Some("helo") => true,
        Some(_) => return None,
    };
    (is_of_greeting == helo).then(|| SpfResult::named(&result))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_that_trusted_servers_recorded() {
        for (field, helo, expected) in [
            (
                "received-spf: pass (mx: domain of a@b.example) identity=mailfrom; \
                 client-ip=192.0.2.1",
                false,
                Some(SpfResult::Pass),
            ),
            (
                "received-spf: softfail identity=helo; x",
                true,
                Some(SpfResult::SoftFail),
            ),
            ("received-spf: softfail identity=helo; x", false, None),
            ("received-spf: fail", false, Some(SpfResult::Fail)),
            ("received-spf: moon", false, None),
            ("received-spf: pass identity=pra", false, None),
            (
                "authentication-results: mx; dkim=pass; spf=hardfail smtp.mailfrom=x",
                false,
                Some(SpfResult::Fail),
            ),
            (
                "arc-authentication-results: i=1; spf=none smtp.helo=x",
                true,
                Some(SpfResult::None),
            ),
            ("subject: spf=pass", false, None),
        ] {
            assert_eq!(recorded_results_in(field, helo), expected, "{field}");
        }
    }
}
