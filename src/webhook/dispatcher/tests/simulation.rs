//! Gateways that share a store, simulated: the dispatchers are those of the program, time is
//! tokio's and stands still while anybody works, and store, network, deaths and silences are as a
//! seed says. A seed repeats every step.

mod gateway;
mod world;

use std::sync::atomic::AtomicI64;

use tokio::runtime::Builder;
use tokio::task::JoinHandle;

use self::gateway::{Gateway, Network};
use self::world::{Flaw, World};
use super::*;
use crate::testkit::seeds::{self, Broken};

/// Short waits, so that a schedule ends within the simulation.
const RULES: &str = "
    [schedule]\nwait_seconds = [0, 5, 30, 60, 120]
    [dispatcher]\nconcurrency = 12\nconcurrency_per_destination = 3\nconcurrency_slow = 6\n\
    claim_batch = 8\nlease_seconds = 30\npoll_millis = 5000";

/// After so long without a beat others take a gateway's claims.
const SILENCE: Duration = Duration::from_secs(3);

/// A gateway that runs.
struct Alive {
    gateway: Arc<Gateway>,
    shutdown: Shutdown,
    running: JoinHandle<()>,
}

impl Alive {
    fn start(world: &Arc<World>) -> Self {
        let (bell, shutdown) = (Bell::default(), Shutdown::default());
        let number = world.joins(bell.clone());
        let name = AtomicI64::new(world.name(number));
        let gateway = Arc::new(Gateway { world: Arc::clone(world), number, name });
        let of_world = Arc::clone(world);
        let random = move |buffer: &mut [u8]| {
            let dice = &mut of_world.deeds().dice;
            dice.fill(buffer);
        };
        let sender = Sender {
            client: Network(Arc::clone(&gateway)),
            mint: Mint::new(world.clock(), Arc::new(random)),
            links: sample::links(),
            rules: Arc::clone(&world.rules),
            metrics: Metrics::default(),
            traces: Traces::default(),
        };
        let dispatcher = Dispatcher::new(Arc::clone(&gateway), sender, bell);
        let running = tokio::spawn(dispatcher.run(shutdown.clone()));
        Self { gateway, shutdown, running }
    }

    /// Others take its claims after a while.
    fn is_missed(&self, world: &Arc<World>) {
        let (world, name) = (Arc::clone(world), self.gateway.name.swap(0, Ordering::SeqCst));
        if name > 0 {
            tokio::spawn(async move {
                sleep(SILENCE).await;
                world.buries(name);
            });
        }
    }
}

/// Mail comes in for as long as calls fail, and a while longer.
async fn mail(world: Arc<World>) {
    let mut left = 10 + world.deeds().dice.below(50);
    while left > 0 {
        let (pause, destinations, rings) = {
            let mut deeds = world.deeds();
            let all: Vec<_> = deeds.targets.keys().copied().collect();
            let dice = &mut deeds.dice;
            let most = if dice.once_in(10) { 30 } else { 4 };
            let pause = dice.within(Duration::from_secs(most));
            let burst = left.min(1 + dice.below(12));
            let destinations: Vec<_> = (0..burst).map(|_| *dice.pick(&all)).collect();
            (pause, destinations, !dice.once_in(4))
        };
        sleep(pause).await;
        left -= destinations.len() as u64;
        destinations.into_iter().for_each(|destination| world.add(destination));
        // Without it the poll finds them.
        if rings {
            world.rings();
        }
    }
}

/// Simulates one seed. Returns a digest of all that happened, or what was broken.
fn simulate(seed: u64, rules: &Arc<WebhookRules>, flaw: Option<Flaw>) -> Result<u64, Broken> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let world = World::new(seed, rules, flaw);
        let gateways = 1 + world.deeds().dice.roll(3);
        let mut alive: Vec<_> = (0..gateways).map(|_| Alive::start(&world)).collect();
        let coming = tokio::spawn(mail(Arc::clone(&world)));
        while world.is_early() {
            let (pause, which, deed) = {
                let dice = &mut world.deeds().dice;
                (dice.within(Duration::from_secs(30)), dice.roll(gateways), dice.below(4))
            };
            // Where nothing fails, gateways are only stopped well.
            let deed = if world.is_rough { deed } else { 1 };
            sleep(pause).await;
            match deed {
                // Killed, and started anew.
                0 => {
                    alive[which].running.abort();
                    alive[which].is_missed(&world);
                    alive[which] = Alive::start(&world);
                }
                // Stopped well, beside its successor.
                1 => {
                    let new = Alive::start(&world);
                    let old = std::mem::replace(&mut alive[which], new);
                    tokio::spawn(async move { old.shutdown.finish(SOON).await });
                }
                // Its beats do not come through for a while.
                _ => {
                    let gateway = Arc::clone(&alive[which].gateway);
                    alive[which].is_missed(&world);
                    let back = world.deeds().dice.within(SILENCE * 4) + SILENCE;
                    let world = Arc::clone(&world);
                    tokio::spawn(async move {
                        sleep(back).await;
                        gateway.name.store(world.name(gateway.number), Ordering::SeqCst);
                    });
                }
            }
        }
        coming.await.unwrap();
        let over = async {
            while world.deeds().rows.values().any(|row| row.state == State::Pending) {
                sleep(Duration::from_secs(5)).await;
            }
        };
        let is_over = timeout(Duration::from_hours(2), over).await.is_ok();
        judge(&world, is_over);
        let broken = std::mem::take(&mut world.deeds().broken);
        if broken.is_empty() { Ok(world.traced()) } else { Err(Broken(broken.join("\n"))) }
    })
}

/// Looks at the end of all deliveries.
fn judge(world: &World, is_over: bool) {
    let is_rough = world.is_rough;
    let mut deeds = world.deeds();
    let mut broken = Vec::new();
    if !is_over {
        broken.push("some deliveries never end".to_owned());
    }
    let most = u32::try_from(RULES.matches(", ").count()).unwrap() + 1;
    for (id, row) in &deeds.rows {
        let event = id.0.as_u128();
        let said = match row.state {
            State::Delivered if row.arrivals == 0 => "was never brought",
            State::Delivered if !is_rough && row.arrivals > row.recorded => "was brought twice",
            State::Exhausted if row.recorded != most => "was given up too soon",
            State::Cancelled if !deeds.targets[&row.target()].has_left => "was cancelled",
            _ => continue,
        };
        broken.push(format!("event {event} {said}"));
    }
    deeds.broken.extend(broken);
}

fn rules() -> Arc<WebhookRules> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("webhooks.toml"), RULES).unwrap();
    Arc::new(Rules::load(folder.path()).unwrap().webhooks)
}

#[test]
fn thousands_of_seeds_lose_double_and_overtake_nothing() {
    let rules = rules();
    seeds::hold(2000, |seed| simulate(seed, &rules, None));
}

#[test]
fn a_seed_is_repeated_step_by_step() {
    let rules = rules();
    seeds::repeat(|seed| simulate(seed, &rules, None));
}

#[test]
fn what_a_bad_store_does_is_noticed() {
    let rules = rules();
    for (flaw, said) in [
        (Flaw::Shares, "without a claim"),
        (Flaw::Overtakes, "overtakes"),
        (Flaw::ForgetsFences, "given up too soon"),
        (Flaw::Invents, "was never brought"),
    ] {
        seeds::notice(200, said, |seed| simulate(seed, &rules, Some(flaw)));
    }
}
