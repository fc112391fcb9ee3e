//! Ownership of domains: given, claimed, proven, and given up.

use gatepost::domain::account::Account;
use gatepost::domain::domain_name::DomainName;
use gatepost::domain::id::AccountId;
use gatepost::store::{
    AddressClaim, AuditFilter, Claimed, DomainClaim, DomainLimits, DomainProof, HeldDomain, Store,
};
use tokio::task::JoinSet;

use super::scene::{
    Kind, Scene, address, address_claim, at, by, domain_owner, everything, subtree,
};

on_both! {
    a_domain_belongs_to_one_account_until_nothing_uses_it,
    a_claim_waits_for_its_proof,
    what_is_given_needs_no_proof_any_more,
    claims_are_bounded_and_none_is_made_for_who_is_gone,
    of_many_proofs_at_once_one_counts,
    bounds_hold_when_many_claim_at_once,
    a_claim_that_is_withdrawn_while_it_is_proven_ends_in_one_of_two_ways,
    addresses_lie_in_domains_of_ancestors_only,
}

const LIMITS: DomainLimits = DomainLimits { claims: 99, domains: 99 };

fn domain(name: &str) -> DomainName {
    DomainName::parse(name).unwrap()
}

fn held(name: &str, account: AccountId, challenge: Option<&str>) -> HeldDomain {
    HeldDomain { domain: domain(name), account, challenge: challenge.map(Into::into) }
}

async fn claim(store: &Store, name: &str, account: AccountId, challenge: &str) -> DomainClaim {
    store.pending_claim(&domain(name), account, challenge, LIMITS, by(at(0))).await.unwrap()
}

async fn prove(store: &Store, name: &str, account: AccountId, challenge: &str) -> DomainProof {
    store.prove_domain(&domain(name), account, challenge, by(at(1))).await.unwrap()
}

/// Returns the deeds on `new.example` in the account's audit log, the newest first.
async fn deeds(scene: &Scene, account: &Account) -> Vec<String> {
    let entries =
        scene.store.audit(&subtree(account), &AuditFilter::default(), &everything()).await.unwrap();
    let of_domains = entries.into_iter().filter(|entry| {
        entry.deed.as_str().starts_with("domain.") && entry.object == "new.example"
    });
    of_domains.map(|entry| entry.deed.as_str().to_owned()).collect()
}

async fn a_domain_belongs_to_one_account_until_nothing_uses_it(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = &scene.store;
    let (mine, theirs) = (scene.organization.id, scene.reseller.id);
    let domain = domain("new.example");
    assert_eq!(domain_owner(store, &domain).await, None);
    assert!(!store.has_domain(&domain).await.unwrap());
    assert_eq!(store.claim_domain(&domain, mine, by(at(0))).await.unwrap(), mine);
    assert!(store.has_domain(&domain).await.unwrap());
    assert_eq!(store.claim_domain(&domain, theirs, by(at(0))).await.unwrap(), mine);
    assert_eq!(domain_owner(store, &domain).await, Some(mine));
    assert!(store.domains(None).await.unwrap().contains(&held("new.example", mine, None)));
    assert_eq!(store.domains(Some(theirs)).await.unwrap(), []);
    let all = store.owned_domains(None, 5).await.unwrap();
    assert!(all.is_sorted() && all.contains(&domain), "{all:?}");
    assert_eq!(store.owned_domains(None, 1).await.unwrap(), all[..1]);
    assert_eq!(store.owned_domains(Some(&all[0]), 5).await.unwrap(), all[1..]);
    let desk = address("desk@new.example");
    store.claim_address(&address_claim(&scene.agent, &desk), by(at(0))).await.unwrap();
    assert_eq!(store.remove_domain(&domain, theirs, by(at(0))).await.unwrap(), None);
    assert_eq!(store.remove_domain(&domain, mine, by(at(0))).await.unwrap(), Some(1));
    assert!(store.release_address(scene.agent.id, &desk, by(at(0))).await.unwrap());
    assert_eq!(store.remove_domain(&domain, mine, by(at(0))).await.unwrap(), Some(0));
    assert_eq!(domain_owner(store, &domain).await, None);
    assert_eq!(deeds(&scene, &scene.organization).await, ["domain.removed", "domain.added"]);
}

