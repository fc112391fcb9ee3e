//! HTML that is made harmless: attacks, bombs, and ordinary HTML, checked by a walk that shares no
//! code with the sanitiser. It accepts one way to write a tag, and nothing else.

use crate::mail::sanitise::{sanitise, written};

const VOID: &[&str] = &["br", "col", "hr", "img", "wbr"];
const ELEMENTS: &str = " a abbr address article aside b bdi bdo big blockquote br caption center \
    cite code col colgroup dd del dfn div dl dt em figcaption figure font footer h1 h2 h3 h4 h5 h6 \
    header hr i img ins kbd li main mark nav ol p pre q rp rt s samp section small span strike \
    strong sub sup table tbody td tfoot th thead time tr tt u ul var wbr ";
const ATTRIBUTES: &str = " align alt bgcolor border cellpadding cellspacing color colspan dir face \
    height href lang rel rowspan size span src start style target title type valign width ";

/// Returns the fault of a page, or None.
pub(super) fn wrong(page: &str) -> Option<String> {
    let mut rest = page.strip_prefix("<!doctype html>\n").unwrap_or(page);
    let mut open: Vec<&str> = Vec::new();
    while let Some(at) = rest.find(['<', '>', '\0']) {
        rest = &rest[at..];
        let Some(tag) = rest.strip_prefix('<') else { return Some(format!("bare {rest:.20}")) };
        let end = tag.find('>').ok_or("an endless tag").unwrap();
        let (inner, behind) = (&tag[..end], &tag[end + 1..]);
        rest = behind;
        if let Some(name) = inner.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Some(format!("</{name}> ends nothing"));
            }
            continue;
        }
        let name = inner.split(' ').next().unwrap();
        if !ELEMENTS.contains(&format!(" {name} ")) {
            return Some(format!("element <{inner}>"));
        }
        if !VOID.contains(&name) {
            open.push(name);
        }
        if let Some(found) = wrong_attribute(name, &inner[name.len()..]) {
            return Some(format!("{found} in <{inner:.300}>"));
        }
    }
    (!open.is_empty()).then(|| format!("open: {open:?}"))
}

fn wrong_attribute(element: &str, mut rest: &str) -> Option<String> {
    let mut names = Vec::new();
    while let Some(text) = rest.strip_prefix(' ') {
        let (name, value) = text.split_once("=\"").expect("a name and a value");
        let (value, behind) = value.split_once('"').expect("the end of a value");
        rest = behind;
        let plain = value.replace("&amp;", "&").to_ascii_lowercase();
        let fits = match name {
            "href" => {
                ["http://", "https://", "mailto:", "tel:"].iter().any(|s| plain.starts_with(s))
            }
            "src" => {
                let data = plain.strip_prefix("data:image/").and_then(|d| d.split_once(";base64,"));
                element == "img"
                    && data.is_some_and(|(kind, data)| {
                        ["png", "gif", "jpeg", "webp"].contains(&kind)
                            && data
                                .bytes()
                                .all(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b))
                    })
            }
            "style" => {
                let dark = ["url", "expression", "import", "position", "\\", "/*", "display", "(-"];
                !dark.iter().any(|word| plain.contains(word)) && !plain.contains('<')
            }
            "rel" => plain == "noopener noreferrer nofollow",
            "target" => plain == "_blank",
            name => ATTRIBUTES.contains(&format!(" {name} ")),
        };
        if !fits || names.contains(&name) {
            return Some(format!("attribute {name}={value:.60}"));
        }
        names.push(name);
    }
    (!rest.is_empty()).then(|| format!("not an attribute: {rest:.40}"))
}

fn clean(html: &str) -> String {
    let clean = sanitise(html, 20_000, &[], &mut |_| None).unwrap();
    assert_eq!(wrong(&clean), None, "{html}\n{clean}");
    clean
}

/// The walk finds the faults it is made for.
#[test]
fn what_is_wrong_with_a_page_is_found() {
    for page in [
        "<script>",
        "<b onclick=\"x\"></b>",
        "<a href=\"javascript:x\"></a>",
        "<p>",
        "</p>",
        "a > b",
        "<img src=\"https://x.example/\">",
        "<img src=\"data:image/svg+xml;base64,AA\">",
        "<p style=\"background:url(x)\"></p>",
        "<!-- -->",
        "<b title=\"a\" title=\"b\"></b>",
        "<a href=\"//x.example\"></a>",
        "<a href=\"data:text/html,x\"></a>",
        "<a href=\"da\tta:text/html,x\"></a>",
        "<a href=\"https:/api/v2/account\"></a>",
        "<base href=\"http://x\">",
    ] {
        assert!(wrong(page).is_some(), "{page}");
    }
    assert_eq!(wrong("<!doctype html>\n<p title=\"&lt;\">a &lt; b<br></p>"), None);
}

