//! The switches for TLS: the trusted authorities, and our own certificate.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct CertificateOptions {
    /// The authorities that are trusted, in PEM; switches TLS on
    #[arg(long, value_name = "FILE")]
    pub(crate) cafile: Option<PathBuf>,
    /// Our certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// Its key, in PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Do not check that the certificate is the server's: only for trials
    #[arg(long)]
    pub(crate) insecure: bool,
}
