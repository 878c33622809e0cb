use super::*;
use crate::page::Sink;
use crate::request::{Pairs, Session};
use crate::settings::Recheck;
use crate::template;
use crate::values::{CallError, Called, PageCall};
use gatepost_message::{Publication, Reply, Topic, TopicFilter};
use gatepost_settings::{ByteSize, Period};
use std::io::Read as _;

/// Values that never change, and a procedure that fails.
struct Fixed;

impl Values for Fixed {
    fn latest(&self, topic: &str) -> Option<Arc<Publication>> {
        (topic != "none").then(|| {
            let topic = Topic::new(topic).expect("a topic");
            Arc::new(Publication::new(topic, "<21 °C>"))
        })
    }

    fn history(&self, _: &TopicFilter, count: usize) -> Vec<Arc<Publication>> {
        (0..count)
            .map(|number| {
                let topic = Topic::new("a").expect("a topic");
                Arc::new(Publication::new(topic, number.to_string()))
            })
            .collect()
    }

    fn call(&self, call: &PageCall<'_>) -> Result<Called, CallError> {
        let argument = call.arguments.first().map_or("", |(_, value)| value);
        match call.path {
            "/greeting" => Ok(Called {
                text: format!("Hello {argument}!"),
                reply: None,
            }),
            "/missing" => {
                let mut reply = Reply::default();
                reply.set_status(404).expect("a status");
                reply
                    .add_header("X-From".to_owned(), "procedure".to_owned())
                    .expect("a field");
                Ok(Called {
                    text: "none".to_owned(),
                    reply: Some(Box::new(reply)),
                })
            }
            "/slow" => {
                while Instant::now() < call.deadline {
                    std::thread::yield_now();
                }
                Err(CallError::Failed {
                    path: call.path.to_owned(),
                    detail: "too slow".to_owned(),
                })
            }
            "/fault" => panic!("as meant"),
            other => Err(CallError::Unknown(other.to_owned())),
        }
    }
}

struct Folder {
    folder: tempfile::TempDir,
    pages: Pages,
}

impl Folder {
    fn new(recheck: Recheck) -> Self {
        Self::of(PagesSettings {
            recheck,
            steps_max: 100_000,
            output_max: ByteSize::kibibytes(64),
            time_max: Period::milliseconds(500),
            ..PagesSettings::default()
        })
    }

    fn of(settings: PagesSettings) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = PagesSettings {
            path: folder.path().to_owned(),
            ..settings
        };
        let pages = Pages::new(settings, Arc::new(Fixed));
        Self { folder, pages }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).expect("a file");
    }

    fn load(&self, path: &str) -> Arc<Entry> {
        self.pages.site(None).load(path).expect("a page")
    }

    async fn make(
        &self,
        path: &str,
        request: PageRequest,
        accept: &str,
    ) -> Result<Rendered, RenderError> {
        let accept = Some(accept.as_bytes());
        self.pages.render(self.load(path), request, accept).await
    }

    async fn render(&self, path: &str) -> Result<String, RenderError> {
        let rendered = self.make(path, request(), "").await?;
        Ok(String::from_utf8(rendered.pieces.concat()).expect("UTF-8"))
    }
}

fn request() -> PageRequest {
    PageRequest {
        path: "/page".to_owned(),
        query: Pairs::from([("name".to_owned(), "<you>".to_owned())]),
        headers: Pairs::from([("user-agent".to_owned(), "test".to_owned())]),
        user: Some("anna".to_owned()),
        ..PageRequest::default()
    }
}

fn folder_with(source: &str) -> Folder {
    let folder = Folder::new(Recheck::Always);
    folder.write("page.html", source);
    folder
}

/// The fast form and the template engine must give the same page. A statement that prints
/// nothing sends the same source to the engine.
#[tokio::test]
async fn both_forms_of_a_page_are_equal() {
    for source in [
        "plain {text} & <b>\n",
        "{{ latest(\"t\") }}|{{ latest('none') }}\n\n",
        "{{call('/greeting', name=\"A&B\")}}",
        "{{ now(\"%Y\") }}",
        "<body>{{ call(\"/greeting\", name=7) }}</body>",
        "{{ request.user }} {{ request.query.name }} {{ request.query.none }}{{ request.cookies.a }}",
        "{{ call('/greeting', a=request.query.name) }}{{ call('/greeting', a=request.form.none) }}",
        "{{ call('/greeting', a=request.headers['user-agent']) }}{{ request.address }}",
    ] {
        let fast = folder_with(source);
        assert!(matches!(
            fast.load("/page").content,
            Content::Page(Page::Pieces(_))
        ));
        let engine = folder_with(&format!("{source}{{% if false %}}{{% endif %}}"));
        assert_eq!(
            fast.render("/page").await,
            engine.render("/page").await,
            "{source}"
        );
    }
}

