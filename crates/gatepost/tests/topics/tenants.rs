//! Users whose topics have a prefix: two users with the same topics do not share them, neither sees
//! its prefix, and neither has access outside of it. With mosquitto's clients and curl.

use super::support::{Client, Gateway, add_user, await_some, run, text_of};
use super::{curl, publish};

const SETTINGS: &str = r#"
rules.paths = []
access.mount = "%u/"
access.mount_except = ["robot"]
"#;

const ANNA: &str = "-u anna -P password-a -V 5";
const OTTO: &str = "-u otto -P password-o -V 5";
const ADMIN: &str = "-u root -P password-r -V 5";

fn start() -> Gateway {
    let gateway = Gateway::start(SETTINGS);
    for (name, password, more) in [
        ("root", "password-r", &["--admin"][..]),
        ("anna", "password-a", &[]),
        ("otto", "password-o", &[]),
        ("robot", "password-x", &[]),
    ] {
        let added = add_user(&gateway, name, password, more);
        assert!(added.status.success(), "{}", text_of(&added));
    }
    // The user that was added last is known last. Before the first one is known, every login from
    // this machine succeeds.
    await_some("the users", || {
        let is_open = curl(&gateway, "/topics/x", &[]).ends_with("200");
        let robot = curl(&gateway, "/topics/x", &["-u", "robot:password-x"]);
        (!is_open && robot.ends_with("200")).then_some(())
    });
    gateway
}

fn subscriber(gateway: &Gateway, login: &str, filters: &[&str], more: &str) -> Client {
    let port = gateway.port("mqtt");
    let mut arguments: Vec<&str> = login.split(' ').collect();
    arguments.extend(more.split(' ').filter(|word| !word.is_empty()));
    arguments.extend(["-d", "-p", &port, "-F", "got %t %p %R"]);
    for filter in filters {
        arguments.extend(["-t", filter]);
    }
    let mut client = Client::start("mosquitto_sub", &arguments);
    client.await_line("Subscribed");
    client
}

fn received(client: &mut Client) -> Vec<String> {
    let lines = client.seen().iter();
    lines
        .filter_map(|line| line.strip_prefix("got "))
        .map(|line| line.trim().to_owned())
        .collect()
}

fn send(gateway: &Gateway, login: &str, topic: &str, payload: &str, more: &[&str]) -> String {
    let words = format!("{login} -q 1 -t");
    publish(gateway, &words, &[&[topic, "-m", payload], more].concat())
}

#[test]
fn mqtt_clients_of_two_users_do_not_meet() {
    let gateway = start();
    let mut anna = subscriber(&gateway, ANNA, &["#", "$SYS/#", "otto/#"], "");
    let mut otto = subscriber(&gateway, OTTO, &["#"], "");
    let mut shared = subscriber(&gateway, ANNA, &["$share/g/shared/#"], "");
    let mut root = subscriber(&gateway, ADMIN, &["#"], "-q 1");
    for (topic, payload) in [
        ("door", "one"),
        ("../otto/door", "two"),
        ("otto/door", "three"),
        ("/", "four"),
        ("shared/a", "five"),
    ] {
        let said = send(&gateway, ANNA, topic, payload, &[]);
        assert!(said.contains("RC:0"), "{topic}: {said}");
    }
    for topic in ["$SYS/broker/uptime", "$x", "$share/g/a"] {
        let said = send(&gateway, ANNA, topic, "no", &[]);
        assert!(said.contains("RC:135"), "{topic}: {said}");
    }
    // The topics of responses are translated; topics that a client cannot name are left out.
    let response = ["-D", "publish", "response-topic", "answers/1"];
    send(&gateway, ANNA, "ask", "six", &response);
    send(&gateway, ADMIN, "anna/ask", "seven", &response);
    // Neither `anna` itself nor a topic that begins with `$` below it is one of its topics.
    for topic in ["anna", "anna/$SYS/x", "anna2/x", "otto/end"] {
        send(&gateway, ADMIN, topic, "no", &[]);
    }
    send(&gateway, ADMIN, "anna/end", "end", &[]);
    anna.await_line("got end end");
    otto.await_line("got end no");
    root.await_line("got anna/end end");
    assert_eq!(
        received(&mut anna),
        [
            "door one",
            "../otto/door two",
            "otto/door three",
            "/ four",
            "shared/a five",
            "ask six answers/1",
            "ask seven",
            "end end",
        ]
    );
    assert_eq!(received(&mut otto), ["end no"]);
    shared.await_line("got shared/a five");
    let seen = received(&mut root);
    assert!(
        seen.contains(&"anna/../otto/door two".to_owned()),
        "{seen:?}"
    );
    assert!(
        seen.contains(&"anna/ask six anna/answers/1".to_owned()),
        "{seen:?}"
    );
}

