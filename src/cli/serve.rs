//! `gatepost serve`: receives mail and serves the API until stopped.

mod service_manager;
pub(super) mod start_errors;

use std::process::ExitCode;

use clap::Args;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use self::service_manager::Watchdog;
use self::start_errors::NamedSettings;
use super::global_args::{GlobalArgs, place};
use super::{Command, Failure, doctor, say, with_causes};
use crate::config::{CertificateFiles, LogLevel, LogOptions, OtlpOptions, ServeOptions};
use crate::domain::acme_challenge::AcmeChallenge;
use crate::domain::domain_name::DomainName;
use crate::run::{
    self, FrontEnd, McpChanges, OtlpSettings, Running, Settings, Sockets, TlsSettings,
};
use crate::store::{Location, StorePlace, TLS};
use crate::telemetry;
use crate::tls::{ACME, Paths, acme};
use crate::traces::ids::Sampling;

/// Take mail in over SMTP and serve the HTTP API
#[derive(Args, Debug)]
pub(super) struct Serve {
    #[command(flatten)]
    options: ServeOptions,
    /// Check everything that a start needs, as `gatepost doctor` does, and start nothing
    #[arg(long)]
    check: bool,
}

/// Takes the sockets that a service manager passes to `serve`; other commands get none. Must be
/// called before there are threads.
pub(super) fn passed_sockets(command: &Command) -> Result<Sockets, Failure> {
    match command {
        Command::Serve(_) => service_manager::passed_sockets(),
        _ => Ok(Sockets::default()),
    }
}

impl Serve {
    pub(super) async fn run(
        self,
        global: &GlobalArgs,
        sockets: Sockets,
    ) -> Result<ExitCode, Failure> {
        if self.check {
            return doctor::before_start(global, self.options).await;
        }
        let options = global.store.with(self.options)?;
        let LogOptions { json, level, filter } = options.log.clone();
        let json = json.unwrap_or(false);
        telemetry::init_by(filter.as_deref(), level.map(LogLevel::as_str), json)?;
        match serve(options, sockets, json).await {
            // Unless the filter hides it: then it is said as text.
            Err(failure) if json && tracing::enabled!(tracing::Level::ERROR) => {
                tracing::error!(error = with_causes(failure.as_ref()), "the server has ended");
                Ok(ExitCode::FAILURE)
            }
            ended => ended,
        }
    }
}

async fn serve(options: ServeOptions, sockets: Sockets, json: bool) -> Result<ExitCode, Failure> {
    let grace = options.grace();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    service_manager::starting().await;
    let running = tokio::select! {
        running = start(options, sockets) => running?,
        _ = interrupt.recv() => return Ok(ExitCode::SUCCESS),
        _ = terminate.recv() => return Ok(ExitCode::SUCCESS),
    };
    say!("{}", ready(&running, json))?;
    service_manager::ready(&running).await;
    let watchdog = Watchdog::over(&running);
    let broken = loop {
        tokio::select! {
            _ = interrupt.recv() => break None,
            _ = terminate.recv() => break None,
            broken = running.broken() => break Some(broken),
            _ = hang_up.recv() => {
                service_manager::reloading().await;
                running.reload().await;
                service_manager::ready(&running).await;
                watchdog.told_ready().await;
            }
        }
    };
    watchdog.keep_status().await;
    service_manager::stopping(grace).await;
    let in_time = running.stop(grace).await;
    drop(watchdog);
    tracing::info!(in_time, "gatepost has stopped");
    if let Some(broken) = broken {
        return Err(broken.into());
    }
    if !in_time {
        tracing::warn!("some sessions did not finish within the grace period");
    }
    Ok(ExitCode::SUCCESS)
}

/// The line that says that the server is ready.
fn ready(running: &Running, json: bool) -> String {
    if !json {
        return format!("gatepost is ready: {}", running.in_words());
    }
    let addresses = running.addresses().map(|(name, address)| (name.to_owned(), json!(address)));
    let message = ("message".to_owned(), json!("gatepost is ready"));
    serde_json::Value::Object([message].into_iter().chain(addresses).collect()).to_string()
}

async fn start(options: ServeOptions, sockets: Sockets) -> Result<Running, Failure> {
    let (smtp, http, acme) = (&options.smtp, &options.http, &options.acme.http);
    // The others have no default.
    let all = [("smtp", smtp.is_some()), ("http", http.is_some()), ("acme", acme.is_some())];
    let settings = settings(options).await?;
    sockets.agree_with(settings.listeners().filter(|(name, ..)| !all.contains(&(name, false))))?;
    let named = NamedSettings::of(&settings);
    Box::pin(run::start_on(sockets, settings, run::system_mint()))
        .await
        .map_err(|error| named.explain(error))
}

fn paths(CertificateFiles { chain, key }: CertificateFiles) -> Paths {
    Paths { chain, key }
}