#[tokio::test]
async fn values_are_escaped_and_failures_leave_a_comment() {
    let folder = folder_with("<p>{{ latest('t') }}</p>{{ call('/none') }}<p>rest</p>");
    let html = folder.render("/page").await.expect("a page");
    assert!(
        html.starts_with("<p>&lt;21 °C&gt;</p><!-- gatepost error "),
        "{html}"
    );
    assert!(html.ends_with(" --><p>rest</p>"), "{html}");
}

#[tokio::test]
async fn live_values_carry_what_the_script_needs() {
    for source in [
        "<body>{{ live('t') }}</body>",
        "<body>{{ live('t') }}</body>{% if 0 %}{% endif %}",
    ] {
        let html = folder_with(source).render("/page").await.expect("a page");
        assert!(
            html.contains("<span data-gatepost-live=\"t\" data-gatepost-id=\""),
            "{html}"
        );
        assert!(html.contains("\">&lt;21 °C&gt;</span>"), "{html}");
        assert_eq!(html.matches(template::LIVE_SCRIPT).count(), 1, "{html}");
        assert!(html.ends_with("</script></body>"), "{html}");
    }
}

#[tokio::test]
async fn the_engine_renders_history_and_includes() {
    let folder = folder_with(
        "{% extends '_layout.html' %}{% block main %}{% for m in history('#', 3) %}{{ m }}={{ m.topic }};{% endfor %}{% endblock %}",
    );
    folder.write("_layout.html", "[{% block main %}{% endblock %}]");
    assert_eq!(
        folder.render("/page").await.as_deref(),
        Ok("[0=a;1=a;2=a;]")
    );
    folder.write("_layout.html", "<{% block main %}{% endblock %}>!");
    assert_eq!(
        folder.render("/page").await.as_deref(),
        Ok("<0=a;1=a;2=a;>!"),
        "a changed include reloads the page"
    );
}

#[tokio::test]
async fn a_faulty_template_names_file_and_line() {
    let folder = folder_with("one\n{% if %}\n");
    let Err(RenderError::Template(error)) = folder.render("/page").await else {
        panic!("a fault was expected");
    };
    assert_eq!((error.file.as_str(), error.line), ("page.html", 2));
    folder.write("page.html", "mended");
    assert_eq!(folder.render("/page").await.as_deref(), Ok("mended"));
}

#[tokio::test]
async fn a_page_that_loops_or_grows_is_stopped() {
    for source in [
        "{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}",
        "{% for a in range(9000) %}0123456789{% endfor %}",
    ] {
        let rendered = folder_with(source).render("/page").await;
        assert!(
            matches!(rendered, Err(RenderError::Template(_))),
            "{rendered:?}"
        );
    }
}

/// A namespace, and turns in which it grows.
fn growing(turns: &str, step: &str) -> String {
    format!("{{% set ns = namespace(x='a', l=[]) %}}{{% for n in {turns} %}}{step}{{% endfor %}}")
}

/// Pages with the steps that it takes to grow.
fn growing_folder() -> Folder {
    Folder::of(PagesSettings {
        recheck: Recheck::Always,
        memory_max: ByteSize::kibibytes(512),
        time_max: Period::seconds(600),
        ..PagesSettings::default()
    })
}

async fn grown(source: &str) -> Result<String, RenderError> {
    let folder = growing_folder();
    folder.write("page.html", source);
    folder.render("/page").await
}