#[test]
fn wills_retained_messages_sessions_and_replays_stay_within_the_prefix() {
    let gateway = start();
    send(&gateway, ANNA, "kept", "of anna", &["-r"]);
    send(&gateway, OTTO, "kept", "of otto", &["-r"]);
    let session = "-i lasting -c -q 1 -x 3600";
    drop(subscriber(&gateway, ANNA, &["work"], session));
    send(&gateway, ANNA, "work", "queued", &[]);
    send(&gateway, OTTO, "work", "of another", &[]);
    let mut again = subscriber(&gateway, ANNA, &["work"], session);
    again.await_line("got work queued");
    assert_eq!(received(&mut again), ["work queued"]);
    let replay = "-D subscribe user-property since all";
    let mut anna = subscriber(&gateway, ANNA, &["kept", "work"], replay);
    anna.await_line("got work queued");
    assert_eq!(received(&mut anna), ["kept of anna", "work queued"]);
    // The connection is cut, so that its will is published.
    let will = "--will-topic gone --will-payload bye -i mortal";
    let mut watcher = subscriber(&gateway, ANNA, &["gone"], "");
    drop(subscriber(&gateway, ANNA, &["x"], will));
    let admin = ["-u", "root:password-r", "-X", "DELETE"];
    curl(&gateway, "/admin/sessions/mortal", &admin);
    watcher.await_line("got gone bye");
}

#[test]
fn web_clients_see_their_own_names_only() {
    let gateway = start();
    let anna = ["-u", "anna:password-a"];
    let otto = ["-u", "otto:password-o"];
    let said =
        |path: &str, login: &[&str], more: &[&str]| curl(&gateway, path, &[login, more].concat());
    let url = gateway.url("/topics/%23");
    let events = [
        "-sN",
        "-u",
        "anna:password-a",
        "-H",
        "Accept: text/event-stream",
        &url,
    ];
    let mut events = Client::start("curl", &events);
    events.await_line("retry");
    for (path, text) in [
        ("/topics/deep/door", "\"verdict\":\"accept\""),
        ("/door", "\"topic\":\"door\""),
        ("/topics/otto/door", "\"verdict\":\"accept\""),
    ] {
        let answer = said(path, &anna, &["-d", "hello"]);
        assert!(
            answer.contains(text) && !answer.contains("anna/"),
            "{answer}"
        );
    }
    assert!(said("/topics/$SYS/x", &anna, &["-d", "x"]).ends_with("403"));
    let last = events.await_line("otto/door");
    assert!(last.contains("\"topic\":\"otto/door\""), "{last}");
    assert!(events.seen().iter().all(|line| !line.contains("anna")));
    for path in ["/topics/%23", "/door/json?poll=1", "/topics/door?count=1"] {
        let own = said(path, &anna, &[]);
        assert!(
            own.contains("\"topic\":\"door\"") && !own.contains("anna"),
            "{path}: {own}"
        );
        let other = said(path, &otto, &[]);
        assert!(!other.contains("hello"), "{path}: {other}");
    }
    let sys = said("/topics/$SYS/%23", &anna, &[]);
    assert!(sys.starts_with("[]"), "{sys}");
    let all = said("/topics/%23", &["-u", "robot:password-x"], &[]);
    for topic in ["anna/deep/door", "anna/door", "anna/otto/door"] {
        assert!(all.contains(topic), "{all}");
    }
}

