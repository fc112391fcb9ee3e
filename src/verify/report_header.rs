//! Our `Authentication-Results` (RFC 8601), added on the way out. The message that is stored and
//! handed on is never altered by it.

use super::arc::Arc;
use super::dkim::{Judged, algorithm};
use super::dmarc::Dmarc;
use super::spf::Spf;
use crate::domain::address::Address;

/// The value of the field, without its name: the authserv-id, then one result per method, folded
/// with CRLF and a tab. Of what the sender wrote only host names get in, so that no value can end
/// the line, open a comment or begin another result.
pub(super) fn value(
    hostname: &str,
    sender: &Address,
    signatures: &[Judged],
    spf: &Spf,
    dmarc: Option<&Dmarc>,
    arc: Option<&Arc>,
) -> String {
    let mut results = vec![hostname.to_owned()];
    if signatures.is_empty() {
        results.push("dkim=none".into());
    }
    for judged in signatures {
        let mut result = format!("dkim={}", judged.result());
        if let (Some(domain), Ok(signature)) = (&judged.claim.domain, &judged.claim.signature) {
            result.push_str(&format!(" header.d={domain} header.a={}", algorithm(signature.a)));
            if judged.claim.key_name.is_some() {
                result.push_str(&format!(" header.s={}", signature.s.to_ascii_lowercase()));
            }
        }
        results.push(result);
    }
    let mut result = format!("spf={}", spf.output.result());
    if let Some(domain) = &spf.domain {
        result.push_str(&format!(" smtp.{}={domain}", spf.identity));
    }
    results.push(result);
    if let Some(dmarc) = dmarc {
        results.push(format!("dmarc={} header.from={}", dmarc.result, sender.domain()));
    }
    if let Some(arc) = arc {
        results.push(format!("arc={}", arc.result));
    }
    results.join(";\r\n\t")
}
