//! The console over real TCP and a real store: the house of the API's tests, and browsers that keep
//! a cookie.

mod rights;
mod session;

use std::fmt::Write as _;

use url::form_urlencoded::Serializer;

use crate::http::tests::{House, Reply};

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
        let cookie = entered.headers["set-cookie"].split(';').next().unwrap().to_owned();
        Self { house, cookie }
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
        let hidden = ["csrf", "once"].into_iter().filter_map(|name| {
            let (_, rest) = page.split_once(&format!("name=\"{name}\" value=\""))?;
            Some((name, rest.split('"').next()?))
        });
        let form: Vec<_> = hidden.chain(fields.iter().copied()).collect();
        self.post(path, &form).await
    }
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
    let mut request =
        format!("{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{lines}");
    if let Some(form) = form {
        let kind = "application/x-www-form-urlencoded";
        let length = form.len();
        write!(request, "Content-Type: {kind}\r\nContent-Length: {length}\r\n").unwrap();
    }
    write!(request, "\r\n{}", form.unwrap_or_default()).unwrap();
    house.exchange(request.as_bytes()).await
}
