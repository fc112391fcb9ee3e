//! Accounts: the tree of them, lists of them, and what each says of itself.

use serde_json::{Value, json};

use super::super::description::Description;
use super::super::error::Code;
use super::super::schema::{
    Fields, anything, count, date, flag, id, id_given, id_text, ids, like, list, mailbox, one_of,
    open, or_null, pattern, reference, text, texts, with, within, word,
};
use super::super::verb::Verb::{Delete, Get, Post};
use crate::domain::account::AccountType;
use crate::rules::AccessRules;

const LONGEST: u64 = 2000;

/// What the area offers.
pub(super) fn operations(rules: &AccessRules) -> Vec<Description> {
    [itself(), making(), changing(), deleting(), lists(rules)].concat()
}

/// The shapes that it shows more than once.
pub(super) fn shapes() -> Vec<(&'static str, Value)> {
    let provider = open(
        "A provider of numbers.",
        vec![
            ("providerId", text("Which.")),
            ("config", anything("Its credentials: of each only that there is one.")),
        ],
    );
    let app = open(
        "An app.",
        vec![
            ("appId", text("Which.")),
            ("appVersion", text("Of it.")),
            ("appData", anything("Its settings: of each only that there is one.")),
        ],
    );
    vec![
        ("Account", open("An account, and what was told of it.", account())),
        ("NumberingProvider", provider),
        ("AccountIntegration", app),
    ]
}

fn types() -> Vec<&'static str> {
    let all = [
        AccountType::Partner,
        AccountType::Reseller,
        AccountType::Organization,
        AccountType::Agent,
    ];
    all.map(AccountType::as_str).to_vec()
}

/// What accounts and members have.
fn identity() -> Fields {
    let kinds: Vec<&str> = types().into_iter().chain(["user"]).collect();
    vec![
        ("id", id("Of the account, or of the member.")),
        ("username", like(text("Unique among accounts."), "support")),
        ("accountType", like(one_of("Of which level it is; user is a member.", &kinds), "account")),
        ("name", like(text("What it is called."), "Support")),
        ("organizationId", or_null(id("The organization that it is or belongs to."))),
        ("resellerId", or_null(id("The reseller that it is or belongs to."))),
        ("partnerId", or_null(id("The partner that it is or belongs to."))),
        ("parentId", or_null(id("The account directly above."))),
        ("superAdmin", json!({ "const": false, "description": "Always false." })),
        ("active", flag("Its own switch.")),
        (
            "timestamp",
            like(count("When it was made, in Unix milliseconds."), 1_795_168_800_000_i64),
        ),
        (
            "details",
            super::super::schema::object(
                "The same once more, as v2 has it.",
                vec![
                    ("name", text("What it is called.")),
                    ("createdAt", date("When it was made.")),
                ],
            ),
        ),
    ]
}

fn account() -> Fields {
    let mut fields = identity();
    fields.extend(vec![
        ("accountName", like(text("The name, as v2 has it."), "Support")),
        ("externalAccountId", or_null(like(text("What its application calls it."), "x-1"))),
        ("servicePremium", or_null(flag("What was agreed."))),
        ("settings", or_null(anything("What the account keeps of its own."))),
    ]);
    fields
}

fn itself() -> Vec<Description> {
    let envelope = || {
        vec![
            ("success", json!({ "const": true, "description": "Always true." })),
            ("message", like(text("What was done."), "account found")),
        ]
    };
    let mut shown = [envelope(), identity()].concat();
    shown.extend(vec![
        ("accountName?", text("The name, as v2 has it; accounts have it.")),
        ("externalAccountId?", or_null(text("What its application calls it."))),
        ("servicePremium?", or_null(flag("What was agreed."))),
        ("settings?", or_null(anything("What the account keeps of its own."))),
        ("email?", or_null(mailbox("Its address; members have it."))),
        ("role?", one_of("Of a member, what it may do.", &["admin", "member"])),
        ("permittedAccountIds?", ids("Of a member, the Agents that it is restricted to.")),
        ("accountId?", id("Of a member, the account that it belongs to.")),
        ("createdAt?", date("Of a member, when it was made.")),
    ]);
    let changed = [envelope(), account(), updated()].concat();
    let own = vec![
        "active?",
        "name?",
        "partnerName?",
        "resellerName?",
        "orgName?",
        "accountName?",
        "firstName?",
        "lastName?",
        "description?",
        "image?",
        "businessName?",
        "businessAddress?",
        "email?",
        "settings?",
    ];
    vec![
        Description::of(Get, "/account", "Shows an account, or the member whose key it is")
            .about("Without a target, whoever owns the key. Its fields decide the scope of the key.")
            .bare(200, "account found", open("The account, or the member.", shown)),
        Description::of(Post, "/account", "Changes what an account says of itself")
            .about(
                "All fields are changed, or none. What is agreed with whoever is above it is changed by a \
                 key of that one.",
            )
            .body(given(own))
            .sent(json!({ "name": "Example", "email": "boss@good.example" }))
            .bare(200, "account updated", open("The account.", changed))
            .fails(&[Code::Conflict]),
    ]
}

