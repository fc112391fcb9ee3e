//! How mail programs mark quoted text, in the common programs and languages.

/// Most lines that a sender's program folds an attribution into.
const ATTRIBUTION_LINES: usize = 3;
/// Longest attribution in bytes; a longer "On … wrote:" is prose.
const ATTRIBUTION_OCTETS: usize = 400;
/// Lines of an Outlook header block that are examined.
const BLOCK_LINES: usize = 6;

/// Words like `Original Message` between hyphens.
const SEPARATORS: &[&str] = &[
    "original message",
    "original appointment",
    "forwarded message",
    "reply message",
    "ursprüngliche nachricht",
    "originalnachricht",
    "original-nachricht",
    "weitergeleitete nachricht",
    "message d'origine",
    "message d\u{2019}origine",
    "message original",
    "mensaje original",
    "mensagem original",
    "messaggio originale",
    "oorspronkelijk bericht",
    "ursprungligt meddelande",
    "oprindelig meddelelse",
    "opprinnelig melding",
    "alkuperäinen viesti",
    "wiadomość oryginalna",
    "původní zpráva",
    "исходное сообщение",
    "orijinal mesaj",
    "原始邮件",
];

/// Field names of an Outlook header block: sender, time, recipient, subject.
const WHO: &[&str] = &[
    "from",
    "von",
    "de",
    "da",
    "van",
    "från",
    "fra",
    "lähettäjä",
    "od",
    "от",
    "kimden",
    "gönderen",
    "差出人",
    "发件人",
    "寄件者",
    "보낸 사람",
];
const WHEN: &[&str] = &[
    "sent",
    "date",
    "gesendet",
    "datum",
    "envoyé",
    "enviado",
    "enviado el",
    "enviada em",
    "fecha",
    "inviato",
    "data",
    "verzonden",
    "skickat",
    "sendt",
    "dato",
    "lähetetty",
    "wysłano",
    "odesláno",
    "отправлено",
    "дата",
    "gönderildi",
    "送信日時",
    "发送时间",
    "寄件日期",
    "보낸 날짜",
];
const WHOM: &[&str] = &[
    "to",
    "an",
    "à",
    "para",
    "a",
    "aan",
    "till",
    "til",
    "vastaanottaja",
    "do",
    "komu",
    "кому",
    "kime",
    "宛先",
    "收件人",
    "收件者",
    "받는 사람",
];
const WHAT: &[&str] = &[
    "subject",
    "betreff",
    "asunto",
    "assunto",
    "objet",
    "oggetto",
    "onderwerp",
    "ämne",
    "emne",
    "aihe",
    "temat",
    "předmět",
    "тема",
    "konu",
    "件名",
    "主题",
    "主旨",
    "제목",
];

/// Beginning and end of an attribution in each language. `Am … schrieb Bob:` names the author last.
const ATTRIBUTIONS: &[(&str, &[&str])] = &[
    ("On ", &["wrote:", "said:"]),
    ("Am ", &["schrieb:", "schrieb"]),
    ("Le ", &["a écrit :", "a écrit:", "a écrit\u{a0}:"]),
    ("El ", &["escribió:", "escribio:"]),
    ("Em ", &["escreveu:"]),
    ("Il ", &["scritto:"]),
    ("Op ", &["schreef:", "schreef"]),
    ("Den ", &["skrev:", "skrev"]),
    ("På ", &["skrev:"]),
    ("Dne ", &["napsal(a):", "napsal:", "napsala:"]),
    ("W dniu ", &["napisał(a):", "pisze:", "napisał:"]),
    ("Pe ", &["a scris:"]),
    ("Dnia ", &["napisał(a):", "napisał:"]),
    ("В ", &["писал:", "написал:", "пишет:"]),
    (
        "",
        &[
            "wrote:",
            "schrieb:",
            "a écrit :",
            "escribió:",
            "написал:",
            "пишет:",
            "yazdı:",
            "写道：",
            "のメール:",
        ],
    ),
];

/// Tells whether a line is `-----Original Message-----` in any language.
pub(super) fn is_separator(line: &str) -> bool {
    let line = line.trim();
    let inner = line.trim_start_matches('-');
    let words = inner.trim_end_matches('-').trim().to_lowercase();
    // Longer lines are prose, whatever they begin with.
    line.len() - inner.len() >= 3 && inner.ends_with("--") && SEPARATORS.contains(&words.as_str())
}

/// Tells whether a line is the rule of underscores that Outlook draws above its header block.
pub(super) fn is_rule(line: &str) -> bool {
    let line = line.trim();
    line.len() >= 10 && line.bytes().all(|byte| byte == b'_')
}

