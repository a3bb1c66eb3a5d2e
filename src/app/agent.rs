//! `soakd agent`: watches the processes of this machine and tells of them. It asks nobody, changes nothing and writes nothing.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::StartError;
use super::build::process_watches;
use super::signals::Signals;
use crate::core::clock::Clock;
use crate::core::event::EventLog;
use crate::core::machine::OWN_MACHINE;
use crate::core::status::{Board, RunStatus};
use crate::http::{AgentServer, HttpListener};
use crate::process::MachineWatch;
use crate::run::told;
use crate::settings::agent::AgentSettings;

/// Runs the agent until a signal ends it. `started` is told where it listens.
///
/// # Errors
/// When it cannot listen, or its token cannot be read.
pub async fn run(
    settings: &AgentSettings,
    started: impl FnOnce(SocketAddr) + Send,
) -> Result<(), StartError> {
    let mut signals = Signals::new()?;
    let listener = HttpListener::bind(&settings.http())?;
    let clock = Clock::start();
    let board = Arc::new(Board {
        clock,
        run: Mutex::new(RunStatus::starting("", "")),
        streams: BTreeMap::new(),
        sources: BTreeMap::new(),
        processes: settings.processes.keys().map(|name| (name.clone(), Arc::default())).collect(),
        machines: [(OWN_MACHINE.to_owned(), Arc::default())].into(),
        events: Arc::new(EventLog::default()),
        heartbeats: AtomicU64::new(0),
    });
    let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
    for watch in process_watches(&settings.processes, &board) {
        tasks.spawn(watch.run(stop.child_token()));
    }
    if let Some(cell) = board.machines.get(OWN_MACHINE) {
        let watch = MachineWatch::new(settings.machine.disk.clone(), Arc::clone(cell), clock);
        tasks.spawn(watch.run(stop.child_token()));
    }
    let interval_ns = settings.processes.iter().map(|(name, process)| {
        (name.clone(), u64::try_from(process.interval().as_nanos()).unwrap_or(u64::MAX))
    });
    // No two starts have both in common, and nobody has to guess it.
    let instance = format!("{:x}-{}", clock.wall_epoch_ns(), std::process::id());
    started(listener.local_addr());
    let server = AgentServer::new(listener, Arc::clone(&board), instance, interval_ns.collect());
    let tell = || board.events.drain().iter().for_each(|stamped| told::tell(&stamped.event));
    tokio::select! {
        () = server.run(stop.clone(), tell) => {}
        () = signals.next() => {}
    }
    stop.cancel();
    tell();
    while tasks.join_next().await.is_some() {}
    Ok(())
}
