//! Certificates for tests, made while they run.

use std::path::{Path, PathBuf};

/// An authority in a folder of its own.
pub(crate) struct Authority {
    folder: PathBuf,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl Authority {
    pub(crate) fn new(folder: &Path, name: &str) -> Self {
        let mut parameters = rcgen::CertificateParams::default();
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        parameters
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = parameters.self_signed(&key).expect("a certificate");
        std::fs::write(folder.join(format!("{name}.pem")), certificate.pem()).expect("written");
        Self {
            folder: folder.to_owned(),
            issuer: rcgen::Issuer::new(parameters, key),
        }
    }

    /// Writes `FILE.pem` and `FILE.key` for a server of this name, or a client.
    pub(crate) fn sign(&self, file: &str, name: &str, addresses: &[&str]) {
        self.sign_changed(file, name, addresses, |_| ());
    }

    /// The same, valid from the beginning of one year to that of another.
    pub(crate) fn sign_between(&self, file: &str, name: &str, years: [i32; 2]) {
        let [from, until] = years.map(|year| rcgen::date_time_ymd(year, 1, 1));
        self.sign_changed(file, name, &[name], |parameters| {
            (parameters.not_before, parameters.not_after) = (from, until);
        });
    }

    fn sign_changed(
        &self,
        file: &str,
        name: &str,
        addresses: &[&str],
        change: impl FnOnce(&mut rcgen::CertificateParams),
    ) {
        let addresses: Vec<String> = addresses.iter().map(|&name| name.to_owned()).collect();
        let mut parameters = rcgen::CertificateParams::new(addresses).expect("names");
        change(&mut parameters);
        parameters
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        let key = rcgen::KeyPair::generate().expect("a key");
        let signed = parameters.signed_by(&key, &self.issuer).expect("signed");
        let path = |end: &str| self.folder.join(format!("{file}.{end}"));
        std::fs::write(path("pem"), signed.pem()).expect("written");
        std::fs::write(path("key"), key.serialize_pem()).expect("written");
    }
}
