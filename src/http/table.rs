//! The one table of operations. Router and description are generated from it alone: an operation
//! without a tag, a need and a typed handler does not compile, and only `perform` reaches a
//! handler.

use std::sync::LazyLock;

use crate::app::access::identity::Level;
use crate::app::access::need::{Need, TargetType};
use crate::domain::account::AccountType;
use crate::domain::feature::Feature;
use crate::http::error::Code::{Conflict, NotFound, RangeNotSatisfiable};
use crate::http::operation::Operation;
use crate::http::request::target::{ACCOUNT, ORGANIZATION, PARTNER, RESELLER};
use crate::http::routes::{
    account, account_lists, account_updates, accounts, addresses, agent_versions, agents, apps,
    audit, computer_config, computer_health, computer_secrets, computers, contacts, conversations,
    deliveries, domain_check, domains, erasure, events, features, inbound_policy,
    inbound_whitelist, intake, logs, media, members, messages, outcomes, policy_preview,
    receive_message, rooms, search, sessions, system, templates, time_series, tokens,
    webhook_actions, webhook_relay, webhooks,
};
use crate::http::tag::Tag;
use crate::http::typed::{self, Form};
use crate::http::verb::Verb;

/// A row of the table: request and answers follow from the types of the handler.
macro_rules! operation {
    ($tag:ident: $id:ident = $verb:ident $path:literal, $need:expr, $($handler:ident)::+) => {{
        static FORM: LazyLock<Form> =
            LazyLock::new(|| typed::form($($handler)::+, Verb::$verb, $path));
        Operation {
            id: stringify!($id),
            verb: Verb::$verb,
            path: $path,
            also: None,
            described: $path,
            tag: Tag::$tag,
            need: $need,
            fails: &[],
            target_names: ACCOUNT,
            form: &FORM,
            handler: |call| Box::pin(typed::perform($($handler)::+, &FORM, call)),
            linked: None,
        }
    }};
}

/// Rows of one Agent, or of all Agents below an account.
const READ: Need = Need::read(TargetType::Any).narrows();
/// Data of the account itself.
const READ_OWN: Need = Need::read(TargetType::Any);
const WRITE_OWN: Need = Need::write(TargetType::Any);
/// Data of one Agent.
const READ_AGENT: Need = Need::read(TargetType::Level(AccountType::Agent));
const WRITE_AGENT: Need = Need::write(TargetType::Level(AccountType::Agent));
/// Keys of accounts and members; members reach their own keys in any role.
const READ_KEYS: Need = Need::read(TargetType::Identity).administrators();
const WRITE_KEYS: Need = Need::write(TargetType::Identity).administrators();
/// Members belong to accounts above Agents, even those invited to an Agent.
const READ_MEMBERS: Need = members(Need::read(TargetType::Any));
const WRITE_MEMBERS: Need = members(Need::write(TargetType::Any));

const fn members(need: Need) -> Need {
    need.administrators().at_least(Level::OrganizationAdmin).unrestricted()
}

/// Data of an account that has others below it, for administrators.
const READ_PARENT: Need = Need::read(TargetType::Parent).administrators();
const WRITE_PARENT: Need = Need::write(TargetType::Parent).administrators();

/// Templates, for the accounts that manage organizations.
const WRITE_TEMPLATES: Need =
    Need::write(TargetType::Provider).administrators().at_least(Level::ResellerAdmin);

/// Manages an account of this level: by its own key, by keys above, or by their administrators.
const fn manage(level: Level) -> Need {
    Need::write(TargetType::Level(level.account_type())).administrators().at_least(level)
}
/// Accounts directly below one of this level.
const fn below(level: Level) -> Need {
    Need::read(TargetType::Level(level.account_type())).narrows().at_least(level)
}
/// Deletes an account that only the body names.
const fn remove(level: Level) -> Need {
    Need::write(TargetType::Parent).administrators().at_least(level)
}

/// The gateway itself, which has no tenant: for the partner.
const OPERATE: Need = Need::read(TargetType::Level(AccountType::Partner))
    .administrators()
    .at_least(Level::PartnerAdmin);

/// Mail needs the feature to be set up, and to be taken in; not to be read, shown or stopped.
const WRITE_MAIL: Need = WRITE_AGENT.with(Feature::InboundEmail);

