use super::*;
use crate::page::Sink;
use crate::values::{CallError, Promise};
use gatepost_message::{Publication, Topic, TopicFilter};
use gatepost_settings::Period;

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

    fn call<'a>(
        &'a self,
        path: &'a str,
        arguments: &'a [(String, String)],
    ) -> Promise<'a, Result<String, CallError>> {
        Box::pin(async move {
            if path == "/greeting" {
                Ok(format!("Hello {}!", arguments[0].1))
            } else {
                Err(CallError::Unknown(path.to_owned()))
            }
        })
    }
}

struct Folder {
    folder: tempfile::TempDir,
    pages: Pages,
}

impl Folder {
    fn new(recheck: Recheck) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = PagesSettings {
            path: folder.path().to_owned(),
            recheck,
            steps_max: 100_000,
            output_max: gatepost_settings::ByteSize::kibibytes(64),
            ..PagesSettings::default()
        };
        let pages = Pages::new(settings, Arc::new(Fixed));
        Self { folder, pages }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).expect("a file");
    }

    async fn render(&self, path: &str) -> Result<String, RenderError> {
        let entry = self.pages.load(path).expect("a page");
        let mut rendered = Rendered::default();
        if let Content::Page(page) = &entry.content
            && !page.render_at_once(self.pages.values(), &mut rendered)
        {
            rendered = self.pages.render(entry, PageRequest::default()).await?;
        }
        Ok(String::from_utf8(rendered.pieces.concat()).expect("UTF-8"))
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
    ] {
        let fast = folder_with(source);
        assert!(matches!(
            fast.pages.load("/page").expect("a page").content,
            Content::Page(Page::Pieces { .. })
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

#[tokio::test]
async fn content_is_fresh_until_the_recheck() {
    let folder = Folder::new(Recheck::After(Period::seconds(3_600)));
    folder.write("page.html", "one");
    assert!(folder.pages.fresh("/page").is_none());
    assert!(folder.pages.load("/page").is_some());
    assert!(folder.pages.fresh("/page").is_some());
    folder.pages.reload();
    assert!(folder.pages.fresh("/page").is_none());
}

#[test]
fn a_cached_page_shares_its_bytes() {
    struct Shares(Vec<Bytes>);
    impl Sink for Shares {
        fn shared(&mut self, bytes: &Bytes) {
            self.0.push(bytes.clone());
        }
        fn text(&mut self, _: impl FnOnce(&mut Vec<u8>)) {}
    }
    let folder = folder_with("static {{ now() }} slices");
    let entry = folder.pages.load("/page").expect("a page");
    let Content::Page(page) = &entry.content else {
        panic!("a page was expected");
    };
    let (mut first, mut second) = (Shares(Vec::new()), Shares(Vec::new()));
    assert!(page.render_at_once(&Fixed, &mut first));
    assert!(page.render_at_once(&Fixed, &mut second));
    let places = |shares: &Shares| shares.0.iter().map(|b| b.as_ptr()).collect::<Vec<_>>();
    assert_eq!(places(&first), places(&second));
    assert_eq!(first.0.len(), 2);
}
