//! The cookie of a login over TLS, with curl as the browser: it has a name and attributes by which
//! no other host and no unencrypted page can read or replace it.

use crate::support::authority::Authority;
use crate::support::{Gateway, add_user, await_some, run, text_of};

const SECRET: &str = "secret of root";

struct Browser<'a> {
    gateway: &'a Gateway,
    authority: String,
    jar: String,
}

impl Browser<'_> {
    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.gateway.port("http/tls"))
    }

    /// A request with the cookies of the jar, which the answer may change; head and body.
    fn request(&self, url: &str, more: &[&str]) -> String {
        let jar = [
            "-b",
            &self.jar,
            "-c",
            &self.jar,
            "--cacert",
            &self.authority,
        ];
        let arguments = [&["-sS", "-i"], &jar[..], more, &[url]].concat();
        text_of(&run("curl", &arguments, b""))
    }

    /// The status of a request that only an administrator may make, without the jar.
    fn status(&self, cookie: &str) -> String {
        let (url, cookie) = (self.url("/admin/state"), format!("Cookie: {cookie}"));
        let quiet = ["-sS", "-o", "/dev/null", "-w", "%{http_code}"];
        let rest = ["--cacert", &self.authority, "-H", &cookie, &url];
        text_of(&run("curl", &[&quiet[..], &rest].concat(), b""))
    }

    fn log_in(&self, more: &[&str]) -> String {
        let origin = format!("Origin: {}", self.url(""));
        let form = "user=root&password=secret+of+root";
        let fields = ["-H", &origin, "-H", "Accept: text/html", "-d", form];
        self.request(&self.url("/gatepost/login"), &[more, &fields].concat())
    }
}

/// The value of `Set-Cookie`.
fn cookie(answer: &str) -> &str {
    let mut lines = answer.lines().filter_map(|line| line.split_once(": "));
    let found = lines.find(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
    found.map_or("", |(_, value)| value.trim())
}

fn is_accepted(answer: &str) -> bool {
    let status = answer.lines().next().unwrap_or_default();
    status.contains(" 200")
}

#[test]
fn over_tls_a_login_is_a_cookie_of_this_host_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    Authority::new(folder.path(), "authority").sign("server", "localhost", &["localhost"]);
    let gateway = Gateway::start(&format!(
        "rules.paths = []\n[listeners.http.tls]\nbind = [\"127.0.0.1:0\"]\ncert = '{}'\n\
         key = '{}'\n",
        path("server.pem"),
        path("server.key")
    ));
    let added = add_user(&gateway, "root", SECRET, &["--admin"]);
    assert!(added.status.success(), "{}", text_of(&added));
    for version in ["--http1.1", "--http2"] {
        let browser = Browser {
            gateway: &gateway,
            authority: path("authority.pem"),
            jar: path(&format!("jar{version}")),
        };
        let version = &[version][..];
        // Before the server knows a user, there is no session.
        let answer = await_some("a login", || {
            let answer = browser.log_in(version);
            (!cookie(&answer).is_empty()).then_some(answer)
        });
        let set = cookie(&answer);
        let (pair, attributes) = set.split_once("; ").expect("attributes");
        let token = pair.strip_prefix("__Host-gatepost-login=").expect(set);
        assert_eq!(
            attributes, "Path=/; HttpOnly; Secure; SameSite=Strict",
            "{version:?}"
        );

        let admin = browser.url("/admin/state");
        assert!(
            is_accepted(&browser.request(&admin, version)),
            "{version:?}"
        );
        // A jar obeys the attributes: nothing of it is sent without TLS.
        let plain = format!("http://localhost:{}/admin/state", gateway.port("http"));
        assert!(
            !is_accepted(&browser.request(&plain, version)),
            "{version:?}"
        );
        // A cookie that another host or an unencrypted page may have set is not read over TLS, even
        // if it is the first or contains the token itself.
        assert_eq!(browser.status(&format!("gatepost-login={token}")), "401");
        assert_eq!(
            browser.status(&format!("__host-gatepost-login={token}")),
            "401"
        );
        let both = format!("gatepost-login=planted; __Host-gatepost-login={token}");
        assert_eq!(browser.status(&both), "200");

        let origin = format!("Origin: {}", browser.url(""));
        let leave = [version, &["-X", "POST", "-H", &origin]].concat();
        let answer = browser.request(&browser.url("/gatepost/logout"), &leave);
        let set = cookie(&answer);
        assert!(set.starts_with("__Host-gatepost-login=none; "), "{answer}");
        assert!(set.contains("; Secure; "), "{answer}");
        assert!(
            !is_accepted(&browser.request(&admin, version)),
            "{version:?}"
        );
        let stale = format!("__Host-gatepost-login={token}");
        assert_eq!(browser.status(&stale), "401", "the session itself is over");
    }
}