#[tokio::test]
async fn a_page_whose_values_grow_is_stopped() {
    let macros = "{% macro m(x) %}{% for n in range(1) %}{{ m(x ~ x) }}{% endfor %}{% endmacro %}{{ m('abcdefghij') }}";
    for source in [
        &growing("range(60)", "{% set ns.x = ns.x ~ ns.x %}"),
        &growing("range(60)", "{% set ns.x = ns.x + ns.x %}"),
        &growing("range(60)", "{% set ns.x = ns.x * 2 %}"),
        &growing("range(60)", "{% set ns.x = [ns.x, ns.x]|join(',') %}"),
        &growing("range(60)", "{% set ns.x = ns.x|replace('a', 'aa') %}"),
        &growing(
            "range(60)",
            "{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}",
        ),
        &growing("range(100000)", "{% set ns.l = (ns.l + [n] * 100)|list %}"),
        &growing("range(100000)", "{% set ns.l = [ns.l] %}"),
        &growing(
            "range(100000)",
            "{% set ns.x = ns.x ~ history('#', 1000) %}",
        ),
        macros,
    ] {
        let Err(RenderError::Template(error)) = grown(source).await else {
            panic!("made: {source}");
        };
        let expected = "the page's values grew larger than memory_max";
        assert!(error.detail.contains(expected), "{error}: {source}");
    }
}

#[tokio::test]
async fn a_page_that_grows_where_nobody_is_asked_is_given_up() {
    let squares = "{% set x = x ~ x %}".repeat(60);
    let constants = ["'a' * 1000000"; 10].join(" ~ ");
    for source in [
        format!("{{% set x = 'a' %}}{squares}"),
        format!("{{% set x = {constants} %}}"),
    ] {
        let folder = growing_folder();
        folder.write("page.html", &source);
        folder.write("other.html", "{% if 1 %}{{ now('%Y') }}{% endif %}");
        // The second time it is not even begun.
        for _ in 0..2 {
            let Err(RenderError::Template(error)) = folder.render("/page").await else {
                panic!("made: {source}");
            };
            assert!(error.detail.contains("far over memory_max"), "{error}");
        }
        assert_eq!(folder.render("/other").await.map(|year| year.len()), Ok(4));
        folder.write("page.html", "{% if 1 %}mended{% endif %}");
        assert_eq!(folder.render("/page").await.as_deref(), Ok("mended"));
    }
    assert!(crate::memory_limit::set_aside() >= 2);
}

#[tokio::test]
async fn a_list_as_deep_as_memory_allows_is_printed_and_dropped() {
    // The turns of this list look at no memory: this holds almost as much as what is stopped.
    let deep = |turns: usize, then: &str| {
        growing(&format!("[1] * {turns}"), "{% set ns.l = [ns.l] %}") + then
    };
    for then in [
        "",
        "{% set ns.x = (ns.l ~ '')|length %}",
        "{% set ns.x = ns.l == [ns.l] %}",
    ] {
        assert_eq!(grown(&deep(10_000, then)).await.as_deref(), Ok(""));
    }
}

#[tokio::test]
async fn content_is_fresh_until_the_recheck() {
    let folder = Folder::new(Recheck::After(Period::seconds(3_600)));
    folder.write("page.html", "one");
    let site = folder.pages.site(None);
    assert!(site.fresh("/page").is_none());
    assert!(site.load("/page").is_some());
    assert!(site.fresh("/page").is_some());
    folder.pages.reload();
    assert!(site.fresh("/page").is_none());
}

/// Every thread keeps copies; none outlives the entry that it was made of.
#[test]
fn what_changed_is_seen_by_every_thread() {
    let folder = Folder::new(Recheck::Manual);
    folder.write("file.txt", "one");
    folder.write("page.html", "one {{ now() }}");
    let site = folder.pages.site(None);
    let (asked, answers) = std::sync::mpsc::channel::<()>();
    let (told, tellings) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // Another thread, which has copies of its own.
            while answers.recv().is_ok() {
                let fresh = |path| site.fresh(path).is_some();
                told.send((fresh("/file.txt"), fresh("/page")))
                    .expect("asked");
            }
        });
        let ask = || {
            asked.send(()).expect("it runs");
            tellings.recv().expect("an answer")
        };
        assert_eq!(ask(), (false, false));
        for path in ["/file.txt", "/page"] {
            assert!(site.load(path).is_some());
            assert!(site.fresh(path).is_some());
        }
        assert_eq!(ask(), (true, true));
        folder.pages.reload();
        assert_eq!(ask(), (false, false), "no copy outlives a reload");
        assert!(site.load("/page").is_some());
        assert_eq!(ask(), (false, true));
        drop(asked);
    });
}

