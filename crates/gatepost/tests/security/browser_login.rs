//! The login page and its cookie, by requests as a browser sends them and as attackers would.

use std::fmt::Write as _;

use crate::support::web_socket::WebSocket;
use crate::support::{Client, Gateway, add_user, await_some, run, send_raw, text_of};

const HTML: &str = "Accept: text/html,*/*";
/// A CONNECT of MQTT 3.1.1 without a user, and its acceptance.
const CONNECT: &[u8] = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01w";
const CONNACK: &[u8] = &[0x20, 2, 0, 0];

/// A server that root and anna can log in to.
fn gateway(settings: &str) -> Gateway {
    let gateway = Gateway::start(&format!("rules.paths = []\n{settings}"));
    for (name, more) in [("root", &["--admin"][..]), ("anna", &[])] {
        let added = add_user(&gateway, name, &format!("secret of {name}"), more);
        assert!(added.status.success(), "{}", text_of(&added));
    }
    await_some("the server knows both", || {
        let known = logged_in(&gateway, "anna").is_some();
        known.then_some(())
    });
    gateway
}

/// A request with these further fields, to a host of the listener's own name.
fn request(gateway: &Gateway, line: &str, fields: &[&str], body: &str) -> String {
    let host = gateway.address("http");
    let mut head = format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    for field in fields {
        let _ = write!(head, "{field}\r\n");
    }
    if !body.is_empty() {
        let _ = write!(head, "Content-Length: {}\r\n", body.len());
    }
    let answer = send_raw(host, format!("{head}\r\n{body}").as_bytes());
    String::from_utf8_lossy(&answer).into_owned()
}

fn status(answer: &str) -> &str {
    answer.get(9..12).unwrap_or(answer)
}

fn field<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let head = answer.split("\r\n\r\n").next().unwrap_or_default();
    head.lines()
        .filter_map(|line| line.split_once(": "))
        .find_map(|(key, value)| key.eq_ignore_ascii_case(name).then_some(value))
}

fn own(gateway: &Gateway) -> String {
    format!("Origin: http://{}", gateway.address("http"))
}

/// Sends the form; `more` are further header fields.
fn submit(gateway: &Gateway, form: &str, more: &[&str]) -> String {
    let kind = "Content-Type: application/x-www-form-urlencoded";
    request(
        gateway,
        "POST /gatepost/login",
        &[&[kind, HTML], more].concat(),
        form,
    )
}

/// The `Cookie` field of a browser that logs in now.
fn logged_in(gateway: &Gateway, name: &str) -> Option<String> {
    let form = format!("user={name}&password=secret+of+{name}&next=%2F");
    let answer = submit(gateway, &form, &[&own(gateway)]);
    let cookie = field(&answer, "set-cookie")?.split(';').next()?;
    Some(format!("Cookie: {cookie}"))
}

fn log_in(gateway: &Gateway, name: &str) -> String {
    logged_in(gateway, name).expect("a cookie")
}

fn state(gateway: &Gateway, cookie: &str) -> String {
    let answer = request(gateway, "GET /admin/state", &[cookie], "");
    status(&answer).to_owned()
}

