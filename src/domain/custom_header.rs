//! Header fields that a customer adds to its deliveries. The rules are closed: no field may change
//! the framing, the target or the signature of a request (threats H9).

use super::secret::{MASK, Secret};

/// A field sent with each delivery. Its value may be a password for the receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomHeader {
    pub name: String,
    pub value: Secret,
}

/// Limits of one destination: number of fields, and bytes of names and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderBounds {
    pub count: usize,
    pub name: usize,
    pub value: usize,
    /// Allows `Authorization`: true for relays, as in v2.
    pub authorization: bool,
}

/// Why fields cannot be sent, in words for customers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    #[error("headers: too many: send at most {0}")]
    TooMany(usize),
    /// `at` is the index in the request, from 0.
    #[error("headers[{at}]: {fault}")]
    Wrong { at: usize, fault: HeaderFault },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderFault {
    #[error("the name must have 1 to {0} bytes")]
    NameLength(usize),
    #[error("the name may have only letters, digits and !#$%&'*+-.^_`|~ (RFC 9110 §5.6.2)")]
    NameCharacters,
    #[error("{0} cannot be set: {1}")]
    Reserved(&'static str, &'static str),
    #[error("the name is sent twice (upper and lower case are the same): send it once")]
    Repeated,
    #[error("the value must have 1 to {0} bytes")]
    ValueLength(usize),
    #[error("the value may have only visible ASCII characters, with spaces only between them")]
    ValueCharacters,
    #[error("{MASK} keeps an existing value, but none exists: send the value")]
    NothingMasked,
}

const OWN: &str = "use a header of your own, such as X-Api-Key";
const SIGNED: &str = "use a header of your own, such as X-Api-Key: deliveries are signed";
const CONNECTION: &str = "the gateway sets the headers of the connection: leave it out";
const BODY: &str = "the gateway sets the headers of the body: leave it out";
const SIGNATURE: &str = "the gateway sets the headers of the signature: leave it out";
const PROXY: &str = "no proxy forwards deliveries: use a header of your own";

const AUTHORIZATION: &str = "authorization";

/// Reserved names (`*` matches any suffix), and what to do instead. Compared in lower case with `_`
/// read as `-`: many servers treat `Content_Length` as `Content-Length` (RFC 3875 §4.1.18).
const RESERVED: &[(&str, &str)] = &[
    ("host", "the gateway sets the host of url: name the host there"),
    ("content-*", BODY),
    ("transfer-encoding", CONNECTION),
    ("connection", CONNECTION),
    ("keep-alive", CONNECTION),
    ("te", CONNECTION),
    ("trailer", CONNECTION),
    ("upgrade", CONNECTION),
    ("expect", CONNECTION),
    ("proxy-*", CONNECTION),
    ("date", "webhook-timestamp already says when a delivery was signed: leave it out"),
    ("sec-*", OWN),
    ("cookie", OWN),
    (AUTHORIZATION, SIGNED),
    ("user-agent", "it names this gateway: leave it out"),
    ("accept-encoding", "answers are not decompressed: leave it out"),
    ("webhook-*", SIGNATURE),
    ("x-service-*", SIGNATURE),
    ("gatepost-*", "it is reserved for this gateway: use a header of your own"),
    ("x-gatepost-*", "it is reserved for this gateway: use a header of your own"),
    ("x-forwarded-*", PROXY),
    ("x-forwarded", PROXY),
    ("forwarded", PROXY),
];

/// Returns the fields if all of them may be sent; else fails with the first that may not.
fn checked(
    fields: Vec<(String, String)>,
    bounds: HeaderBounds,
) -> Result<Vec<CustomHeader>, HeaderError> {
    if fields.len() > bounds.count {
        return Err(HeaderError::TooMany(bounds.count));
    }
    let mut headers: Vec<CustomHeader> = Vec::with_capacity(fields.len());
    for (at, (name, value)) in fields.into_iter().enumerate() {
        let repeated = headers.iter().any(|one| one.name.eq_ignore_ascii_case(&name));
        let repeated = if repeated { Err(HeaderFault::Repeated) } else { Ok(()) };
        name_is_free(&name, bounds)
            .and(repeated)
            .and_then(|()| value_is_plain(&value, bounds))
            .map_err(|fault| HeaderError::Wrong { at, fault })?;
        headers.push(CustomHeader { name, value: Secret::new(value) });
    }
    Ok(headers)
}

