//! The trust in next hops: DANE and MTA-STS, with Postfix as the next hop, a DNS server and a
//! policy server of the tests' own, and the attacks that both are for.

use std::path::Path;

use crate::support::authority::Authority;
use crate::support::name_server::{self, MX, NameServer, TLSA, TXT};
use crate::support::postfix::Postfix;
use crate::support::{Client, Gateway, await_some, run, swaks, text_of};

fn send(gateway: &Gateway, user: &str) -> String {
    let server = gateway.address("smtp").to_string();
    let more = ["--helo", "client.example", "--header", "Subject: hello"];
    let to = format!("{user}@boxes.example");
    text_of(&swaks(&server, "otto@example.org", &to, &more))
}

#[track_caller]
fn assert_taken(gateway: &Gateway, user: &str) {
    let transcript = send(gateway, user);
    assert!(transcript.contains("250 2.0.0 Ok: queued"), "{transcript}");
}

#[track_caller]
fn assert_deferred(gateway: &Gateway, user: &str, reply: &str) {
    let transcript = send(gateway, user);
    assert!(transcript.contains(&format!("<** {reply}")), "{transcript}");
}

/// A Postfix that offers STARTTLS with `FILE.pem` of the folder.
fn encrypting(folder: &Path, file: &str) -> Postfix {
    let path = |end: &str| folder.join(format!("{file}.{end}")).display().to_string();
    Postfix::start(&format!(
        "smtpd_tls_security_level = may\nsmtpd_tls_chain_files = {}, {}\n\
         smtpd_tls_received_header = yes",
        path("key"),
        path("pem"),
    ))
}

/// A gateway of the folder that asks this DNS server, and opens a connection for each message.
fn gateway(folder: &Path, names: &NameServer, settings: &str, routes: &[(&str, &str)]) -> Gateway {
    std::fs::create_dir_all(folder).expect("a folder");
    let mut text = format!(
        r#"
{settings}
rules.paths = []
listeners.smtp.hostname = "gate.example"
listeners.smtp.domains = ["boxes.example"]
listeners.smtp.forward.dns_servers = ["{}"]
listeners.smtp.forward.idle_connections_max = 0
"#,
        names.address
    );
    let route = |(user, next_hop): &(&str, &str)| {
        format!(
            "[[listeners.smtp.routes]]\nrecipients = \"{user}@boxes.example\"\n\
             forward = \"{next_hop}\"\n"
        )
    };
    text.extend(routes.iter().map(route));
    Gateway::start_in(folder, &text)
}

/// The data of a TLSA record of a certificate's file: SHA-256 by OpenSSL, of its key or of all of
/// it.
fn tlsa(usage: u8, selector: u8, certificate: &Path) -> Vec<u8> {
    let file = certificate.display();
    let selected = match selector {
        0 => format!("openssl x509 -in {file} -outform DER"),
        _ => format!("openssl x509 -in {file} -noout -pubkey | openssl pkey -pubin -outform DER"),
    };
    let digest = run(
        "sh",
        &["-c", &format!("{selected} | openssl dgst -sha256 -binary")],
        b"",
    );
    assert_eq!(digest.stdout.len(), 32, "{}", text_of(&digest));
    [&[usage, selector, 1], &digest.stdout[..]].concat()
}

