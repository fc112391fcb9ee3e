use super::*;
use crate::domain::account::Lineage;
use crate::domain::clock::Timestamp;
use crate::domain::message::{Mail, Passage};
use crate::domain::policy::Mode;
use crate::domain::sender::Sender;
use crate::domain::thread::ThreadKeys;
use crate::store::{Accepted, NewMessage, Standing};

const ALICE: &str = "alice@good.example";

fn account(id: i64) -> AccountId {
    AccountId::new(id).unwrap()
}

fn limits(signature: u32, sender: u32, room: u32) -> RateLimits {
    RateLimits::new(IntakeRates {
        signature_messages_per_minute: signature,
        sender_messages_per_minute: sender,
        room_messages_per_minute: room,
        max_tracked: 1024,
    })
}

/// Takes one message of `sender` for these Agents, `seconds` after the start. Agents below 10
/// belong to one organization, the others to another.
fn ask<'f>(
    limits: &'f RateLimits,
    of: (&str, &[u8]),
    agents: &[i64],
    seconds: u64,
) -> Result<RateCount<'f>, ExceededRate> {
    ask_from(limits, 0, of, agents, seconds)
}

fn ask_from<'f>(
    limits: &'f RateLimits,
    network: u8,
    (sender, signatures): (&str, &[u8]),
    agents: &[i64],
    seconds: u64,
) -> Result<RateCount<'f>, ExceededRate> {
    let organization = |id: i64| account(if id < 10 { 100 } else { 200 });
    let sender = Address::parse(sender).unwrap();
    let signatures: Vec<_> = signatures.iter().map(|octet| Digest([*octet; 32])).collect();
    let agents = agents.iter().map(|id| (account(*id), organization(*id))).collect();
    let network = Network::of([192, 0, network, 1].into());
    let message = RatedMessage { sender: &sender, signatures: &signatures, network, agents };
    limits.take(&message, at(limits, seconds))
}

fn at(limits: &RateLimits, seconds: u64) -> Instant {
    limits.began + Duration::from_secs(seconds)
}

/// Takes a message that is stored for all of these Agents.
fn take(
    limits: &RateLimits,
    sender: &str,
    agents: &[i64],
    seconds: u64,
) -> Result<(), ExceededRate> {
    ask(limits, (sender, &[]), agents, seconds).map(drop)
}

fn sign(
    limits: &RateLimits,
    signatures: &[u8],
    agents: &[i64],
    seconds: u64,
) -> Result<(), ExceededRate> {
    ask(limits, (ALICE, signatures), agents, seconds).map(drop)
}

#[test]
fn a_room_that_is_full_leaves_other_rooms_alone() {
    let limits = limits(0, 9, 2);
    assert_eq!(take(&limits, ALICE, &[1], 0), Ok(()));
    assert_eq!(take(&limits, "ALICE@good.example", &[1], 0), Ok(()));
    assert_eq!(take(&limits, ALICE, &[1], 0), Err(ExceededRate::Room));
    assert_eq!(take(&limits, "bob@good.example", &[1], 0), Ok(()));
    assert_eq!(take(&limits, ALICE, &[2], 0), Ok(()));
    assert_eq!(take(&limits, ALICE, &[1], 29), Err(ExceededRate::Room));
    assert_eq!(take(&limits, ALICE, &[1], 30), Ok(()));
}

/// A full room holds up no other recipient of the transaction. It owes what it is given, up to a
/// minute's worth.
#[test]
fn a_transaction_is_deferred_where_all_its_rooms_are_full() {
    let limits = limits(0, 0, 2);
    for agent in [1, 1, 2] {
        assert_eq!(take(&limits, ALICE, &[agent], 0), Ok(()));
    }
    assert_eq!(take(&limits, ALICE, &[1, 2], 0), Ok(()));
    assert_eq!(take(&limits, ALICE, &[1, 2], 0), Err(ExceededRate::Room));
    assert_eq!(take(&limits, ALICE, &[2], 30), Ok(()));
    assert_eq!(take(&limits, ALICE, &[1], 30), Err(ExceededRate::Room), "it owes one");
    assert_eq!(take(&limits, ALICE, &[1], 60), Ok(()));
    for other in 3..=9 {
        assert_eq!(take(&limits, ALICE, &[1, other], 60), Ok(()));
    }
    assert_eq!(take(&limits, ALICE, &[1], 149), Err(ExceededRate::Room));
    assert_eq!(take(&limits, ALICE, &[1], 150), Ok(()), "nobody is shut off for longer");
}

