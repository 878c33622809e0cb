//! Permissions: the first user, tokens, rules, and web pages that use a public DNS name.

use super::support::{Gateway, await_some, run, text_of};
use super::{STATUS, curl, json, put_json};

fn add_user(gateway: &Gateway, name: &str, password: &str, more: &[&str]) {
    let config = gateway.folder.join("gatepost.toml");
    let config = config.display().to_string();
    let arguments = [&["user", "add", name, "--config", &config][..], more].concat();
    let program = env!("CARGO_BIN_EXE_gatepost");
    let output = run(program, &arguments, password.as_bytes());
    assert!(output.status.success(), "{}", text_of(&output));
}

#[test]
fn from_the_first_user_on_a_login_is_required() {
    let folder = tempfile::tempdir().expect("a folder");
    // `gatepost user` runs elsewhere and finds the same data.
    let data = format!(
        "data = {:?}\nrules.paths = []\n",
        folder.path().join("data")
    );
    let gateway = Gateway::start_in(folder.path(), &data);
    assert!(curl(&gateway, "/", &[]).contains("Gatepost"));
    add_user(&gateway, "root", "secret", &["--admin"]);
    add_user(&gateway, "reader", "others", &[]);
    let status_of = |path: &str, login: Option<&str>| {
        let login = login.map_or_else(Vec::new, |login| vec!["--user", login]);
        curl(&gateway, path, &[&STATUS[..], &login].concat())
    };
    await_some("the users are known", || {
        let both = status_of("/admin/state", None) == "401"
            && status_of("/admin/state", Some("reader:others")) == "403";
        both.then_some(())
    });
    for path in ["/", "/admin/quarantine", "/metrics", "/status", "/topics/a"] {
        assert_eq!(status_of(path, None), "401", "{path}");
        assert_eq!(status_of(path, Some("root:wrong")), "401", "{path}");
    }
    for path in ["/", "/admin/quarantine", "/admin/users"] {
        assert_eq!(status_of(path, Some("root:secret")), "200", "{path}");
        assert_eq!(status_of(path, Some("reader:others")), "403", "{path}");
    }
    assert_eq!(status_of("/healthz", None), "200");
    let users = json(&gateway, "/admin/users", &["--user", "root:secret"]);
    assert!(!users.to_string().contains("argon2"), "{users}");
}

#[test]
fn users_tokens_and_rules_are_changed_by_the_api() {
    let gateway = Gateway::start("rules.paths = []\n");
    let status = |path: &str, more: &[&str]| curl(&gateway, path, &[&STATUS[..], more].concat());
    let reader = put_json("POST", r#"{"name":"anna","password":"others"}"#);
    assert_eq!(
        status("/admin/users", &reader),
        "409",
        "the first must be an administrator"
    );
    let admin = put_json(
        "POST",
        r#"{"name":"root","password":"secret","admin":true}"#,
    );
    assert_eq!(status("/admin/users", &admin), "201");
    assert_eq!(status("/admin/users", &admin), "401", "in force at once");
    let root = ["--user", "root:secret"];
    let as_root = |path: &str, more: &[&str]| status(path, &[&root[..], more].concat());
    assert_eq!(as_root("/admin/users", &admin), "409");
    assert_eq!(as_root("/admin/users", &reader), "201");
    assert_eq!(as_root("/admin/users", &["-d", "name=otto"]), "415");
    assert_eq!(
        as_root(
            "/admin/users",
            &put_json("POST", r#"{"name":"a/b","password":"x"}"#)
        ),
        "400"
    );
    let rule = put_json("POST", r#"{"access":["publish"],"filter":"home/%u/#"}"#);
    assert_eq!(as_root("/admin/users/anna/rules", &rule), "200");
    let anna = ["--user", "anna:others", "-d", "x"];
    assert_eq!(status("/topics/home/anna/door", &anna), "200");
    assert_eq!(status("/topics/home/otto/door", &anna), "403");
    let gone = "/admin/users/anna/rules?access=publish&filter=home/%25u/%23";
    assert_eq!(as_root(gone, &["-X", "DELETE"]), "200");
    assert_eq!(as_root(gone, &["-X", "DELETE"]), "404");
    assert_eq!(
        status("/topics/home/otto/door", &anna),
        "200",
        "nothing is granted, so all is"
    );

    let wanted =
        r#"{"label":"bell","expires":"1d","allow":[{"access":["publish"],"filter":"bell/#"}]}"#;
    let made = [&root[..], &put_json("POST", wanted)].concat();
    let made = json(&gateway, "/admin/users/anna/tokens", &made);
    let bearer = format!(
        "Authorization: Bearer {}",
        made["token"].as_str().expect("a token")
    );
    assert_eq!(
        status("/topics/bell/front", &["-H", &bearer, "-d", "ring"]),
        "200"
    );
    assert_eq!(
        status("/topics/home/door", &["-H", &bearer, "-d", "x"]),
        "403"
    );
    let users = json(&gateway, "/admin/users", &root);
    let token = users["users"][0]["tokens"][0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    assert_eq!(
        as_root(&format!("/admin/tokens/{token}"), &["-X", "DELETE"]),
        "204"
    );
    assert_eq!(
        status("/topics/bell/front", &["-H", &bearer, "-d", "ring"]),
        "401"
    );

    assert_eq!(
        as_root(
            "/admin/users/anna",
            &put_json("PATCH", r#"{"enabled":false}"#)
        ),
        "200"
    );
    assert_eq!(status("/topics/home/anna/door", &anna), "403");
    let demoted = put_json("PATCH", r#"{"admin":false}"#);
    assert_eq!(
        as_root("/admin/users/root", &demoted),
        "409",
        "an administrator must be left"
    );
    assert_eq!(as_root("/admin/users/root", &["-X", "DELETE"]), "409");
    assert_eq!(as_root("/admin/users/anna", &["-X", "DELETE"]), "204");
    assert_eq!(as_root("/admin/users/root", &["-X", "DELETE"]), "204");
    assert_eq!(
        status("/admin/users", &[]),
        "200",
        "no login is required any more"
    );
}

#[test]
fn a_public_dns_name_gives_no_web_page_access() {
    let gateway = Gateway::start("rules.paths = []\n");
    let host = |name: &str| {
        let field = format!("Host: {name}");
        curl(
            &gateway,
            "/admin/state",
            &[&STATUS[..], &["-H", &field]].concat(),
        )
    };
    assert_eq!(host("localhost"), "200");
    // No login is required, since no user exists yet.
    assert_eq!(host("rebound.example"), "403");
}
