//! Files and folders: of hosts and mounts, and compressed ones beside their original.

use super::*;
use crate::readers::{Readers, SitePath};

#[test]
fn hosts_and_mounts_have_folders_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["main", "other", "manual", "below", "deep"] {
        let path = folder.path().join(name);
        std::fs::create_dir(&path).expect("a folder");
        std::fs::write(path.join("a.txt"), name).expect("a file");
    }
    let at = |name: &str| folder.path().join(name);
    let settings = PagesSettings {
        path: at("main"),
        hosts: [
            ("other.example", "other"),
            ("*.example", "below"),
            ("*.deep.example", "deep"),
        ]
        .map(|(host, folder)| (host.to_owned(), at(folder)))
        .into(),
        mounts: [("/doc/".to_owned(), at("manual").into())].into(),
        listings: true,
        ..PagesSettings::default()
    };
    let pages = Pages::new(settings, Arc::new(Fixed));
    let text = |host: &str, path: &str| {
        let entry = pages.site(Some(host.as_bytes())).load(path)?;
        Some(match &entry.content {
            PathContent::File(file) => {
                String::from_utf8_lossy(file.content.as_ref().expect("cached")).into_owned()
            }
            PathContent::Folder => "folder".to_owned(),
            PathContent::Listing(html) => {
                assert!(html.windows(5).any(|part| part == b"a.txt"));
                "listing".to_owned()
            }
            PathContent::Page(_) => "page".to_owned(),
        })
    };
    for (host, path, expected) in [
        ("x", "/a.txt", Some("main")),
        ("x:80", "/a.txt", Some("main")),
        ("OTHER.example:8080", "/a.txt", Some("other")),
        ("other.example.:8080", "/a.txt", Some("other")),
        ("www.Example", "/a.txt", Some("below")),
        ("a.b.deep.example", "/a.txt", Some("deep")),
        ("deep.example", "/a.txt", Some("below")),
        ("example", "/a.txt", Some("main")),
        (".example", "/a.txt", Some("main")),
        ("xexample", "/a.txt", Some("main")),
        ("other.example", "/doc/a.txt", Some("manual")),
        ("[::1]:8080", "/doc/a.txt", Some("manual")),
        ("x", "/doc", Some("folder")),
        ("x", "/doc/", Some("listing")),
        // The dashboard.
        ("x", "/", None),
        ("other.example", "/", Some("listing")),
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
        let PathContent::File(file) = &entry.content else {
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

#[test]
fn a_listing_follows_the_sizes_of_its_files() {
    let folder = Folder::of(PagesSettings {
        recheck: Recheck::Always,
        listings: true,
        ..PagesSettings::default()
    });
    let listing = || {
        let entry = folder.load("/logs/");
        let PathContent::Listing(html) = &entry.content else {
            panic!("a listing was expected");
        };
        String::from_utf8(html.to_vec()).expect("text")
    };
    std::fs::create_dir(folder.folder.path().join("logs")).expect("a folder");
    folder.write("logs/grows.log", "12345");
    assert!(listing().contains("<td>5\n"), "{}", listing());
    // Written in place, the file changes neither the folder nor its time.
    folder.write("logs/grows.log", "1234567");
    assert!(listing().contains("<td>7\n"), "{}", listing());
}

#[test]
fn a_file_that_is_read_often_displaces_no_other() {
    let folder = Folder::of(PagesSettings {
        recheck: Recheck::Always,
        cache_max: ByteSize::kibibytes(64),
        ..PagesSettings::default()
    });
    folder.write("stays.bin", "stays");
    let stays = folder.load("/stays.bin");
    for length in 10_000..10_020 {
        folder.write("changes.bin", &"x".repeat(length));
        folder.load("/changes.bin");
    }
    assert!(Arc::ptr_eq(&folder.load("/stays.bin"), &stays));
}

#[test]
fn a_mount_has_files_and_no_templates_unless_it_is_to_have_them() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["main", "manual", "app"] {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.join("_static")).expect("a folder");
        std::fs::write(path.join("a.html"), "{{ now(").expect("a file");
        std::fs::write(
            path.join("B.HTML"),
            "{{ latest('x') }}{% if 1 %}{% endif %}",
        )
        .expect("a file");
        std::fs::write(path.join("_static/a.css"), "a{}").expect("a file");
    }
    let mount = |name: &str, templates: bool| MountedFolder {
        path: folder.path().join(name),
        templates,
    };
    let settings = PagesSettings {
        path: folder.path().join("main"),
        mounts: [
            ("/manual".to_owned(), mount("manual", false)),
            ("/app".to_owned(), mount("app", true)),
        ]
        .into(),
        ..PagesSettings::default()
    };
    assert_eq!(crate::errors_of_pages(&settings).len(), 2);
    let pages = Pages::new(settings, Arc::new(Fixed));
    let kind = |path: &str| {
        let entry = pages.site(None).load(path)?;
        Some(match &entry.content {
            PathContent::File(file) => {
                let content = file.content.clone().expect("cached");
                format!("{} {}", file.mime, String::from_utf8_lossy(&content))
            }
            PathContent::Page(_) => "page".to_owned(),
            _ => "other".to_owned(),
        })
    };
    let html = Some("text/html; charset=utf-8 {{ now(".to_owned());
    assert_eq!(kind("/manual/a.html"), html);
    assert_eq!(kind("/manual/a"), html);
    let upper = kind("/manual/B.HTML").expect("a file");
    assert!(upper.contains("{{ latest"), "{upper}");
    let css = Some("text/css; charset=utf-8 a{}".to_owned());
    assert_eq!(kind("/manual/_static/a.css"), css);
    for templates in ["", "/app"] {
        for path in ["/a", "/a.html", "/B.HTML"] {
            let path = format!("{templates}{path}");
            assert_eq!(kind(&path).as_deref(), Some("page"), "{path}");
        }
        assert_eq!(kind(&format!("{templates}/_static/a.css")), None);
    }
}

#[test]
fn a_path_with_readers_of_its_own_at_which_there_is_nothing_is_a_mistake() {
    let folder = tempfile::tempdir().expect("a folder");
    for file in [
        "main/office/a.html",
        "main/notes.html",
        "other/wiki",
        "manual/part/b",
    ] {
        let path = folder.path().join(file);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, "").expect("a file");
    }
    let found = [
        "/",
        "/office",
        "/office/a",
        "/notes",
        "/notes.html",
        "/wiki",
    ];
    let mounted = ["/docs", "/docs/manual", "/docs/manual/part/b"];
    let missing = ["/docs/man", "/docs/manual/c", "/ofice", "/wiki/a"];
    let paths = found.into_iter().chain(mounted).chain(missing);
    let path = |path: &str| SitePath::try_from(path.to_owned()).expect("a path");
    let settings = PagesSettings {
        path: folder.path().join("main"),
        hosts: [("other.example".to_owned(), folder.path().join("other"))].into(),
        mounts: [(
            "docs/manual/".to_owned(),
            folder.path().join("manual").into(),
        )]
        .into(),
        access: paths.map(|name| (path(name), Readers::Login)).collect(),
        ..PagesSettings::default()
    };
    let without = crate::paths_without_content(&settings);
    assert_eq!(without, missing.map(path).iter().collect::<Vec<_>>());
}
