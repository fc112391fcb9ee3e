//! RCPT: finds the Agent that answers to a forward-path (contract §2, Policy: Recipients).

use std::net::IpAddr;
use std::time::Instant;

use super::step::step;
use super::{Gateway, Resolved};
use crate::domain::evidence::Facts;
use crate::domain::evidence::recipient::Recipient as Path;
use crate::domain::id::IntakeId;
use crate::domain::intake_record::IntakeRecord;
use crate::domain::policy::Mode;
use crate::domain::ports::{Client, IntakeReply, Recipient};
use crate::domain::reason::Reason;
use crate::domain::source::Source;
use crate::domain::verdict::Verdict;
use crate::store::{AnsweringAgent, Listing, StoreError};

/// The client's commands so far; `path` is empty at MAIL.
#[derive(Clone, Copy)]
pub(super) struct RcptQuestion<'a> {
    pub client: &'a Client,
    pub reverse_path: &'a str,
    pub path: &'a str,
}

impl Gateway {
    pub(super) async fn find_recipient(
        &self,
        asked: RcptQuestion<'_>,
    ) -> Result<Recipient, IntakeReply> {
        let found = self.directory.find(asked.path).await;
        let failed = |error| self.recipient_answered(self.trouble(&error));
        let found = found.map_err(failed)?;
        if let Some(recipient) = self.report_recipient(asked.path, &found).await.map_err(failed)? {
            return Ok(recipient);
        }
        self.settle_recipient(asked, found, false).await
    }

    /// Turns a look-up into a recipient or a counted refusal; `posted` by a provider, or sent over
    /// SMTP.
    pub(super) async fn settle_recipient(
        &self,
        asked: RcptQuestion<'_>,
        found: Resolved,
        posted: bool,
    ) -> Result<Recipient, IntakeReply> {
        let listing = found.listing;
        let reason = match (listing.answering, found.address) {
            (Some(AnsweringAgent { agent, active: true, mode, relayed, .. }), Some(address)) => {
                // An application may decide differently for each recipient (contract §2); it is not
                // asked about mail that a provider posted (contract §6).
                let is_asked = relayed && !posted;
                let organization = listing.lineage.organization;
                let shares = organization.filter(|_| mode == Mode::Open && !is_asked);
                let as_sent = asked.path.to_owned();
                let agent = Some(agent);
                return Ok(Recipient { agent, address, tag: found.tag, as_sent, shares });
            }
            (Some(_), Some(_)) => Reason::InactiveRecipient,
            _ => Reason::UnknownRecipient,
        };
        let counted = self.count(asked, &listing, reason).await;
        Err(self.counted_reply(counted, reason, None))
    }

    /// Records a refusal at RCPT, or at MAIL, where `path` is empty. Refusals are counted per
    /// network, reason and minute (contract §2.3).
    pub(super) async fn count(
        &self,
        RcptQuestion { client, reverse_path, path }: RcptQuestion<'_>,
        listing: &Listing,
        reason: Reason,
    ) -> Result<IntakeId, StoreError> {
        let began = Instant::now();
        let facts = Facts::Recipient(Path { path: path.to_owned() });
        let record = IntakeRecord {
            id: IntakeId(self.mint.uuid()),
            at: self.mint.clock().now(),
            source: Source::Email,
            lineage: listing.lineage,
            agent: listing.answering.map(|answering| answering.agent),
            recipient: path.to_owned(),
            sender: None,
            envelope_from: reverse_path.to_owned(),
            remote_address: client.address,
            helo: client.helo.clone(),
            verdict: Verdict::of(Some(reason)),
            explanation: reason.explanation().to_owned(),
            message: None,
            size: 0,
            digest: None,
            headers: Vec::new(),
            evidence: step(facts, "fail", reason.explanation(), began).into(),
            count: 1,
            took: None,
        };
        self.store.count_refusal(&record, &network(client.address)).await
    }
}

/// Returns the network that a client counts as: /24 for IPv4, /64 for IPv6 (one customer's).
pub(super) fn network(address: IpAddr) -> String {
    let prefix = if address.is_ipv4() { 24 } else { 64 };
    ipnet::IpNet::new(address, prefix)
        .map_or_else(|_| address.to_string(), |network| network.trunc().to_string())
}
