//! Pages of messages for people: pictures, hidden text, bounds, and messages of other people.

use std::path::Path;

use super::corpus::{files, on_the_wire};
use super::sanitised::wrong;
use crate::mail::page::{PageBounds, PageContent, page};

const BOUNDS: PageBounds = PageBounds { html_bytes: 1 << 20, tags: 20_000, picture_bytes: 1 << 20 };

fn message(html: &str) -> String {
    format!(
        "From: a@b.example\r\nMIME-Version: 1.0\r\nContent-Type: multipart/related; boundary=b\r\n\
         \r\n--b\r\nContent-Type: text/html; charset=utf-8\r\n\r\n{html}\r\n\
         --b\r\nContent-Type: image/png\r\nContent-ID: <p1@x>\r\n\
         Content-Transfer-Encoding: base64\r\n\r\niVBORw0KGgo=\r\n\
         --b\r\nContent-Type: image/png\r\nContent-ID: <svg@x>\r\n\r\n<svg onload=x>\r\n\
         --b\r\nContent-Type: image/svg+xml\r\nContent-ID: <odd 2>\r\n\r\nGIF89a\r\n--b--\r\n"
    )
}

fn shown(html: &str, bounds: PageBounds) -> PageContent {
    page(message(html).as_bytes(), 1, bounds).unwrap().shown
}

fn html(html: &str) -> String {
    match shown(html, BOUNDS) {
        PageContent::Html(page) => page.strip_prefix("<!doctype html>\n").unwrap().to_owned(),
        PageContent::Text(text) => panic!("text: {text}"),
    }
}

#[test]
fn pictures_of_the_message_itself_are_shown_and_no_others() {
    let data = "src=\"data:image/png;base64,iVBORw0KGgo=\"";
    for own in ["cid:p1@x", "CID:p1%40x", " cid:p1@x "] {
        let page = html(&format!("<img alt=a width=5 src=\"{own}\" onerror=x>"));
        assert!(page.contains(data) && page.contains("width=\"5\""), "{own}: {page}");
        assert_eq!(wrong(&page), None);
    }
    // The bytes decide, not the label of the part.
    assert!(html("<img src='cid:odd 2'>").contains("data:image/gif;base64,"));
    for other in ["cid:svg@x", "cid:p2@x", "cid:", "cid:P1@x", "https://x.example/p1@x", "p1@x"] {
        assert_eq!(html(&format!("<img alt='a &amp; b' src=\"{other}\">")).trim(), "a &amp; b");
    }
    // Each picture counts as often as it is shown.
    let twice = PageBounds { picture_bytes: 16, ..BOUNDS };
    let PageContent::Html(page) = shown(&"<img src=cid:p1@x alt=no>".repeat(3), twice) else {
        panic!()
    };
    assert_eq!((page.matches(data).count(), page.matches("\"no\"").count()), (2, 2));
    assert!(page.ends_with(">no"), "{page}");
    let none = PageBounds { picture_bytes: 7, ..BOUNDS };
    let PageContent::Html(page) = shown("<img src=cid:p1@x alt=no>", none) else { panic!() };
    assert!(!page.contains(data));
}

#[test]
fn a_page_that_is_too_large_is_shown_as_its_text() {
    let many = format!("{}<script>x</script> end", "<b>x</b> ".repeat(200));
    let few = PageBounds { tags: 399, ..BOUNDS };
    let PageContent::Text(text) = shown(&many, few) else { panic!("tags") };
    assert!(text.trim_end().ends_with("x x end") && !text.contains('<'), "{text}");
    let short = PageBounds { html_bytes: 1024, ..BOUNDS };
    let PageContent::Text(text) = shown(&many, short) else { panic!("octets") };
    assert!(text.ends_with("the original has all of it.]\n"), "{text}");
    assert!(matches!(shown(&many, BOUNDS), PageContent::Html(_)));
}

