//! Programs of this machine that act for others: the clients of a reverse proxy come from loopback,
//! and only the account of the proxy shows that they are strangers.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::strangers::{NOT_AUTHORIZED, knock};
use crate::support::authority::Authority;
use crate::support::{Gateway, add_user, await_some, command, feed, text_of};

/// The account of Debian's web servers.
const WEB_SERVER: u32 = 33;
/// A person, known to the machine or not.
pub(super) const PERSON: u32 = 1_000;
/// A service with an account of systemd's range for dynamic ones.
const DYNAMIC_SERVICE: u32 = 61_234;
pub(super) const ROOT: u32 = 0;

pub(super) const NEW_ADMIN: &str = r#"{"name":"mallory","password":"mallory's own","admin":true}"#;

/// The output of a program that runs as this account.
fn run_as(account: u32, program: &str, arguments: &[&str]) -> String {
    let mut command = command(program);
    command.uid(account).gid(account).args(arguments);
    text_of(&feed(&mut command, b""))
}

/// The status of a request by curl of this account.
pub(super) fn status(account: u32, arguments: &[&str]) -> String {
    let quiet = ["-s", "-o", "/dev/null", "-w", "%{http_code}"];
    run_as(account, "curl", &[&quiet[..], arguments].concat())
}

/// A server whose folder every account may enter.
pub(super) fn gateway_for_all(folder: &Path, settings: &str) -> Gateway {
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o755)).expect("opened");
    Gateway::start_in(folder, &format!("rules.paths = []\n{settings}"))
}

/// A server with a Unix socket for HTTP that every account may use, as an operator permits a web
/// server to; and the socket.
fn gateway_with_open_socket(folder: &Path) -> (Gateway, PathBuf) {
    let socket = folder.join("http.sock");
    let settings = format!(
        "listeners.http.bind = [\"127.0.0.1:0\", \"unix:{}\"]\n",
        socket.display()
    );
    let gateway = gateway_for_all(folder, &settings);
    std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o666)).expect("opened");
    (gateway, socket)
}

#[test]
fn only_accounts_that_act_for_themselves_administer_without_a_login() {
    if !super::is_root("a client of another account") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (gateway, socket) = gateway_with_open_socket(folder.path());
    let (socket, users) = (socket.display().to_string(), gateway.url("/admin/users"));
    let topic = gateway.url("/topics/a");
    for (account, expected) in [
        (WEB_SERVER, "403"),
        (DYNAMIC_SERVICE, "403"),
        (ROOT, "200"),
        (PERSON, "200"),
    ] {
        for transport in [
            &["--http1.1"][..],
            &["--http2-prior-knowledge"],
            &["--unix-socket", &socket],
        ] {
            let asked = [transport, &[users.as_str()]].concat();
            assert_eq!(status(account, &asked), expected, "{account} {transport:?}");
            let published = [transport, &["-d", "x", topic.as_str()]].concat();
            let status = status(account, &published);
            assert_eq!(status, expected, "{account} {transport:?}");
        }
        let port = gateway.port("mqtt");
        let publish = ["-V", "5", "-p", &port, "-t", "a", "-m", "x"];
        let output = run_as(account, "mosquitto_pub", &publish);
        let is_refused = output.contains("Not authorized");
        assert_eq!(is_refused, expected != "200", "{account}: {output}");
    }
    let log = gateway.log();
    let remedy = "'www-data' (33): add a user, or name the account in access.local_accounts";
    assert!(log.contains(remedy), "{log}");
    // From the first user on, the account of a client with a password does not matter.
    let added = add_user(&gateway, "anna", "secret of anna", &["--admin"]);
    assert!(added.status.success(), "{}", text_of(&added));
    await_some("anna administers by any account", || {
        let login = ["-u", "anna:secret of anna", users.as_str()];
        (status(WEB_SERVER, &login) == "200").then_some(())
    });
    assert_eq!(status(PERSON, &[&users]), "401");
}

