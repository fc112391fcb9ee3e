//! One attempt: account, order, proof, certificate (RFC 8555 §7).

use instant_acme::{
    Account, AuthorizationStatus, ChallengeType, Error, Identifier, NewOrder, Order, OrderStatus,
    RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};

use super::challenges::ShownAnswers;
use super::failure::{self, AcmeError};
use super::folder::AcmeFolder;
use super::keeper::Keeper;
use super::{authority, tls_alpn, window};
use crate::domain::acme_challenge::AcmeChallenge;
use crate::tls::pair::Pair;

pub(super) struct StoredParts {
    /// The key of the certificate.
    pub(super) key: KeyPair,
    /// The account, as JSON.
    account: Option<String>,
}

pub(super) struct Issued {
    /// PEM.
    pub(super) chain: String,
    pub(super) account: Account,
}

impl Keeper {
    /// Reads the stored parts. Finds their faults before the authority is asked.
    pub(super) async fn stored_parts(&self) -> Result<StoredParts, AcmeError> {
        let read = |folder: &AcmeFolder| {
            let (key, account) = (folder.key()?, folder.account()?);
            if let Some(json) = &account {
                let _readable = authority::read(json, folder)?;
            }
            Ok(StoredParts { key, account })
        };
        self.folder.on_disk(read).await
    }

    /// Obtains a certificate for the key. `replaced` is the one that it is to replace.
    pub(super) async fn obtain(
        &self,
        stored: StoredParts,
        replaced: Option<&Pair>,
    ) -> Result<Issued, AcmeError> {
        let StoredParts { key, account } = stored;
        match self.order(&key, None, replaced).await {
            // Some authorities forget accounts that are unused for long.
            Err(error) if error.is_unknown_account() => {
                tracing::warn!("the authority no longer knows the account: making another");
                self.order(&key, account.as_deref(), replaced).await
            }
            ended => ended,
        }
    }

    async fn order(
        &self,
        key: &KeyPair,
        unknown: Option<&str>,
        replaced: Option<&Pair>,
    ) -> Result<Issued, AcmeError> {
        let account = self.authority.account(&self.folder, &self.transport, unknown).await?;
        let mut order = match self.open_order(&account).await? {
            Some(order) => order,
            None => self.place_order(&account, replaced).await?,
        };
        let policy = RetryPolicy::new().timeout(self.authority.rules.attempt.patience());
        // The authority may have verified the names before.
        if order.state().status == OrderStatus::Pending {
            let mut shown = self.authority.challenges.show();
            prove(&mut order, self.authority.settings.challenge, &mut shown).await?;
            match order.poll_ready(&policy).await {
                Ok(OrderStatus::Ready) => {}
                ended => return Err(unproven(&mut order, ended.err()).await),
            }
        }
        // An attempt that was cut short may have sent the request already.
        if !matches!(order.state().status, OrderStatus::Processing | OrderStatus::Valid) {
            let mut request = CertificateParams::new(vec![self.name.as_str().to_owned()])?;
            request.distinguished_name = DistinguishedName::new();
            order.finalize_csr(request.serialize_request(key)?.der()).await?;
        }
        Ok(Issued { chain: order.poll_certificate(&policy).await?, account })
    }

    /// Returns the open order of an attempt that was cut short. Another order would count twice
    /// with the authority, and waste a certificate that was issued.
    async fn open_order(&self, account: &Account) -> Result<Option<Order>, AcmeError> {
        let Some(url) = self.folder.on_disk(AcmeFolder::order).await? else { return Ok(None) };
        match account.order(url).await.map_err(AcmeError::from) {
            Ok(mut order) => {
                let is_open = order.state().status != OrderStatus::Invalid;
                Ok(is_open.then_some(order))
            }
            Err(error) if error.is_about_the_order() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Names the certificate that it replaces (RFC 9773 §5), if the authority takes that.
    async fn place_order(
        &self,
        account: &Account,
        replaced: Option<&Pair>,
    ) -> Result<Order, AcmeError> {
        let name = [Identifier::Dns(self.name.as_str().to_owned())];
        let placed = match replaced.and_then(window::identifier) {
            Some(id) => account.new_order(&NewOrder::new(&name).replaces(id)).await,
            None => account.new_order(&NewOrder::new(&name)).await,
        };
        let order = match placed {
            Err(Error::Unsupported(_)) => account.new_order(&NewOrder::new(&name)).await?,
            Err(Error::Api(problem)) if failure::is_about_the_replaced(&problem) => {
                account.new_order(&NewOrder::new(&name)).await?
            }
            placed => placed?,
        };
        let url = order.url().to_owned();
        self.folder.on_disk(move |folder| folder.keep_order(&url)).await?;
        Ok(order)
    }
}

/// Serves the answers, and tells the authority to fetch them.
async fn prove(
    order: &mut Order,
    kind: AcmeChallenge,
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
            AcmeChallenge::Http01 => ChallengeType::Http01,
            AcmeChallenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
        };
        let offered = authorization.challenge(wanted);
        let no_challenge = || AcmeError::NoChallenge { name: name.clone(), kind };
        let mut challenge = offered.ok_or_else(no_challenge)?;
        let authorization = challenge.key_authorization();
        match kind {
            AcmeChallenge::Http01 => shown.add(&challenge.token, authorization.as_str()),
            AcmeChallenge::TlsAlpn01 => {
                let digest = authorization.digest();
                shown.add_certificate(&name, tls_alpn::answer(&name, digest.as_ref())?);
            }
        }
        challenge.set_ready().await?;
    }
    Ok(())
}

/// Returns the authority's finding, if it has one; else how the waiting ended.
async fn unproven(order: &mut Order, ended: Option<Error>) -> AcmeError {
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