/// A page is rendered of whole topics, and its script reads the changes of the same ones.
#[test]
fn live_values_of_a_page_are_of_the_topics_that_it_shows() {
    let gateway = start();
    for (topic, text) in [
        ("hall/t", "of all"),
        ("anna/hall/t", "of anna"),
        ("anna/anna/door", "not shown"),
        ("anna/door", "shown"),
        ("anna", "no topic of hers"),
        ("otto/door", "of otto"),
    ] {
        let said = send(&gateway, ADMIN, topic, text, &[]);
        assert!(said.contains("RC:0") || said.contains("RC:16"), "{said}");
    }
    let anna = ["-u", "anna:password-a"];
    let lines = ["-H", "Accept: application/x-ndjson"];
    let read = |filters: &str, more: &[&str]| {
        let path = format!("/topics?page=1&since=latest&poll=1&{filters}");
        curl(&gateway, &path, &[&anna[..], more].concat())
    };
    let shown = "filter=hall/t&filter=otto/door&filter=anna/door&filter=%24SYS/gatepost/x";
    for more in [&lines[..], &[]] {
        let values = read(shown, more);
        assert!(values.ends_with("200"), "{values}");
        assert!(values.contains("\"topic\":\"anna/door\""), "{values}");
        assert!(values.contains("\"payload\":\"shown\""), "{values}");
        for other in ["of all", "of anna", "not shown", "of otto"] {
            assert!(!values.contains(other), "{other}: {values}");
        }
        let below = read("filter=anna/%23", more);
        assert!(below.contains("anna/hall/t"), "{below}");
        assert!(!below.contains("no topic of hers"), "{below}");
        for refused in [
            "filter=hall/t",
            "filter=%23",
            "filter=anna",
            "filter=%2B/door",
        ] {
            let values = read(refused, more);
            assert!(values.ends_with("403"), "{refused}: {values}");
        }
    }
    // Without `page`, the names are the user's own.
    let own = curl(&gateway, "/topics?filter=hall/t", &anna);
    assert!(
        own.contains("of anna") && own.contains("\"topic\":\"hall/t\""),
        "{own}"
    );
    // The script of pages asks so.
    let script = curl(&gateway, "/gatepost/live.js", &["--compressed"]);
    assert!(
        script.contains("URLSearchParams({ page: 1, ...more })"),
        "{script}"
    );
}

#[test]
fn the_access_rules_apply_to_whole_topics() {
    let gateway = start();
    let data = format!("data={}", gateway.folder.join("gatepost-data").display());
    let grant = |words: &str| {
        let program = env!("CARGO_BIN_EXE_gatepost");
        let words: Vec<&str> = words.split(' ').chain(["--set", &data]).collect();
        let output = run(program, &words, b"");
        assert!(output.status.success(), "{}", text_of(&output));
    };
    grant("user grant anna publish anna/open/#");
    grant("user grant anna all otto/#");
    await_some("the rule", || {
        let said = send(&gateway, ANNA, "closed/a", "x", &[]);
        said.contains("RC:135").then_some(())
    });
    let said = send(&gateway, ANNA, "open/a", "x", &[]);
    assert!(said.contains("RC:0") || said.contains("RC:16"), "{said}");
    // The other grant names topics beyond the prefix: no name of a client's leads there.
    for topic in ["otto/a", "../otto/a"] {
        let said = send(&gateway, ANNA, topic, "x", &[]);
        assert!(said.contains("RC:135"), "{topic}: {said}");
    }
}

#[test]
fn a_prefix_that_keeps_no_one_apart_is_a_mistake() {
    for (settings, mistake) in [
        ("access.mount = \"all/\"", "access.mount"),
        ("access.mount = \"%u\"", "access.mount"),
        ("access.mount = \"%u/#/\"", "access.mount"),
        (
            "access.mount = \"%u/\"\nlisteners.mqtt.anonymous = \"yes\"",
            "listeners.mqtt.anonymous",
        ),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("gatepost.toml");
        std::fs::write(&file, settings).expect("written");
        let arguments = ["check", "--config", file.to_str().expect("text")];
        let said = text_of(&run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b""));
        assert!(said.contains(mistake), "{settings}: {said}");
    }
}
