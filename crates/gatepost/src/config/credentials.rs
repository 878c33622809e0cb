//! Files that the service manager passes: `credential:NAME` in place of a path is the file NAME in
//! `$CREDENTIALS_DIRECTORY` (systemd's `LoadCredential=`). So a key is readable for root only, and
//! its path is written only in the unit.
//!
//! Without that folder the text is unchanged: commands other than the server need no keys, and if
//! one is read, the error names it.

use std::path::{Path, PathBuf};

use super::Config;

/// The prefix of a path that denotes a credential.
const PREFIX: &str = "credential:";

/// Replaces each credential in the config by its path.
pub(super) fn resolve(config: &mut Config, folder: Option<&Path>) {
    let Some(folder) = folder else { return };
    let listeners = &mut config.listeners;
    let tls = [
        &mut listeners.smtp.tls,
        &mut listeners.lmtp.tls,
        &mut listeners.milter.tls,
        &mut listeners.pop3.tls,
        &mut listeners.spamd.tls,
        &mut listeners.call.tls,
        &mut listeners.mqtt.tls,
        &mut listeners.http.tls,
    ];
    let files = tls.into_iter().flat_map(|tls| {
        let more = tls.more.iter_mut();
        let more = more.flat_map(|files| [&mut files.cert, &mut files.key]);
        [&mut tls.cert, &mut tls.key]
            .into_iter()
            .chain(more)
            .chain(&mut tls.client_ca)
    });
    let keys = config.access.jwt.iter_mut().map(|issuer| &mut issuer.key);
    let keys = keys.chain(config.backbone.key_files());
    let of_smarthost = config.smarthost.secret_files();
    for path in files.chain(keys).chain(of_smarthost) {
        if let Some(found) = credential(path, folder) {
            *path = found;
        }
    }
}

/// The file of a credential. Its name has one component (systemd.exec(5)).
fn credential(path: &Path, folder: &Path) -> Option<PathBuf> {
    let name = path.to_str()?.strip_prefix(PREFIX)?;
    let is_name = !name.is_empty() && name != "." && name != ".." && !name.contains('/');
    is_name.then(|| folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_a_name_without_folders() {
        let folder = Path::new("/run/credentials/x");
        for (written, expected) in [
            ("credential:key.pem", Some("/run/credentials/x/key.pem")),
            ("credential:..", None),
            ("credential:../key", None),
            ("credential:", None),
            ("/etc/key.pem", None),
        ] {
            let found = credential(Path::new(written), folder);
            assert_eq!(found.as_deref(), expected.map(Path::new), "{written}");
        }
    }
}
