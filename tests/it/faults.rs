//! A disk whose n-th write, flush or rename fails loses no acknowledged message, and doubles none
//! (contract §2.2, §2.4; threats §3.7 K6). After a failed flush the process ends.

use gatepost::store::Location;
use gatepost::testkit::scale;
use tokio::select;

use crate::support::audit::assert_nothing_lost;
use crate::support::faults::{Call, Disk, EIO, ENOSPC, Fault};
use crate::support::mailers::{HASTE, Mailers};
use crate::support::process::Server;

use crate::support::rules;
use crate::support::site::Site;

const SESSIONS: usize = 4;
/// So many messages are acknowledged after each fault before the next one.
const BETWEEN: usize = 5;

/// Originals are files of their own, so that they are renamed.
const IN_FILES: (&str, &str) = (
    "intake.toml",
    "[rates]\nsender_messages_per_minute = 0\nroom_messages_per_minute = 0\n\
     [raw]\nobject_above_bytes = 4096\n",
);

/// Each n-th call, in steps that meet every place of the way in some round.
fn faults() -> Vec<Fault> {
    let mut faults = Vec::new();
    let rounds = i64::from(scale());
    for number in (1..=3 * rounds).map(|step| 1 + 3 * (step - 1)) {
        let fault = |call, error, torn| Fault { call, number, error, stays: false, torn };
        faults.push(fault(Call::Write, EIO, false));
        faults.push(fault(Call::Write, EIO, true));
        faults.push(fault(Call::Write, ENOSPC, true));
        faults.push(fault(Call::Flush, EIO, false));
        faults.push(fault(Call::Rename, EIO, false));
        faults.push(fault(Call::Rename, ENOSPC, false));
    }
    faults
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_a_fault_of_each_call_to_the_disk() {
    let mut scene = Scene::start().await;
    let faults = faults();
    let (mut ends, mut survived) = (0, 0);
    for fault in &faults {
        if scene.outlives(*fault).await {
            survived += 1;
        } else {
            ends += 1;
            assert!(
                !matches!((fault.call, fault.error), (_, ENOSPC)),
                "{fault:?} is no reason to end"
            );
        }
    }
    assert!(ends > 0, "no flush failed");
    assert!(survived > 0, "each fault ended the process");
    eprintln!("{} faults", faults.len());
    scene.finish().await;
}

/// Every message waits with its sender while there is no space, and comes in once there is some,
/// without a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_was_full_takes_mail_again_without_a_restart() {
    let scene = Scene::start().await;
    for number in 1..=3 {
        let (before, hits) = (scene.mailers.acknowledged(), scene.disk.hits());
        let full = Fault { call: Call::Write, number, error: ENOSPC, stays: true, torn: true };
        scene.disk.fail(full);
        scene.disk.failed_beyond(hits + 20).await;
        scene.disk.mend();
        scene.mailers.reach(before + BETWEEN).await;
    }
    scene.finish().await;
}

struct Scene {
    folder: tempfile::TempDir,
    location: Location,
    site: Site,
    disk: Disk,
    mailers: Mailers,
    server: Server,
}

impl Scene {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Folder(folder.path().join("store"));
        let site = Site::build(&location, &rules(folder.path(), &[HASTE, IN_FILES])).await;
        site.leave_store().await;
        let disk = Disk::below(folder.path());
        let mailers = Mailers::start(100_000, SESSIONS);
        let server = start(&location, &folder, &site, &disk, &mailers).await;
        mailers.reach(BETWEEN).await;
        Self { folder, location, site, disk, mailers, server }
    }

    /// Whether the server goes on after the fault; a new one is started if it ended.
    async fn outlives(&mut self, fault: Fault) -> bool {
        let (before, hits) = (self.mailers.acknowledged(), self.disk.hits());
        self.disk.fail(fault);
        self.disk.failed_beyond(hits).await;
        // A message that was acknowledged before the fault may be counted behind it.
        let goal = before.max(self.mailers.acknowledged()) + BETWEEN + SESSIONS;
        let smtp = self.server.smtp;
        let code = select! {
            code = self.server.end() => code,
            () = self.mailers.reach(goal) => return true,
        };
        assert_ne!(code, 0, "it ended as if nothing was wrong: {fault:?}");
        self.mailers.left(smtp);
        self.server =
            start(&self.location, &self.folder, &self.site, &self.disk, &self.mailers).await;
        self.mailers.reach(goal).await;
        false
    }

    async fn finish(self) {
        let in_doubt = self.mailers.stop().await;
        let (http, site) = (self.server.http, &self.site);
        assert_nothing_lost(http, &site.key, &site.receiver, &in_doubt).await;
        assert_eq!(self.server.terminate().await, 0);
        self.site.finish().await;
    }
}

async fn start(
    location: &Location,
    folder: &tempfile::TempDir,
    site: &Site,
    disk: &Disk,
    mailers: &Mailers,
) -> Server {
    let (folder, dns) = (folder.path(), site.dns.addr());
    let server = Server::start_amid(location, folder, dns, &[], &disk.environment()).await;
    mailers.arrived(server.smtp);
    server
}