async fn a_claim_waits_for_its_proof(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, name) = (&scene.store, "new.example");
    let (mine, theirs) = (scene.organization.id, scene.reseller.id);
    assert_eq!(prove(store, name, mine, "a").await, DomainProof::NoClaim);
    assert_eq!(claim(store, name, mine, "a").await, DomainClaim::Made);
    assert_eq!(claim(store, name, mine, "b").await, DomainClaim::Pending("a".into()));
    // Each has a challenge of its own, and a claim keeps nobody else's mail or addresses away.
    assert_eq!(claim(store, name, theirs, "c").await, DomainClaim::Made);
    assert_eq!(domain_owner(store, &domain(name)).await, None);
    let found = store.domains(Some(theirs)).await.unwrap();
    assert_eq!(found, [held(name, theirs, Some("c"))]);
    let all = store.domains(None).await.unwrap();
    let claims: Vec<_> = all.into_iter().filter(|one| one.challenge.is_some()).collect();
    assert_eq!(claims, [held(name, theirs, Some("c")), held(name, mine, Some("a"))]);
    assert!(!store.owned_domains(None, 5).await.unwrap().contains(&domain(name)));
    let desk = address("desk@new.example");
    let wanted = address_claim(&scene.agent, &desk);
    let early = store.claim_address(&wanted, by(at(0))).await.unwrap();
    assert_eq!(early, Claimed::DomainNotOurs);
    let is_of = async |account| store.is_domain_of(&domain(name), account).await.unwrap();
    let agent = scene.agent.id;
    assert!(is_of(theirs).await && is_of(mine).await && !is_of(agent).await);

    assert_eq!(prove(store, name, mine, "c").await, DomainProof::NoClaim);
    assert_eq!(prove(store, name, mine, "a").await, DomainProof::Yes);
    assert_eq!(prove(store, name, mine, "a").await, DomainProof::Yes);
    assert_eq!(claim(store, name, mine, "d").await, DomainClaim::Owned);
    assert!(store.domains(Some(mine)).await.unwrap().contains(&held(name, mine, None)));
    let now = store.claim_address(&wanted, by(at(1))).await.unwrap();
    assert_eq!(now, Claimed::Yes);
    assert!(is_of(mine).await && is_of(agent).await);
    // The other one finds it taken, keeps its claim until it withdraws it, and touches nothing.
    assert_eq!(claim(store, name, theirs, "e").await, DomainClaim::Taken);
    assert_eq!(prove(store, name, theirs, "c").await, DomainProof::Taken);
    assert_eq!(store.domains(Some(theirs)).await.unwrap(), [held(name, theirs, Some("c"))]);
    assert_eq!(store.remove_domain(&domain(name), theirs, by(at(2))).await.unwrap(), Some(0));
    assert_eq!(store.remove_domain(&domain(name), theirs, by(at(2))).await.unwrap(), None);
    assert!(!is_of(theirs).await);
    assert_eq!(domain_owner(store, &domain(name)).await, Some(mine));
    assert_eq!(deeds(&scene, &scene.organization).await, ["domain.added", "domain.claimed"]);
    let both = ["domain.removed", "domain.added", "domain.claimed", "domain.claimed"];
    assert_eq!(deeds(&scene, &scene.reseller).await, both);
}

async fn what_is_given_needs_no_proof_any_more(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, mine) = (&scene.store, scene.organization.id);
    let theirs = scene.reseller.id;
    for name in ["given.example", "beside.example"] {
        for account in [mine, theirs] {
            assert_eq!(claim(store, name, account, "a").await, DomainClaim::Made);
        }
    }
    store.claim_domain(&domain("given.example"), mine, by(at(0))).await.unwrap();
    let desk = address("desk@beside.example");
    let wanted = AddressClaim { domain_for: Some(mine), ..address_claim(&scene.agent, &desk) };
    let on_the_way = store.claim_address(&wanted, by(at(0)));
    assert_eq!(on_the_way.await.unwrap(), Claimed::Yes);
    let own = store.domains(Some(mine)).await.unwrap();
    assert!(own.iter().all(|held| held.challenge.is_none()), "{own:?}");
    assert_eq!(store.domains(Some(theirs)).await.unwrap().len(), 2);
    // Given up, the domain is there for whoever proves it.
    let gone = store.remove_domain(&domain("given.example"), mine, by(at(1))).await.unwrap();
    assert_eq!(gone, Some(0));
    assert_eq!(prove(store, "given.example", theirs, "a").await, DomainProof::Yes);
}

async fn claims_are_bounded_and_none_is_made_for_who_is_gone(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, me) = (&scene.store, scene.reseller.id);
    let claim = async |name: &str, claims, domains| {
        let limits = DomainLimits { claims, domains };
        store.pending_claim(&domain(name), me, "a", limits, by(at(0))).await.unwrap()
    };
    assert_eq!(claim("a.example", 1, 9).await, DomainClaim::Made);
    assert_eq!(claim("b.example", 1, 9).await, DomainClaim::TooManyClaims);
    assert_eq!(claim("a.example", 1, 1).await, DomainClaim::Pending("a".into()));
    assert_eq!(claim("b.example", 9, 1).await, DomainClaim::TooManyDomains);
    assert_eq!(prove(store, "a.example", me, "a").await, DomainProof::Yes);
    assert_eq!(claim("b.example", 9, 1).await, DomainClaim::TooManyDomains);
    assert_eq!(claim("b.example", 1, 2).await, DomainClaim::Made);
    scene.execute("UPDATE accounts SET deleted_at = 1 WHERE kind = 'organization'").await;
    let gone = super::domains::claim(store, "c.example", scene.organization.id, "a").await;
    assert_eq!(gone, DomainClaim::NoAccount);
    let nobody = AccountId::new(9999).unwrap();
    assert_eq!(
        super::domains::claim(store, "c.example", nobody, "a").await,
        DomainClaim::NoAccount
    );
}