/// The fields of an Outlook header block that a line may be; several, because languages share
/// words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BlockField {
    is_who: bool,
    is_when: bool,
    is_whom: bool,
    is_what: bool,
    has_address: bool,
}

impl BlockField {
    /// Parses `key: value`; the key may be bold.
    pub(super) fn of(line: &str) -> Self {
        let line = line.trim().trim_start_matches('*');
        let Some((key, value)) = line.split_once([':', '\u{ff1a}']) else { return Self::default() };
        let key = key.trim().trim_matches('*').trim();
        if key.len() > 40 || value.trim().is_empty() {
            return Self::default();
        }
        let key = key.to_lowercase();
        let is = |keys: &[&str]| keys.contains(&key.as_str());
        Self {
            is_who: is(WHO),
            is_when: is(WHEN),
            is_whom: is(WHOM),
            is_what: is(WHAT),
            has_address: value.contains('@'),
        }
    }
}

/// Tells whether lines begin with Outlook's `From: / Sent: / To: / Subject:` above the quoted
/// message. Other texts, such as travel orders, have some of these fields, so all must be there,
/// and an address or a rule.
pub(super) fn is_header_block(fields: &[BlockField], has_rule_above: bool) -> bool {
    let Some((first, rest)) = fields.split_first() else { return false };
    let has = |is: fn(&BlockField) -> bool| rest.iter().take(BLOCK_LINES).any(is);
    first.is_who
        && (has_rule_above || first.has_address)
        && has(|field| field.is_when)
        && has(|field| field.is_whom)
        && has(|field| field.is_what)
}

/// Returns the number of lines of the attribution at the start of `lines`, and whether it has both
/// a time and an address.
pub(super) fn attribution(lines: &[&str]) -> Option<(usize, bool)> {
    let first = lines.first()?.trim_start();
    if first.is_empty() || first.starts_with('>') {
        return None;
    }
    // Quick check that rejects most lines: an attribution ends with a colon.
    let near = lines.iter().take(ATTRIBUTION_LINES);
    if !near.into_iter().any(|line| line.trim_end().ends_with([':', '\u{ff1a}'])) {
        return None;
    }
    let mut joined = String::new();
    for (at, line) in lines.iter().take(ATTRIBUTION_LINES).enumerate() {
        if line.trim().is_empty() || joined.len() + line.len() > ATTRIBUTION_OCTETS {
            return None;
        }
        joined.push_str(line.trim());
        let (has_address, has_time) = (joined.contains('@'), has_time(&joined));
        let is_dated = has_address || has_time;
        let ends = |(start, ends): &(&str, &[&str])| {
            // A pattern without an own first word must fit on one line, with a time or an address.
            let begins = first.starts_with(start) && (!start.is_empty() || (at == 0 && is_dated));
            begins && ends.iter().any(|end| ends_with(&joined, end))
        };
        if ATTRIBUTIONS.iter().any(ends) {
            return Some((at + 1, has_address && has_time));
        }
        joined.push(' ');
    }
    None
}

/// Tells whether `text` ends with `end`. If `end` has no colon, it may be anywhere in a text that
/// ends with a colon.
fn ends_with(text: &str, end: &str) -> bool {
    let is_whole = end.ends_with([':', '\u{ff1a}']);
    if is_whole { text.ends_with(end) } else { text.ends_with(':') && text.contains(end) }
}

/// Tells whether the text contains a time, such as `9:05`, `12:30` or `10.00`.
fn has_time(text: &str) -> bool {
    text.as_bytes().windows(4).any(|window| {
        matches!(window, [hour, b':' | b'.', tens, ones]
            if hour.is_ascii_digit() && tens.is_ascii_digit() && ones.is_ascii_digit())
    })
}

/// Tells whether a line is an advertisement of a mail program: `Sent from my iPhone`.
pub(super) fn is_sent_from(line: &str) -> bool {
    const STARTS: &[&str] = &[
        "sent from my ",
        "sent from mail for ",
        "sent from outlook",
        "sent from yahoo mail",
        "sent from proton mail",
        "get outlook for ",
        "gesendet von ",
        "envoyé de mon ",
        "enviado desde mi ",
        "enviado do meu ",
        "inviato da ",
        "verzonden vanaf mijn ",
    ];
    let line = line.trim();
    let lower = line.to_lowercase();
    let is_german = || lower.starts_with("von meinem ") && lower.contains("gesendet");
    line.len() <= 80 && (STARTS.iter().any(|start| lower.starts_with(start)) || is_german())
}
