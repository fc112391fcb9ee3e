//! The authority, and what all certificates by it share: account, port, answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use instant_acme::{Account, AccountCredentials, NewAccount};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

use super::Settings;
use super::budget::Budget;
use super::challenges::Challenges;
use super::failure::AcmeError;
use super::folder::{AcmeFolder, FolderError};
use super::leading::Leading;
use super::transport::Transport;
use crate::domain::clock::Clock;
use crate::domain::id::Mint;
use crate::egress::client::{Client, Lookup};
use crate::rules::AcmeRules;
use crate::shutdown::Shutdown;
use crate::tls::Certificates;

pub(super) struct Authority {
    pub(super) settings: Settings,
    pub(super) rules: Arc<AcmeRules>,
    pub(super) client: Client,
    pub(super) certificates: Certificates,
    pub(super) challenges: Challenges,
    pub(super) mint: Mint,
    /// Whether the port for challenges is open; locked while it is being opened.
    pub(super) is_open: Mutex<bool>,
    /// Held while an account is made, so that there is one.
    making: Mutex<()>,
    /// Finds where names lead before the authority does.
    pub(super) leading: Leading,
    /// Orders for policy hosts.
    pub(super) budget: Budget,
    /// Policy hosts that have certificates, or lead here and want one.
    pub(super) room: Arc<Semaphore>,
    /// Whether the operator was told that there are too many.
    is_told: AtomicBool,
    /// Attempts and questions for policy hosts at the same time.
    pub(super) places: Semaphore,
}

impl Authority {
    pub(super) fn new(
        settings: Settings,
        rules: Arc<AcmeRules>,
        (client, lookup): (Client, Lookup),
        (certificates, challenges): (Certificates, Challenges),
        mint: Mint,
        is_open: bool,
    ) -> Self {
        let hosts = &rules.policy_hosts;
        let budget = Budget::new(hosts.orders_per_hour, mint.clock().clone());
        let room = Arc::new(Semaphore::new(hosts.max_certificates));
        let places = Semaphore::new(hosts.max_at_once);
        let leading =
            Leading::new(lookup, settings.names.clone(), hosts.look(), mint.clock().clone());
        let (is_open, making) = (Mutex::new(is_open), Mutex::default());
        Self {
            settings,
            rules,
            client,
            certificates,
            challenges,
            mint,
            is_open,
            making,
            leading,
            budget,
            room,
            is_told: AtomicBool::new(false),
            places,
        }
    }

    pub(super) fn clock(&self) -> &Clock {
        self.mint.clock()
    }

    /// Takes room for the certificate of another policy host, if there is some.
    pub(super) fn make_room(&self) -> Option<OwnedSemaphorePermit> {
        let room = Arc::clone(&self.room).try_acquire_owned().ok();
        if room.is_none() && !self.is_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                most = self.rules.policy_hosts.max_certificates,
                "more policy hosts lead here than policy_hosts.max_certificates (acme.toml): the \
                 others get no certificate"
            );
        }
        room
    }

    /// Listens for challenges, if another program had the address until now.
    pub(super) async fn listen(&self, shutdown: &Shutdown) -> Result<(), AcmeError> {
        let mut is_open = self.is_open.lock().await;
        if *is_open {
            return Ok(());
        }
        let address = self.settings.http;
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|source| AcmeError::Listen { address, source })?;
        tracing::info!(acme.http = %address, "listening for ACME challenges");
        self.serve(listener, shutdown);
        *is_open = true;
        Ok(())
    }

    pub(super) fn serve(&self, listener: TcpListener, shutdown: &Shutdown) {
        let bounds = self.rules.challenges.clone();
        shutdown.spawn(self.challenges.clone().serve(listener, bounds, shutdown.clone()));
    }

    /// Returns the stored account, or makes one. `unknown` is what was stored when the authority
    /// said that it does not know the account.
    pub(super) async fn account(
        &self,
        folder: &AcmeFolder,
        transport: &Transport,
        unknown: Option<&str>,
    ) -> Result<Account, AcmeError> {
        let known = |kept: &String| unknown != Some(kept.as_str());
        let kept = folder.clone().on_disk(AcmeFolder::account).await?;
        if let Some(json) = kept.filter(known) {
            return open(&json, folder, transport).await;
        }
        let _making = self.making.lock().await;
        // Another certificate may have been faster.
        let kept = folder.clone().on_disk(AcmeFolder::account).await?;
        match kept.filter(known) {
            Some(json) => open(&json, folder, transport).await,
            None => self.make_account(folder, transport).await,
        }
    }

    async fn make_account(
        &self,
        folder: &AcmeFolder,
        transport: &Transport,
    ) -> Result<Account, AcmeError> {
        let contact: Vec<&str> = self.settings.contact.iter().map(String::as_str).collect();
        let new = NewAccount {
            contact: &contact,
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let directory = self.settings.directory.to_string();
        let builder = Account::builder_with_http(Box::new(transport.clone()));
        let (account, credentials) = builder.create(&new, directory, None).await?;
        let json = serde_json::to_string(&credentials).map_err(instant_acme::Error::Json)?;
        folder.clone().on_disk(move |folder| folder.keep_account(&json)).await?;
        Ok(account)
    }
}

/// Asks for the authority's directory, which a stored account names.
async fn open(
    json: &str,
    folder: &AcmeFolder,
    transport: &Transport,
) -> Result<Account, AcmeError> {
    Ok(Account::builder_with_http(Box::new(transport.clone()))
        .from_credentials(read(json, folder)?)
        .await?)
}

/// Reads a stored account.
pub(super) fn read(json: &str, folder: &AcmeFolder) -> Result<AccountCredentials, FolderError> {
    serde_json::from_str(json).map_err(|source| folder.damaged_account(source))
}
