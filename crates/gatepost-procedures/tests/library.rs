//! The functions of Luau code: changing a message, storing values, publishing, contacting other
//! servers.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::thread;

use gatepost_message::{Action, Message, edit};
use gatepost_settings::Period;

use support::{Fixture, call, judge, mail, payload};

const MAIL: &str = "Subject: hello\r\nX-One: a\r\nx-one: b\r\nContent-Type: multipart/mixed; \
    boundary=m\r\n\r\n--m\r\n\r\nthe text\r\n--m\r\nContent-Type: application/pdf\r\n\
    Content-Disposition: attachment; filename=\"bill.pdf\"\r\n\r\n%PDF-1\r\n--m--\r\n";

/// Runs code on a message; an assertion in it that fails shows as the reason.
async fn run(code: &str, message: Message) -> Message {
    let source = format!("return function(message, arguments) {code} end");
    let procedures = Fixture::new()
        .with("probe", &source)
        .run(&["/probe"])
        .start();
    let verdict = judge(&procedures, message.clone()).await;
    let why = call(&procedures, "/probe", message.clone())
        .await
        .verdict
        .reason;
    assert_eq!(verdict.action, Action::Accept, "{why}: {code}");
    edit::applied(&message, &verdict.edits)
}

#[tokio::test]
async fn header_fields_are_read_and_changed() {
    let changed = run(
        r#"
        local headers = message.headers
        assert(headers:get("X-One") == "a" and headers:get("X-None") == nil)
        assert(table.concat(headers:all("X-ONE"), ",") == "a,b")
        assert(table.concat(headers:names(), ",") == "Subject,X-One,x-one,Content-Type")
        headers:set("X-One", "c")
        assert(table.concat(headers:all("X-One"), ",") == "c", "changes are seen at once")
        assert(headers:remove("x-none") == 0)
        headers:set("Subject", "[odd] " .. message.subject)
        assert(message.subject == "[odd] hello")
        headers:prepend("X-First", "1")
        headers:add("X-Last", "Grüße\r\nBcc: all")
        assert(headers:remove("content-type") == 1)
        assert(not pcall(function() headers:add("no name", "x") end))
        "#,
        mail(MAIL),
    )
    .await;
    let text = String::from_utf8_lossy(&changed.body);
    let head = text.split("\r\n\r\n").next().expect("a head");
    assert_eq!(
        head,
        "X-First: 1\r\nSubject: [odd] hello\r\nX-One: c\r\n\
         X-Last: =?utf-8?B?R3LDvMOfZSAgQmNjOiBhbGw=?="
    );
    assert!(text.ends_with("--m--\r\n"), "the body stays");
}

