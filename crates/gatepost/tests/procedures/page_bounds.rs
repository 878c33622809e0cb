//! The bounds of pages: pages that loop, grow or take long delay neither other pages nor the broker
//! nor mail.

use std::process::{Child, Command, Stdio};

use super::pages::{curl, expect, start, write};
use super::support::{Client, Gateway, await_some, run, swaks, text_of};

const LOOP: &str = "return function() while true do end end";
/// Steps that no page gets to the end of in the time of this test.
const COUNT: &str =
    "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";

/// Asks for a page in the background.
fn asking(gateway: &Gateway, path: &str) -> Child {
    Command::new("curl")
        .args(["-s", "-o", "/dev/null", &gateway.url(path)])
        .stdout(Stdio::null())
        .spawn()
        .expect("curl starts")
}

/// Sends a mail, which the gateway must take though pages keep it busy.
fn expect_mail_taken(gateway: &Gateway) {
    let server = gateway.address("smtp").to_string();
    let mail = swaks(&server, "anna@example.org", "alarms+fire@localhost", &[]);
    expect(&text_of(&mail), &["250 2.0.0"]);
}

#[test]
fn pages_that_loop_hold_up_neither_pages_nor_the_broker_nor_mail() {
    let (gateway, folder) = start(
        &[
            ("procedures/loop.luau", LOOP),
            (
                "procedures/hello.luau",
                "return function(_, arguments) return 'Hello ' .. arguments.name end",
            ),
            ("pages/one.html", "{{ call('/loop') }}"),
            ("pages/two.html", "{% if 1 %}{{ call('/loop') }}{% endif %}"),
            ("pages/three.html", COUNT),
            ("pages/four.html", "{{ now() }} {{ call('/loop') }}"),
            (
                "pages/hello.html",
                "<p>{{ call('/hello', name=request.query.name) }}</p>",
            ),
            (
                "pages/listed.html",
                "{% for n in range(3) %}{{ n }}{% endfor %}",
            ),
            ("pages/still.html", "{{ now() }}"),
        ],
        "procedures.luau.time_max = \"10m\"\n\
        [pages]\nworkers = 2\ntime_max = \"10m\"\nsteps_max = 1000000000000\nstragglers_max = 32\n\
        [[scope]]\npath = \"/mail\"\nlisteners = [\"smtp\"]\nrun = [\"/hello\"]\n",
    );
    let mut loops: Vec<_> = ["/one", "/two", "/three", "/four", "/one", "/three"]
        .map(|path| asking(&gateway, path))
        .into();
    // They loop when all have straggled: a worker each was started in their place.
    await_some("the loops run", || {
        let metrics = curl(&gateway, "/metrics", &[]);
        let line = metrics
            .lines()
            .find(|line| line.starts_with("gatepost_page_workers_replaced_total "));
        let replaced: u64 = line?.split(' ').nth(1)?.parse().ok()?;
        (replaced >= 4).then_some(())
    });
    for number in 0..20 {
        let name = format!("n{number}");
        let hello = curl(&gateway, &format!("/hello?name={name}"), &[]);
        expect(
            &hello,
            &["HTTP/1.1 200 OK\r\n", &format!("<p>Hello {name}</p>")],
        );
        expect(&curl(&gateway, "/listed", &[]), &["\r\n\r\n012"]);
        expect(&curl(&gateway, "/still", &[]), &["HTTP/1.1 200 OK\r\n"]);
    }
    let port = gateway.port("mqtt");
    let mut subscriber = Client::start(
        "mosquitto_sub",
        &["-p", &port, "-F", "%t|%p", "-t", "a/#", "-d"],
    );
    subscriber.await_line("SUBACK");
    let published = run(
        "mosquitto_pub",
        &["-p", &port, "-q", "1", "-t", "a/b", "-m", "c"],
        b"",
    );
    assert!(published.status.success());
    subscriber.await_line("a/b|c");
    expect_mail_taken(&gateway);
    // All that while the loops went on.
    for one in &mut loops {
        assert!(
            one.try_wait().expect("our child").is_none(),
            "a loop has ended"
        );
        one.kill().expect("our child");
        one.wait().expect("our child");
    }
    drop((gateway, folder));
}

