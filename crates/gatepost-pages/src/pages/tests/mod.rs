//! Pages rendered in both ways, with constant values.

mod copies;
mod files;
mod growth;
mod live;

use std::io::Read as _;

use gatepost_message::{PageReply, Publication, Topic, TopicFilter};
use gatepost_settings::{ByteSize, Period};

use super::*;
use crate::mounted::MountedFolder;
use crate::request::{BrowserSession, Pairs};
use crate::settings::Recheck;
use crate::template;
use crate::values::{CallError, PageCall, ProcedureResponse};

/// Constant values, and a procedure that fails.
struct Fixed;

impl ValueSource for Fixed {
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

    fn call(&self, call: &PageCall<'_>) -> Result<ProcedureResponse, CallError> {
        let argument = call.arguments.first().map_or("", |(_, value)| value);
        match call.path {
            "/greeting" => Ok(ProcedureResponse {
                text: format!("Hello {argument}!"),
                reply: None,
            }),
            "/missing" => {
                let mut reply = PageReply::default();
                reply.set_status(404).expect("a status");
                reply
                    .add_header("X-From".to_owned(), "procedure".to_owned())
                    .expect("a field");
                Ok(ProcedureResponse {
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

    fn load(&self, path: &str) -> Arc<CachedPath> {
        self.pages.site(None).load(path).expect("a page")
    }

    async fn make(
        &self,
        path: &str,
        request: PageRequest,
        accept: &str,
    ) -> Result<RenderedPage, RenderError> {
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

/// The fast form and the template engine must give the same page. A statement without output makes
/// the same source use the engine.
#[tokio::test]
async fn both_forms_of_a_page_are_equal() {
    for source in [
        "plain {text} & <b>{{ now('%Y') }}\n",
        "{{ latest(\"t\") }}|{{ latest('none') }}\n\n",
        "{{call('/greeting', name=\"A&B\")}}",
        "{{ now(\"%Y\") }}",
        "<body>{{ call(\"/greeting\", name=7) }}</body>",
        "{{ request.user }} {{ request.query.name }} {{ request.query.none }}{{ request.cookies.a \
         }}",
        "{{ call('/greeting', a=request.query.name) }}{{ call('/greeting', a=request.form.none) }}",
        "{{ call('/greeting', a=request.headers['user-agent']) }}{{ request.address }}",
    ] {
        let fast = folder_with(source);
        assert!(matches!(
            fast.load("/page").content,
            PathContent::Page(CompiledPage::Pieces(_))
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
async fn the_engine_renders_history_and_includes() {
    let folder = folder_with(
        "{% extends '_layout.html' %}{% block main %}{% for m in history('#', 3) %}{{ m }}={{ \
         m.topic }};{% endfor %}{% endblock %}",
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
async fn failures_of_a_page_do_not_lengthen_its_list_of_files() {
    let folder = folder_with("{% include '_part.html' %}{{ 1 // request.query.n|int }}");
    folder.write("_part.html", "part");
    let entry = folder.load("/page");
    for _ in 0..3 {
        let failed = folder
            .pages
            .render(Arc::clone(&entry), request(), None)
            .await;
        assert!(
            matches!(failed, Err(RenderError::Template(_))),
            "{failed:?}"
        );
    }
    let PathContent::Page(CompiledPage::Engine(engine)) = &entry.content else {
        panic!("a page of the engine was expected");
    };
    assert_eq!(engine.known_files(), 1);
    // The file is still followed.
    folder.write("_part.html", "another part");
    assert!(!Arc::ptr_eq(&folder.load("/page"), &entry));
}

/// A visitor's parameter cannot make a page fail. The cases are those of Jinja's filters.
#[tokio::test]
async fn a_text_that_is_no_number_becomes_the_default() {
    for (expression, expected) in [
        ("'7'|int + 1", "8"),
        ("' 7'|int", "7"),
        ("'7.9'|int", "7"),
        ("request.query.name|int", "0"),
        ("request.query.name|int(10)", "10"),
        ("request.query.name|int(default=10)", "10"),
        ("request.query.none|int(10)", "10"),
        ("'7'|int(10)", "7"),
        ("request.query.name|float", "0.0"),
        ("'1.5'|float + 1", "2.5"),
    ] {
        let folder = folder_with(&format!("{{{{ {expression} }}}}"));
        let html = folder.render("/page").await;
        assert_eq!(html.as_deref(), Ok(expected), "{expression}");
    }
    for misuse in ["[]|int", "'x'|int(other=1)"] {
        let folder = folder_with(&format!("{{{{ {misuse} }}}}"));
        let failed = folder.render("/page").await;
        assert!(matches!(failed, Err(RenderError::Template(_))), "{misuse}");
    }
}

#[tokio::test]
async fn a_faulty_template_names_file_and_line() {
    let folder = folder_with("one\n{% if %}\n");
    let Err(RenderError::Template(error)) = folder.render("/page").await else {
        panic!("a fault was expected");
    };
    assert_eq!((error.file.as_str(), error.line), ("page.html", 2));
    folder.write("page.html", "fixed{{ request.query.none }}");
    assert_eq!(folder.render("/page").await.as_deref(), Ok("fixed"));
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
async fn an_expression_beyond_the_time_limit_leaves_the_rest_intact() {
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
async fn a_form_returns_to_its_page() {
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
            session: BrowserSession::of(Some(&session)),
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