/// Apps and integrations need the feature to be set up, but not to be read or removed.
const WRITE_APPS: Need = WRITE_OWN.with(Feature::Apps);
const WRITE_AGENTS_APPS: Need = WRITE_AGENT.with(Feature::Apps);
/// Features are assigned from above, by accounts that have others below them.
const ASSIGN: Need = WRITE_OWN.administrators().at_least(Level::ResellerAdmin).unrestricted();

#[rustfmt::skip]
pub static OPERATIONS: &[Operation] = &[
    operation!(Accounts: getAccount = Get "/account", Need::read(TargetType::Identity).narrows(), account::show),
    operation!(Accounts: listTokens = Get "/tokens", READ_KEYS, tokens::list),
    operation!(Accounts: createToken = Post "/tokens", WRITE_KEYS.once(), tokens::create).fails(&[Conflict]),
    operation!(Accounts: revokeToken = Delete "/tokens", WRITE_KEYS, tokens::revoke).fails(&[NotFound, Conflict]),
    operation!(Accounts: listMembers = Get "/members", READ_MEMBERS, members::list),
    operation!(Accounts: getMember = Get "/member", READ_MEMBERS, members::show).fails(&[NotFound]),
    operation!(Accounts: inviteMember = Post "/member", WRITE_MEMBERS.once(), members::invite).fails(&[Conflict]),
    operation!(Accounts: updateMember = Put "/member", WRITE_MEMBERS, members::update).fails(&[NotFound, Conflict]),
    operation!(Accounts: removeMember = Delete "/member", WRITE_MEMBERS, members::remove).fails(&[NotFound, Conflict]),
    operation!(Accounts: updateOwnAccount = Post "/account", WRITE_OWN.administrators(), account_updates::update_itself)
        .fails(&[Conflict]),
    operation!(Accounts: createReseller = Post "/createReseller", manage(Level::PartnerAdmin).once(), accounts::create_reseller)
        .target(PARTNER).fails(&[Conflict]),
    operation!(Accounts: createOrganization = Post "/createOrganization", manage(Level::ResellerAdmin).once(),
        accounts::create_organization).target(RESELLER).fails(&[Conflict]),
    operation!(Accounts: createAccount = Post "/createAccount", manage(Level::OrganizationAdmin).once(),
        accounts::create_account).target(ORGANIZATION).fails(&[Conflict]),
    operation!(Accounts: updateOrganization = Post "/updateOrganization", manage(Level::OrganizationAdmin),
        account_updates::update_organization).target(ORGANIZATION).fails(&[Conflict]),
    operation!(Accounts: updateAccount = Post "/updateAccount", manage(Level::Agent), account_updates::update_account)
        .fails(&[Conflict]),
    operation!(Accounts: deleteOrganization = Delete "/deleteOrganization", remove(Level::ResellerAdmin),
        accounts::delete_organization).target(RESELLER).fails(&[Conflict]),
    operation!(Accounts: deleteAccount = Delete "/deleteAccount", remove(Level::OrganizationAdmin), accounts::delete_account)
        .target(ORGANIZATION).fails(&[Conflict]),
    operation!(Accounts: listResellers = Get "/listResellers", below(Level::PartnerAdmin), account_lists::resellers)
        .target(PARTNER),
    operation!(Accounts: listOrganizations = Get "/listOrganizations", below(Level::ResellerAdmin),
        account_lists::organizations).target(RESELLER),
    operation!(Accounts: listAccounts = Get "/listAccounts", below(Level::OrganizationAdmin), account_lists::accounts)
        .target(ORGANIZATION),
    operation!(Accounts: searchAccounts = Get "/searchAccounts",
        Need::read(TargetType::Parent).narrows().at_least(Level::OrganizationAdmin), account_lists::search),
    operation!(Accounts: getAccountByExternalId = Get "/getAccountByExternalId", READ, account_lists::by_external_id)
        .fails(&[NotFound, Conflict]),
    operation!(Messaging: listRecentMessages = Get "/messages/recent", READ, messages::recent),
    operation!(Messaging: searchMessages = Get "/messages/search", READ, search::messages),
    operation!(Messaging: listRoomMessages = Get "/messages/{roomId}", READ, messages::of_room),
    operation!(Messaging: listRooms = Get "/conversations", READ, rooms::inbox),
    operation!(Messaging: listJunkRooms = Get "/junkConversations", READ, rooms::junk),
    operation!(Messaging: getThread = Get "/conversation/{roomId}/{uuid}", READ, conversations::show),
    operation!(Messaging: getThreads = Post "/conversation/batch", READ, conversations::batch),
    operation!(Messaging: listContacts = Get "/contacts", READ, contacts::list),
    operation!(Messaging: getMessage = Get "/message/{messageUuid}", READ, messages::show).also("/messages/{messageUuid}"),
    operation!(Messaging: getRawMessage = Get "/messages/{uuid}/raw", READ, messages::raw).fails(&[RangeNotSatisfiable])
        .or_by_link(|visit| Box::pin(messages::raw_by_link(visit))),
    operation!(Messaging: getMedia = Get "/media/{uuid}/{filename}", READ, media::show).fails(&[RangeNotSatisfiable])
        .or_by_link(|visit| Box::pin(media::show_by_link(visit))),
    operation!(Messaging: recordOutcome = Post "/messages/{uuid}/outcome", WRITE_OWN.once(), outcomes::record).fails(&[NotFound, Conflict]),
    operation!(Messaging: eraseMessage = Delete "/messages/{messageUuid}", WRITE_OWN, erasure::message)
        .described_at("/message/{messageUuid}"),
    operation!(Messaging: eraseContact = Delete "/contacts/{id}", WRITE_PARENT.at_least(Level::OrganizationAdmin).unrestricted(),
        erasure::contact),
    operation!(Messaging: receiveMessage = Post "/agent/receiveMessage", WRITE_OWN.once(), receive_message::receive).fails(&[Conflict]),
    operation!(InboundEmail: getInboundPolicy = Get "/email/inboundPolicy", READ_AGENT, inbound_policy::show),
    operation!(InboundEmail: setInboundPolicy = Put "/email/inboundPolicy", WRITE_MAIL, inbound_policy::set),
    operation!(InboundEmail: previewInboundPolicy = Post "/email/inboundPolicy/preview", READ_AGENT, policy_preview::preview),
    operation!(InboundEmail: listSenders = Get "/email/inboundWhitelist", READ_AGENT, inbound_whitelist::list),
    operation!(InboundEmail: addSenders = Post "/email/inboundWhitelist", WRITE_MAIL.once(), inbound_whitelist::add).fails(&[Conflict]),
    operation!(InboundEmail: removeSenders = Delete "/email/inboundWhitelist", WRITE_AGENT, inbound_whitelist::remove),
    operation!(InboundEmail: listAddresses = Get "/email/addresses", READ_AGENT, addresses::list),
    operation!(InboundEmail: addAddress = Post "/email/addresses", WRITE_MAIL.once(), addresses::add).fails(&[Conflict]),
    operation!(InboundEmail: removeAddress = Delete "/email/addresses", WRITE_AGENT, addresses::remove).fails(&[NotFound]),
    operation!(InboundEmail: listDomains = Get "/domains", READ_PARENT, domains::list),
    operation!(InboundEmail: claimDomain = Post "/domain", WRITE_PARENT.once().with(Feature::InboundEmail), domains::claim).fails(&[Conflict]),
    operation!(InboundEmail: checkDomain = Get "/domain/check", READ_OWN.administrators(), domain_check::check)
        .fails(&[NotFound]),
    operation!(InboundEmail: removeDomain = Delete "/domain", WRITE_PARENT, domains::remove).fails(&[NotFound, Conflict]),
    operation!(InboundEmail: listIntakeRecords = Get "/email/intake", READ, intake::list),
    operation!(InboundEmail: getIntakeRecord = Get "/email/intake/{id}", READ, intake::show),
    operation!(ConversationLogs: listConversationLogs = Get "/logs", READ, logs::list),
    operation!(ConversationLogs: getTimeSeries = Post "/logs/timeSeries", READ, time_series::measure),
    operation!(Accounts: listAuditEntries = Get "/audit", READ.administrators(), audit::list),
    operation!(Webhooks: listWebhooks = Get "/webhooks", READ_OWN, webhooks::list),
    operation!(Webhooks: createWebhook = Post "/webhooks", WRITE_OWN.once(), webhooks::keep).fails(&[Conflict, NotFound]),
    operation!(Webhooks: removeWebhooks = Delete "/webhooks", WRITE_OWN, webhooks::remove).fails(&[NotFound]),
    operation!(Webhooks: rotateWebhookSecret = Post "/webhooks/{id}/rotate", WRITE_OWN.once(), webhook_actions::rotate),
    operation!(Webhooks: testWebhook = Post "/webhooks/{id}/test", WRITE_OWN.once(), webhook_actions::test),
    operation!(Webhooks: replayWebhook = Post "/webhooks/{id}/replay", WRITE_OWN.once(), webhook_actions::replay),
    operation!(Webhooks: listDeliveries = Get "/webhooks/{id}/deliveries", READ_OWN, deliveries::list),
    operation!(Webhooks: getDelivery = Get "/deliveries/{id}", READ_OWN, deliveries::show),
    operation!(Webhooks: replayDelivery = Post "/deliveries/{id}/replay", WRITE_OWN.once(), deliveries::replay),
    // Relays.
    operation!(Webhooks: listRelayTypes = Get "/webhookRelay/types", READ_OWN, webhook_relay::types),
    operation!(Webhooks: listRelays = Get "/webhookRelay", READ_OWN, webhook_relay::list).fails(&[Conflict]),
    operation!(Webhooks: getRelay = Get "/webhookRelay/{type}", READ_OWN, webhook_relay::show).fails(&[Conflict]),
    operation!(Webhooks: setRelay = Post "/webhookRelay/{type}", WRITE_OWN.once().with(Feature::Relays), webhook_relay::set),
    operation!(Webhooks: removeRelay = Delete "/webhookRelay/{type}", WRITE_OWN, webhook_relay::remove),
    operation!(Webhooks: removeInboundKey = Delete "/webhookRelay/{type}/inboundKey", WRITE_OWN,
        webhook_relay::remove_inbound_key),
    operation!(Webhooks: listEvents = Get "/events", READ, events::list).fails(&[NotFound]),
    operation!(Webhooks: getEventCatalog = Get "/events/catalog", READ, events::catalog),
    // Configurations of Agents.
    operation!(Agents: stageAgent = Post "/agent", WRITE_AGENT.once(), agents::stage).fails(&[NotFound, Conflict]),
    operation!(Agents: publishAgent = Post "/agent/publish", WRITE_AGENT.once(), agents::publish).fails(&[NotFound, Conflict]),
    operation!(Agents: revertAgent = Post "/agent/revert", WRITE_AGENT.once(), agents::revert).fails(&[NotFound, Conflict]),
    operation!(Agents: getStagedAgent = Get "/agentEventRules/staging", READ_AGENT, agents::staging),
    operation!(Agents: getLiveAgent = Get "/agentEventRules/default", READ_AGENT, agents::live),
    operation!(Agents: getAgentConfig = Get "/agent/{agentConfigId}", READ_AGENT, agents::config).fails(&[NotFound]),
    operation!(Agents: listAgentVersions = Get "/agent/{agentConfigId}/versions", READ_AGENT, agent_versions::list)
        .fails(&[NotFound]),
    operation!(Agents: createAgentVersion = Post "/agent/{agentConfigId}/versions", WRITE_AGENT.once(), agent_versions::create)
        .fails(&[NotFound, Conflict]),
    operation!(Agents: replaceAgentVersion = Post "/agent/{agentConfigId}/versions/{versionId}", WRITE_AGENT.once(),
        agent_versions::replace).fails(&[NotFound]),
    operation!(Agents: restoreAgentVersion = Post "/agent/{agentConfigId}/versions/{versionId}/restore", WRITE_AGENT.once(),
        agent_versions::restore).fails(&[NotFound, Conflict]),
    operation!(Agents: renameAgentVersion = Put "/agent/{agentConfigId}/versions/{versionId}/title", WRITE_AGENT,
        agent_versions::rename).fails(&[NotFound, Conflict]),
    // Templates: a reseller's or a partner's, applied to Agents below.
    operation!(AgentTemplates: createTemplate = Post "/templates/createTemplate", WRITE_TEMPLATES.once().with(Feature::Templates),
        templates::create).target(RESELLER).fails(&[Conflict]),
    operation!(AgentTemplates: listTemplates = Get "/templates", READ_OWN, templates::list).target(RESELLER),
    operation!(AgentTemplates: getTemplate = Get "/templates/{templateId}", READ_OWN, templates::show)
        .target(RESELLER).fails(&[NotFound]),
    operation!(AgentTemplates: updateTemplate = Post "/templates/{templateId}", WRITE_TEMPLATES.once().with(Feature::Templates),
        templates::update).target(RESELLER).fails(&[NotFound, Conflict]),
    operation!(AgentTemplates: deleteTemplate = Delete "/templates/{templateId}", WRITE_TEMPLATES, templates::remove)
        .target(RESELLER).fails(&[NotFound, Conflict]),
    operation!(AgentTemplates: createAgentFromTemplate = Post "/createAgentFromTemplate",
        WRITE_AGENT.administrators().with(Feature::Templates).at_least(Level::OrganizationAdmin).once(), templates::apply)
        .fails(&[NotFound, Conflict]),
    operation!(Agents: deleteAgentVersion = Delete "/agent/{agentConfigId}/versions/{versionId}", WRITE_AGENT,
        agent_versions::remove).fails(&[NotFound]),
    // Apps, integrations, features.
    operation!(Apps: listApps = Get "/apps", READ_OWN, apps::list),
    operation!(Apps: getApp = Get "/apps/{appId}/{appVersion}", READ_AGENT, apps::show),
    operation!(Apps: installApp = Post "/apps/{appId}/{appVersion}", WRITE_AGENTS_APPS.once(), apps::install),
    operation!(Apps: updateApp = Put "/apps/{appId}/{appVersion}", WRITE_AGENTS_APPS, apps::update).fails(&[Conflict]),
    operation!(Apps: removeApp = Delete "/apps/{appId}/{appVersion}", WRITE_AGENT, apps::remove).fails(&[Conflict]),
    operation!(Integrations: getIntegration = Get "/integration/{slug}/{version}", READ_OWN, apps::integration),
    operation!(Integrations: setIntegration = Put "/integration/{slug}/{version}", WRITE_APPS, apps::keep_integration)
        .fails(&[Conflict]),
    operation!(System: getSystem = Get "/system", OPERATE, system::show),
    operation!(Features: listFeatures = Get "/features", READ_OWN, features::list),
    operation!(Features: assignFeatures = Post "/features/assign", ASSIGN, features::assign),
    // Computer Agents: the target stands in the path.
    operation!(ComputerAgents: listComputers = Get "/computer/accounts", READ, computers::list),
    operation!(ComputerAgents: getComputer = Get "/computer/accounts/{targetAccountId}", READ_AGENT, computers::show),
    operation!(ComputerAgents: createComputer = Post "/computer/accounts/{targetAccountId}",
        WRITE_AGENT.once().with(Feature::Computer), computers::create),
    operation!(ComputerAgents: updateComputer = Put "/computer/accounts/{targetAccountId}",
        WRITE_AGENT.with(Feature::Computer), computers::update).fails(&[Conflict]),
    operation!(ComputerAgents: deleteComputer = Delete "/computer/accounts/{targetAccountId}", WRITE_AGENT, computers::remove),
    operation!(ComputerAgents: getComputerStatus = Get "/computer/accounts/{targetAccountId}/status", READ_AGENT,
        computers::status),
    operation!(ComputerAgents: provisionComputer = Post "/computer/accounts/{targetAccountId}/provision",
        WRITE_AGENT.once().with(Feature::Computer), computers::provision),
    operation!(ComputerAgents: deprovisionComputer = Post "/computer/accounts/{targetAccountId}/deprovision", WRITE_AGENT.once(),
        computers::deprovision),
    operation!(ComputerAgents: getComputerHealth = Get "/computer/accounts/{targetAccountId}/runtime/health", READ_AGENT,
        computer_health::show),
    operation!(ComputerAgents: getComputerConfig = Get "/computer/accounts/{targetAccountId}/config", READ_AGENT,
        computer_config::show),
    operation!(ComputerAgents: getComputerConfigSchema = Get "/computer/accounts/{targetAccountId}/config/schema", READ_AGENT,
        computer_config::schema),
    operation!(ComputerAgents: patchComputerConfig = Post "/computer/accounts/{targetAccountId}/config/patch",
        WRITE_AGENT.once().with(Feature::Computer), computer_config::patch),
    operation!(ComputerAgents: releaseSecrets = Post "/computer/accounts/{targetAccountId}/secrets/release",
        WRITE_AGENT.with(Feature::SecretRelease).worker(), computer_secrets::release).fails(&[NotFound, Conflict]),
    operation!(ComputerAgentSessions: listSessions = Get "/computer/sessions", READ, sessions::list).fails(&[NotFound]),
    operation!(ComputerAgentSessions: resetSession = Post "/computer/sessions/reset", WRITE_OWN.once(), sessions::reset)
        .fails(&[NotFound]),
    operation!(ComputerAgentSessions: resolveSession = Post "/computer/accounts/{targetAccountId}/session/resolve", READ_AGENT,
        sessions::resolve),
];