/// Where the shared bytes of a page lie, and the text that was written for one hit.
#[derive(Default)]
struct Shares {
    places: Vec<*const u8>,
    text: Vec<u8>,
}

impl Sink for Shares {
    fn shared(&mut self, bytes: &Bytes) {
        self.places.push(bytes.as_ptr());
    }
    fn text(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.text);
    }
}

/// Static bytes are never copied: each hit is given those of the page, and writes its values alone.
#[tokio::test]
async fn a_hit_copies_no_static_byte() {
    let ten = "static {{ now() }} slices".repeat(9);
    let date_bytes = "2026-11-21 12:00:00 UTC".len();
    for (source, slices, text_bytes) in [
        (ten.clone(), 10, 9 * date_bytes),
        (
            ten + "{{ call('/greeting', a='b') }}.",
            11,
            9 * date_bytes + "Hello b!".len(),
        ),
    ] {
        let folder = folder_with(&source);
        let entry = folder.load("/page");
        let Content::Page(Page::Pieces(page)) = &entry.content else {
            panic!("a page was expected");
        };
        let mut hits = Vec::new();
        for _ in 0..2 {
            let mut hit = Shares::default();
            if page.needs().worker {
                let filled = folder.pages.fill(&entry, PageRequest::default()).await;
                page.render_filled(&filled.expect("a page"), false, &mut hit);
            } else {
                page.render_at_once(&Fixed, false, &mut hit);
            }
            assert_eq!(hit.text.len(), text_bytes, "{source}");
            hits.push(hit);
        }
        assert_eq!(hits[0].places, hits[1].places, "{source}");
        assert_eq!(hits[0].places.len(), slices, "{source}");
    }
}

#[tokio::test]
async fn a_procedure_decides_status_and_fields() {
    for source in [
        "{{ call('/missing') }}{{ call('/greeting', a='b') }}",
        "{{ call('/missing') }}{% if 0 %}{% endif %}{{ call('/greeting', a='b') }}",
    ] {
        let folder = folder_with(source);
        let rendered = folder.make("/page", request(), "").await.expect("a page");
        assert_eq!(rendered.reply.status(200), 404, "{source}");
        let fields = [("X-From".to_owned(), "procedure".to_owned())];
        assert_eq!(rendered.reply.headers(), fields, "{source}");
        assert_eq!(rendered.pieces.concat(), b"noneHello b!", "{source}");
    }
}

#[tokio::test]
async fn what_takes_the_pages_time_leaves_the_rest_intact() {
    for source in [
        "{{ call('/slow') }}<p>{{ latest('t') }}{{ call('/greeting', a='b') }}</p>",
        "{% if 0 %}{% endif %}{{ call('/fault') }}",
    ] {
        let folder = folder_with(source);
        let made = folder.render("/page").await;
        if source.contains("fault") {
            assert_eq!(made, Err(RenderError::Fault), "{source}");
            continue;
        }
        let html = made.expect("a page");
        assert_eq!(html.matches("<!-- gatepost error ").count(), 2, "{html}");
        assert!(html.contains("<p>&lt;21 °C&gt;<!-- "), "{html}");
    }
}

#[tokio::test]
async fn a_page_is_the_same_with_gzip() {
    let text = "<p>some text that repeats</p>\n".repeat(100);
    for engine in ["", "{% if 0 %}{% endif %}"] {
        let source = format!("{text}{{{{ request.query.name }}}}{text}{{{{ now('%Y') }}}}{engine}");
        let folder = folder_with(&source);
        let plain = folder.make("/page", request(), "br").await.expect("a page");
        let gzip = folder
            .make("/page", request(), "br, gzip")
            .await
            .expect("a page");
        assert!(plain.varies && gzip.varies && gzip.with_gzip && !plain.with_gzip);
        let (plain, gzip) = (plain.pieces.concat(), gzip.pieces.concat());
        assert!(
            gzip.len() < plain.len() / 5,
            "{} of {}",
            gzip.len(),
            plain.len()
        );
        let mut text = Vec::new();
        let mut decoder = flate2::read::GzDecoder::new(gzip.as_slice());
        decoder.read_to_end(&mut text).expect("gzip");
        assert_eq!(text, plain, "{engine}");
    }
    let small = folder_with("a few bytes {{ now() }}");
    let made = small
        .make("/page", request(), "gzip")
        .await
        .expect("a page");
    assert!(!made.with_gzip && !made.varies);
}

