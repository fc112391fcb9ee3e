//! The one table of operations. The router and the description are made from it and from nothing else: an
//! operation without a tag, a need, a query and a body does not compile, and a handler cannot be
//! reached but through `perform`.

use std::sync::LazyLock;

use super::body::BodyRule::{None as NoBody, Optional, Required, WithMessage};
use super::error::Code::{Conflict, NotFound};
use super::linked;
use super::operation::{Asks, Operation};
use super::routes::{
    account, account_lists, account_updates, accounts, addresses, agent_versions, agents, apps,
    audit, computer_config, computers, contacts, conversations, deliveries, domains, erasure,
    events, features, inbound_policy, inbound_whitelist, intake, log_filter, logs, media, members,
    messages, policy_preview, receive_message, rooms, search, sessions, templates, time_series,
    tokens, webhook_acts, webhook_relay, webhooks,
};
use super::tag::Tag;
use super::target::Aim;
use super::typed::{self, Form};
use super::verb::Verb;
use crate::app::access::identity::Level;
use crate::app::access::need::{Need, TargetType};
use crate::app::agents::schema;
use crate::domain::account::AccountType;
use crate::domain::feature::Feature;

/// A line of the table: with the names that its handler reads, or with a handler of a type that says them.
macro_rules! operation {
    ($tag:ident: $id:ident = $verb:ident $path:literal, $need:expr, $query:expr, $body:expr,
     $($handler:ident)::+) => {
        operation!($tag: $id = $verb $path, Aim::ACCOUNT, $need, $query, $body, $($handler)::+)
    };
    ($tag:ident: $id:ident = $verb:ident $path:literal, $aim:expr, $need:expr, $query:expr, $body:expr,
     $($handler:ident)::+) => {
        operation!(@row $tag, $id, $verb, $path, $aim, $need, Asks::Names(&$query, $body),
            |http, call| Box::pin($($handler)::+(http, call)))
    };
    ($tag:ident: $id:ident = $verb:ident $path:literal, $need:expr, $($handler:ident)::+) => {{
        static FORM: LazyLock<Form> =
            LazyLock::new(|| typed::form($($handler)::+, Verb::$verb, $path));
        operation!(@row $tag, $id, $verb, $path, Aim::ACCOUNT, $need, Asks::Type(&FORM),
            |http, call| Box::pin(typed::perform($($handler)::+, &FORM, http, call)))
    }};
    (@row $tag:ident, $id:ident, $verb:ident, $path:literal, $aim:expr, $need:expr, $asks:expr,
     $handler:expr) => {
        Operation {
            id: stringify!($id),
            verb: Verb::$verb,
            path: $path,
            tag: Tag::$tag,
            need: $need,
            fails: &[],
            aim: $aim,
            asks: $asks,
            handler: $handler,
            linked: None,
        }
    };
}

/// Agents' rows, of one Agent or of all below an account.
const READ: Need = Need::read(TargetType::Any).narrows();
/// Reading and changing what belongs to an account itself.
const READ_OWN: Need = Need::read(TargetType::Any);
const WRITE_OWN: Need = Need::write(TargetType::Any);
/// Reading and changing what belongs to one Agent.
const READ_AGENT: Need = Need::read(TargetType::Level(AccountType::Agent));
const WRITE_AGENT: Need = Need::write(TargetType::Level(AccountType::Agent));
/// Keys of accounts and members; a member's own, whatever its role.
const READ_KEYS: Need = Need::read(TargetType::Identity).administrators();
const WRITE_KEYS: Need = Need::write(TargetType::Identity).administrators();
/// Members hang on accounts above Agents, those that are invited to an Agent, too.
const READ_MEMBERS: Need = members(Need::read(TargetType::Any));
const WRITE_MEMBERS: Need = members(Need::write(TargetType::Any));

const fn members(need: Need) -> Need {
    need.administrators().at_least(Level::OrganizationAdmin).unrestricted()
}

/// Reading and changing what belongs to an account that has others below it, for administrators.
const READ_PARENT: Need = Need::read(TargetType::Parent).administrators();
const WRITE_PARENT: Need = Need::write(TargetType::Parent).administrators();

/// Templates are made and changed by those who manage organizations.
const WRITE_TEMPLATES: Need =
    Need::write(TargetType::Provider).administrators().at_least(Level::ResellerAdmin);