#[test]
fn tlsa_records_decide_where_dnssec_proves_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let authority = Authority::new(folder.path(), "authority");
    authority.sign("hop", "hop.example", &["hop.example"]);
    // The authority of the chain is sent too, as DANE-TA needs it.
    let chain = ["hop.pem", "authority.pem"].map(|file| std::fs::read(path(file)).expect("a file"));
    std::fs::write(path("chain.pem"), chain.concat()).expect("written");
    std::fs::copy(path("hop.key"), path("chain.key")).expect("copied");
    authority.sign("other", "hop.example", &["hop.example"]);

    let names = NameServer::start();
    names.here("hop.example", true);
    let (encrypting, plain) = (encrypting(folder.path(), "chain"), Postfix::start(""));
    let routes = |server: &Postfix| format!("smtp://{}", server.address());
    let by_name = "listeners.smtp.forward.tls_name = 'hop.example'";
    let routes = [("anna", routes(&encrypting)), ("bert", routes(&plain))];
    let routes = routes.each_ref().map(|(user, hop)| (*user, hop.as_str()));
    let gateway = gateway(&path("gateway-data"), &names, by_name, &routes);
    let services = [encrypting.address(), plain.address()]
        .map(|address| format!("_{}._tcp.hop.example", address.port()));
    let set = |records: &[Vec<u8>], is_authentic| {
        for service in &services {
            names.records(service, TLSA, records, is_authentic);
        }
    };

    // Without records any certificate will do, and plain text too.
    assert_taken(&gateway, "anna");
    assert_taken(&gateway, "bert");
    for right in [
        tlsa(3, 1, &path("hop.pem")),
        tlsa(3, 0, &path("hop.pem")),
        tlsa(2, 0, &path("authority.pem")),
        tlsa(2, 1, &path("authority.pem")),
    ] {
        // A record that fits none does no harm beside one that does.
        set(&[tlsa(3, 1, &path("other.pem")), right], true);
        assert_taken(&gateway, "anna");
        // The offer of STARTTLS was removed on the way.
        assert_deferred(
            &gateway,
            "bert",
            "451 4.7.5 hop.example does not offer STARTTLS, which its TLSA record (DANE) requires",
        );
    }
    let wrong = tlsa(3, 1, &path("other.pem"));
    set(std::slice::from_ref(&wrong), true);
    let refused = "451 4.7.5 TLS with hop.example fails, which its TLSA record (DANE) requires: \
                   other error: no TLSA record matches its certificate";
    assert_deferred(&gateway, "anna", refused);
    assert!(gateway.log().contains("no TLSA record matches"));
    await_some("the reason in the journal", || {
        let found = crate::json(&gateway, "/admin/messages?search=anna");
        let mut messages = found["messages"].as_array()?.iter();
        let reason = |message: &serde_json::Value| message["reason"].as_str().map(str::to_owned);
        let is_it = |reason: String| reason.contains("its TLSA record (DANE) requires");
        messages
            .any(|message| reason(message).is_some_and(is_it))
            .then_some(())
    });
    // An unproven name may be forged.
    set(&[wrong], false);
    assert_taken(&gateway, "anna");
    assert_taken(&gateway, "bert");
    // Records that cannot be compared still say that there is TLS (RFC 7672, section 2.2).
    set(&[tlsa(1, 1, &path("other.pem"))], true);
    assert_taken(&gateway, "anna");
    assert_deferred(
        &gateway,
        "bert",
        "451 4.7.5 hop.example does not offer STARTTLS",
    );
    // An answer that is kept back is a way to hide records, where there is DNSSEC.
    for service in &services {
        names.fail(service, TLSA);
    }
    assert_deferred(&gateway, "anna", "451 4.4.1 the TLSA records of _");
    names.here("hop.example", false);
    assert_taken(&gateway, "anna");

    let mail = encrypting.await_mail("anna", 8);
    let is_encrypted = |mail: &&String| mail.contains("(using TLSv1.3 with cipher");
    assert_eq!(mail.iter().filter(is_encrypted).count(), 8, "{mail:?}");
    assert_eq!(plain.await_mail("bert", 2).len(), 2);
}

/// Serves each host's policy from `HOST.txt` of the folder; a file that begins with a digit is a
/// status.
const POLICY_SERVER: &str = r"
import http.server, os, ssl, sys
class Policies(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        host = self.headers['Host'].split(':')[0]
        file = os.path.join(sys.argv[1], host + '.txt')
        text = open(file, 'rb').read() if self.path == '/.well-known/mta-sts.txt' else b'404'
        self.send_response(int(text) if text[:1].isdigit() else 200)
        self.send_header('Location', 'https://mta-sts.good.example/.well-known/mta-sts.txt')
        self.send_header('Content-Type', 'text/plain')
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[2] + '.pem', sys.argv[2] + '.key')
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Policies)
server.socket = context.wrap_socket(server.socket, server_side=True)
print('port', server.server_address[1], flush=True)
server.serve_forever()
";

