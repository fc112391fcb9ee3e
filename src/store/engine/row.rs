//! Converts columns to domain values. A row that cannot be read is `Corrupt`, never a panic.

use std::fmt::Display;
use std::str::FromStr;

use uuid::Uuid;

use super::error::StoreError;
use super::sql::Row;
use crate::domain::account::Lineage;
use crate::domain::address::Address;
use crate::domain::clock::Timestamp;
use crate::domain::id::{AccountId, ContactId};
use crate::domain::message::Digest;

/// One row of `table`.
pub struct Columns<'r> {
    pub table: &'static str,
    pub row: &'r Row,
}

impl Columns<'_> {
    pub fn corrupt(&self, detail: impl Display) -> StoreError {
        StoreError::Corrupt { table: self.table, detail: detail.to_string() }
    }

    pub fn text(&self, column: &str) -> Result<String, StoreError> {
        self.row.get(column).map_err(|error| self.corrupt(error))
    }

    pub fn optional_text(&self, column: &str) -> Result<Option<String>, StoreError> {
        self.row.get(column).map_err(|error| self.corrupt(error))
    }

    pub fn integer(&self, column: &str) -> Result<i64, StoreError> {
        self.row.get(column).map_err(|error| self.corrupt(error))
    }

    pub fn optional_integer(&self, column: &str) -> Result<Option<i64>, StoreError> {
        self.row.get(column).map_err(|error| self.corrupt(error))
    }

    pub fn optional_real(&self, column: &str) -> Result<Option<f64>, StoreError> {
        self.row.get(column).map_err(|error| self.corrupt(error))
    }

    pub fn count(&self, column: &str) -> Result<u64, StoreError> {
        u64::try_from(self.integer(column)?).map_err(|error| self.corrupt(error))
    }

    pub fn flag(&self, column: &str) -> Result<bool, StoreError> {
        Ok(self.integer(column)? != 0)
    }

    pub fn bytes(&self, column: &str) -> Result<Vec<u8>, StoreError> {
        self.row.get(column).map_err(|error| self.corrupt(error))
    }

    pub fn optional_bytes(&self, column: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.row.get(column).map_err(|error| self.corrupt(error))
    }

    pub fn uuid(&self, column: &str) -> Result<Uuid, StoreError> {
        self.row.get(column).map_err(|error| self.corrupt(error))
    }

    pub fn optional_uuid(&self, column: &str) -> Result<Option<Uuid>, StoreError> {
        self.row.get(column).map_err(|error| self.corrupt(error))
    }

    pub fn time(&self, column: &str) -> Result<Timestamp, StoreError> {
        self.integer(column).map(Timestamp::from_millis)
    }

    pub fn optional_time(&self, column: &str) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.optional_integer(column)?.map(Timestamp::from_millis))
    }

    pub fn account(&self, column: &str) -> Result<AccountId, StoreError> {
        let value = self.integer(column)?;
        AccountId::new(value).ok_or_else(|| self.corrupt(format!("{column} is {value}")))
    }

    pub fn optional_account(&self, column: &str) -> Result<Option<AccountId>, StoreError> {
        Ok(self.optional_integer(column)?.and_then(AccountId::new))
    }

    pub fn contact(&self, column: &str) -> Result<ContactId, StoreError> {
        let value = self.integer(column)?;
        ContactId::new(value).ok_or_else(|| self.corrupt(format!("{column} is {value}")))
    }

    pub fn word<T: FromStr<Err: Display>>(&self, column: &str) -> Result<T, StoreError> {
        self.text(column)?.parse().map_err(|error| self.corrupt(error))
    }

    pub fn address(&self, column: &str) -> Result<Address, StoreError> {
        Address::kept(&self.text(column)?).map_err(|error| self.corrupt(error))
    }

    pub fn optional_word<T: FromStr<Err: Display>>(
        &self,
        column: &str,
    ) -> Result<Option<T>, StoreError> {
        let word = self.optional_text(column)?.map(|text| text.parse()).transpose();
        word.map_err(|error| self.corrupt(error))
    }

    pub fn optional_address(&self, column: &str) -> Result<Option<Address>, StoreError> {
        let address = self.optional_text(column)?.map(|text| Address::kept(&text)).transpose();
        address.map_err(|error| self.corrupt(error))
    }

    pub fn json<T: serde::de::DeserializeOwned>(&self, column: &str) -> Result<T, StoreError> {
        serde_json::from_str(&self.text(column)?).map_err(|error| self.corrupt(error))
    }

    pub fn optional_json<T: serde::de::DeserializeOwned>(
        &self,
        column: &str,
    ) -> Result<Option<T>, StoreError> {
        let text = self.optional_text(column)?;
        let value = text.map(|text| serde_json::from_str(&text)).transpose();
        value.map_err(|error| self.corrupt(error))
    }

    pub fn digest(&self, column: &str) -> Result<Digest, StoreError> {
        self.optional_digest(column)?.ok_or_else(|| self.corrupt(format!("{column} is null")))
    }

    pub fn optional_digest(&self, column: &str) -> Result<Option<Digest>, StoreError> {
        let bytes: Option<Vec<u8>> = self.row.get(column).map_err(|error| self.corrupt(error))?;
        bytes
            .map(|bytes| {
                let octets = <[u8; 32]>::try_from(bytes);
                octets.map(Digest).map_err(|_| self.corrupt(format!("{column} is not 32 bytes")))
            })
            .transpose()
    }

    pub fn lineage(&self) -> Result<Lineage, StoreError> {
        Ok(Lineage {
            partner: self.optional_account("partner_id")?,
            reseller: self.optional_account("reseller_id")?,
            organization: self.optional_account("organization_id")?,
            agent: self.optional_account("agent_id")?,
        })
    }
}

/// Returns the organization in the key of a row that grows with mail; 0 if the partner or a
/// reseller owns the row. `Columns::optional_account` reads 0 as `None`.
pub fn organization_of(lineage: &Lineage) -> i64 {
    lineage.organization.map_or(0, AccountId::get)
}

/// Converts a count to a column; a count out of range becomes `i64::MAX`.
pub fn stored(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