#[test]
fn what_people_write_is_kept() {
    for (html, expected) in [
        ("<p>Hello <b>you</b>", "<p>Hello <b>you</b></p>"),
        (
            "<h1 align=center>A &amp; B &lt;c&gt;</h1>",
            "<h1 align=\"center\">A &amp; B &lt;c&gt;</h1>",
        ),
        ("a < b", "a &lt; b"),
        ("<ul><li>one<li>two</ul>", "<ul><li>one</li><li>two</li></ul>"),
        (
            "<table><tr><td>1<td>2<tr><td colspan=2>3</table>",
            "<table><tbody><tr><td>1</td><td>2</td></tr><tr><td colspan=\"2\">3</td></tr></tbody></table>",
        ),
        (
            "<a href='https://x.example/?a=1&amp;b=2' class=x onclick=y>go</a>",
            "<a href=\"https://x.example/?a=1&amp;b=2\" target=\"_blank\" \
             rel=\"noopener noreferrer nofollow\">go</a>",
        ),
        ("<p style='color:red;position:fixed'>x</p>", "<p style=\"color:red\">x</p>"),
        (
            "<img src=https://x.example/pixel alt='a \"picture\" &lt;b&gt;'>",
            "a \"picture\" &lt;b&gt;",
        ),
        ("<html><head><title>t</title><style>p{}</style></head><body>x</body></html>", "x"),
        ("x<!-- <b>y</b> -->z", "xz"),
    ] {
        let clean = clean(html);
        let same = |text: &str| {
            let mut attributes: Vec<_> = text.split([' ', '>']).map(str::to_owned).collect();
            attributes.sort();
            attributes
        };
        assert_eq!(same(&clean.replace(";\"", "\"")), same(expected), "{clean}");
    }
}