#[test]
fn browsers_get_a_login_page_and_programs_a_challenge() {
    let gateway = gateway("");
    let answer = request(&gateway, "GET /?a=b", &[HTML], "");
    assert_eq!(status(&answer), "303", "{answer}");
    assert_eq!(
        field(&answer, "location"),
        Some("/gatepost/login?next=/%3Fa%3Db")
    );
    for path in ["GET /", "GET /metrics", "GET /admin/state"] {
        let answer = request(&gateway, path, &[], "");
        assert_eq!(status(&answer), "401", "{path}: {answer}");
        let challenge = field(&answer, "www-authenticate").unwrap_or_default();
        assert!(challenge.starts_with("Basic "), "{path}: {answer}");
    }
    let page = request(&gateway, "GET /gatepost/login?next=%2Fa%22b", &[HTML], "");
    assert_eq!(status(&page), "200", "{page}");
    assert!(page.contains("value=\"&#x2f;a&quot;b\""), "{page}");
    let policy = field(&page, "content-security-policy").unwrap_or_default();
    assert!(policy.contains("frame-ancestors 'none'"), "{page}");

    let wrong = "user=%3Cb%3Eanna&password=wrong&next=%2Fdocs";
    let answer = submit(&gateway, wrong, &[&own(&gateway)]);
    assert_eq!(status(&answer), "401", "{answer}");
    assert!(answer.contains("password is wrong"), "{answer}");
    assert!(answer.contains("&lt;b&gt;anna"), "{answer}");
    assert!(
        !answer.contains("Basic "),
        "no box of the browser: {answer}"
    );
    assert_eq!(field(&answer, "set-cookie"), None);

    let form = "user=root&password=secret+of+root&next=%2Fdocs%3Fx%23y";
    let answer = submit(&gateway, form, &[&own(&gateway)]);
    assert_eq!(status(&answer), "303", "{answer}");
    assert_eq!(field(&answer, "location"), Some("/docs?x#y"));
    let cookie = field(&answer, "set-cookie").expect("a cookie");
    assert!(
        cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"),
        "{cookie}"
    );
    let cookie = format!("Cookie: {}", cookie.split(';').next().expect("a pair"));
    assert_eq!(
        status(&request(&gateway, "GET /", &[HTML, &cookie], "")),
        "200"
    );
    assert_eq!(state(&gateway, &cookie), "200");
    let session = request(&gateway, "GET /gatepost/session", &[&cookie], "");
    assert!(session.contains("\"user\":\"root\""), "{session}");
    assert!(session.contains("\"can_log_out\":true"), "{session}");

    let answer = request(
        &gateway,
        "POST /gatepost/logout",
        &[HTML, &cookie, &own(&gateway)],
        "",
    );
    assert_eq!(field(&answer, "location"), Some("/gatepost/login"));
    assert_eq!(state(&gateway, &cookie), "401");
    let root = log_in(&gateway, "root");
    let changes = request(&gateway, "GET /admin/changes", &[&root], "");
    for action in ["\"login\"", "\"logout\""] {
        assert!(changes.contains(action), "{changes}");
    }
    assert!(!changes.contains("secret of"), "{changes}");
    // Not an administrator: pages of the user's own instead of the dashboard, and no login page
    // again, which would lead nowhere.
    let anna = log_in(&gateway, "anna");
    let answer = request(&gateway, "GET /", &[HTML, &anna], "");
    assert_eq!(status(&answer), "200", "{answer}");
    for part in [
        "The dashboard is for administrators",
        "/senders",
        "/gatepost/login",
    ] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
    assert!(!answer.contains("dashboard.js"), "{answer}");
    let answer = request(&gateway, "GET /", &[&anna], "");
    assert_eq!(status(&answer), "403", "{answer}");
}

