//! Attacks that never succeeded, repeated so that they do not succeed later: injection of header
//! fields and of commands, requests to other servers, escapes from Luau, patterns without end.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::authority::Authority;
use crate::support::{Gateway, add_user, await_some, post, run, swaks, text_of};

/// A server whose HTTP publications and mail go to this procedure.
fn start_with(folder: &Path, code: &str, settings: &str) -> Gateway {
    std::fs::create_dir(folder.join("procedures")).expect("a folder");
    std::fs::write(folder.join("procedures/attack.luau"), code).expect("written");
    let scope =
        "[[scope]]\npath = \"/all\"\nlisteners = [\"http\", \"smtp\"]\nrun = [\"/attack\"]\n";
    Gateway::start_in(folder, &format!("rules.paths = []\n{settings}{scope}"))
}

/// A sender whose subject, once decoded, is more than a line.
#[test]
fn a_decoded_subject_adds_no_field_to_a_mail() {
    const COPIES: &str = r#"
return function(message)
    local subject = message.subject
    pcall(function() message.headers:set("X-Copy", subject) end)
    pcall(function() message.headers:set("X-Other\r\nX-Injected", "name") end)
    return {action = "tag", tags = {["X-Subject"] = subject}, reason = subject}
end"#;
    let folder = tempfile::tempdir().expect("a folder");
    let settings =
        "[[listeners.smtp.routes]]\nrecipients = \"*@localhost\"\nmailbox = \"{user}\"\n";
    let gateway = start_with(folder.path(), COPIES, settings);
    let added = add_user(&gateway, "anna", "secret of anna", &["--admin"]);
    assert!(added.status.success(), "{}", text_of(&added));
    let server = gateway.address("smtp").to_string();
    let subject = "Subject: =?utf-8?Q?one=0D=0AX-Injected:_yes=0D=0A=0D=0Abody?=";
    let options = ["--header", subject];
    let sent = await_some("anna is known", || {
        let sent = swaks(&server, "a@example.org", "anna@localhost", &options);
        sent.status.success().then_some(sent)
    });
    assert!(
        !text_of(&sent).contains("\nX-Injected"),
        "{}",
        text_of(&sent)
    );
    let url = format!("pop3://{}/1", gateway.address("pop3"));
    let mail = run("curl", &["-s", "-u", "anna:secret of anna", &url], b"");
    let mail = text_of(&mail).to_lowercase();
    assert!(mail.contains("\nx-subject: one"), "{mail}");
    assert!(!mail.contains("\nx-injected"), "{mail}");
    let (head, _) = mail.split_once("\r\n\r\n").expect("a head");
    assert!(
        head.contains("\nmessage-id:"),
        "no body before the body: {mail}"
    );
}

/// Bytes that a client sends with STLS, before TLS, are not part of the encrypted session.
#[test]
fn commands_behind_stls_are_forgotten() {
    const CLIENT: &str = r#"
import socket, ssl, sys
plain = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60)
def line(stream):
    read = b""
    while not read.endswith(b"\n"):
        byte = stream.recv(1)
        assert byte, read
        read += byte
    return read
assert line(plain).startswith(b"+OK")
plain.sendall(b"STLS\r\nUSER mallory\r\n")
assert line(plain).startswith(b"+OK")
context = ssl.create_default_context(cafile=sys.argv[2])
secure = context.wrap_socket(plain, server_hostname="mx.example")
secure.sendall(b"PASS x\r\n")
said = line(secure)
assert b"USER" in said, said
secure.sendall(b"QUIT\r\n")
assert line(secure).startswith(b"+OK good bye")
print("done")
"#;
    let folder = tempfile::tempdir().expect("a folder");
    let path = |file: &str| folder.path().join(file).display().to_string();
    Authority::new(folder.path(), "authority").sign("mx", "mx.example", &["mx.example"]);
    let settings = format!(
        "rules.paths = []\nlisteners.pop3.tls.cert = '{}'\nlisteners.pop3.tls.key = '{}'\n",
        path("mx.pem"),
        path("mx.key")
    );
    let gateway = Gateway::start_in(folder.path(), &settings);
    let port = gateway.port("pop3");
    let output = run(
        "python3",
        &["-c", CLIENT, &port, &path("authority.pem")],
        b"",
    );
    assert_eq!(text_of(&output).trim(), "done");
}

