//! Finds the process that listens on a port of this machine.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// Programs that listen for a server in a container, whose costs are not the server's.
const FORWARDERS: [&str; 2] = ["docker-proxy", "rootlessport"];

/// The process that listens on a local TCP port; none if it only forwards to a container. If there
/// are several (a master and its workers share the socket), it is the ancestor of the others, which
/// is the one with the lowest id.
pub fn listener_of_port(port: u16) -> Option<u32> {
    let mut inodes = HashSet::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = fs::read_to_string(table).unwrap_or_default();
        inodes.extend(text.lines().filter_map(|line| listening_inode(line, port)));
    }
    if inodes.is_empty() {
        return None;
    }
    fs::read_dir("/proc")
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| holds_socket(*pid, &inodes))
        .min()
        .filter(|pid| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm"));
            !name.is_ok_and(|name| is_forwarder(&name))
        })
}

fn is_forwarder(name: &str) -> bool {
    FORWARDERS.contains(&name.trim())
}

/// The inode in a line of `/proc/net/tcp`, if it is a listening socket on the port.
fn listening_inode(line: &str, port: u16) -> Option<u64> {
    const LISTEN: &str = "0A";
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (_, local_port) = fields.next()?.rsplit_once(':')?;
    if u16::from_str_radix(local_port, 16).ok()? != port || fields.nth(1)? != LISTEN {
        return None;
    }
    fields.nth(5)?.parse().ok()
}

fn holds_socket(pid: u32, inodes: &HashSet<u64>) -> bool {
    let folder = Path::new("/proc").join(pid.to_string()).join("fd");
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .any(|entry| {
            fs::read_link(entry.path())
                .ok()
                .and_then(|target| {
                    let target = target.to_str()?;
                    target
                        .strip_prefix("socket:[")?
                        .strip_suffix(']')?
                        .parse()
                        .ok()
                })
                .is_some_and(|inode| inodes.contains(&inode))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_forwarder_is_not_the_server() {
        assert!(is_forwarder("docker-proxy\n"));
        assert!(!is_forwarder("gatepost\n"));
    }

    #[test]
    fn this_test_is_found_by_its_port() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        assert_eq!(listener_of_port(port), Some(std::process::id()));
        drop(listener);
        assert_eq!(listener_of_port(port), None);
    }
}