/// Managing an account of this level: by its own key, by keys above, by their administrators.
const fn manage(level: Level) -> Need {
    Need::write(TargetType::Level(level.account_type())).administrators().at_least(level)
}
/// The accounts directly below one of this level.
const fn below(level: Level) -> Need {
    Need::read(TargetType::Level(level.account_type())).narrows().at_least(level)
}
/// Something below an account, of which only the body says what.
const fn remove(level: Level) -> Need {
    Need::write(TargetType::Parent).administrators().at_least(level)
}

/// Apps and integrations are set up where there is the feature; without it they are read, and taken
/// away.
const WRITE_APPS: Need = WRITE_OWN.with(Feature::Apps);
const WRITE_AGENTS_APPS: Need = WRITE_AGENT.with(Feature::Apps);
/// Features are given from above, by accounts that have others below them.
const ASSIGN: Need = WRITE_OWN.administrators().at_least(Level::ResellerAdmin).unrestricted();

/// The whole API.
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
        .aim(Aim::PARTNER).fails(&[Conflict]),
    operation!(Accounts: createOrganization = Post "/createOrganization", manage(Level::ResellerAdmin).once(),
        accounts::create_organization).aim(Aim::RESELLER).fails(&[Conflict]),
    operation!(Accounts: createAccount = Post "/createAccount", manage(Level::OrganizationAdmin).once(),
        accounts::create_account).aim(Aim::ORGANIZATION).fails(&[Conflict]),
    operation!(Accounts: updateOrganization = Post "/updateOrganization", manage(Level::OrganizationAdmin),
        account_updates::update_organization).aim(Aim::ORGANIZATION).fails(&[Conflict]),
    operation!(Accounts: updateAccount = Post "/updateAccount", manage(Level::Agent), account_updates::update_account)
        .fails(&[Conflict]),
    operation!(Accounts: deleteOrganization = Delete "/deleteOrganization", remove(Level::ResellerAdmin),
        accounts::delete_organization).aim(Aim::RESELLER).fails(&[Conflict]),
    operation!(Accounts: deleteAccount = Delete "/deleteAccount", remove(Level::OrganizationAdmin), accounts::delete_account)
        .aim(Aim::ORGANIZATION).fails(&[Conflict]),
    operation!(Accounts: listResellers = Get "/listResellers", below(Level::PartnerAdmin), account_lists::resellers)
        .aim(Aim::PARTNER),
    operation!(Accounts: listOrganizations = Get "/listOrganizations", below(Level::ResellerAdmin),
        account_lists::organizations).aim(Aim::RESELLER),
    operation!(Accounts: listAccounts = Get "/listAccounts", below(Level::OrganizationAdmin), account_lists::accounts)
        .aim(Aim::ORGANIZATION),
    operation!(Accounts: searchAccounts = Get "/searchAccounts",
        Need::read(TargetType::Parent).narrows().at_least(Level::OrganizationAdmin), account_lists::search),
    operation!(Accounts: getAccountByExternalId = Get "/getAccountByExternalId", READ, account_lists::by_external_id)
        .fails(&[NotFound, Conflict]),
    operation!(Messaging: listRecentMessages = Get "/messages/recent", READ, ["limit", "before", "after"], NoBody,
        messages::recent),
    operation!(Messaging: searchMessages = Get "/messages/search", READ,
        ["q", "limit", "before", "after", "since", "until", "source"], NoBody, search::messages),
    operation!(Messaging: listRoomMessages = Get "/messages/{roomId}", READ, ["limit", "before", "after", "thread"], NoBody,
        messages::of_room),
    operation!(Messaging: listRooms = Get "/conversations", READ, rooms::LIST, NoBody, rooms::inbox),
    operation!(Messaging: listJunkRooms = Get "/junkConversations", READ, rooms::LIST, NoBody, rooms::junk),
    operation!(Messaging: getThread = Get "/conversation/{roomId}/{uuid}", READ, ["limit", "after"], NoBody,
        conversations::show),
    operation!(Messaging: getThreads = Post "/conversation/batch", READ, [], Required(&["items", "markRead"]),
        conversations::batch),
    operation!(Messaging: listContacts = Get "/contacts", READ, ["limit", "after"], NoBody, contacts::list),
    operation!(Messaging: getRawMessage = Get "/messages/{uuid}/raw", READ, linked::SIGNED, NoBody, messages::raw)
        .or_by_link(|http, visit| Box::pin(messages::raw_by_link(http, visit))),
    operation!(Messaging: getMedia = Get "/media/{uuid}/{filename}", READ, media::QUERY, NoBody, media::show)
        .or_by_link(|http, visit| Box::pin(media::show_by_link(http, visit))),
    operation!(Messaging: eraseMessage = Delete "/messages/{uuid}", WRITE_OWN, [], NoBody, erasure::message),
    operation!(Messaging: eraseContact = Delete "/contacts/{id}", WRITE_PARENT.at_least(Level::OrganizationAdmin).unrestricted(),
        [], NoBody, erasure::contact),
    operation!(Messaging: receiveMessage = Post "/agent/receiveMessage", WRITE_OWN.once(), [], Required(receive_message::FIELDS),
        receive_message::receive),
    operation!(InboundEmail: getInboundPolicy = Get "/email/inboundPolicy", READ_AGENT, [], NoBody, inbound_policy::show),
    operation!(InboundEmail: setInboundPolicy = Put "/email/inboundPolicy", WRITE_AGENT, [], Required(&["mode"]),
        inbound_policy::set),
    operation!(InboundEmail: previewInboundPolicy = Post "/email/inboundPolicy/preview", READ_AGENT, [],
        WithMessage(&["mode", "add", "remove", "days", "eml"]), policy_preview::preview),
    operation!(InboundEmail: listSenders = Get "/email/inboundWhitelist", READ_AGENT, ["limit", "after"], NoBody,
        inbound_whitelist::list),
    operation!(InboundEmail: addSenders = Post "/email/inboundWhitelist", WRITE_AGENT.once(), [],
        Required(&["email", "emails", "note"]), inbound_whitelist::add),
    operation!(InboundEmail: removeSenders = Delete "/email/inboundWhitelist", WRITE_AGENT, ["email"],
        Optional(&["email", "emails"]), inbound_whitelist::remove),
    operation!(InboundEmail: listAddresses = Get "/email/addresses", READ_AGENT, [], NoBody, addresses::list),
    operation!(InboundEmail: addAddress = Post "/email/addresses", WRITE_AGENT.once(), [],
        Required(&["address", "catchAll"]),
        addresses::add),
    operation!(InboundEmail: removeAddress = Delete "/email/addresses", WRITE_AGENT, ["address"], Optional(&["address"]),
        addresses::remove),
    operation!(InboundEmail: listDomains = Get "/domains", READ_PARENT, [], NoBody, domains::list),
    operation!(InboundEmail: claimDomain = Post "/domain", WRITE_PARENT.once(), [], Required(&["domain"]), domains::claim),
    operation!(InboundEmail: removeDomain = Delete "/domain", WRITE_PARENT, ["domain"], Optional(&["domain"]), domains::remove),
    operation!(InboundEmail: listIntakeRecords = Get "/email/intake", READ,
        ["agent", "sender", "recipient", "verdict", "reason", "since", "until", "limit", "after"],
        NoBody, intake::list),
    operation!(InboundEmail: getIntakeRecord = Get "/email/intake/{id}", READ, [], NoBody, intake::show),
    operation!(ConversationLogs: listConversationLogs = Get "/logs", READ, log_filter::LIST, NoBody, logs::list),
    operation!(ConversationLogs: getTimeSeries = Post "/logs/timeSeries", READ, [], Required(time_series::FIELDS),
        time_series::measure),
    operation!(Accounts: listAuditEntries = Get "/audit", READ.administrators(), audit::list),
    operation!(Webhooks: listWebhooks = Get "/webhooks", READ_OWN, webhooks::list),
    operation!(Webhooks: createWebhook = Post "/webhooks", WRITE_OWN.once(), webhooks::keep).fails(&[Conflict, NotFound]),
    operation!(Webhooks: removeWebhooks = Delete "/webhooks", WRITE_OWN, webhooks::remove).fails(&[NotFound]),
    operation!(Webhooks: rotateWebhookSecret = Post "/webhooks/{id}/rotate", WRITE_OWN.once(), webhook_acts::rotate),
    operation!(Webhooks: testWebhook = Post "/webhooks/{id}/test", WRITE_OWN.once(), webhook_acts::test),
    operation!(Webhooks: replayWebhook = Post "/webhooks/{id}/replay", WRITE_OWN.once(), webhook_acts::replay),
    operation!(Webhooks: listDeliveries = Get "/webhooks/{id}/deliveries", READ_OWN, deliveries::list),
    operation!(Webhooks: getDelivery = Get "/deliveries/{id}", READ_OWN, deliveries::show),
    operation!(Webhooks: replayDelivery = Post "/deliveries/{id}/replay", WRITE_OWN.once(), deliveries::replay),
    // Relays.
    operation!(Webhooks: listRelayTypes = Get "/webhookRelay/types", READ_OWN, webhook_relay::types),
    operation!(Webhooks: listRelays = Get "/webhookRelay", READ_OWN, webhook_relay::list).fails(&[Conflict]),
    operation!(Webhooks: getRelay = Get "/webhookRelay/{type}", READ_OWN, webhook_relay::show).fails(&[Conflict]),
    operation!(Webhooks: setRelay = Post "/webhookRelay/{type}", WRITE_OWN.once().with(Feature::Relays), webhook_relay::set),
    operation!(Webhooks: removeRelay = Delete "/webhookRelay/{type}", WRITE_OWN, webhook_relay::remove),
    operation!(Webhooks: listEvents = Get "/events", READ, events::LIST, NoBody, events::list),
    operation!(Webhooks: getEventCatalog = Get "/events/catalog", READ, [], NoBody, events::catalog),
    // Agents: what each is configured to be.
    operation!(Agents: stageAgent = Post "/agent", WRITE_AGENT.once(), [], Required(schema::NAMES), agents::stage),
    operation!(Agents: publishAgent = Post "/agent/publish", WRITE_AGENT.once(), [], Optional(&["revision"]), agents::publish),
    operation!(Agents: revertAgent = Post "/agent/revert", WRITE_AGENT.once(), [], Optional(&["revision"]), agents::revert),
    operation!(Agents: getStagedAgent = Get "/agentEventRules/staging", READ_AGENT, [], NoBody, agents::staging),
    operation!(Agents: getLiveAgent = Get "/agentEventRules/default", READ_AGENT, [], NoBody, agents::live),
    operation!(Agents: getAgentConfig = Get "/agent/{agentConfigId}", READ_AGENT, [], NoBody, agents::config),
    operation!(Agents: listAgentVersions = Get "/agent/{agentConfigId}/versions", READ_AGENT, ["includeData", "limit", "before"],
        NoBody, agent_versions::list),
    operation!(Agents: createAgentVersion = Post "/agent/{agentConfigId}/versions", WRITE_AGENT.once(), [],
        Required(&["title", "source"]), agent_versions::create),
    operation!(Agents: replaceAgentVersion = Post "/agent/{agentConfigId}/versions/{versionId}", WRITE_AGENT.once(), [],
        Required(&["snapshot"]), agent_versions::replace),
    operation!(Agents: restoreAgentVersion = Post "/agent/{agentConfigId}/versions/{versionId}/restore", WRITE_AGENT.once(), [],
        Optional(&["target"]), agent_versions::restore),
    operation!(Agents: renameAgentVersion = Put "/agent/{agentConfigId}/versions/{versionId}/title", WRITE_AGENT, [],
        Required(&["title"]), agent_versions::rename),
    // Templates: a reseller's or a partner's, applied to Agents below.
    operation!(AgentTemplates: createTemplate = Post "/templates/createTemplate", Aim::RESELLER, WRITE_TEMPLATES.once().with(Feature::Templates), [],
        Required(templates::NEW), templates::create),
    operation!(AgentTemplates: listTemplates = Get "/templates", READ_OWN, [], NoBody, templates::list),
    operation!(AgentTemplates: getTemplate = Get "/templates/{templateId}", READ_OWN, [], NoBody, templates::show),
    operation!(AgentTemplates: updateTemplate = Post "/templates/{templateId}", Aim::RESELLER, WRITE_TEMPLATES.once().with(Feature::Templates), [],
        Required(templates::CHANGE), templates::update),
    operation!(AgentTemplates: deleteTemplate = Delete "/templates/{templateId}", Aim::RESELLER, WRITE_TEMPLATES, ["detachAll"],
        Optional(&["detachAll"]), templates::remove),
    operation!(AgentTemplates: createAgentFromTemplate = Post "/createAgentFromTemplate",
        WRITE_AGENT.administrators().with(Feature::Templates).at_least(Level::OrganizationAdmin).once(), [],
        Required(&["templateId", "approveOverrides", "detach"]), templates::apply),
    operation!(Agents: deleteAgentVersion = Delete "/agent/{agentConfigId}/versions/{versionId}", WRITE_AGENT, [], NoBody,
        agent_versions::remove),
    // Apps, integrations, features.
    operation!(Apps: listApps = Get "/apps", READ_OWN, [], NoBody, apps::list),
    operation!(Apps: getApp = Get "/apps/{appId}/{appVersion}", READ_AGENT, [], NoBody, apps::show),
    operation!(Apps: installApp = Post "/apps/{appId}/{appVersion}", WRITE_AGENTS_APPS.once(), [],
        Optional(&["settings"]), apps::install),
    operation!(Apps: updateApp = Put "/apps/{appId}/{appVersion}", WRITE_AGENTS_APPS, [], Required(&["settings"]),
        apps::update),
    operation!(Apps: removeApp = Delete "/apps/{appId}/{appVersion}", WRITE_AGENT, [], NoBody, apps::remove),
    operation!(Integrations: getIntegration = Get "/integration/{slug}/{version}", READ_OWN, [], NoBody,
        apps::integration),
    operation!(Integrations: setIntegration = Put "/integration/{slug}/{version}", WRITE_APPS, [],
        Required(&["appData"]), apps::keep_integration),
    operation!(Features: listFeatures = Get "/features", READ_OWN, [], NoBody, features::list),
    operation!(Features: assignFeatures = Post "/features/assign", ASSIGN, [], Required(&["features"]),
        features::assign),
    // Computer Agents: the target stands in the path.
    operation!(ComputerAgents: listComputers = Get "/computer/accounts", READ, ["limit", "after"], NoBody, computers::list),
    operation!(ComputerAgents: getComputer = Get "/computer/accounts/{targetAccountId}", READ_AGENT, [], NoBody,
        computers::show),
    operation!(ComputerAgents: createComputer = Post "/computer/accounts/{targetAccountId}", WRITE_AGENT.once().with(Feature::Computer), [],
        Optional(computers::CREATE), computers::create),
    operation!(ComputerAgents: updateComputer = Put "/computer/accounts/{targetAccountId}", WRITE_AGENT.with(Feature::Computer), [],
        Required(computers::UPDATE), computers::update),
    operation!(ComputerAgents: deleteComputer = Delete "/computer/accounts/{targetAccountId}", WRITE_AGENT, [], Optional(&[]),
        computers::remove),
    operation!(ComputerAgents: getComputerStatus = Get "/computer/accounts/{targetAccountId}/status", READ_AGENT, [], NoBody,
        computers::status),
    operation!(ComputerAgents: provisionComputer = Post "/computer/accounts/{targetAccountId}/provision", WRITE_AGENT.once().with(Feature::Computer), [],
        Optional(&[]), computers::provision),
    operation!(ComputerAgents: deprovisionComputer = Post "/computer/accounts/{targetAccountId}/deprovision", WRITE_AGENT.once(), [],
        Optional(&["wipeState"]), computers::deprovision),
    operation!(ComputerAgents: getComputerHealth = Get "/computer/accounts/{targetAccountId}/runtime/health", READ_AGENT, ["probe"],
        NoBody, computers::health),
    operation!(ComputerAgents: getComputerConfig = Get "/computer/accounts/{targetAccountId}/config", READ_AGENT, [], NoBody,
        computer_config::show),
    operation!(ComputerAgents: getComputerConfigSchema = Get "/computer/accounts/{targetAccountId}/config/schema", READ_AGENT, [], NoBody,
        computer_config::schema),
    operation!(ComputerAgents: patchComputerConfig = Post "/computer/accounts/{targetAccountId}/config/patch", WRITE_AGENT.once().with(Feature::Computer), [],
        Required(&["revision", "patch", "replacePaths"]), computer_config::patch),
    operation!(ComputerAgentSessions: listSessions = Get "/computer/sessions", READ, ["roomId", "limit", "after"], NoBody,
        sessions::list),
    operation!(ComputerAgentSessions: resetSession = Post "/computer/sessions/reset", WRITE_OWN.once(), [],
        Required(&["sessionKey", "reason"]), sessions::reset),
    operation!(ComputerAgentSessions: resolveSession = Post "/computer/accounts/{targetAccountId}/session/resolve", READ_AGENT,
        [], Optional(&["sessionKey"]), sessions::resolve),
];