/// On several gateways; the others keep their claims, and find it taken.
async fn of_many_proofs_at_once_one_counts(kind: Kind) {
    let scene = Scene::new(kind).await;
    let accounts = [scene.partner.id, scene.reseller.id, scene.organization.id];
    let stores = [scene.open().await, scene.open().await, scene.open().await];
    for round in 0..10 {
        let name = format!("d{round}.example");
        for account in accounts {
            assert_eq!(claim(&scene.store, &name, account, "a").await, DomainClaim::Made);
        }
        let mut tasks = JoinSet::new();
        // Each of them twice: who asks again while it is proven gets the same answer.
        for (number, account) in accounts.into_iter().cycle().take(6).enumerate() {
            let (store, name) = (stores[number / 2].clone(), name.clone());
            tasks.spawn(async move { (account, prove(&store, &name, account, "a").await) });
        }
        let ended = tasks.join_all().await;
        let owner = domain_owner(&scene.store, &domain(&name)).await.unwrap();
        for (account, proven) in ended {
            let expected = if account == owner { DomainProof::Yes } else { DomainProof::Taken };
            assert_eq!(proven, expected, "{account} of {owner}");
        }
        let all = scene.store.domains(None).await.unwrap();
        let claims = all.iter().filter(|held| held.domain == domain(&name));
        assert_eq!(claims.filter(|held| held.challenge.is_some()).count(), 2);
    }
}

async fn bounds_hold_when_many_claim_at_once(kind: Kind) {
    let scene = Scene::new(kind).await;
    let stores = [scene.open().await, scene.open().await];
    let (mut tasks, account) = (JoinSet::new(), scene.reseller.id);
    for number in 0..20 {
        let store = stores[number % 2].clone();
        tasks.spawn(async move {
            let (name, limits) =
                (format!("d{number}.example"), DomainLimits { claims: 5, ..LIMITS });
            store.pending_claim(&domain(&name), account, "a", limits, by(at(0))).await.unwrap()
        });
    }
    let ended = tasks.join_all().await;
    assert_eq!(ended.iter().filter(|one| **one == DomainClaim::Made).count(), 5);
    assert_eq!(ended.iter().filter(|one| **one == DomainClaim::TooManyClaims).count(), 15);
    assert_eq!(scene.store.domains(Some(account)).await.unwrap().len(), 5);
}

async fn a_claim_that_is_withdrawn_while_it_is_proven_ends_in_one_of_two_ways(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (proving, removing, me) = (scene.open().await, scene.open().await, scene.reseller.id);
    for round in 0..20 {
        let name = format!("d{round}.example");
        assert_eq!(claim(&scene.store, &name, me, "a").await, DomainClaim::Made);
        let gone = domain(&name);
        let (proven, removed) = tokio::join!(
            prove(&proving, &name, me, "a"),
            removing.remove_domain(&gone, me, by(at(1)))
        );
        assert_eq!(removed.unwrap(), Some(0));
        assert!(matches!(proven, DomainProof::Yes | DomainProof::NoClaim), "{proven:?}");
        // Whichever came first, it is gone: as a domain, or as a claim.
        assert_eq!(domain_owner(&scene.store, &gone).await, None);
    }
    assert_eq!(scene.store.domains(Some(me)).await.unwrap(), []);
}

/// Every relation of the domain's account to the Agent.
async fn addresses_lie_in_domains_of_ancestors_only(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = &scene.store;
    let stranger = scene.stranger().await;
    let sibling =
        super::scene::account(store, scene.organization.kind, Some(scene.reseller.id), "sibling");
    let relations = [
        ("partner", scene.partner.id, true),
        ("reseller", scene.reseller.id, true),
        ("organization", scene.organization.id, true),
        ("sibling", sibling.await.id, false),
        ("foreign-reseller", stranger.lineage.reseller.unwrap(), false),
        ("foreign-organization", stranger.lineage.organization.unwrap(), false),
    ];
    for (relation, account, expected) in relations {
        let name = format!("{relation}.example");
        assert_eq!(claim(store, &name, account, "a").await, DomainClaim::Made);
        let desk = address(&format!("desk@{name}"));
        for (proven, expected) in [(false, false), (true, expected)] {
            if proven {
                assert_eq!(prove(store, &name, account, "a").await, DomainProof::Yes);
            }
            let wanted = AddressClaim { most: 99, ..address_claim(&scene.agent, &desk) };
            let done = store.claim_address(&wanted, by(at(0))).await;
            let expected = if expected { Claimed::Yes } else { Claimed::DomainNotOurs };
            assert_eq!(done.unwrap(), expected, "{relation}, proven: {proven}");
        }
    }
}