/// A page whose values grow by `step` in each of so many turns.
fn growing(turns: &str, step: &str) -> String {
    format!(
        "{{% set ns = namespace(x='0123456789') %}}{{% for n in {turns} %}}{step}{{% endfor %}}"
    )
}

#[test]
fn pages_that_grow_without_end_hold_up_neither_pages_nor_mail() {
    let doubled = "{% set x = x ~ x %}".repeat(60);
    let pages = [
        (
            "doubled",
            growing("range(60)", "{% set ns.x = ns.x ~ ns.x %}"),
        ),
        (
            "joined",
            growing("range(60)", "{% set ns.x = [ns.x, ns.x]|join(ns.x) %}"),
        ),
        (
            "captured",
            growing(
                "range(60)",
                "{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}",
            ),
        ),
        (
            "listed",
            growing("range(100000)", "{% set ns.x = (ns.x ~ '0' * 1000000) %}"),
        ),
        // These ask for nothing: their threads are reserved.
        (
            "called",
            "{% macro m(x) %}{{ m(x ~ x) }}{% endmacro %}{{ m('0123456789' * 1000) }}".to_owned(),
        ),
        ("unasked", format!("{{% set x = 'a' %}}{doubled}")),
        (
            "replaced",
            growing("[1] * 60", "{% set ns.x = ns.x|replace('', ns.x) %}"),
        ),
        (
            "constant",
            format!("{{% set x = {} %}}", ["'a' * 100000000"; 60].join(" ~ ")),
        ),
        ("deep", growing("[1] * 10000000", "{% set ns.x = [ns.x] %}")),
    ];
    let (gateway, folder) = start(
        &[(
            "pages/well.html",
            "{% for n in range(3) %}{{ n }}{% endfor %}",
        )],
        "[pages]\nworkers = 1\ntime_max = \"1m\"\nrecheck = \"always\"\n",
    );
    for (name, source) in &pages {
        write(folder.path(), &[(&format!("pages/{name}.html"), source)]);
        // A page that was given up is not begun again.
        for _ in 0..2 {
            expect(
                &curl(&gateway, &format!("/{name}"), &[]),
                &["HTTP/1.1 500 "],
            );
        }
        expect(
            &curl(&gateway, "/well", &[]),
            &["HTTP/1.1 200 ", "\r\n\r\n012"],
        );
    }
    expect(
        &curl(&gateway, "/metrics", &[]),
        &["\ngatepost_page_threads_parked 5\n"],
    );
    expect_mail_taken(&gateway);
    expect(
        &gateway.log(),
        &[
            "doubled.html:1: invalid operation: the page's values grew larger than memory_max",
            "unasked.html:0: its values grew far over memory_max",
        ],
    );
    // Fixed, it is made again.
    write(
        folder.path(),
        &[("pages/unasked.html", "{% if 1 %}fixed{% endif %}")],
    );
    expect(&curl(&gateway, "/unasked", &[]), &["\r\n\r\nfixed"]);
}

#[test]
fn a_page_that_took_its_time_has_an_empty_place() {
    let (gateway, folder) = start(
        &[
            ("procedures/loop.luau", LOOP),
            (
                "pages/page.html",
                "<p>before</p>{{ call('/loop') }}<p>{{ now('%Y') }} after</p>",
            ),
        ],
        "procedures.luau.time_max = \"10m\"\npages.time_max = \"200ms\"\n",
    );
    let page = curl(&gateway, "/page", &[]);
    expect(
        &page,
        &[
            "HTTP/1.1 200 OK\r\n",
            "<p>before</p><!-- gatepost error ",
            " after</p>",
        ],
    );
    let id = page
        .split("error ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    expect(
        &gateway.log(),
        &[id.expect("an id"), "insertion point failed: /loop"],
    );
    drop((gateway, folder));
}