fn updated() -> Fields {
    let failed =
        with(texts("Always empty: what cannot be changed is an error."), "maxItems", json!(0));
    vec![
        ("updatedSettings", texts("The fields that were changed.")),
        ("failedSettings", like(failed, json!([]))),
    ]
}

/// The fields of these names, each of its type.
fn given(names: Vec<&'static str>) -> Fields {
    names.into_iter().map(|name| (name, field(name))).collect()
}

fn field(name: &str) -> Value {
    let kept = |about: &str| or_null(with(text(about), "maxLength", json!(LONGEST)));
    match name.trim_end_matches('?') {
        "active" => flag("Whether it works."),
        "name" | "orgName" | "accountName" | "partnerName" | "resellerName" => {
            like(text("What it is called."), "Example")
        }
        "externalAccountId" => like(text("What your application calls it."), "x-1"),
        "email" => or_null(mailbox("Where somebody can be reached.")),
        "smsEnabled" => or_null(flag("Whether it has SMS.")),
        "servicePremium" => or_null(flag("Whether it has the premium service.")),
        "hipaaEnabledDefault" => or_null(flag("Whether those below begin with HIPAA.")),
        "hipaaSetting" => or_null(one_of("Whether HIPAA holds.", &["on", "off", "inherit"])),
        "orgAccountType" => or_null(one_of("Whose it is.", &["internal", "customer"])),
        "resellerStatus" => one_of("Whether it works.", &["enabled", "disabled"]),
        "settings" => or_null(anything("Anything that the account keeps; secrets are masked.")),
        "numberingProviders" => {
            or_null(list("Providers of numbers.", reference("NumberingProvider")))
        }
        "integrations" => or_null(list("Apps.", reference("AccountIntegration"))),
        _ => kept("Kept and shown again."),
    }
}

fn making() -> Vec<Description> {
    let made = || reference("Account");
    let organization = vec![
        "orgName",
        "accountName?",
        "externalAccountId?",
        "email?",
        "orgAccountType?",
        "productPlanId?",
        "offeredProductPlanId?",
        "externalBillingId?",
        "hipaaSetting?",
        "numberingProviders?",
        "servicePremium?",
        "smsEnabled?",
        "smsBrandId?",
        "smsCampaignId?",
        "integrations?",
    ];
    let reseller = vec![
        "resellerName",
        "resellerStatus?",
        "email?",
        "offeredProductPlanId?",
        "productPlanId?",
        "hipaaEnabledDefault?",
    ];
    let agent = vec!["accountName?", "externalAccountId?", "externalBillingId?", "integrations?"];
    vec![
        Description::of(Post, "/createReseller", "Makes a reseller below a partner")
            .body(given(reseller))
            .answer(201, "reseller created", vec![("organization", made())])
            .fails(&[Code::Conflict]),
        Description::of(Post, "/createOrganization", "Makes an organization below a reseller")
            .about("With accountName its first Agent, too.")
            .body(given(organization))
            .answer(
                201,
                "organization created",
                vec![("organization", made()), ("account?", made())],
            )
            .fails(&[Code::Conflict]),
        Description::of(Post, "/createAccount", "Makes an Agent below an organization")
            .body(given(agent))
            .answer(201, "account created", vec![("account", made())])
            .fails(&[Code::Conflict]),
    ]
}

fn changing() -> Vec<Description> {
    let noun = |name| [vec![(name, reference("Account"))], updated()].concat();
    let external = || or_null(field("externalAccountId"));
    let organization = vec![
        "active?",
        "productPlanId?",
        "offeredProductPlanId?",
        "email?",
        "orgName?",
        "smsEnabled?",
        "smsBrandId?",
        "smsCampaignId?",
        "servicePremium?",
        "externalBillingId?",
        "hipaaSetting?",
        "orgAccountType?",
    ];
    let agent = vec!["active?", "accountName?", "externalBillingId?"];
    let with_external = |names| {
        let mut fields = given(names);
        fields.push(("externalAccountId?", external()));
        fields
    };
    vec![
        Description::of(Post, "/updateOrganization", "Changes an organization, from above")
            .body(with_external(organization))
            .answer(200, "account updated", noun("organization"))
            .fails(&[Code::Conflict]),
        Description::of(Post, "/updateAccount", "Changes an Agent, from above")
            .body(with_external(agent))
            .answer(200, "account updated", noun("account"))
            .fails(&[Code::Conflict]),
    ]
}