#[test]
fn a_sender_has_one_rate_for_all_agents_of_an_organization() {
    let limits = limits(0, 3, 2);
    assert_eq!(take(&limits, ALICE, &[1, 2, 3], 0), Ok(()));
    assert_eq!(take(&limits, ALICE, &[4], 0), Ok(()));
    assert_eq!(take(&limits, ALICE, &[5], 0), Ok(()));
    assert_eq!(take(&limits, ALICE, &[6], 0), Err(ExceededRate::Sender));
    // Mail to one tenant holds up no other, even in one transaction.
    assert_eq!(take(&limits, ALICE, &[11], 0), Ok(()));
    assert_eq!(take(&limits, ALICE, &[7, 12], 0), Ok(()));
    assert_eq!(take(&limits, ALICE, &[6], 20), Err(ExceededRate::Sender), "it owes one");
    assert_eq!(take(&limits, ALICE, &[6], 40), Ok(()));
    let any = self::limits(0, 0, 0);
    assert!((0..999).all(|_| sign(&any, &[1], &[1], 0).is_ok()));
    let rooms = self::limits(0, 0, 1);
    assert_eq!(take(&rooms, ALICE, &[1], 0), Ok(()));
    assert_eq!(take(&rooms, ALICE, &[1], 0), Err(ExceededRate::Room));
}

/// The holder of one signed message cannot fill a room with it.
#[test]
fn copies_of_one_signature_use_up_their_own_rate_alone() {
    let limits = limits(2, 9, 4);
    assert_eq!(sign(&limits, &[7], &[1], 0), Ok(()));
    assert_eq!(sign(&limits, &[7, 8], &[1], 0), Ok(()));
    for _ in 0..99 {
        assert_eq!(sign(&limits, &[7], &[1], 0), Err(ExceededRate::Signature));
        // Another good signature beside it does not help.
        assert_eq!(sign(&limits, &[9, 7], &[1], 0), Err(ExceededRate::Signature));
    }
    // A list signs once for all its readers; a flood to one reader affects no other.
    for reader in [2, 3, 11] {
        assert_eq!(sign(&limits, &[7], &[reader], 0), Ok(()));
    }
    assert_eq!(sign(&limits, &[7], &[1, 4], 0), Ok(()));
    assert_eq!(sign(&limits, &[5], &[1], 0), Ok(()));
    assert_eq!(sign(&limits, &[6], &[1], 0), Err(ExceededRate::Room));
    assert_eq!(sign(&limits, &[7], &[1], 59), Err(ExceededRate::Signature), "it owes one");
    assert_eq!(sign(&limits, &[7], &[1], 60), Ok(()));
}

/// Hasty copies from one network do not defer a copy from another network. All networks together
/// bring at most a minute's worth beyond the rate.
#[test]
fn a_copy_from_elsewhere_comes_in_beside_a_flood() {
    let limits = limits(4, 0, 0);
    let copy = |network: u8, seconds: u64| {
        ask_from(&limits, network, (ALICE, &[7]), &[1], seconds).map(drop)
    };
    for _ in 0..4 {
        assert_eq!(copy(1, 0), Ok(()));
    }
    for _ in 0..99 {
        assert_eq!(copy(1, 0), Err(ExceededRate::Signature));
    }
    for elsewhere in 2..=5 {
        assert_eq!(copy(elsewhere, 0), Ok(()));
        assert_eq!(copy(elsewhere, 0), Err(ExceededRate::Signature), "one");
    }
    assert_eq!(copy(6, 0), Err(ExceededRate::Signature), "a minute's worth");
    // Another Agent, and another signature, have their own rates.
    assert!(ask_from(&limits, 6, (ALICE, &[7]), &[2], 0).is_ok());
    assert!(ask_from(&limits, 6, (ALICE, &[8]), &[1], 0).is_ok());
    for (seconds, network) in [(15, 6), (30, 7), (45, 8)] {
        assert_eq!(copy(1, seconds), Err(ExceededRate::Signature));
        assert_eq!(copy(network, seconds), Ok(()));
        assert_eq!(copy(9, seconds), Err(ExceededRate::Signature));
    }
    // A network that was quiet for a minute may bring a copy again.
    assert_eq!(copy(2, 60), Ok(()));
    // A copy that is given back makes room for another one, also from its own network.
    let given = ask_from(&limits, 9, (ALICE, &[7]), &[1], 75).unwrap();
    assert_eq!(copy(9, 75), Err(ExceededRate::Signature));
    given.give_back(at(&limits, 75));
    assert_eq!(copy(9, 75), Ok(()));
}