#[test]
fn a_cookie_acts_for_own_pages_only() {
    let gateway = gateway("listeners.http.origins = [\"http://allowed.example\"]\n");
    let root = log_in(&gateway, "root");
    let publish = |fields: &[&str]| {
        let fields = [&[root.as_str(), "Content-Type: text/plain"], fields].concat();
        status(&request(&gateway, "POST /topics/a", &fields, "x")).to_owned()
    };
    assert_eq!(publish(&[&own(&gateway)]), "200");
    assert_eq!(
        publish(&[&own(&gateway), "Sec-Fetch-Site: same-origin"]),
        "200"
    );
    for (fields, refusal) in [
        (&["Origin: http://evil.example"][..], "403"),
        (&["Origin: null"], "403"),
        // May publish by a login of its own, not by that of the visitor.
        (&["Origin: http://allowed.example"], "401"),
        (&["Sec-Fetch-Site: same-site"], "401"),
        (&["Sec-Fetch-Site: cross-site"], "401"),
        (&["Referer: http://evil.example/"], "401"),
        (&[], "401"),
    ] {
        assert_eq!(publish(fields), refusal, "{fields:?}");
    }
    let read = |fields: &[&str]| {
        let fields = [&[root.as_str()], fields].concat();
        status(&request(&gateway, "GET /admin/state", &fields, "")).to_owned()
    };
    assert_eq!(read(&["Origin: http://allowed.example"]), "401");
    assert_eq!(
        read(&["Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: no-cors"]),
        "401"
    );
    assert_eq!(
        read(&["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"]),
        "200"
    );
    // ntfy's clients publish by links.
    let link = |fields: &[&str]| {
        let fields = [&[root.as_str()], fields].concat();
        status(&request(&gateway, "GET /a/publish?message=x", &fields, "")).to_owned()
    };
    assert_eq!(link(&["Sec-Fetch-Site: none"]), "200");
    for fields in [
        &[][..],
        &["Referer: http://allowed.example/"],
        &["Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: navigate"],
    ] {
        assert_eq!(link(fields), "403", "{fields:?}");
    }
    // A page of another origin logs no visitor in or out.
    let form = "user=anna&password=secret+of+anna";
    for fields in [
        &["Origin: http://evil.example"][..],
        &["Origin: http://allowed.example"],
        &["Sec-Fetch-Site: same-site"],
        &[],
    ] {
        let answer = submit(&gateway, form, fields);
        assert_eq!(status(&answer), "403", "{fields:?}: {answer}");
        assert_eq!(field(&answer, "set-cookie"), None);
        let fields = [&[root.as_str()], fields].concat();
        let answer = request(&gateway, "POST /gatepost/logout", &fields, "");
        assert_eq!(status(&answer), "403", "{fields:?}: {answer}");
    }
    assert_eq!(state(&gateway, &root), "200");
}

#[test]
fn a_login_leads_to_own_paths_only() {
    let gateway = gateway("");
    for next in [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "%2F%09%2Fevil.example",
        "%2Fa%0D%0ASet-Cookie:%20x=y",
        "javascript:alert(1)",
    ] {
        let form = format!("user=anna&password=secret+of+anna&next={next}");
        let answer = submit(&gateway, &form, &[&own(&gateway)]);
        assert_eq!(field(&answer, "location"), Some("/"), "{next}: {answer}");
        let page = request(
            &gateway,
            &format!("GET /gatepost/login?next={}", next.replace('\\', "%5C")),
            &[HTML],
            "",
        );
        assert!(!page.contains("evil.example"), "{next}: {page}");
    }
    let long = format!("user=anna&password={}", "x".repeat(9_000));
    assert_eq!(status(&submit(&gateway, &long, &[&own(&gateway)])), "413");
    let chunked = format!(
        "POST /gatepost/login HTTP/1.1\r\nHost: {}\r\n{}\r\nTransfer-Encoding: chunked\r\n\
         Connection: close\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        gateway.address("http"),
        own(&gateway)
    );
    let answer = send_raw(gateway.address("http"), chunked.as_bytes());
    let answer = String::from_utf8_lossy(&answer);
    assert_eq!(status(&answer), "400", "{answer}");
}

#[test]
fn a_session_is_named_by_a_new_token_only() {
    let gateway = gateway("access.sessions.per_user_max = 2\n");
    for forged in [
        "",
        "none",
        "A",
        "gp_A",
        &"A".repeat(43),
        &"A".repeat(5_000),
        "\"; DROP",
    ] {
        let cookie = format!("Cookie: gatepost-login={forged}");
        assert_eq!(state(&gateway, &cookie), "401", "{forged}");
    }
    // A name that only a connection over TLS has.
    let root = log_in(&gateway, "root");
    let secure = root.replace("gatepost-login", "__Host-gatepost-login");
    assert_eq!(state(&gateway, &secure), "401");

    // A cookie that another put there is not adopted.
    let planted = "B".repeat(43);
    let form = "user=root&password=secret+of+root";
    let fixed = format!("Cookie: gatepost-login={planted}");
    let answer = submit(&gateway, form, &[&own(&gateway), &fixed]);
    let set = field(&answer, "set-cookie").expect("a cookie");
    assert!(!set.contains(&planted), "{set}");
    assert_eq!(state(&gateway, &fixed), "401");

    // A further login in the same browser ends its earlier session.
    let answer = submit(&gateway, form, &[&own(&gateway), &root]);
    let set = field(&answer, "set-cookie").expect("a cookie");
    let second = format!("Cookie: {}", set.split(';').next().expect("a pair"));
    assert_eq!(state(&gateway, &root), "401");
    assert_eq!(state(&gateway, &second), "200");

    // The table is full: the session that was unused for longest ends, and the login succeeds.
    let third = log_in(&gateway, "root");
    assert_eq!(state(&gateway, &second), "200");
    let fourth = log_in(&gateway, "root");
    assert_eq!(state(&gateway, &third), "401");
    for held in [&second, &fourth] {
        assert_eq!(state(&gateway, held), "200");
    }
}