#[test]
fn only_the_html_that_stands_for_the_message_is_a_page() {
    let raw = message("<p>x");
    assert_eq!(page(raw.as_bytes(), 1, BOUNDS).unwrap().filename, "attachment.html");
    for other in [0, 2, 3, 4, 5, u32::MAX] {
        assert_eq!(page(raw.as_bytes(), other, BOUNDS), None, "{other}");
    }
    let attached = raw.replace("charset=utf-8", "charset=utf-8\r\nContent-Disposition: attachment");
    assert_eq!(page(attached.as_bytes(), 1, BOUNDS), None);
    // Markup in UTF-7 is cleaned like any other, and the page is in UTF-8.
    let seven =
        message("+ADw-p+AD4-caf+AOk +ADw-img src=x onerror=x+AD4-").replace("utf-8", "utf-7");
    let PageContent::Html(page) = page(seven.as_bytes(), 1, BOUNDS).unwrap().shown else {
        panic!()
    };
    assert!(page.contains("caf\u{e9}") && !page.contains("+ADw-"), "{page}");
    assert!(!page.contains("onerror") && wrong(&page).is_none(), "{page}");
}

/// The fixtures, and messages of other people if a collection is given.
#[test]
fn every_page_that_is_at_hand_is_clean() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/mail");
    let corpus = std::env::var_os("GATEPOST_CORPUS");
    let mut paths = Vec::new();
    files(&fixtures, &mut paths);
    corpus.iter().for_each(|folder| files(Path::new(folder), &mut paths));
    let (mut pages, mut texts) = (0, 0);
    for path in paths {
        let raw = on_the_wire(&std::fs::read(&path).unwrap());
        for index in 0..20 {
            match page(&raw, index, BOUNDS).map(|page| page.shown) {
                Some(PageContent::Html(page)) => {
                    assert_eq!(wrong(&page), None, "{}: {page}", path.display());
                    pages += 1;
                }
                Some(PageContent::Text(_)) => texts += 1,
                None => {}
            }
        }
    }
    assert!(pages > 3 && texts * 50 < pages + 50, "{pages} pages, {texts} as text");
}

/// Nothing on a page is hidden; text that the message hides from people is marked as such.
#[test]
fn hidden_text_is_shown_and_marked() {
    let mark = "<mark title=\"hidden by the message: people do not see it\">evil</mark>";
    for (html, wanted) in [
        ("<p>né</p><p style='display:none'>evil</p><p>b</p>", true),
        ("<p style='color:#fff;background:#fff'>evil</p>", true),
        ("<style>.x{display:none}</style>é<p>a<span class=x>evil</span>b", true),
        ("<table><tr><td hidden>evil</td><td>b</td></tr></table>", true),
        ("<p>evil a</p><p>é<span hidden>evil</span></p>", true),
        ("<p>a</p><p>evil</p>", false),
    ] {
        let PageContent::Html(page) = shown(html, BOUNDS) else { panic!("{html}") };
        assert_eq!(wrong(&page), None, "{html}");
        assert_eq!(page.contains(mark), wanted, "{html}: {page}");
        assert_eq!(page.matches("<mark").count(), usize::from(wanted), "{html}: {page}");
        assert!(page.contains("evil"), "{html}: {page}");
    }
    // Each of many pieces.
    let piece = |at: usize| format!("<p>a{at}</p><p hidden>evil number {at}</p>");
    let page = html(&(0..3_000).map(piece).collect::<String>());
    assert_eq!((page.matches("<mark").count(), wrong(&page)), (3_000, None));
    // Text that is seen within a hidden element has no mark, and the message cannot write one.
    let nested = "<td style='font-size:0'>left <div style='font-size:14px'>Pay</div> right</td>";
    let page = html(&format!("<table><tr>{nested}</tr></table>"));
    assert_eq!(page.matches("<mark").count(), 2, "{page}");
    assert!(!page.contains(">Pay</mark>"), "{page}");
    assert!(!html("<mark title='hidden by the message'>Pay</mark>").contains("title"));
}
