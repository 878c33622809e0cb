//! TLS for every listener, by rustls.

mod settings;

pub use settings::{CertificateFiles, TlsSettings};