#[tokio::test]
async fn a_form_comes_back_to_its_page() {
    for engine in ["", "{% if 0 %}{% endif %}"] {
        let source = format!("<form>{{{{ form_publish('a/b', then='/c') }}}}</form>{engine}");
        let folder = folder_with(&source);
        let made = folder.make("/page", request(), "").await.expect("a page");
        let session = made.session.expect("a new session");
        let html = String::from_utf8(made.pieces.concat()).expect("text");
        let field = html
            .split("value=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        let field = field.expect("a field").to_owned();
        let mut sent = PageRequest {
            session: Session::of(Some(&session)),
            form: Pairs::from([(crate::forms::FIELD.to_owned(), field)]),
            ..request()
        };
        let form = folder.pages.take_form(&mut sent).expect("taken");
        assert_eq!(
            form.action,
            crate::forms::FormAction::Publish("a/b".to_owned())
        );
        assert!(sent.form.is_empty());
    }
}

#[test]
fn hosts_and_mounts_have_folders_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["main", "other", "manual"] {
        let path = folder.path().join(name);
        std::fs::create_dir(&path).expect("a folder");
        std::fs::write(path.join("a.txt"), name).expect("a file");
    }
    let at = |name: &str| folder.path().join(name);
    let settings = PagesSettings {
        path: at("main"),
        hosts: [("other.example".to_owned(), at("other"))].into(),
        mounts: [("/doc/".to_owned(), at("manual"))].into(),
        listings: true,
        ..PagesSettings::default()
    };
    let pages = Pages::new(settings, Arc::new(Fixed));
    let text = |host: &str, path: &str| {
        let entry = pages.site(Some(host.as_bytes())).load(path)?;
        Some(match &entry.content {
            Content::File(file) => {
                String::from_utf8_lossy(file.content.as_ref().expect("cached")).into_owned()
            }
            Content::Folder => "folder".to_owned(),
            Content::Listing(html) => {
                assert!(html.windows(5).any(|part| part == b"a.txt"));
                "listing".to_owned()
            }
            Content::Page(_) => "page".to_owned(),
        })
    };
    for (host, path, expected) in [
        ("x", "/a.txt", Some("main")),
        ("x:80", "/a.txt", Some("main")),
        ("OTHER.example:8080", "/a.txt", Some("other")),
        ("other.example", "/doc/a.txt", Some("manual")),
        ("[::1]:8080", "/doc/a.txt", Some("manual")),
        ("x", "/doc", Some("folder")),
        ("x", "/doc/", Some("listing")),
        ("x", "/", Some("listing")),
        ("x", "/docs/a.txt", None),
        ("x", "/doc/../a.txt", None),
    ] {
        assert_eq!(text(host, path).as_deref(), expected, "{host}{path}");
    }
}

#[test]
fn compressed_files_beside_the_original_are_found_and_followed() {
    let folder = Folder::new(Recheck::Always);
    let css = "p { color: red }\n".repeat(200);
    folder.write("a.css", &css);
    let chosen = |accept: &str| {
        let entry = folder.load("/a.css");
        let Content::File(file) = &entry.content else {
            panic!("a file was expected");
        };
        let (encoding, file) = file.choose(Some(accept.as_bytes()));
        (
            encoding,
            file.content.clone().expect("cached"),
            file.etag.clone(),
        )
    };
    let (encoding, plain, etag) = chosen("br");
    assert_eq!((encoding, plain.as_ref()), (None, css.as_bytes()));
    let (encoding, gzip, other) = chosen("br, gzip");
    assert_eq!(encoding, Some(Encoding::Gzip));
    assert!(gzip.len() < css.len() / 10 && other != etag);
    folder.write("a.css.br", "brotli");
    let (encoding, brotli, _) = chosen("br, gzip");
    assert_eq!(
        (encoding, brotli.as_ref()),
        (Some(Encoding::Brotli), &b"brotli"[..])
    );
    // Older than the original: not used any more.
    let file = std::fs::File::open(folder.folder.path().join("a.css.br")).expect("a file");
    file.set_modified(std::time::UNIX_EPOCH).expect("touched");
    assert_eq!(chosen("br, gzip").0, Some(Encoding::Gzip));
}
