//! Configurations of Agents, their versions and templates; apps, computers and features.
//!
//! A change of an Agent's configurations, versions or template link, and the removal of an app,
//! takes the Agent's queue first, passes the gates of its accounts (`config_rows::lock_agent`), and
//! then locks rows. So no two changes of one Agent decide from the same state. Other changes take
//! the queue of what they count, or pass the gates of the account, and then lock rows.

pub mod agent_versions;
pub mod app_records;
pub mod audited_commit;
pub mod computers;
pub mod config_rows;
pub mod configurations;
pub mod features;
pub mod template_links;
pub mod template_locks;
pub mod template_migrations;
pub mod template_rows;
pub mod templates;