/// Returns the fields if all of them may be sent. A value of [`MASK`], as the API shows it, keeps
/// the value in `known`.
pub fn merged(
    fields: Vec<(String, String)>,
    known: &[CustomHeader],
    bounds: HeaderBounds,
) -> Result<Vec<CustomHeader>, HeaderError> {
    let mut headers = checked(fields, bounds)?;
    for (at, header) in headers.iter_mut().enumerate() {
        if header.value.expose() == MASK.as_bytes() {
            let same = known.iter().find(|one| one.name.eq_ignore_ascii_case(&header.name));
            let same = same.ok_or(HeaderError::Wrong { at, fault: HeaderFault::NothingMasked })?;
            header.value = same.value.clone();
        }
    }
    Ok(headers)
}

fn name_is_free(name: &str, bounds: HeaderBounds) -> Result<(), HeaderFault> {
    if !(1..=bounds.name).contains(&name.len()) {
        return Err(HeaderFault::NameLength(bounds.name));
    }
    // RFC 9110 §5.6.2, tchar.
    let is_tchar = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if !name.bytes().all(is_tchar) {
        return Err(HeaderFault::NameCharacters);
    }
    let folded = name.to_ascii_lowercase().replace('_', "-");
    // Only in this spelling: `_` is not read as `-` here.
    if bounds.authorization && name.eq_ignore_ascii_case(AUTHORIZATION) {
        return Ok(());
    }
    let reserved = RESERVED.iter().find(|(pattern, _)| match pattern.strip_suffix('*') {
        Some(start) => folded.starts_with(start),
        None => folded == *pattern,
    });
    reserved.map_or(Ok(()), |(pattern, instead)| Err(HeaderFault::Reserved(pattern, instead)))
}