#[tokio::test]
async fn parts_are_views_and_the_body_is_replaced() {
    let changed = run(
        r#"
        local parts = message.parts
        assert(#parts == 2, #parts)
        assert(parts[1].type == "text/plain" and parts[1].text:match("the text"))
        local file = parts[2]
        assert(file.name == "bill.pdf" and file.type == "application/pdf")
        assert(file.disposition == "attachment" and file.size == #file.content)
        assert(file:starts_with("%PDF") and file.text == nil)
        message.body = "gone\r\n"
        message.headers:set("Content-Type", "text/plain")
        assert(message.text == "gone" and #message.parts == 1, message.text)
        assert(message.body:sub(-6) == "gone\r\n")
        "#,
        mail(MAIL),
    )
    .await;
    assert!(changed.body.starts_with(b"Subject: hello\r\n"));
    assert!(changed.body.ends_with(b"\r\n\r\ngone\r\n"));
    assert_eq!(changed.size, changed.body.len() as u64);
}

#[tokio::test]
async fn of_a_publication_headers_are_user_properties() {
    let mut message = payload("sensors/1", "21");
    let properties = message.properties.get_or_insert_default();
    properties.user = vec![("unit".to_owned(), "C".to_owned())];
    let changed = run(
        r#"
        assert(message.format == "payload" and message.text == "21" and message.subject == nil)
        assert(message.headers:get("unit") == "C" and message:header("unit") == "C")
        message.headers:set("unit", "K")
        message.headers:add("by", "gate")
        message.body = tostring(tonumber(message.body) + 273)
        assert(message.text == "294")
        "#,
        message,
    )
    .await;
    assert_eq!(changed.body, "294");
    let user = &changed.properties.expect("properties").user;
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(user, &[pair("unit", "K"), pair("by", "gate")]);
}

#[tokio::test]
async fn the_next_of_a_chain_sees_what_was_changed() {
    let procedures = Fixture::new()
        .with(
            "first",
            r#"return function(m) m.headers:set("Subject", "new") m.body = "xx" end"#,
        )
        .with(
            "second",
            r#"return function(m) return "tag", m.subject .. m.body:sub(-2) .. m.size end"#,
        )
        .run(&["/first", "/second"])
        .start();
    let message = mail("Subject: old\r\n\r\nbody");
    let verdict = judge(&procedures, message.clone()).await;
    let changed = edit::applied(&message, &verdict.edits);
    assert_eq!(verdict.reason, format!("newxx{}", changed.size));
    assert_eq!(changed.body, "Subject: new\r\n\r\nxx");
}

#[tokio::test]
async fn a_payload_for_subscribers_leaves_the_mail_alone() {
    let code = r#"return function(m)
        m:set_payload(json.encode({subject = m.subject}), "application/json")
    end"#;
    let procedures = Fixture::new().with("a", code).run(&["/a"]).start();
    let message = mail("Subject: old\r\n\r\nbody");
    let verdict = judge(&procedures, message.clone()).await;
    let (payload, kind) = edit::payload(&verdict.edits).expect("a payload");
    assert_eq!(
        (&payload[..], kind),
        (&br#"{"subject":"old"}"#[..], Some("application/json"))
    );
    assert_eq!(edit::applied(&message, &verdict.edits).body, message.body);
}

#[tokio::test]
async fn values_are_kept_counted_and_apart() {
    let fixture = Fixture::new()
        .with(
            "one",
            r#"return function()
                local before, left = store.get("n")
                store.add("n", 2, 60)
                shared.set("from one", true)
                store.set("text", "a\0b")
                assert(store.get("text") == "a\0b")
                assert(store.remove("text") and store.get("text") == nil)
                assert(not pcall(store.set, "table", {}))
                assert(not pcall(store.set, "soon", 1, -1))
                store.set("now", 1, 0)
                assert(store.get("now") == nil, "expired")
                if before then assert(left > 0 and left <= 60) end
                return tostring(before)
            end"#,
        )
        .with(
            "two",
            r#"return function()
                return tostring(store.get("n")) .. tostring(shared.get("from one"))
            end"#,
        );
    let procedures = fixture.start();
    for expected in ["nil", "2", "4"] {
        let answer = call(&procedures, "/one", mail("")).await;
        assert_eq!(answer.text, expected, "{}", answer.verdict.reason);
    }
    assert_eq!(call(&procedures, "/two", mail("")).await.text, "niltrue");
}

#[tokio::test]
async fn publications_leave_when_the_call_ends_well() {
    let fixture = Fixture::new().with(
        "alarm",
        r#"return function(message)
            publish("alarms/fire", "hot", {retain = true, qos = 2, content_type = "text/plain",
                expiry = 60, properties = {room = "7"}})
            assert(not pcall(publish, "$SYS/x", ""))
            assert(not pcall(publish, "a/#", ""))
            local long = string.rep("x", 65536)
            assert(not pcall(publish, "a", "", {properties = {room = long}}))
            if message:contains("fail") then error("no") end
        end"#,
    );
    let procedures = fixture.start();
    let failed = call(&procedures, "/alarm", mail("fail")).await;
    assert_eq!(failed.verdict.action, Action::Defer);
    assert!(fixture.notes.0.lock().is_empty());
    call(&procedures, "/alarm", mail("")).await;
    let published = fixture.notes.0.lock();
    assert_eq!(published.len(), 1);
    let one = &published[0];
    assert_eq!(
        (one.topic.as_str(), &one.payload[..]),
        ("alarms/fire", &b"hot"[..])
    );
    assert!(one.retain);
    let properties = one.properties.as_deref().expect("properties");
    assert_eq!(properties.user_property("room"), Some("7"));
    assert_eq!(properties.expiry_seconds, Some(60));
}

#[tokio::test]
async fn json_is_encoded_and_decoded() {
    run(
        r#"
        local value = json.decode('{"a": [1, 2, {"b": null}], "c": true}')
        assert(value.a[2] == 2 and value.a[3].b == nil and value.c == true)
        local again = json.decode(json.encode(value))
        assert(#again.a == 3 and again.c == true)
        local nothing, why = json.decode("{")
        assert(nothing == nil and why:match("line 1"), why)
        "#,
        mail(""),
    )
    .await;
}

/// A DNS server for one question: `192.0.2.7` for names that begin with `h`, otherwise no such
/// name.
fn name_server() -> std::net::SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = socket.local_addr().expect("an address");
    thread::spawn(move || {
        let mut question = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut question) {
            let mut answer = question[..length].to_vec();
            answer.truncate(length - 11); // without the OPT record
            answer[10..12].fill(0);
            answer[2..4].copy_from_slice(&[0x81, 0x80]);
            if answer[13] == b'h' {
                answer[7] = 1;
                answer.extend_from_slice(&[0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7]);
            } else {
                answer[3] = 0x83;
            }
            let _ = socket.send_to(&answer, from);
        }
    });
    address
}

#[tokio::test]
async fn names_are_looked_up_and_waiting_ends_with_the_call() {
    let mut fixture = Fixture::new().with(
        "look",
        r#"return function(message, arguments)
            local found, why = dns.a(message.subject)
            if not found then return "nothing: " .. why end
            return table.concat(found, ",")
        end"#,
    );
    fixture.configuration.procedures.dns.servers = vec![name_server()];
    let procedures = fixture.start();
    let ask = |name: &str| {
        call(
            &procedures,
            "/look",
            mail(&format!("Subject: {name}\r\n\r\n")),
        )
    };
    assert_eq!(ask("host.example").await.text, "192.0.2.7");
    assert_eq!(ask("HOST.example").await.text, "192.0.2.7");
    assert_eq!(ask("other.example").await.text, "");
    assert!(ask("a..b").await.text.contains("not a domain name"));

    // A server that never answers; the procedure's own time is shorter than the server's.
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    fixture.configuration.procedures.dns.servers = vec![silent.local_addr().expect("an address")];
    fixture.configuration.procedures.dns.timeout = Period::seconds(1000);
    fixture.configuration.procedures.luau.wait_max = Period::milliseconds(100);
    let procedures = fixture.start();
    let answer = call(&procedures, "/look", mail("Subject: slow.example\r\n\r\n")).await;
    assert!(answer.text.contains("in time"), "{answer:?}");
}

#[tokio::test]
async fn only_the_servers_of_the_settings_are_queried() {
    let server = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = server.local_addr().expect("an address");
    let asked = thread::spawn(move || {
        let (mut stream, _) = server.accept().expect("a client");
        let mut request = Vec::new();
        let mut buffer = [0; 1024];
        while !request.ends_with(b"the body") {
            let count = stream.read(&mut buffer).expect("a request");
            request.extend_from_slice(&buffer[..count]);
        }
        let answer = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\nX-Seen: yes\r\n\
            Connection: close\r\n\r\nok";
        stream.write_all(answer).expect("answered");
        String::from_utf8_lossy(&request).into_owned()
    });
    let mut fixture = Fixture::new().with(
        "hook",
        r#"return function(message)
            local url, headers = message.subject .. "/hook?a=1", {["X-Mine"] = "1"}
            local answer, why = http.post(url, "the body", headers)
            if not answer then return "nothing: " .. why end
            return answer.status .. answer.body .. answer.headers["x-seen"]
        end"#,
    );
    fixture.configuration.procedures.http.hosts = vec![format!("http://{address}")];
    let procedures = fixture.start();
    let ask = |url: String| {
        call(
            &procedures,
            "/hook",
            mail(&format!("Subject: {url}\r\n\r\n")),
        )
    };
    let refused = ask("http://127.0.0.1:1".to_owned()).await.text;
    assert!(
        refused.contains("not among the servers of procedures.http.hosts"),
        "{refused}"
    );
    let smuggled = ask(format!("http://{address}@127.0.0.1:1")).await.text;
    assert!(smuggled.starts_with("nothing: "), "{smuggled}");
    assert_eq!(ask(format!("http://{address}")).await.text, "201okyes");
    let request = asked.join().expect("asked").to_ascii_lowercase();
    assert!(
        request.starts_with("post /hook?a=1 http/1.1\r\n"),
        "{request}"
    );
    assert!(request.contains("x-mine: 1\r\n"), "{request}");
}

#[tokio::test]
async fn steps_are_limited_independently_of_the_clock() {
    let mut fixture = Fixture::new().with("busy", "return function() for i = 1, 1e9 do end end");
    fixture.configuration.procedures.luau.steps_max = 100_000;
    fixture.configuration.procedures.luau.on_error = Action::Quarantine;
    let procedures = fixture.start();
    let answer = call(&procedures, "/busy", mail("")).await;
    assert_eq!(answer.verdict.action, Action::Quarantine);
    let status = procedures.status();
    let busy = status.procedures.iter().find(|one| one.path == "/busy");
    assert_eq!(busy.map(|one| one.errors), Some(1));
}

#[tokio::test]
async fn values_of_a_message_cannot_be_read_after_the_call() {
    let mut fixture = Fixture::new().with(
        "keep",
        r#"local headers
        return function(message)
            local function read() return headers:get("a") end
            if headers then return tostring(select(2, pcall(read))) end
            headers = message.headers
            return "first"
        end"#,
    );
    fixture.configuration.procedures.judges = 1;
    let procedures = fixture.start();
    assert_eq!(call(&procedures, "/keep", mail("")).await.text, "first");
    let second = call(&procedures, "/keep", mail("")).await.text;
    assert!(second.contains("judged already"), "{second}");
}

/// Functions that call themselves end with an error of the procedure, not with the thread's stack.
#[tokio::test]
async fn json_has_a_limit_of_depth_and_size() {
    run(
        r#"
        local deep = {}
        for _ = 1, 200000 do deep = {deep} end
        local ok, why = pcall(json.encode, deep)
        assert(not ok and string.find(tostring(why), "at most 127"), tostring(why))
        local own = {}
        own[1] = own
        assert(not pcall(json.encode, own))
        local wide = "x"
        for _ = 1, 60 do wide = {wide, wide} end
        assert(not pcall(json.encode, wide), "a part may stand in many places")
        local value, error = json.decode(string.rep("[", 200000))
        assert(value == nil and error ~= nil)
        "#,
        payload("a", ""),
    )
    .await;
}

#[tokio::test]
async fn json_is_written_and_read() {
    run(
        r#"
        assert(json.encode({ b = 1, a = {}, c = { 1, "x\n", true, 2.5 } })
            == '{"a":{},"b":1,"c":[1,"x\\n",true,2.5]}')
        assert(json.encode(nil) == "null" and json.encode(0 / 0) == "null")
        assert(not pcall(json.encode, { [{}] = 1 }) and not pcall(json.encode, print))
        assert(not pcall(json.encode, "\255"))
        local read = json.decode('{"a":[1,null,2.5,"x",true],"b":null,"c":-7}')
        assert(#read.a >= 1 and read.a[1] == 1 and read.a[2] == nil and read.a[3] == 2.5)
        assert(read.a[4] == "x" and read.a[5] == true and read.b == nil and read.c == -7)
        local value, why = json.decode('{"a":')
        assert(value == nil and why ~= nil)
        "#,
        payload("a", ""),
    )
    .await;
}

/// Memory outside of the virtual machine is bounded too.
#[tokio::test]
async fn publications_and_changes_have_a_limit_of_memory() {
    run(
        r#"
        local text = string.rep("x", 4000000)
        local published, changed = 0, 0
        for _ = 1, 50 do
            if pcall(publish, "a", text) then published += 1 end
        end
        for _ = 1, 50 do
            if pcall(function() message.body = text end) then changed += 1 end
        end
        assert(published == 4, published)
        assert(changed == 0, changed)
        "#,
        payload("a", ""),
    )
    .await;
}
