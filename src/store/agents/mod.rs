//! What Agents are configured to be: configurations, versions, templates, apps, computers.

pub mod agent_versions;
pub mod app_records;
pub mod computers;
pub mod config_rows;
pub mod configurations;
pub mod features;
pub mod template_links;
pub mod template_locks;
pub mod template_migrations;
pub mod template_rows;
pub mod templates;
