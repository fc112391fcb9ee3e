//! A draft of an Agent's policy: shows the verdicts that mail would get if it were in force.

use std::collections::BTreeSet;

use super::address::Address;
use super::policy::{Facts, Mode, Proof, decide};
use super::reason::{Ground, Reason};
use super::verdict::Verdict;

/// Proposed changes to a policy, not yet made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draft {
    mode: Option<Mode>,
    add: BTreeSet<Address>,
    remove: BTreeSet<Address>,
}

impl Draft {
    /// Makes a draft of a new mode, if any, and changes to the allowlist. Fails with the first
    /// address that is both added and removed.
    pub fn new(
        mode: Option<Mode>,
        add: impl IntoIterator<Item = Address>,
        remove: impl IntoIterator<Item = Address>,
    ) -> Result<Self, Address> {
        let (add, remove): (BTreeSet<_>, BTreeSet<_>) =
            (add.into_iter().collect(), remove.into_iter().collect());
        match add.intersection(&remove).next() {
            Some(both) => Err(both.clone()),
            None => Ok(Self { mode, add, remove }),
        }
    }

    /// The mode under the draft, given the present one.
    pub fn mode(&self, mode: Mode) -> Mode {
        self.mode.unwrap_or(mode)
    }

    /// Tells whether `sender` would be on the list, given whether it is now.
    pub fn lists(&self, sender: &Address, listed: bool) -> bool {
        (listed || self.add.contains(sender)) && !self.remove.contains(sender)
    }

    /// Returns the verdict that a past message would have had under the draft. `was` is its
    /// verdict, `mode` the present mode, and `listed` tells whether its sender is on the list now.
    ///
    /// Only policy decisions can change: the sender was authenticated, and admitted or refused. A
    /// record without a sender had no such decision. A decision after the policy (a rate; the
    /// verdict of a relay, contract §6) stands unless the draft refuses the sender first. Rates are
    /// not checked for messages that the draft would newly admit.
    pub fn verdict(
        &self,
        was: Verdict,
        sender: Option<&Address>,
        mode: Mode,
        listed: bool,
    ) -> Verdict {
        let ground = was.reason().map(Reason::ground);
        let by_policy = matches!(ground, None | Some(Ground::Policy));
        let behind = ground == Some(Ground::AfterPolicy);
        let Some(sender) = sender.filter(|_| by_policy || behind) else { return was };
        let refused = decide(Facts {
            recipient_active: true,
            takes_mail: true,
            looping: false,
            proof: Proof::Authenticated,
            mode: self.mode(mode),
            listed: self.lists(sender, listed),
        });
        if behind && refused.is_none() { was } else { Verdict::of(refused) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        Address::parse(text).unwrap()
    }

    fn draft(mode: Option<Mode>, add: &[&str], remove: &[&str]) -> Draft {
        let all = |texts: &[&str]| texts.iter().map(|text| address(text)).collect::<Vec<_>>();
        Draft::new(mode, all(add), all(remove)).unwrap()
    }

    const ACCEPTED: Verdict = Verdict::Accepted;
    const NOT_ALLOWED: Verdict = Verdict::Refused(Reason::SenderNotAllowed);

    #[test]
    fn what_the_policy_decided_is_decided_anew() {
        use Mode::{Allowlist, Open};
        let me = "boss@good.example";
        let nothing = draft(None, &[], &[]);
        let open = draft(Some(Open), &[], &[]);
        let closed = draft(Some(Allowlist), &[], &[]);
        let add = draft(None, &["BOSS@Good.example"], &[]);
        let remove = draft(None, &[], &[me]);
        let other = draft(None, &["other@good.example"], &["third@good.example"]);
        for (draft, mode, listed, would) in [
            (&nothing, Open, false, ACCEPTED),
            (&nothing, Allowlist, true, ACCEPTED),
            (&nothing, Allowlist, false, NOT_ALLOWED),
            (&open, Allowlist, false, ACCEPTED),
            (&closed, Open, false, NOT_ALLOWED),
            (&closed, Open, true, ACCEPTED),
            (&add, Allowlist, false, ACCEPTED),
            (&remove, Allowlist, true, NOT_ALLOWED),
            (&remove, Open, true, ACCEPTED),
            (&other, Allowlist, true, ACCEPTED),
            (&other, Allowlist, false, NOT_ALLOWED),
        ] {
            for was in [ACCEPTED, NOT_ALLOWED] {
                let found = draft.verdict(was, Some(&address(me)), mode, listed);
                assert_eq!(found, would, "{draft:?} {mode} {listed} {was:?}");
            }
        }
    }

    #[test]
    fn what_the_policy_did_not_decide_stays() {
        let open = draft(Some(Mode::Open), &["boss@good.example"], &[]);
        let sender = address("boss@good.example");
        for reason in Reason::ALL {
            if reason.ground() != Ground::Policy {
                let was = Verdict::of(Some(*reason));
                let would = open.verdict(was, Some(&sender), Mode::Allowlist, false);
                assert_eq!(would, was);
            }
        }
        assert_eq!(open.verdict(NOT_ALLOWED, None, Mode::Allowlist, false), NOT_ALLOWED);
    }

    #[test]
    fn what_was_decided_behind_the_policy_stays_unless_the_draft_refuses() {
        use Mode::{Allowlist, Open};
        let sender = address("boss@good.example");
        let open = draft(Some(Open), &[], &[]);
        let closed = draft(Some(Allowlist), &[], &[]);
        let remove = draft(None, &[], &["boss@good.example"]);
        let behind = |reason: &&Reason| reason.ground() == Ground::AfterPolicy;
        for reason in Reason::ALL.iter().filter(behind) {
            let was = Verdict::of(Some(*reason));
            for (draft, mode, listed, would) in [
                (&open, Allowlist, true, was),
                (&closed, Open, true, was),
                (&closed, Open, false, NOT_ALLOWED),
                (&remove, Allowlist, true, NOT_ALLOWED),
                (&remove, Open, true, was),
            ] {
                assert_eq!(draft.verdict(was, Some(&sender), mode, listed), would, "{reason:?}");
                // At RCPT the sender is not known yet.
                assert_eq!(draft.verdict(was, None, mode, listed), was);
            }
        }
    }

    #[test]
    fn an_address_is_added_or_removed() {
        let both = [address("a@b.example")];
        assert_eq!(Draft::new(None, both.clone(), both.clone()), Err(both[0].clone()));
    }
}