fn deleting() -> Vec<Description> {
    let gone = || {
        vec![
            ("deleted", id("What was deleted.")),
            ("deletedBelow", count("How many accounts below it were deleted with it.")),
        ]
    };
    let cascade = || flag("Whether all below it goes, too; without it that is a conflict.");
    vec![
        Description::of(Delete, "/deleteOrganization", "Deletes an organization or a reseller")
            .about("It is unreadable from the answer on.")
            .body(vec![
                ("targetOrganizationId", id_given("What is to be deleted.")),
                ("cascade?", cascade()),
            ])
            .answer(201, "organization deleted", gone())
            .fails(&[Code::Conflict]),
        Description::of(Delete, "/deleteAccount", "Deletes an Agent")
            .about("It is unreadable from the answer on.")
            .body(vec![
                ("targetAccountId", id_given("What is to be deleted.")),
                ("cascade?", cascade()),
            ])
            .answer(201, "account deleted", gone())
            .fails(&[Code::Conflict]),
    ]
}

fn paging(rules: &AccessRules) -> Fields {
    let limits = &rules.limits;
    vec![
        ("pagination?", one_of("Whether page and pageSize count.", &["true", "false"])),
        ("page?", within("Its number, from 0.", 0..=limits.max_walk.into())),
        ("pageSize?", within("How many are on a page.", 1..=limits.max_page.into())),
        ("after?", id_text("The next of the page before.")),
        ("active?", one_of("Only those that work, or do not.", &["true", "false"])),
    ]
}

fn page(noun: &'static str) -> Fields {
    vec![
        (noun, list("In the order of their ids.", reference("Account"))),
        ("totalAccounts", count("How many there are.")),
        ("pageSize", count("How many are on a page.")),
        ("pageNumber", count("Its number, from 0.")),
        ("next", or_null(id("Where the next page begins, if there is one."))),
    ]
}

fn lists(rules: &AccessRules) -> Vec<Description> {
    let found = "accounts found";
    let of = |path, summary, noun| {
        Description::of(Get, path, summary).query(paging(rules)).answer(200, found, page(noun))
    };
    let external =
        vec![("externalAccountId", like(text("What your application calls it."), "x-1"))];
    vec![
        of("/listResellers", "Lists the resellers of a partner", "resellers"),
        of("/listOrganizations", "Lists the organizations of a reseller", "organizations"),
        of("/listAccounts", "Lists the Agents of an organization", "accounts"),
        Description::of(Get, "/searchAccounts", "Finds accounts of one level below an account")
            .query(search(rules))
            .answer(200, found, page("accounts")),
        Description::of(
            Get,
            "/getAccountByExternalId",
            "Finds an account by what it is called outside",
        )
        .query(external)
        .answer(200, "account found", vec![("account", reference("Account"))])
        .fails(&[Code::NotFound, Code::Conflict]),
    ]
}

fn search(rules: &AccessRules) -> Fields {
    let seconds = |about: &str| pattern(about, "^[0-9]{1,12}$", "1795168800");
    let mut fields = vec![
        ("accountType", word("Of which level.", &types(), |kind| kind)),
        ("queryText?", text("Part of the name.")),
        ("createdStart?", seconds("Made then or later, in Unix seconds.")),
        ("createdEnd?", seconds("Made then or before, in Unix seconds.")),
        ("subscribed?", one_of("Only those with a plan, or without.", &["true", "false"])),
        ("productPlanId?", text("Only those with this plan.")),
        ("billingId?", text("Only those with this externalBillingId.")),
        ("externalAccountId?", text("Only the one that is called so.")),
        ("canceled?", one_of("Nothing is cancelled here: false asks for all.", &["false"])),
    ];
    fields.extend(paging(rules));
    fields.extend(NOT_KEPT.map(|name| (name, text(REFUSED))));
    fields
}

const REFUSED: &str = "Known from v2; nothing is kept that it could be compared with: refused.";

const NOT_KEPT: [&str; 17] = [
    "canceledStart?",
    "canceledEnd?",
    "onboardingComplete?",
    "productPlanTerm?",
    "billingSubscriptionId?",
    "currentBillingPeriodVoiceMinutesMin?",
    "currentBillingPeriodVoiceMinutesMax?",
    "previousBillingPeriodVoiceMinutesMin?",
    "previousBillingPeriodVoiceMinutesMax?",
    "currentBillingPeriodMessagesMin?",
    "currentBillingPeriodMessagesMax?",
    "previousBillingPeriodMessagesMin?",
    "previousBillingPeriodMessagesMax?",
    "allTimeVoiceMinutesMin?",
    "allTimeVoiceMinutesMax?",
    "allTimeMessagesMin?",
    "allTimeMessagesMax?",
];
