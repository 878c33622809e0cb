//! Checks that the addresses can be listened on.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::Path;

use gatepost_settings::Bind;
use gatepost_store::Store;

use super::DeployReport;
use crate::config::Config;

/// Ports below need a capability.
const PRIVILEGED_PORTS: u16 = 1_024;

pub(super) fn check(config: &Config, report: &mut DeployReport) {
    let is_served = Store::is_served(&config.data);
    let mut free = 0;
    for binding in config.listeners.bindings() {
        for (bind, _) in binding.addresses() {
            let tried = match bind {
                Bind::Tcp(address) => tcp(*address),
                Bind::Unix(path) => unix(path),
            };
            let listener = binding.listener;
            match tried {
                Ok(()) => free += 1,
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_served => {
                    report.note(format!(
                        "{listener}: {bind} is in use, and so is the data folder: a gatepost is \
                            already running with it"
                    ));
                }
                Err(error) => report.warn(format!("{listener}: {bind}: {}", advice(bind, &error))),
            }
        }
    }
    report.note(format!("{free} addresses are free"));
}

/// Port 0 is any port, and always free.
fn tcp(address: SocketAddr) -> io::Result<()> {
    TcpListener::bind(address).map(drop)
}

/// A socket that answers belongs to a running server; one that does not is left over, and a start
/// replaces it.
fn unix(path: &Path) -> io::Result<()> {
    if UnixStream::connect(path).is_ok() {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    rustix::fs::access(
        folder,
        rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK,
    )
    .map_err(io::Error::from)
}

fn advice(bind: &Bind, error: &io::Error) -> String {
    let is_privileged = matches!(bind, Bind::Tcp(address) if address.port() < PRIVILEGED_PORTS);
    match error.kind() {
        io::ErrorKind::AddrInUse => "another program listens there; `ss -lptn` names it".to_owned(),
        io::ErrorKind::AddrNotAvailable => "this machine does not have the address".to_owned(),
        io::ErrorKind::PermissionDenied if is_privileged => {
            "a port below 1024 needs root, CAP_NET_BIND_SERVICE or a systemd socket".to_owned()
        }
        _ => error.to_string(),
    }
}
