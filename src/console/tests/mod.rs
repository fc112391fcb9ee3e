//! The console over real TCP and a real store: the house of the API's tests, and browsers that keep
//! a cookie.

mod figures;
mod forms;
mod live;
mod message;
mod places;
mod refused;
mod rights;
mod session;
mod setup;
mod system;

use url::form_urlencoded::Serializer;

use super::table::ROWS;
use crate::http::tests::{House, Reply};

/// The paths of all pages, but the stream, which has no end.
pub(super) fn rows() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.path).filter(|path| !path.ends_with("/stream"))
}

/// A browser that has signed in.
pub(super) struct Browser<'h> {
    house: &'h House,
    cookie: String,
}

impl<'h> Browser<'h> {
    /// Signs in with the key of `caller`.
    pub(super) async fn of(house: &'h House, caller: &str) -> Self {
        let entered = sign_in(house, house.token(caller)).await;
        assert_eq!(entered.status, 303, "{}", entered.text());
        let (cookie, _) = entered.headers["set-cookie"].split_once(';').expect("attributes");
        Self { house, cookie: cookie.to_owned() }
    }

    pub(super) async fn get(&self, path: &str) -> Reply {
        send(self.house, "GET", path, &format!("Cookie: {}\r\n", self.cookie), None).await
    }

    /// Sends a form as it stands, with the cookie alone.
    pub(super) async fn post(&self, path: &str, form: &[(&str, &str)]) -> Reply {
        let lines = format!("Cookie: {}\r\n", self.cookie);
        send(self.house, "POST", path, &lines, Some(&encoded(form))).await
    }

    /// Sends a form of a page that is shown now, with the fields that the page hides in it.
    pub(super) async fn submit(&self, path: &str, fields: &[(&str, &str)]) -> Reply {
        let page = self.get(path).await.text();
        let hidden = ["csrf", "once"].map(|name| (name, field(&page, name)));
        let form: Vec<_> = hidden.iter().map(|(name, text)| (*name, text.as_str())).collect();
        self.post(path, &[form.as_slice(), fields].concat()).await
    }
}

/// The value of the first field of this name; empty if the page has none.
pub(super) fn field(page: &str, name: &str) -> String {
    let rest = page.split_once(&format!("name=\"{name}\" value=\"")).map(|(_, rest)| rest);
    rest.and_then(|rest| rest.split('"').next()).unwrap_or_default().to_owned()
}

/// Signs in with this key.
pub(super) async fn sign_in(house: &House, key: &str) -> Reply {
    send(house, "POST", "/console/sign-in", "", Some(&encoded(&[("key", key)]))).await
}

fn encoded(form: &[(&str, &str)]) -> String {
    Serializer::new(String::new()).extend_pairs(form).finish()
}

/// A request with these lines in its header section.
pub(super) async fn send(
    house: &House,
    method: &str,
    path: &str,
    lines: &str,
    form: Option<&str>,
) -> Reply {
    let head = format!("{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{lines}");
    let kind = "Content-Type: application/x-www-form-urlencoded\r\n";
    let request = form.map_or(format!("{head}\r\n"), |form| {
        format!("{head}{kind}Content-Length: {}\r\n\r\n{form}", form.len())
    });
    house.exchange(request.as_bytes()).await
}
