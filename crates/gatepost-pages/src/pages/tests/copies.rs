//! The caching of pages: current after changes, and with static bytes that all hits share.

use super::*;
use crate::page::PageOutput;

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

/// Every thread keeps copies; no copy outlives its entry.
#[test]
fn a_change_is_visible_to_every_thread() {
    let folder = Folder::new(Recheck::Manual);
    folder.write("file.txt", "one");
    folder.write("page.html", "one {{ now() }}");
    let site = folder.pages.site(None);
    let (asked, answers) = std::sync::mpsc::channel::<()>();
    let (results_sender, results) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // Another thread, which has copies of its own.
            while answers.recv().is_ok() {
                let fresh = |path| site.fresh(path).is_some();
                results_sender
                    .send((fresh("/file.txt"), fresh("/page")))
                    .expect("asked");
            }
        });
        let ask = || {
            asked.send(()).expect("it runs");
            results.recv().expect("an answer")
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

/// The addresses of the shared bytes of a page, and the text that was written for one hit.
#[derive(Default)]
struct Shares {
    places: Vec<*const u8>,
    text: Vec<u8>,
}

impl PageOutput for Shares {
    fn shared(&mut self, bytes: &Bytes) {
        self.places.push(bytes.as_ptr());
    }
    fn text(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.text);
    }
}

/// Static bytes are never copied: each hit gets those of the page, and writes only its values.
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
        let PathContent::Page(CompiledPage::Pieces(page)) = &entry.content else {
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