const DOMAINS: [&str; 3] = ["good.example", "wrong.example", "plain.example"];

/// The world of the tests of MTA-STS: three domains with a policy each.
struct Domains {
    folder: tempfile::TempDir,
    names: NameServer,
    encrypting: Postfix,
    plain: Postfix,
    policy_server: Option<(Client, String)>,
}

impl Domains {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::new(folder.path(), "authority");
        // The hosts of good.example prove their names; those of wrong.example have the same
        // certificate.
        authority.sign("hop", "mx.good.example", &["mx.good.example"]);
        let hosts = DOMAINS.map(|domain| format!("mta-sts.{domain}"));
        let hosts = hosts.each_ref().map(String::as_str);
        authority.sign("policies", "policies", &hosts);
        let names = NameServer::start();
        let domains = Self {
            encrypting: encrypting(folder.path(), "hop"),
            plain: Postfix::start(""),
            policy_server: None,
            folder,
            names,
        };
        for domain in DOMAINS {
            let host = format!("mx.{domain}");
            let exchanger = name_server::exchanger(10, &host);
            domains.names.records(domain, MX, &[exchanger], false);
            domains.names.here(&host, false);
            domains.names.here(&format!("mta-sts.{domain}"), false);
        }
        domains
    }

    fn serve_policies(&mut self, certificate: &str) {
        let folder = self.folder.path().display().to_string();
        let certificate = self.folder.path().join(certificate).display().to_string();
        let arguments = ["-c", POLICY_SERVER, &folder, &certificate];
        let mut server = Client::start("python3", &arguments);
        let line = server.await_line("port ");
        let port = line.trim_start_matches("port ").to_owned();
        self.policy_server = Some((server, port));
    }

    fn policy(&self, domain: &str, id: &str, text: &str) {
        let file = self.folder.path().join(format!("mta-sts.{domain}.txt"));
        std::fs::write(file, text).expect("written");
        let record = name_server::text(&format!("v=STSv1; id={id};"));
        let name = format!("_mta-sts.{domain}");
        self.names.records(&name, TXT, &[record], false);
    }

    /// anna, bert and carla are at the good, the wrong and the plain domain.
    fn gateway(&self) -> Gateway {
        let port = self
            .policy_server
            .as_ref()
            .map_or("1", |(_, port)| port.as_str());
        let authorities = self.folder.path().join("authority.pem");
        let settings = format!(
            "listeners.smtp.forward.mta_sts_port = {port}\nlisteners.smtp.forward.tls_ca = '{}'",
            authorities.display()
        );
        let hop =
            |domain: &str, server: &Postfix| format!("mx://{domain}:{}", server.address().port());
        let hops = [
            ("anna", hop("good.example", &self.encrypting)),
            ("bert", hop("wrong.example", &self.encrypting)),
            ("carla", hop("plain.example", &self.plain)),
        ];
        let routes = hops.each_ref().map(|(user, hop)| (*user, hop.as_str()));
        let folder = self.folder.path().join("gateway");
        gateway(&folder, &self.names, &settings, &routes)
    }
}

fn policy(mode: &str, host: &str) -> String {
    format!("version: STSv1\r\nmode: {mode}\r\nmx: {host}\r\nmax_age: 86400\r\n")
}