#[test]
fn accounts_that_the_operator_names_count_as_local() {
    if !super::is_root("a client of another account") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let settings = "access.local_accounts = [\"www-data\", \"61234\", \"no such account\"]\n";
    let gateway = gateway_for_all(folder.path(), settings);
    let users = gateway.url("/admin/users");
    assert_eq!(status(WEB_SERVER, &[&users]), "200");
    assert_eq!(status(DYNAMIC_SERVICE, &[&users]), "200");
    assert_eq!(status(DYNAMIC_SERVICE + 1, &[&users]), "403");
    let log = gateway.log();
    assert!(
        log.contains("this machine has no account 'no such account'"),
        "{log}"
    );
    let warning = "access.local_accounts: clients of 'www-data' are administrators";
    assert!(log.contains(warning), "{log}");
}

/// Mail without a login has the rights of `anonymous`, unless it comes from a person.
#[test]
fn mail_of_a_service_account_has_no_more_rights_than_anonymous_mail() {
    if !super::is_root("a client of another account") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = gateway_for_all(folder.path(), "access.default = \"deny\"\n");
    for (account, expected) in [(WEB_SERVER, "<** 550"), (PERSON, "<-  250 ")] {
        let server = gateway.address("smtp").to_string();
        let envelope = ["--from", "a@example.org", "--to", "home+door@localhost"];
        let arguments = [&["--server", &server][..], &envelope].concat();
        let output = run_as(account, "swaks", &arguments);
        let answer = output.split("RCPT TO").nth(1).expect("a recipient");
        let answer = answer.lines().nth(1).expect("an answer");
        assert!(answer.starts_with(expected), "{account}: {output}");
    }
}

/// The kernel names root as the owner of a socket whose program has closed it: without the check, a
/// proxy whose client disconnects at the right moment would be the administrator.
#[test]
fn a_client_that_disconnects_before_it_is_checked_is_not_local() {
    const ATTEMPTS: usize = 20;
    const ATTACK: &str = "import socket, sys\n\
        for _ in range(int(sys.argv[2])):\n    \
            s = socket.create_connection((\"127.0.0.1\", int(sys.argv[1])))\n    \
            s.send(sys.argv[3].encode())\n    \
            s.close()\n";
    if !super::is_root("a client of another account") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = gateway_for_all(folder.path(), "");
    let request = format!(
        "POST /admin/users HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{NEW_ADMIN}",
        NEW_ADMIN.len()
    );
    let (port, attempts) = (gateway.port("http"), ATTEMPTS.to_string());
    let attack = ["-c", ATTACK, &port, &attempts, &request];
    // The server accepts them only after all are closed.
    gateway.signal("STOP");
    let output = run_as(WEB_SERVER, "python3", &attack);
    gateway.signal("CONT");
    assert_eq!(output, "");
    await_some("all of them are refused", || {
        let refused = gateway.log().matches("login refused").count();
        (refused >= ATTEMPTS).then_some(())
    });
    // With a user, a login would be required.
    assert_eq!(status(PERSON, &[&gateway.url("/admin/users")]), "200");
}

