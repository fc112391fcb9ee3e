//! What providers post comes in for the account that a provider was given a way in by: whoever is not
//! below it is as good as not there.

use bytes::Bytes;

use super::recipient::network;
use super::{Gateway, trouble};
use crate::domain::account::Account;
use crate::domain::ports::{Answer, Client, Envelope, Recipient};
use crate::domain::reason::Reason;
use crate::store::{Listing, StoreError};

impl Gateway {
    /// Which Agent of this account, or below it, answers to this forward-path? As at RCPT; what is
    /// refused is counted with the account's own.
    pub async fn recipient_within(
        &self,
        within: &Account,
        client: &Client,
        reverse_path: &str,
        path: &str,
    ) -> Result<Recipient, Answer> {
        match self.foreign(within, path).await {
            Ok(None) => self.find_recipient(client, reverse_path, path).await,
            Ok(Some(listing)) => {
                let reason = Reason::UnknownRecipient;
                let counted = self.count(client, reverse_path, path, &listing, reason).await;
                Err(counted.map_or_else(
                    |error| trouble(&error),
                    |record| Answer { reason: Some(reason), detail: None, record: Some(record) },
                ))
            }
            Err(error) => Err(trouble(&error)),
        }
    }

    /// How an address is listed of which nobody within this account is called.
    async fn foreign(&self, within: &Account, path: &str) -> Result<Option<Listing>, StoreError> {
        let listing = self.directory.find(path).await?.listing;
        if let Some(answering) = listing.answering {
            let agent = self.store.addressee(answering.agent).await?;
            if agent.is_some_and(|agent| agent.lineage.at(within.kind) == Some(within.id)) {
                return Ok(None);
            }
        }
        Ok(Some(Listing { answering: None, lineage: within.lineage, ..listing }))
    }

    /// Records that something posted to this account was turned away before its recipients were
    /// known; counted like a refusal at RCPT.
    pub async fn turned_away(
        &self,
        within: &Account,
        envelope: &Envelope,
        (reason, detail): (Reason, &str),
        size: u64,
    ) -> Answer {
        let of = (&Bytes::new(), size);
        let record = self.refusal(envelope, (reason, detail), of, within.lineage, None, "");
        let counted = self.store.count_refusal(&record, &network(envelope.client.address)).await;
        counted.map_or_else(
            |error| trouble(&error),
            |record| Answer {
                reason: Some(reason),
                detail: Some(detail.to_owned()),
                record: Some(record),
            },
        )
    }
}