/// Classic attacks; each worked in some sanitiser or mail reader (threats D6, D7).
const ATTACKS: &[&str] = &[
    "<script>alert(1)</script>",
    "<scr<script>ipt>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<img src=cid:a onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<svg><style><img src=x onerror=alert(1)></style></svg>",
    "<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 onerror=alert(1)&gt;\">",
    "<form><math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    "<math><annotation-xml encoding=\"text/html\"><script>alert(1)</script>",
    "<svg></p><style><a id=\"</style><img src=1 onerror=alert(1)>\">",
    "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">",
    "<template><script>alert(1)</script></template>",
    "<textarea><img src=x onerror=alert(1)></textarea>",
    "<xmp><img src=x onerror=alert(1)></xmp>",
    "<plaintext><img src=x onerror=alert(1)>",
    "<title><img src=x onerror=alert(1)></title>",
    "<!--><img src=x onerror=alert(1)>-->",
    "<!--!> <img src=x onerror=alert(1)> -->",
    "<!-- --!><img src=x onerror=alert(1)>-->",
    "<![CDATA[<img src=x onerror=alert(1)>]]>",
    "<?xml <img src=x onerror=alert(1)> ?>",
    "<a href=\"javascript:alert(1)\">x</a>",
    "<a href=\"javascript&colon;alert(1)\">x</a>",
    "<a href=\"java\nscript:alert(1)\">x</a>",
    "<a href=\"&#106;avascript:alert(1)\">x</a>",
    "<a href=\" \u{1}javascript:alert(1)\">x</a>",
    "<a href=\"data:text/html,<script>alert(1)</script>\">x</a>",
    "<a href=\"DATA:text/html;base64,PHNjcmlwdD4=\">x</a>",
    "<a href=\"da&#9;ta:text/html,<script>alert(1)</script>\">x</a>",
    "<a href=\"&#1;data:text/html,<script>alert(1)</script>\">x</a>",
    "<a href=\"d&Tab;a&NewLine;ta:text/html,x\">x</a>",
    "<a href=\"vbscript:x\">x</a>",
    "<a href=\"https:/api/v2/account\">x</a>",
    "<a href=\"https:account?x=1\">x</a>",
    "<a href=\"ht&#10;tps:\\api/v2/account\">x</a>",
    "<a href=\"https:\">x</a>",
    "<a href=\"//evil.example\">x</a>",
    "<a href=\"/api/v2/account\">x</a>",
    "<a href=\"#top\">x</a>",
    "<a href='https://x.example' target=_self rel=opener>x</a>",
    "<iframe srcdoc=\"<script>alert(1)</script>\"></iframe>",
    "<iframe src=https://x.example>",
    "<object data=x><embed src=x><applet code=x>",
    "<form action=https://x.example><input name=a><button>go</button></form>",
    "<isindex action=javascript:alert(1)>",
    "<base href=https://x.example/><a href=y>x</a>",
    "<meta http-equiv=refresh content=\"0;url=https://x.example\">",
    "<link rel=stylesheet href=https://x.example/x.css>",
    "<style>@import 'https://x.example';*{background:url(https://x.example)}</style>",
    "<p style=\"background:url(https://x.example)\">x</p>",
    "<p style=\"background-image:u\\72l(https://x.example)\">x</p>",
    "<p style=\"width:expression(alert(1))\">x</p>",
    "<p style='color:red&#59;position:fixed'>x</p>",
    "<div style=\"position:fixed;top:0;left:0;width:100%;height:100%\">x</div>",
    "<p style=\"color:red\" style=\"position:fixed\">x</p>",
    "<body background=https://x.example onload=alert(1)>",
    "<table background=https://x.example><td background=x>",
    "<img srcset=\"https://x.example 1x\"><picture><source srcset=https://x.example></picture>",
    "<img src=data:image/svg+xml;base64,PHN2Zz4=>",
    "<img src=\"data:text/html,x\">",
    "<video src=x onerror=alert(1)><audio autoplay src=x><track src=x>",
    "<input type=image src=x onerror=alert(1)>",
    "<marquee onstart=alert(1)><blink>",
    "<b/onclick=alert(1)//title=x>y</b>",
    "<b =x onclick=alert(1)>y</b>",
    "<b title='\"><img src=x onerror=alert(1)>'>y</b>",
    "<b title=`><img src=x onerror=alert(1)>`>y</b>",
    "<b title=\"a&quot;><script>alert(1)</script>\">y</b>",
    "+ADw-script+AD4-alert(1)+ADw-/script+AD4-",
    "<\u{0}script>alert(1)</\u{0}script>",
    "<scr\u{0}ipt>alert(1)</scr\u{0}ipt>",
    "<ſcript>alert(1)</ſcript><ıframe src=x>",
    "<details open ontoggle=alert(1)><summary>x</summary></details>",
    "<select><option><style></option></select><img src=x onerror=alert(1)></style>",
    "<table><caption><svg><title><style><a href=\"</style><img src=x onerror=alert(1)>\">",
    "<p id=x><b id=__proto__ name=constructor class=admin>x</b>",
    "<ruby><rt><rp><rb>x",
    "<frameset onload=alert(1)><frame src=javascript:alert(1)>",
    "<dialog open>x</dialog><portal src=https://x.example>",
    "</b></p></table></body></html><script>alert(1)</script>",
    "<a href=https://x.example><a href=https://y.example>x",
    "<table><a href=https://x.example><tr><td></a><b><table></b><td>x",
    "<b><p><i></b></p></i>",
    "<img",
    "<b title=\"",
    "<",
    "</",
    "<!",
    "<!--",
    "&#x0;&#xd800;&lt",
];

/// A link leads to the same target from any page; anything else is no link.
#[test]
fn a_link_is_spelled_in_one_way() {
    for (href, expected) in [
        ("https:/api/v2/account", Some("https://api/v2/account")),
        ("https:account?x=1", Some("https://account/?x=1")),
        ("HTTPS:\\\\x.example\\a", Some("https://x.example/a")),
        ("ht&#9;tps://x.example", Some("https://x.example/")),
        ("mailto:a@b.example?subject=x", Some("mailto:a@b.example?subject=x")),
        ("tel:+15551231234", Some("tel:+15551231234")),
        ("da&#9;ta:text/html,x", None),
        ("&#1;data:text/html,x", None),
        ("cid:x", None),
        ("account", None),
        ("https://", None),
    ] {
        let clean = clean(&format!("<a href=\"{href}\">x</a>"));
        let found = clean.split_once(" href=\"").map(|(_, rest)| rest.split('"').next().unwrap());
        assert_eq!(found, expected, "{href}");
    }
}

