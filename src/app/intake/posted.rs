//! Mail that a provider posted, for the account that the provider's inbound key belongs to: Agents
//! outside that account are treated as unknown.

use bytes::Bytes;
use tokio::time::Instant;

use super::recipient::{RcptQuestion, network};
use super::refusal::RefusedMessage;
use super::{Examined, Gateway, Resolved, examine};
use crate::domain::account::Account;
use crate::domain::path::{self, PathKind};
use crate::domain::ports::{Client, Envelope, IntakeReply, Recipient};
use crate::store::{Listing, StoreError};

impl Gateway {
    /// Finds the Agent of this account, or below it, that answers to this forward-path, as RCPT
    /// does. A refusal is counted for the account, also if the path cannot be parsed.
    pub async fn recipient_within(
        &self,
        within: &Account,
        client: &Client,
        reverse_path: &str,
        path: &str,
    ) -> Result<Recipient, IntakeReply> {
        let found = self.find_within(within, path).await;
        let found = found.map_err(|error| self.recipient_answered(self.trouble(&error)));
        let (path, found) = found?;
        self.settle_recipient(RcptQuestion { client, reverse_path, path: &path }, found, true).await
    }

    /// Looks a path up once, and returns it as it is recorded. A result outside this account is
    /// returned as unknown.
    async fn find_within(
        &self,
        within: &Account,
        path: &str,
    ) -> Result<(String, Resolved), StoreError> {
        let lineage = within.lineage;
        let Ok(path) = path::parse(path.as_bytes(), PathKind::Forward, true) else {
            let listing = Listing { version: 0, answering: None, lineage };
            return Ok((path::shown(path), Resolved { listing, address: None, tag: None }));
        };
        let mut found = self.directory.find(&path).await?;
        let agent = match found.listing.answering {
            Some(answering) => self.store.account_even_deleted(answering.agent).await?,
            None => None,
        };
        if agent.is_none_or(|agent| agent.lineage.at(within.kind) != Some(within.id)) {
            found.listing = Listing { answering: None, lineage, ..found.listing };
        }
        Ok((path, found))
    }

    /// Takes one message in for several transactions, which differ only in their recipients. The
    /// message is examined once.
    pub async fn messages(&self, envelopes: &[Envelope], raw: &Bytes) -> Vec<IntakeReply> {
        let Some(first) = envelopes.first() else { return Vec::new() };
        let (arrived, began) = (self.mint.clock().now(), Instant::now());
        let examination = examine(&self.authenticator, &self.rules, first, raw, arrived).await;
        self.metrics.examined(&examination.steps, examination.results.as_deref());
        let mut answers = Vec::with_capacity(envelopes.len());
        for envelope in envelopes {
            let mail = Examined { envelope, raw, examination: &examination };
            let decided = self.decide(mail, began).await;
            let reply = decided.unwrap_or_else(|error| self.trouble(&error));
            self.answered(envelope, examination.size, &reply, began);
            answers.push(reply);
        }
        answers
    }

    /// Records a request to this account that was refused before its recipients were known; counted
    /// like a refusal at RCPT.
    pub async fn refused_within(
        &self,
        within: &Account,
        envelope: &Envelope,
        refused: RefusedMessage<'_>,
    ) -> IntakeReply {
        let record = self.refusal(envelope, refused, within.lineage, None);
        let counted = self.store.count_refusal(&record, &network(envelope.client.address)).await;
        self.counted_reply(counted, refused.reason, Some(refused.detail))
    }
}
