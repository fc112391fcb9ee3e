//! Samples of sealed values, to find out whether the vault has sealed any, and with which keys.

use uuid::Uuid;

use crate::store::base::Base;
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::sql;

impl Base {
    /// Returns at most one sealed value per table: the newest relay, the newest inbound way, any
    /// app record, and any computer with secrets.
    pub async fn sealed_samples(&self) -> Result<Vec<Vec<u8>>, StoreError> {
        let relay = sql("SELECT headers AS sealed FROM relays WHERE id > $1
                         ORDER BY id DESC LIMIT 1");
        let way = sql("SELECT key_sealed AS sealed FROM inbound_ways WHERE id > $1
                       ORDER BY id DESC LIMIT 1");
        let app = sql("SELECT sealed FROM app_records WHERE account_id > $1 AND sealed IS NOT NULL
                       ORDER BY account_id LIMIT 1");
        let computer = sql("SELECT secrets AS sealed FROM computers
                            WHERE agent_id > $1 AND secrets IS NOT NULL
                            ORDER BY agent_id DESC LIMIT 1");
        let mut samples = Vec::new();
        for (table, sample) in [
            ("relays", relay.bind(Uuid::nil())),
            ("inbound_ways", way.bind(Uuid::nil())),
            ("app_records", app.bind(0_i64)),
            ("computers", computer.bind(0_i64)),
        ] {
            if let Some(row) = sample.fetch_optional(self.reader()).await? {
                samples.push(Columns { table, row: &row }.bytes("sealed")?);
            }
        }
        Ok(samples)
    }
}