#[test]
fn no_attack_leaves_anything_that_runs_or_loads() {
    for attack in ATTACKS {
        let found = clean(attack).to_ascii_lowercase();
        let tags = found.split('<').skip(1).map(|tag| tag.split('>').next().unwrap());
        // Text in a title attribute is harmless.
        let markup: String = tags.map(|tag| tag.split(" title=").next().unwrap()).collect();
        for word in ["script", "onerror", "evil", "position", "url("] {
            assert!(!markup.contains(word), "{attack}: {found}");
        }
        // Sanitising the result again changes nothing.
        let bare = |page: &str| {
            let said = [" target=\"_blank\"", " rel=\"noopener noreferrer nofollow\""];
            said.iter().fold(page.to_owned(), |page, said| page.replace(said, ""))
        };
        assert_eq!(bare(&clean(&found)), bare(&found), "{attack}");
    }
    for (first, one) in ATTACKS.iter().enumerate() {
        let other = ATTACKS[(first * 7 + 3) % ATTACKS.len()];
        clean(&format!("<div>{one}<p>{other}<table><td>{one}"));
    }
}

/// Returns content of a table outside its cells. A standard parser moves it out, at a cost that
/// grows with all content moved before.
fn loose(written: &str) -> Option<String> {
    const FRAMES: &[&str] = &["table", "tbody", "thead", "tfoot", "tr", "colgroup"];
    const ITS_OWN: &[&str] =
        &["caption", "col", "colgroup", "tbody", "td", "tfoot", "th", "thead", "tr"];
    let mut open: Vec<&str> = Vec::new();
    for piece in written.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').unwrap();
        let name = tag.split(' ').next().unwrap();
        if name.starts_with('/') {
            assert_eq!(open.pop(), name.get(1..));
        } else {
            let is_in_frame = open.last().is_some_and(|last| FRAMES.contains(last));
            if is_in_frame && !ITS_OWN.contains(&name) {
                return Some(format!("<{tag}> in {open:?}"));
            }
            if !VOID.contains(&name) {
                open.push(name);
            }
        }
        if open.last().is_some_and(|last| FRAMES.contains(last)) && !text.trim().is_empty() {
            return Some(format!("{text:.20} in {open:?}"));
        }
    }
    None
}

#[test]
fn nothing_but_rows_and_cells_stands_directly_in_a_table() {
    for page in
        ["<table>x</table>", "<table><tr><br></tr></table>", "<table><tr><b></b></tr></table>"]
    {
        assert!(loose(page).is_some(), "{page}");
    }
    assert_eq!(loose("<table> <tr><td>x<table></table></td></tr></table>x"), None);
    for attack in ATTACKS {
        for html in [
            (*attack).to_owned(),
            format!("<table>{attack}<tr>{attack}<td>{attack}"),
            format!("<table><colgroup>{attack}<tbody>{attack}</td>{attack}"),
            format!("<table><caption>{attack}</caption>{attack}<img alt=x>"),
        ] {
            let written = written(&html, 20_000, &[], &mut |_| None).unwrap();
            assert_eq!(loose(&written), None, "{html}: {written}");
        }
    }
}

/// The size of the result is bounded by the size of the input, never by its square.
#[test]
fn bombs_make_pages_of_bounded_size() {
    let many = |piece: &str, count: usize| piece.repeat(count);
    let numbered = |count: usize, piece: &dyn Fn(usize) -> String| -> String {
        (0..count).map(piece).collect()
    };
    let deep: String = numbered(16, &|at| format!("<b title={at}>"));
    for (what, html) in [
        ("nesting", many("<div>", 1900)),
        ("tables in tables", many("<table><tr><td>", 600)),
        ("tables in nothing", many("<table>", 1900)),
        ("formatting", numbered(900, &|at| format!("<b title={at}><p>"))),
        ("formatting in paragraphs", format!("<p>{deep}{}", many("<p>x</p>", 900))),
        ("formatting in cells", format!("<table><td>{deep}{}", many("<td>x", 900))),
        ("links", numbered(900, &|at| format!("<a href=https://x.example/{at}><p>"))),
        ("foster parents", format!("<table>{}", many("<br>x", 900))),
        ("ends", many("</p></b></table>", 600)),
        ("attributes", format!("<b {}>", numbered(9000, &|at| format!("a{at}=1 ")))),
        ("one attribute often", format!("<b {}>", many("title=x ", 9000))),
        ("styles", format!("<p style=\"{}\">", many("color:red;", 9000))),
        ("entities", many("&lt;", 20_000)),
        ("characters", many("<", 100_000)),
        ("ampersands", many("&", 100_000)),
        ("lists", many("<ul><li><dl><dd>", 470)),
    ] {
        assert_eq!(loose(&written(&html, 20_000, &[], &mut |_| None).unwrap()), None, "{what}");
        let clean = clean(&html);
        let most = 6 * html.len() + 200_000;
        assert!(clean.len() < most, "{what}: {} of {}", clean.len(), html.len());
    }
    assert_eq!(sanitise(&many("<b>", 20_001), 20_000, &[], &mut |_| None), None);
}