fn value_is_plain(value: &str, bounds: HeaderBounds) -> Result<(), HeaderFault> {
    if !(1..=bounds.value).contains(&value.len()) {
        return Err(HeaderFault::ValueLength(bounds.value));
    }
    let visible = value.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
    let plain = visible && !value.starts_with(' ') && !value.ends_with(' ');
    if plain { Ok(()) } else { Err(HeaderFault::ValueCharacters) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: HeaderBounds =
        HeaderBounds { count: 3, name: 64, value: 1024, authorization: false };

    fn check(fields: &[(&str, &str)]) -> Result<Vec<CustomHeader>, HeaderError> {
        let fields = fields.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        checked(fields.collect(), BOUNDS)
    }

    fn fault(name: &str, value: &str) -> HeaderFault {
        match check(&[("X-First", "1"), (name, value)]) {
            Err(HeaderError::Wrong { at: 1, fault }) => fault,
            other => panic!("{name:?}: {value:?}: {other:?}"),
        }
    }

    #[test]
    fn what_a_receiver_needs_is_taken_as_it_is() {
        let taken = check(&[("X-Api-Key", "s3cret with blanks"), ("tenant!#$%&'*+.^_`|~", "~!")]);
        let taken = taken.unwrap();
        assert_eq!(taken[0].name, "X-Api-Key");
        assert_eq!(taken[0].value.expose(), b"s3cret with blanks");
        assert_eq!(taken.len(), 2);
        assert_eq!(check(&[]), Ok(Vec::new()));
        // Similar to reserved names, but free.
        for name in ["X-Host", "Contents", "Hosts", "Dated", "Tea", "X-Authorization", "Webhooks"] {
            assert!(check(&[(name, "x")]).is_ok(), "{name}");
        }
        assert!(check(&[(&"n".repeat(64), &"v".repeat(1024))]).is_ok());
    }

    #[test]
    fn no_value_and_no_name_breaks_out_of_its_line() {
        for octet in (0..=0x20).chain([0x7f, 0xa0, 0xe9]) {
            let sign = char::from(octet);
            for value in [format!("a{sign}"), format!("{sign}a")] {
                assert_eq!(fault("X-A", &value), HeaderFault::ValueCharacters, "{octet:#x}");
            }
            let inside = check(&[("X-A", &format!("a{sign}b"))]);
            assert_eq!(inside.is_ok(), octet == 0x20, "{octet:#x}");
            assert_eq!(fault(&format!("X{sign}A"), "x"), HeaderFault::NameCharacters, "{octet:#x}");
        }
        for sign in "\"(),/:;<=>?@[\\]{}".chars() {
            assert_eq!(fault(&format!("X{sign}"), "x"), HeaderFault::NameCharacters, "{sign}");
        }
        assert_eq!(fault("X-A", "a\r\nHost: evil.example"), HeaderFault::ValueCharacters);
    }

    #[test]
    fn what_a_request_is_and_who_signed_it_cannot_be_changed() {
        for (pattern, instead) in RESERVED.iter().copied() {
            let name = pattern.replace('*', "x");
            let expected = HeaderFault::Reserved(pattern, instead);
            for name in [name.clone(), name.to_ascii_uppercase(), name.replace('-', "_")] {
                assert_eq!(fault(&name, "x"), expected, "{name}");
            }
            // Reserved even with nothing after the hyphen.
            let bare = pattern.trim_end_matches('*');
            assert!(check(&[(bare, "x")]).is_err(), "{bare}");
        }
        let told = check(&[("Authorization", "Bearer x")]).unwrap_err().to_string();
        assert!(told.contains("headers[0]") && told.contains("X-Api-Key"), "{told}");
        assert!(!told.contains("Bearer"), "{told}");
    }

    #[test]
    fn a_relay_may_be_given_a_password_and_nothing_else_that_is_reserved() {
        let bounds = HeaderBounds { authorization: true, ..BOUNDS };
        let check = |name: &str| checked(vec![(name.into(), "Bearer xyz".into())], bounds);
        assert_eq!(check("Authorization").unwrap()[0].value.expose(), b"Bearer xyz");
        let others = RESERVED.iter().filter(|(pattern, _)| *pattern != AUTHORIZATION);
        for (pattern, _) in others {
            assert!(check(&pattern.replace('*', "x")).is_err(), "{pattern}");
        }
        let broken = checked(vec![("Authorization".into(), "a\r\nHost: b".into())], bounds);
        assert!(broken.is_err());
    }

    #[test]
    fn a_mask_keeps_the_value_that_is_there_whatever_the_case_of_its_name() {
        let known = check(&[("X-Api-Key", "s3cret")]).unwrap();
        let fields = [("X-New", "n"), ("x-api-key", MASK)];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let kept = merged(fields.clone(), &known, BOUNDS).unwrap();
        assert_eq!((kept[0].value.expose(), kept[1].value.expose()), (&b"n"[..], &b"s3cret"[..]));
        assert_eq!(kept[1].name, "x-api-key");
        let nothing = HeaderError::Wrong { at: 1, fault: HeaderFault::NothingMasked };
        assert_eq!(merged(fields, &[], BOUNDS), Err(nothing));
    }

    #[test]
    fn there_are_so_many_and_each_once() {
        assert_eq!(fault("x-FIRST", "2"), HeaderFault::Repeated);
        assert_eq!(fault("", "2"), HeaderFault::NameLength(64));
        assert_eq!(fault(&"n".repeat(65), "2"), HeaderFault::NameLength(64));
        assert_eq!(fault("X", ""), HeaderFault::ValueLength(1024));
        assert_eq!(fault("X", &"v".repeat(1025)), HeaderFault::ValueLength(1024));
        let four = ["A", "B", "C", "D"].map(|name| (name, "x"));
        assert_eq!(check(&four), Err(HeaderError::TooMany(3)));
    }
}