/// Answers each request with a redirect to `place`; counts the requests.
fn redirecting(place: String) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            counted.fetch_add(1, Ordering::SeqCst);
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let answer = format!(
                "HTTP/1.1 302 Found\r\nLocation: {place}\r\nContent-Length: 0\r\n\
                 Connection: close\r\n\r\n"
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (format!("http://{address}"), requests)
}

/// A server that procedures may ask sends them to one that they may not.
#[test]
fn procedures_follow_no_redirect_to_another_server() {
    let (inner, asked) = redirecting("/".to_owned());
    let (outer, redirects) = redirecting(format!("{inner}/secret"));
    let code = format!(
        "return function(message)\n\
         local answer = http.get('{outer}/')\n\
         local secret = http.get('{inner}/secret')\n\
         return 'reject', `{{answer.status}} {{secret == nil}}`\nend"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let settings = format!("procedures.http.hosts = [\"{outer}\"]\n");
    let gateway = start_with(folder.path(), &code, &settings);
    let answer = post(&gateway, "a", "x");
    assert!(answer.contains("302 true"), "{answer}");
    assert_eq!(redirects.load(Ordering::SeqCst), 1);
    assert_eq!(asked.load(Ordering::SeqCst), 0, "never asked");
}

/// Names of Lua that reach files, processes, other code or the interpreter, and shared state.
#[test]
fn luau_has_no_access_to_files_and_keeps_no_state() {
    const ESCAPES: &str = r#"
return function(message)
    local found = {}
    local function note(what, is_found) if is_found then table.insert(found, what) end end
    for _, path in {"io", "package", "require", "dofile", "loadfile", "load",
        "os.execute", "os.getenv", "os.remove", "os.rename", "os.exit", "os.tmpname",
        "debug.getregistry", "debug.sethook", "debug.setmetatable", "debug.getupvalue",
        "string.dump"} do
        local value = _G
        for name in path:gmatch("[^.]+") do
            value = type(value) == "table" and value[name] or nil
        end
        note(path, value ~= nil)
    end
    note("string changed", pcall(function() string.rep = function() return "evil" end end))
    note("metatable", pcall(function() getmetatable("").__index = {} end))
    note("host changed", pcall(function() json.encode = nil end))
    local is_loaded, chunk = pcall(loadstring, "\6\3\0\1")
    note("bytecode", is_loaded and chunk ~= nil)
    local is_run, value = pcall(function() return loadstring("return io or require")() end)
    note("loaded code", is_run and value ~= nil)
    note("left behind", rawget(_G, "left_behind") ~= nil)
    pcall(function() _G.left_behind = message.body end)
    pcall(function() left_behind = message.body end)
    pcall(function() setfenv(0, {}) end)
    if #found > 0 then return "reject", "found " .. table.concat(found, ", ") end
    return "accept", ("x"):rep(2) .. json.encode({1})
end"#;
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = start_with(folder.path(), ESCAPES, "");
    for _ in 0..20 {
        let answer = post(&gateway, "a", "x");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

/// Patterns whose search doubles with each letter: the mail passes, in time, and the rule is named.
#[test]
fn a_pattern_without_end_is_given_up_and_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let rules = folder.path().join("rules.cf");
    let text = "body CATASTROPHE /(?<!z)(?:(a+)+)+\\1(?<!c)!/\nscore CATASTROPHE 1\n\
         body AFTER /lottery/\nscore AFTER 9\n";
    std::fs::write(&rules, text).expect("written");
    let settings = format!(
        "rules.paths = [\"{}\"]\n[[scope]]\npath = \"/mail\"\nlisteners = [\"smtp\"]\n\
         run = [\"/spamcheck\"]\n",
        rules.display()
    );
    let gateway = Gateway::start_in(folder.path(), &settings);
    let server = gateway.address("smtp").to_string();
    let body = format!("the lottery of {}c! and more", "a".repeat(60));
    let options = ["--header", "Subject: hello", "--body", &body];
    let sent = text_of(&swaks(
        &server,
        "a@example.org",
        "alarms@localhost",
        &options,
    ));
    // The other rules have been asked all the same.
    assert!(sent.contains("AFTER"), "{sent}");
    let log = gateway.log();
    assert!(
        log.contains("rules reached their limits") && log.contains("CATASTROPHE"),
        "{log}"
    );
}