/// Runs the command in its arguments, to which the kernel gives no information about connections: a
/// seccomp filter answers `socket(AF_NETLINK, ..)` with EPROTONOSUPPORT.
const WITHOUT_NETLINK: &str = "\
import ctypes, os, platform, struct, sys
socket = {\"x86_64\": 41, \"aarch64\": 198}[platform.machine()]
code = [(0x20, 0, 0, 0), (0x15, 0, 3, socket), (0x20, 0, 0, 16), (0x15, 0, 1, 16),
        (0x06, 0, 0, 0x50000 + 93), (0x06, 0, 0, 0x7FFF0000)]
steps = ctypes.create_string_buffer(b\"\".join(struct.pack(\"HBBI\", *step) for step in code))
program = struct.pack(\"HxxxxxxQ\", len(code), ctypes.addressof(steps))
kernel = ctypes.CDLL(None, use_errno=True)
assert kernel.prctl(38, 1, 0, 0, 0) == 0
assert kernel.prctl(22, 2, program) == 0, ctypes.get_errno()
os.execvp(sys.argv[1], sys.argv[1:])
";

/// An account that the kernel does not name is unknown, and an unknown one is not local.
#[test]
fn without_an_answer_of_the_kernel_no_tcp_client_is_local() {
    if !super::is_root("a client of another account") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("opened");
    let socket = folder.path().join("http.sock");
    let settings = format!(
        "rules.paths = []\naccess.default = \"deny\"\n\
         listeners.http.bind = [\"127.0.0.1:0\", \"unix:{}\"]\n",
        socket.display()
    );
    let script = format!("set -- python3 -c '{WITHOUT_NETLINK}' \"$@\"");
    let gateway = Gateway::start_after(&script, folder.path(), &settings);
    let users = gateway.url("/admin/users");
    for account in [ROOT, PERSON] {
        for transport in ["--http1.1", "--http2-prior-knowledge"] {
            let answer = status(account, &[transport, &users]);
            assert_eq!(answer, "403", "{account} {transport}");
        }
        let port = gateway.port("mqtt");
        let publish = ["-V", "5", "-p", &port, "-t", "a", "-m", "x"];
        let output = run_as(account, "mosquitto_pub", &publish);
        assert!(output.contains("Not authorized"), "{account}: {output}");
        let server = gateway.address("smtp").to_string();
        let envelope = ["--from", "a@example.org", "--to", "home+door@localhost"];
        let mail = [&["--server", &server][..], &envelope].concat();
        let output = run_as(account, "swaks", &mail);
        assert!(output.contains("<** 550"), "{account}: {output}");
    }
    // A Unix socket has credentials of its own.
    let socket = socket.display().to_string();
    assert_eq!(status(ROOT, &["--unix-socket", &socket, &users]), "200");
    let log = gateway.log();
    let warning = "the kernel does not name the accounts of connections";
    assert!(log.contains(warning), "{log}");
    // With a user, a login is enough.
    let added = add_user(&gateway, "anna", "secret of anna", &["--admin"]);
    assert!(added.status.success(), "{}", text_of(&added));
    await_some("anna administers", || {
        let login = ["-u", "anna:secret of anna", users.as_str()];
        (status(PERSON, &login) == "200").then_some(())
    });
}

/// nginx as root starts it: its workers are of Debian's web server account.
struct Nginx {
    child: Child,
    address: SocketAddr,
}

impl Nginx {
    /// In front of `upstream`, with these lines beside `proxy_pass`.
    fn start(folder: &Path, upstream: &str, settings: &str) -> Self {
        std::fs::create_dir_all(folder).expect("a folder");
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = free.local_addr().expect("an address");
        drop(free);
        let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {}/{kind};\n", folder.display()))
            .concat();
        let config = folder.join("nginx.conf");
        let text = format!(
            "daemon off;\nuser www-data;\nworker_processes 1;\npid {0}/nginx.pid;\n\
             events {{}}\nhttp {{\naccess_log off;\n{paths}server {{\nlisten {address};\n\
             location / {{\nproxy_pass {upstream};\n{settings}}}\n}}\n}}\n",
            folder.display()
        );
        std::fs::write(&config, text).expect("written");
        let child = command("nginx")
            .args(["-p", &folder.display().to_string()])
            .args(["-c", &config.display().to_string()])
            .args(["-e", &folder.join("error.log").display().to_string()])
            .stdin(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("the peer nginx does not start: {error}"));
        let nginx = Self { child, address };
        await_some("nginx listens", || TcpStream::connect(address).ok());
        nginx
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Its workers end with it at this signal, not at SIGKILL.
        let pid = self.child.id().to_string();
        let _ = command("kill").args(["-TERM", &pid]).status();
        let _ = self.child.wait();
    }
}

#[test]
fn a_remote_client_of_nginx_with_its_defaults_is_not_local() {
    if !super::is_root("nginx with workers of a service account") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (gateway, socket) = gateway_with_open_socket(folder.path());
    // HTTP/1.1 is the default of later versions, and WebSocket needs it.
    let newer = "proxy_http_version 1.1;\nproxy_set_header Connection \"\";\n";
    let upgrading = "proxy_http_version 1.1;\nproxy_set_header Upgrade $http_upgrade;\n\
                     proxy_set_header Connection upgrade;\n";
    let by_tcp = format!("http://{}", gateway.address("http"));
    let by_unix = format!("http://unix:{}", socket.display());
    for (number, (upstream, lines)) in [
        (&by_tcp, ""),
        (&by_tcp, newer),
        (&by_tcp, upgrading),
        (&by_unix, newer),
    ]
    .into_iter()
    .enumerate()
    {
        let nginx = Nginx::start(&folder.path().join(number.to_string()), upstream, lines);
        // The client's own account does not matter: nginx does not report it.
        for account in [ROOT, PERSON] {
            let users = nginx.url("/admin/users");
            assert_eq!(status(account, &[&users]), "403", "{upstream} {lines}");
            let new = ["-H", "Content-Type: application/json", "-d", NEW_ADMIN];
            let created = status(account, &[&new[..], &[&users]].concat());
            assert_eq!(created, "403", "{upstream} {lines}");
            let topic = nginx.url("/topics/a");
            let published = status(account, &["-d", "x", &topic]);
            assert_eq!(published, "403", "{upstream} {lines}");
        }
        if lines == upgrading {
            let code = knock(nginx.address, "Host: gate.example\r\n");
            assert_eq!(code, NOT_AUTHORIZED);
        }
    }
    // With a user, a login would be required.
    assert_eq!(status(PERSON, &[&gateway.url("/admin/users")]), "200");
}

#[test]
fn a_trusted_nginx_names_its_clients() {
    if !super::is_root("nginx with workers of a service account") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = gateway_for_all(
        folder.path(),
        "listeners.http.trusted_proxies = [\"127.0.0.1\"]\n",
    );
    let upstream = format!("http://{}", gateway.address("http"));
    let silent = Nginx::start(
        &folder.path().join("silent"),
        &upstream,
        "proxy_http_version 1.1;\n",
    );
    assert_eq!(status(ROOT, &[&silent.url("/admin/users")]), "403");
    let lines = "proxy_http_version 1.1;\nproxy_set_header X-Forwarded-For $remote_addr;\n";
    let naming = Nginx::start(&folder.path().join("naming"), &upstream, lines);
    let users = naming.url("/admin/users");
    assert_eq!(status(ROOT, &[&users]), "200");
    // nginx passes on a client's own report in the header that it does not write.
    let lines = "proxy_http_version 1.1;\nproxy_set_header X-Forwarded-For 203.0.113.9;\n";
    let remote = Nginx::start(&folder.path().join("remote"), &upstream, lines);
    let users = remote.url("/admin/users");
    for own in [
        "Forwarded: for=127.0.0.1",
        "X-Forwarded-For: 127.0.0.1",
        "X-Real-IP: 127.0.0.1",
    ] {
        assert_eq!(status(ROOT, &["-H", own, &users]), "403", "{own}");
    }
}

/// The certificate of a proxy's own connection logs none of its clients in.
#[test]
fn the_clients_of_a_proxy_do_not_have_its_certificate() {
    if !super::is_root("nginx with workers of a service account") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let authority = Authority::new(folder.path(), "ca");
    authority.sign("server", "localhost", &["127.0.0.1"]);
    authority.sign("proxy", "proxy", &[]);
    let settings = format!(
        "listeners.http.trusted_proxies = [\"127.0.0.1\"]\n\
         listeners.http.tls.bind = [\"127.0.0.1:0\"]\nlisteners.http.tls.cert = '{}'\n\
         listeners.http.tls.key = '{}'\nlisteners.http.tls.client_ca = '{}'\n\
         listeners.http.tls.client_is_user = true\n",
        path("server.pem"),
        path("server.key"),
        path("ca.pem"),
    );
    let gateway = gateway_for_all(folder.path(), &settings);
    let added = add_user(&gateway, "proxy", "secret of proxy", &[]);
    assert!(added.status.success(), "{}", text_of(&added));
    let upstream = format!("https://{}", gateway.address("http/tls"));
    let certified = format!(
        "proxy_http_version 1.1;\nproxy_set_header Upgrade $http_upgrade;\n\
         proxy_set_header Connection upgrade;\nproxy_ssl_certificate {};\n\
         proxy_ssl_certificate_key {};\n",
        path("proxy.pem"),
        path("proxy.key"),
    );
    let naming = format!("{certified}proxy_set_header X-Forwarded-For $remote_addr;\n");
    let itself = Nginx::start(&folder.path().join("itself"), &upstream, &certified);
    let naming = Nginx::start(&folder.path().join("naming"), &upstream, &naming);
    await_some("the user is known", || {
        (knock(itself.address, "Host: gate.example\r\n") == 0).then_some(())
    });
    let code = knock(naming.address, "Host: gate.example\r\n");
    assert_eq!(code, NOT_AUTHORIZED);
}
