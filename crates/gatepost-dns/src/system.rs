//! The servers that the system uses (resolv.conf(5)), the names that it knows without them
//! (hosts(5)), and the notation of servers in a configuration.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The port of DNS servers, RFC 1035, section 4.2.
pub const DNS_PORT: u16 = 53;
/// The file that lists the system's servers.
pub const SYSTEM_CONFIGURATION: &str = "/etc/resolv.conf";

/// The file with names that the system resolves without a server.
pub const SYSTEM_HOSTS: &str = "/etc/hosts";

/// The resolver that Docker's and Podman's networks provide inside a container. It forwards queries
/// and validates nothing.
const CONTAINER_RESOLVER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 11));

/// The system's servers, in order; empty if it has none.
pub fn system_servers() -> Vec<SocketAddr> {
    let text = std::fs::read_to_string(SYSTEM_CONFIGURATION).unwrap_or_default();
    servers_in(&text)
}

/// Whether answers that the system's servers mark as authentic (AD) can be trusted: all of the
/// servers are on this machine, so no host of the network can forge an answer.
pub fn are_local(servers: &[SocketAddr]) -> bool {
    let is_local = |server: &SocketAddr| {
        let address = server.ip().to_canonical();
        // The resolver of container networks forwards the answers of a server elsewhere.
        address.is_loopback() && address != CONTAINER_RESOLVER
    };
    !servers.is_empty() && servers.iter().all(is_local)
}

/// Whether a text in the form of hosts(5) contains this name.
pub fn has_host(hosts: &str, name: &str) -> bool {
    let name = name.trim_end_matches('.');
    let line_has = |line: &str| {
        let line = line.split('#').next().unwrap_or_default();
        let mut names = line.split_whitespace().skip(1);
        names.any(|known| known.trim_end_matches('.').eq_ignore_ascii_case(name))
    };
    hosts.lines().any(line_has)
}

/// `ADDRESS` or `ADDRESS:PORT`.
pub fn parse_server(text: &str) -> Option<SocketAddr> {
    let with_port = text.parse().ok();
    with_port.or_else(|| Some(SocketAddr::new(text.parse::<IpAddr>().ok()?, DNS_PORT)))
}

fn servers_in(configuration: &str) -> Vec<SocketAddr> {
    let server = |line: &str| {
        let mut words = line.split_whitespace();
        (words.next() == Some("nameserver")).then(|| parse_server(words.next()?))?
    };
    configuration.lines().filter_map(server).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_servers_are_found() {
        let configuration = "# none\nnameserver 192.0.2.53\nnameserver ::1\noptions x\n";
        let servers = servers_in(configuration);
        assert_eq!(servers.len(), 2);
        assert_eq!(servers[0].to_string(), "192.0.2.53:53");
        assert_eq!(servers[1].to_string(), "[::1]:53");
    }

    #[test]
    fn only_resolvers_of_this_machine_are_trusted() {
        for (configuration, expected) in [
            ("nameserver 127.0.0.53\nnameserver ::1\n", true),
            ("nameserver 127.0.0.1\nnameserver 192.0.2.53\n", false),
            ("nameserver 127.0.0.11\n", false),
            ("", false),
        ] {
            assert_eq!(
                are_local(&servers_in(configuration)),
                expected,
                "{configuration}"
            );
        }
    }

    #[test]
    fn names_of_hosts_are_found() {
        let hosts = "# 192.0.2.9 comment.example\n\
            192.0.2.1\tbox.example box # old.example\n::1 Six.Example.\n192.0.2.2\n";
        for name in ["box.example", "BOX.example.", "box", "six.example"] {
            assert!(has_host(hosts, name), "{name}");
        }
        for name in ["comment.example", "old.example", "192.0.2.2", "example"] {
            assert!(!has_host(hosts, name), "{name}");
        }
    }

    #[test]
    fn a_server_has_a_port_or_the_usual_one() {
        let server = |text| parse_server(text).map(|server| server.to_string());
        assert_eq!(server("192.0.2.1").as_deref(), Some("192.0.2.1:53"));
        assert_eq!(server("[::1]:5353").as_deref(), Some("[::1]:5353"));
        assert_eq!(server("moon"), None);
    }
}
