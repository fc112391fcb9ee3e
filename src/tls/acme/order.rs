//! One attempt: account, order, proof, certificate (RFC 8555 §7).

use aws_lc_rs::digest::{SHA256, digest};
use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, ChallengeType, Identifier, NewAccount,
    NewOrder, Order, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};

use super::challenges::ShownAnswers;
use super::failure::AcmeError;
use super::folder::{self, AcmeFolder, FolderError};
use super::{Challenge, Work, tls_alpn};

pub(super) struct StoredParts {
    /// The key of the certificate.
    pub(super) key: KeyPair,
    account: Option<AccountCredentials>,
}

impl Work {
    /// Reads the stored parts. Finds their faults before the authority is asked.
    pub(super) async fn stored_parts(&self) -> Result<StoredParts, AcmeError> {
        let key = self.on_disk(folder::key).await?;
        let account = match self.on_disk(AcmeFolder::account).await? {
            Some(json) => serde_json::from_str(&json).map_err(|source| FolderError::Damaged {
                path: AcmeFolder::account_path(&self.settings),
                source: source.into(),
            })?,
            None => None,
        };
        Ok(StoredParts { key, account })
    }

    /// Obtains a certificate for the key, and returns its chain as PEM.
    pub(super) async fn obtain(&self, stored: StoredParts) -> Result<String, AcmeError> {
        let StoredParts { key, account } = stored;
        match self.order(&key, account).await {
            // Some authorities forget accounts that are unused for long.
            Err(error) if error.is_unknown_account() => {
                tracing::warn!("the authority no longer knows the account: making another");
                self.on_disk(AcmeFolder::forget_account).await?;
                self.order(&key, None).await
            }
            ended => ended,
        }
    }

    async fn order(
        &self,
        key: &KeyPair,
        account: Option<AccountCredentials>,
    ) -> Result<String, AcmeError> {
        let account = self.account(account).await?;
        let mut order = match self.open_order(&account).await? {
            Some(order) => order,
            None => self.place_order(&account).await?,
        };
        let policy = RetryPolicy::new().timeout(self.rules.attempt.patience());
        // The authority may have verified the names before.
        if order.state().status == OrderStatus::Pending {
            let mut shown = self.challenges.show();
            prove(&mut order, self.settings.challenge, &mut shown).await?;
            match order.poll_ready(&policy).await {
                Ok(OrderStatus::Ready) => {}
                ended => return Err(unproven(&mut order, ended.err()).await),
            }
        }
        // An attempt that was cut short may have sent the request already.
        if !matches!(order.state().status, OrderStatus::Processing | OrderStatus::Valid) {
            let mut request = CertificateParams::new(self.names())?;
            request.distinguished_name = DistinguishedName::new();
            order.finalize_csr(request.serialize_request(key)?.der()).await?;
        }
        Ok(order.poll_certificate(&policy).await?)
    }

    /// Returns the open order of an attempt that was cut short. Another order would count twice
    /// with the authority, and waste a certificate that was issued.
    async fn open_order(&self, account: &Account) -> Result<Option<Order>, AcmeError> {
        let Some(url) = self.on_disk(AcmeFolder::order).await? else { return Ok(None) };
        match account.order(url).await.map_err(AcmeError::from) {
            Ok(mut order) => {
                let is_open = order.state().status != OrderStatus::Invalid;
                Ok(is_open.then_some(order))
            }
            Err(error) if error.is_about_the_order() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn place_order(&self, account: &Account) -> Result<Order, AcmeError> {
        let identifiers: Vec<_> = self.names().into_iter().map(Identifier::Dns).collect();
        let order = account.new_order(&NewOrder::new(&identifiers)).await?;
        let url = order.url().to_owned();
        self.on_disk(move |settings| AcmeFolder::keep_order(settings, &url)).await?;
        Ok(order)
    }

    fn names(&self) -> Vec<String> {
        self.settings.names.iter().map(|name| name.as_str().to_owned()).collect()
    }

    /// Returns the stored account, or makes one.
    async fn account(&self, kept: Option<AccountCredentials>) -> Result<Account, AcmeError> {
        let builder = Account::builder_with_http(Box::new(self.transport.clone()));
        if let Some(credentials) = kept {
            return Ok(builder.from_credentials(credentials).await?);
        }
        let contact: Vec<&str> = self.settings.contact.iter().map(String::as_str).collect();
        let new = NewAccount {
            contact: &contact,
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let directory = self.settings.directory.to_string();
        let (account, credentials) = builder.create(&new, directory, None).await?;
        let json = serde_json::to_string(&credentials).map_err(instant_acme::Error::Json)?;
        self.on_disk(move |settings| AcmeFolder::keep_account(settings, &json)).await?;
        Ok(account)
    }
}

/// Serves the answers, and tells the authority to fetch them.
async fn prove(
    order: &mut Order,
    kind: Challenge,
    shown: &mut ShownAnswers,
) -> Result<(), AcmeError> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        if authorization.status == AuthorizationStatus::Valid {
            continue;
        }
        let name = authorization.identifier().to_string();
        let wanted = match kind {
            Challenge::Http01 => ChallengeType::Http01,
            Challenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
        };
        let offered = authorization.challenge(wanted);
        let no_challenge = || AcmeError::NoChallenge { name: name.clone(), kind };
        let mut challenge = offered.ok_or_else(no_challenge)?;
        let authorization = challenge.key_authorization();
        match kind {
            Challenge::Http01 => shown.add(&challenge.token, authorization.as_str()),
            Challenge::TlsAlpn01 => {
                let digest = digest(&SHA256, authorization.as_str().as_bytes());
                let digest = digest.as_ref().try_into().map_err(|_| AcmeError::Answer(None))?;
                shown.add_certificate(&name, tls_alpn::answer(&name, digest)?);
            }
        }
        challenge.set_ready().await?;
    }
    Ok(())
}

/// Returns the authority's finding, if it has one; else how the waiting ended.
async fn unproven(order: &mut Order, ended: Option<instant_acme::Error>) -> AcmeError {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let name = authorization.identifier().to_string();
        let Ok(state) = authorization.refresh().await else { continue };
        if let Some(problem) = state.challenges.iter().find_map(|one| one.error.clone()) {
            return AcmeError::NotProven { name, problem };
        }
    }
    ended.map_or(AcmeError::Late, AcmeError::from)
}