#[test]
fn an_mta_sts_policy_is_enforced_and_not_forgotten() {
    let mut domains = Domains::new();
    domains.serve_policies("policies");
    for domain in DOMAINS {
        domains.policy(domain, "1", &policy("enforce", &format!("*.{domain}")));
    }
    let gateway = domains.gateway();
    let no_name =
        "451 4.7.5 TLS with mx.wrong.example fails, which the domain's policy (MTA-STS) requires";
    let no_offer = "451 4.7.5 mx.plain.example does not offer STARTTLS, which the domain's policy \
        (MTA-STS) requires";
    assert_taken(&gateway, "anna");
    assert_deferred(&gateway, "bert", no_name);
    assert_deferred(&gateway, "carla", no_offer);
    // A forged MX leads to a host that is not the domain's.
    let forged = name_server::exchanger(1, "mx.evil.example");
    domains.names.records("good.example", MX, &[forged], false);
    domains.names.here("mx.evil.example", false);
    assert_deferred(
        &gateway,
        "anna",
        "451 4.7.5 the MTA-STS policy of good.example does not have mx.evil.example among its \
         hosts",
    );

    // An attacker keeps back the announcement and the policy; we were even restarted.
    assert_eq!(gateway.terminate(), Some(0));
    let gateway = {
        for domain in DOMAINS {
            domains.names.fail(&format!("_mta-sts.{domain}"), TXT);
        }
        domains.policy_server = None;
        domains.gateway()
    };
    assert_deferred(&gateway, "bert", no_name);
    assert_deferred(&gateway, "carla", no_offer);
    let mail = domains.encrypting.await_mail("anna", 1);
    assert!(mail[0].contains("(using TLSv1.3 with cipher"), "{mail:?}");
    assert!(domains.encrypting.mailbox("bert").is_empty());
    assert!(domains.plain.mailbox("carla").is_empty());
}

#[test]
fn a_policy_in_testing_mode_is_logged_and_one_with_a_redirect_is_ignored() {
    let mut domains = Domains::new();
    domains.serve_policies("policies");
    domains.policy("wrong.example", "1", &policy("testing", "mx.wrong.example"));
    domains.policy(
        "plain.example",
        "1",
        &policy("none", "mx.elsewhere.example"),
    );
    // Redirects are not followed.
    domains.policy("good.example", "1", "301");
    let gateway = domains.gateway();
    for user in ["anna", "bert", "carla"] {
        assert_taken(&gateway, user);
    }
    let log = gateway.log();
    assert!(
        log.contains("mail is forwarded with less protection: TLS with mx.wrong.example"),
        "{log}"
    );
    assert!(
        log.contains("its MTA-STS policy is not fetched: the answer is 301"),
        "{log}"
    );
    // Another id has another policy.
    domains.policy("wrong.example", "2", &policy("enforce", "mx.wrong.example"));
    assert_deferred(
        &gateway,
        "bert",
        "451 4.7.5 TLS with mx.wrong.example fails",
    );
    assert_eq!(gateway.terminate(), Some(0));

    // A policy server that does not prove its name has no policy.
    domains.serve_policies("hop");
    domains.policy("plain.example", "3", &policy("enforce", "mx.plain.example"));
    let gateway = domains.gateway();
    assert_taken(&gateway, "carla");
    let log = gateway.log();
    assert!(log.contains("its MTA-STS policy is not fetched: "), "{log}");
    // The known policy of the other domain remains.
    domains.policy("wrong.example", "3", &policy("none", "mx.wrong.example"));
    assert_deferred(
        &gateway,
        "bert",
        "451 4.7.5 TLS with mx.wrong.example fails",
    );
}

#[test]
fn no_mail_is_sent_to_this_server_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let names = NameServer::start();
    let server = Postfix::start("");
    let hop = |domain: &str| format!("mx://{domain}:{}", server.address().port());
    let hops = [("anna", hop("first.example")), ("bert", hop("own.example"))];
    let routes = hops.each_ref().map(|(user, hop)| (*user, hop.as_str()));
    let gateway = gateway(folder.path(), &names, "", &routes);
    names.here("mx.other.example", false);
    let own = name_server::exchanger(10, "gate.example");
    // Another is preferred to this server, or has the same preference.
    let preferred = name_server::exchanger(5, "mx.other.example");
    names.records("first.example", MX, &[own.clone(), preferred], false);
    let same = name_server::exchanger(10, "mx.other.example");
    names.records("own.example", MX, &[own, same], false);
    assert_taken(&gateway, "anna");
    assert_deferred(
        &gateway,
        "bert",
        "451 4.4.6 gate.example is this server itself",
    );
}
