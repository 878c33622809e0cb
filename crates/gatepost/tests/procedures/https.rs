//! HTTPS requests of procedures, and the servers that they trust: the system's authorities decide,
//! here those of `SSL_CERT_FILE`.

use std::path::Path;

use super::support::authority::Authority;
use super::support::{Client, Gateway, run, text_of};

/// Serves with each `NAME.pem` of a folder, on a free port each.
const SERVER: &str = r"
import http.server, ssl, sys, threading
class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        text = b'secret of ' + self.headers['Host'].encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text)
for name in sys.argv[2:]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f'{sys.argv[1]}/{name}.pem', f'{sys.argv[1]}/{name}.key')
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Answers)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever).start()
    print('port', name, server.server_address[1], flush=True)
";

const ASKS: &str = r#"return function(message)
    local answer, why = http.get(message.subject)
    return "accept", if answer then answer.status .. " " .. answer.body else "nothing: " .. why
end"#;

/// The certificate that a server shows, and the beginning of the answer; `PORT` is the server's.
const CASES: [(&str, &str); 6] = [
    ("right", "200 secret of localhost:PORT"),
    ("address", "200 secret of 127.0.0.1:PORT"),
    (
        "wrong-name",
        "nothing: invalid peer certificate: certificate not valid for name",
    ),
    (
        "expired",
        "nothing: invalid peer certificate: certificate expired",
    ),
    (
        "not-yet",
        "nothing: invalid peer certificate: certificate not valid yet",
    ),
    (
        "unknown",
        "nothing: invalid peer certificate: UnknownIssuer",
    ),
];

fn sign(folder: &Path) {
    let known = Authority::new(folder, "known");
    let unknown = Authority::new(folder, "stranger");
    known.sign("right", "localhost", &["localhost"]);
    known.sign("address", "localhost", &["127.0.0.1"]);
    known.sign("wrong-name", "localhost", &["localhost.example"]);
    unknown.sign("unknown", "localhost", &["localhost"]);
    known.sign_between("expired", "localhost", [2000, 2001]);
    known.sign_between("not-yet", "localhost", [3000, 3001]);
}

#[test]
fn a_server_without_a_valid_certificate_gets_no_request() {
    let folder = tempfile::tempdir().expect("a folder");
    sign(folder.path());
    let path = folder.path().display().to_string();
    let mut arguments = vec!["-c", SERVER, &path];
    arguments.extend(CASES.map(|(name, _)| name));
    let mut server = Client::start("python3", &arguments);
    let servers = CASES.map(|(name, expected)| {
        let line = server.await_line(&format!("port {name} "));
        let port = line.rsplit(' ').next().expect("a port").to_owned();
        let host = if name == "address" {
            "127.0.0.1"
        } else {
            "localhost"
        };
        (
            name,
            format!("https://{host}:{port}"),
            expected.replace("PORT", &port),
        )
    });
    let origins = servers.each_ref().map(|(_, origin, _)| origin);
    std::fs::create_dir(folder.path().join("procedures")).expect("a folder");
    std::fs::write(folder.path().join("procedures/asks.luau"), ASKS).expect("written");
    let settings = format!(
        "rules.paths = []\nprocedures.http.hosts = {origins:?}\n\
         procedures.http.timeout = '50s'\nprocedures.luau.wait_max = '50s'\n"
    );
    let trust = format!("export SSL_CERT_FILE={path}/known.pem");
    let gateway = Gateway::start_after(&trust, folder.path(), &settings);
    for (name, origin, expected) in &servers {
        let url = gateway.url("/call/asks");
        let mail = format!("Subject: {origin}/path\r\n\r\n");
        let output = run("curl", &["--silent", "--data-binary", &mail, &url], b"");
        let answer = text_of(&output);
        assert!(answer.contains(expected), "{name}: {answer}");
        assert_eq!(
            answer.contains("secret"),
            expected.starts_with("200"),
            "{name}"
        );
    }
}