/// One recipient's part of a commit: accepted for (Agent, organization), or refused.
fn intake(message: Option<(i64, i64)>) -> Intake {
    let (id, digest) = (uuid::Uuid::nil(), Digest([0; 32]));
    let record = IntakeRecord::blank(Verdict::of(None));
    let address = Address::parse(ALICE).unwrap();
    let mail = Mail::of(Sender { address: address.clone(), name: None });
    let accepted = message.map(|(agent, organization)| Accepted {
        standing: Standing {
            answers: true,
            active: true,
            takes_mail: true,
            mode: Mode::Open,
            policy_version: 1,
            listed: false,
            relay: None,
        },
        address: address.clone(),
        message: NewMessage {
            id: MessageId(id),
            lineage: Lineage::default(),
            agent: account(agent),
            agent_username: String::new(),
            organization: account(organization),
            at: Timestamp::from_millis(0),
            mail: mail.into(),
            thread: ThreadKeys::default(),
            tag: None,
            digest,
            authentication: None,
            passage: Passage::default(),
        },
        raw: bytes::Bytes::new(),
        arrival_keys: Vec::new(),
        remembered_until: Timestamp::from_millis(0),
    });
    Intake { record, accepted }
}

#[test]
fn what_is_not_stored_does_not_count() {
    let limits = limits(1, 1, 1);
    let one = |agents: &[i64]| ask(&limits, (ALICE, &[7]), agents, 0);
    let now = at(&limits, 0);
    for _ in 0..9 {
        one(&[1]).unwrap().give_back(now);
    }
    let earlier = Some(MessageId(uuid::Uuid::nil()));
    // A repeat, stored before.
    let of_one = [intake(Some((1, 100)))];
    one(&[1]).unwrap().settle(&of_one, &[earlier], now);
    // New to one of two Agents; stored before, or returned, for the other.
    let of_both = [intake(Some((1, 100))), intake(Some((11, 200)))];
    one(&[1, 11]).unwrap().settle(&of_both, &[earlier, None], now);
    assert_eq!(one(&[11]).unwrap_err(), ExceededRate::Signature);
    assert_eq!(take(&limits, ALICE, &[11], 0), Err(ExceededRate::Sender));
    let returned = [intake(None), intake(Some((1, 100)))];
    one(&[1]).unwrap().settle(&returned, &[None, None], now);
    assert_eq!(one(&[1]).unwrap_err(), ExceededRate::Signature);
}

/// A commit that ended without an answer may have been written: it counts.
#[test]
fn what_became_of_nobody_knows_what_counts() {
    let limits = limits(0, 1, 1);
    drop(ask(&limits, (ALICE, &[]), &[1], 0).unwrap());
    assert_eq!(take(&limits, ALICE, &[1], 59), Err(ExceededRate::Sender));
    // A late give-back takes nothing off later messages.
    let late = ask(&limits, (ALICE, &[]), &[1], 60).unwrap();
    assert_eq!(take(&limits, ALICE, &[1], 120), Ok(()));
    late.give_back(at(&limits, 120));
    assert_eq!(take(&limits, ALICE, &[1], 120), Err(ExceededRate::Sender));
}