/// Settings of the ACME authority for the SMTP certificate; None if none is configured. Fails if
/// certificate files are configured too, or if the folder is missing on PostgreSQL.
async fn acme(
    options: &ServeOptions,
    hostname: &DomainName,
    place: &StorePlace,
) -> Result<Option<acme::Settings>, Failure> {
    let Some(directory) = options.acme.directory()? else { return Ok(None) };
    if options.tls.smtp()?.is_some() {
        return Err("smtp-tls-cert and acme-directory are both given: the certificate comes from \
                    files or from an authority: use one of them"
            .into());
    }
    let (of_files, by_acme) = (options.tls.http()?.is_some(), options.acme.https());
    if of_files && by_acme {
        return Err(
            "http-tls-cert and acme-https are both given: the API's certificate comes from \
                    files or from the authority: use one of them"
                .into(),
        );
    }
    let challenge = options.acme.challenge.unwrap_or(AcmeChallenge::Http01);
    if challenge == AcmeChallenge::TlsAlpn01 && !of_files && !by_acme {
        return Err("acme-challenge is tls-alpn-01, which the API answers by https: give \
                    acme-https, or http-tls-cert and http-tls-key"
            .into());
    }
    let folder = match (&options.acme.folder, &place.database) {
        (Some(folder), _) => folder.clone(),
        (None, Location::Folder(data)) => data.join(TLS).join(ACME),
        (None, Location::Postgres(_)) => {
            return Err(
                "acme-folder: name a folder for the ACME account and certificate of this gateway \
                 only: gateways on PostgreSQL share neither"
                    .into(),
            );
        }
    };
    let names = options.acme.names(hostname, &directory)?;
    Ok(Some(acme::Settings {
        directory,
        contact: options.acme.contact()?,
        names,
        challenge,
        http: options.acme.http().await?,
        folder,
        ca_file: options.acme.ca_file.clone(),
    }))
}

/// The collector of traces, if one is named.
fn otlp(options: &OtlpOptions) -> Result<Option<OtlpSettings>, Failure> {
    let (Some(url), ratio) = (options.url()?, options.ratio()?) else { return Ok(None) };
    let mut headers = HeaderMap::new();
    for field in options.header.iter().flatten() {
        let pair = field.expose().and_then(|(name, value)| {
            Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
        });
        // The field itself may be a key.
        let (name, mut value) = pair.ok_or(
            "otlp.header (--otlp-header): a field is not NAME=VALUE: expected the name of an HTTP \
             header, =, and its value in ASCII",
        )?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    let sampling = Sampling::part(ratio).ok_or("otlp.sample: expected a number from 0 to 1")?;
    Ok(Some(OtlpSettings { url, headers, sampling }))
}

/// Reads the settings of a server.
pub(super) async fn settings(options: ServeOptions) -> Result<Settings, Failure> {
    let (hostname, place) = (options.hostname()?, place(&options)?);
    let front_end = front_end(&options);
    if front_end != FrontEnd::Ours && options.smtps.is_some() {
        return Err("smtps: this front end has no TLS".into());
    }
    let acme = acme(&options, &hostname, &place).await?;
    let is_shared = matches!(place.database, Location::Postgres(_));
    let mta_sts = options.mta_sts(&hostname, is_shared)?;
    let tls_reports = options.tls_reports()?;
    let (trusted_proxy, cors_origin) = (options.trusted_proxy()?, options.cors_origin()?);
    Ok(Settings {
        front_end,
        smtp: options.smtp().await?,
        http: options.http().await?,
        metrics: options.metrics().await?,
        hostname,
        place,
        public_url: options.public_url()?,
        start_patience: options.start_patience(),
        secrets_key: options.secrets_key_file.clone(),
        postmaster: options.postmaster()?,
        rules: run::rules(options.policies.as_deref())?,
        dns: options.dns().await?,
        egress_allow: options.egress_allow.clone().unwrap_or_default(),
        tls: TlsSettings {
            smtps: options.smtps().await?,
            smtp: options.tls.smtp()?.map(paths),
            acme,
            http: options.tls.http()?.map(paths),
            https_by_acme: options.acme.https(),
        },
        trusted_proxy,
        cors_origin,
        console: !options.no_console.unwrap_or(false),
        mcp: mcp(&options),
        releases_secrets: options.release_secrets.unwrap_or(false),
        mta_sts,
        tls_reports,
        otlp: otlp(&options.otlp)?,
    })
}

/// None for no MCP server.
fn mcp(options: &ServeOptions) -> Option<McpChanges> {
    let changes = options.mcp_changes.map_or(McpChanges::ByKey, |lets| match lets {
        true => McpChanges::Always,
        false => McpChanges::Never,
    });
    Some(changes).filter(|_| options.no_mcp != Some(true))
}

#[cfg(not(feature = "mailin"))]
fn front_end(_: &ServeOptions) -> FrontEnd {
    FrontEnd::default()
}

#[cfg(feature = "mailin")]
fn front_end(options: &ServeOptions) -> FrontEnd {
    match options.front_end.unwrap_or_default() {
        crate::config::FrontEnd::Gatepost => FrontEnd::Ours,
        crate::config::FrontEnd::Mailin => FrontEnd::Mailin,
    }
}
