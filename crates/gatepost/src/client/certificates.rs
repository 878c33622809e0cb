//! The options for TLS: the trusted authorities, and the client's own certificate.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct CertificateOptions {
    /// The authorities that are trusted, in PEM; switches TLS on
    #[arg(long, value_name = "FILE")]
    pub(crate) cafile: Option<PathBuf>,
    /// The client's certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// The certificate's key, in PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Do not verify the server's certificate: only for tests
    #[arg(long)]
    pub(crate) insecure: bool,
}