#[test]
fn sessions_end_with_time_and_with_the_password() {
    let gateway = gateway("access.sessions.lifetime = \"2s\"\n");
    let root = log_in(&gateway, "root");
    await_some("the session ends", || {
        (state(&gateway, &root) == "401").then_some(())
    });
    drop(gateway);

    let gateway = self::gateway("");
    let (root, anna) = (log_in(&gateway, "root"), log_in(&gateway, "anna"));
    let user = |cookie: &str| request(&gateway, "GET /gatepost/session", &[cookie], "");
    assert!(user(&anna).contains("\"anna\""));
    let data = format!("data={}", gateway.folder.join("gatepost-data").display());
    let arguments = ["user", "passwd", "anna", "--set", &data];
    let changed = run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b"another\n");
    assert!(changed.status.success(), "{}", text_of(&changed));
    await_some("anna's session ends with her password", || {
        user(&anna).contains("\"user\":null").then_some(())
    });
    assert_eq!(state(&gateway, &root), "200", "not those of others");
}

#[test]
fn a_logout_ends_streams_and_websockets() {
    let gateway = gateway("access.default = \"allow\"\n");
    let root = log_in(&gateway, "root");
    let mqtt = |more: &str| {
        let host = gateway.address("http");
        let fields = format!("Host: {host}\r\nSec-WebSocket-Protocol: mqtt\r\n{root}\r\n{more}");
        let (mut socket, head) = WebSocket::open(&gateway, "/mqtt", &fields);
        if head.starts_with("HTTP/1.1 101") {
            socket.send(2, CONNECT);
        }
        (socket, head)
    };
    let own = format!("{}\r\n", own(&gateway));
    let (mut socket, head) = mqtt(&own);
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    socket.expect(CONNACK);
    // From elsewhere the handshake fails, and without an origin the cookie does not count.
    let (_, head) = mqtt("Origin: http://evil.example\r\n");
    assert!(head.starts_with("HTTP/1.1 403"), "{head}");
    let (mut without, _) = mqtt("");
    assert_ne!(without.receive(), Some((2, CONNACK.to_vec())));

    let url = gateway.url("/topics/home");
    let accept = "Accept: text/event-stream";
    let mut stream = Client::start("curl", &["-sN", "-H", &root, "-H", accept, &url]);
    stream.await_line("retry");
    let answer = request(
        &gateway,
        "POST /gatepost/logout",
        &[&root, own.trim_end()],
        "",
    );
    assert_eq!(status(&answer), "303", "{answer}");
    stream.into_lines();
    while socket.receive().is_some() {}
}

#[test]
fn the_form_counts_wrong_passwords_as_every_login_does() {
    let gateway = gateway(
        "listeners.http.trusted_proxies = [\"127.0.0.1\"]\naccess.failures_per_user = 3\n\
         access.failure_recovery = \"1h\"\naccess.failure_wait_max = \"1h\"\n",
    );
    let afar = "X-Forwarded-For: 203.0.113.9";
    let attempt = |password: &str| {
        // Not anna, whose right password is remembered since her login.
        let form = format!("user=root&password={password}");
        submit(&gateway, &form, &[&own(&gateway), afar])
    };
    for _ in 0..3 {
        assert_eq!(status(&attempt("wrong")), "401");
    }
    let answer = attempt("secret+of+root");
    assert_eq!(status(&answer), "429", "{answer}");
    assert!(field(&answer, "retry-after").is_some(), "{answer}");
    assert!(answer.contains("Too many failed logins"), "{answer}");
    assert!(answer.contains("not encrypted"), "{answer}");
}
