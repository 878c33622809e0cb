//! Apache with its defaults as the proxy of a server that does not know of it.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};

use super::proxies::{NEW_ADMIN, PERSON, ROOT, gateway_for_all, status};
use super::support::{await_some, command};

const MODULES: [&str; 5] = ["mpm_event", "authz_core", "headers", "proxy", "proxy_http"];

/// Apache as root starts it: its workers are of Debian's web server account.
struct Apache {
    child: Child,
    address: SocketAddr,
}

impl Apache {
    /// In front of `upstream`, with these lines after `ProxyPass`.
    fn start(folder: &Path, upstream: SocketAddr, lines: &str) -> Self {
        std::fs::create_dir_all(folder).expect("a folder");
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = free.local_addr().expect("an address");
        drop(free);
        let modules = MODULES
            .map(|name| {
                format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n")
            })
            .concat();
        let config = folder.join("apache.conf");
        let text = format!(
            "ServerRoot {0}\nServerName gate.example\nPidFile {0}/apache.pid\n\
             DefaultRuntimeDir {0}\nListen {address}\nErrorLog {0}/error.log\n\
             {modules}User www-data\nGroup www-data\nProxyPass / http://{upstream}/\n{lines}",
            folder.display()
        );
        std::fs::write(&config, text).expect("written");
        let child = command("apache2")
            .args(["-D", "FOREGROUND", "-f", &config.display().to_string()])
            .stdin(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("the peer apache2 does not start: {error}"));
        let apache = Self { child, address };
        await_some("Apache listens", || TcpStream::connect(address).ok());
        apache
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Apache {
    fn drop(&mut self) {
        // Its workers end with it at this signal, not at SIGKILL.
        let pid = self.child.id().to_string();
        let _ = command("kill").args(["-TERM", &pid]).status();
        let _ = self.child.wait();
    }
}

#[test]
fn a_remote_client_of_apache_is_not_local() {
    if !super::is_root("Apache with workers of a service account") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = gateway_for_all(folder.path(), "");
    // Apache names its client, unless an administrator has that removed.
    let silent = "ProxyAddHeaders Off\n";
    let silent_with_host = "ProxyAddHeaders Off\nProxyPreserveHost On\n";
    for (number, lines) in ["", silent, silent_with_host].into_iter().enumerate() {
        let folder = folder.path().join(number.to_string());
        let apache = Apache::start(&folder, gateway.address("http"), lines);
        for account in [ROOT, PERSON] {
            let users = apache.url("/admin/users");
            assert_eq!(status(account, &[&users]), "403", "{lines}");
            let new = ["-H", "Content-Type: application/json", "-d", NEW_ADMIN];
            let created = status(account, &[&new[..], &[&users]].concat());
            assert_eq!(created, "403", "{lines}");
            let published = status(account, &["-d", "x", &apache.url("/topics/a")]);
            assert_eq!(published, "403", "{lines}");
        }
    }
    // With a user, a login would be required.
    assert_eq!(status(PERSON, &[&gateway.url("/admin/users")]), "200");
}

#[test]
fn a_trusted_apache_names_its_clients() {
    if !super::is_root("Apache with workers of a service account") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let settings = "listeners.http.trusted_proxies = [\"127.0.0.1\"]\n";
    let gateway = gateway_for_all(folder.path(), settings);
    let upstream = gateway.address("http");
    let naming = Apache::start(&folder.path().join("naming"), upstream, "");
    assert_eq!(status(ROOT, &[&naming.url("/admin/users")]), "200");
    let silent = "ProxyAddHeaders Off\n";
    let silent = Apache::start(&folder.path().join("silent"), upstream, silent);
    assert_eq!(status(ROOT, &[&silent.url("/admin/users")]), "403");
}
