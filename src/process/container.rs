//! A Docker or Podman container: asked about over the engine's socket, read from its cgroup where that is this machine's,
//! else from the engine's statistics (what `docker stats` shows).
//!
//! The engine is asked when the container is looked for, when it cannot be seen, and every ten seconds: another container
//! may have taken the name.

mod engine;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::time::Duration;

use self::engine::{Engine, Inspected};
use super::cgroup::CgroupWatch;
use super::error::ProcessError;
use super::proc_fs::ProcFs;
use super::settings::LocalProcessSettings;
use super::source::{Looked, on_a_thread};
use super::tally::{Change, Moment};
use crate::core::clock::Clock;
use crate::core::status::ProcessStatus;

const ASK_AGAIN_NS: u64 = 10_000_000_000;
/// Longest wait for the engine: its statistics take two seconds where it does not know how to give them at once.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What is missing without the cgroup.
const FROM_ENGINE: &str = "its cgroup cannot be read here: the figures are the engine's statistics, without resident memory, \
                           processes and open files";

/// Where the figures come from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Figures {
    /// The cgroup of this path from the root on.
    Cgroup(PathBuf),
    /// The engine: the container runs on another machine (a virtual one), or in a cgroup that we do not see.
    Engine,
}

/// Follows a container from look to look.
#[derive(Debug)]
pub(super) struct ContainerWatch {
    name: String,
    engine: Engine,
    proc_fs: ProcFs,
    cgroup_root: PathBuf,
    clock: Clock,
    /// Reads the cgroup and keeps the counters; away while a thread looks.
    group: Option<Box<CgroupWatch>>,
    known: Option<(Inspected, Figures)>,
    ask_again_ns: u64,
}

impl ContainerWatch {
    pub(super) fn new(name: &str, settings: &LocalProcessSettings, clock: Clock) -> Self {
        Self {
            name: name.to_owned(),
            engine: Engine::new(settings.socket.clone()),
            proc_fs: ProcFs::new(&settings.proc_root),
            cgroup_root: settings.cgroup_root.clone(),
            clock,
            group: Some(Box::new(CgroupWatch::new(settings, clock))),
            known: None,
            ask_again_ns: 0,
        }
    }

    /// Looks once and writes what is known into the status; on an error too, where the container is down in it.
    pub(super) async fn look(
        &mut self,
        status: &mut ProcessStatus,
    ) -> (Change, Result<Looked, ProcessError>) {
        let asked = self.known.is_none() || self.clock.now_ns() >= self.ask_again_ns;
        if asked && let Err(error) = self.ask().await {
            return self.lose(status, error);
        }
        let (change, result) = self.look_there(status).await;
        // It may have been started again since it was asked about, in another cgroup.
        let gone = matches!(
            result,
            Err(ProcessError::NoSuchCgroup { .. }
                | ProcessError::EmptyCgroup { .. }
                | ProcessError::Container(_))
        );
        if !gone || asked {
            return (change, result);
        }
        if let Err(error) = self.ask().await {
            let (_, result) = self.lose(status, error);
            return (change, result);
        }
        let (again, result) = self.look_there(status).await;
        (if again == Change::Found { Change::Same } else { again }, result)
    }

    fn lose(
        &mut self,
        status: &mut ProcessStatus,
        error: ProcessError,
    ) -> (Change, Result<Looked, ProcessError>) {
        self.known = None;
        let change = self.group.as_mut().map_or(Change::Same, |group| group.carry().lose(status));
        (change, Err(error))
    }

    /// Asks the engine about the container, and finds out where to read.
    async fn ask(&mut self) -> Result<(), ProcessError> {
        let found = self.engine.inspect(&self.name).await?;
        if !found.running {
            if found.oom_killed
                && let Some(group) = &mut self.group
            {
                group.carry().note_oom_kill();
            }
            return Err(ProcessError::Container(found.ended(&self.name)));
        }
        let from = self.cgroup_of(&found).map_or(Figures::Engine, Figures::Cgroup);
        if self.known.as_ref().is_none_or(|(_, before)| *before != from)
            && let (Figures::Cgroup(path), Some(group)) = (&from, &mut self.group)
        {
            group.move_to(path);
        }
        self.known = Some((found, from));
        self.ask_again_ns = self.clock.now_ns().saturating_add(ASK_AGAIN_NS);
        Ok(())
    }

    /// The container's cgroup, when its process is one of this machine: the path holds the container's id.
    fn cgroup_of(&self, found: &Inspected) -> Option<PathBuf> {
        let path = self.proc_fs.cgroup(found.pid.filter(|pid| *pid > 0)?)?;
        let whole = PathBuf::from(path);
        // A process may be in a cgroup of its own below the container's.
        let mut places = whole.ancestors().filter(|place| place.to_string_lossy().contains(&found.id));
        let place = places.by_ref().last()?.to_owned();
        let fs = super::cgroup_fs::CgroupFs::open(&self.cgroup_root).ok()?;
        // Without the controllers of version 2 (a machine with both versions) the engine knows more.
        fs.folder(&place).join("memory.current").exists().then_some(place)
    }

    async fn look_there(&mut self, status: &mut ProcessStatus) -> (Change, Result<Looked, ProcessError>) {
        match &self.known {
            Some((_, Figures::Cgroup(_))) => on_a_thread(&mut self.group, status).await,
            Some((found, Figures::Engine)) => {
                let from_ns = self.clock.now_ns();
                let stats = self.engine.stats(found).await;
                let at = Moment { from_ns, to_ns: self.clock.now_ns() };
                let Some(group) = &mut self.group else {
                    return (Change::Same, Err(ProcessError::Broken("its counters were lost".into())));
                };
                match stats {
                    Ok(stats) => {
                        let cores = stats.cores();
                        let totals = stats.totals(identity(found), found);
                        let change = group.carry().take(&totals, at, cores, status);
                        let remark = (change != Change::Same).then(|| FROM_ENGINE.to_owned());
                        (change, Ok(Looked { remarks: remark.into_iter().collect() }))
                    }
                    Err(error) => (group.carry().lose(status), Err(error)),
                }
            }
            None => (Change::Same, Err(ProcessError::Broken("it was never asked about".into()))),
        }
    }
}

/// The same from the container's start to its end.
fn identity(found: &Inspected) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&found.id, &found.started_at).hash(&mut hasher);
    hasher.finish()
}
