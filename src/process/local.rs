//! A process of this machine, or its tree: finds it, keeps track of its members, reads them. Blocking, briefly.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::error::ProcessError;
use super::find::{Found, Target};
use super::proc_fs::ProcFs;
use super::pss::Pss;
use super::settings::LocalProcessSettings;
use super::source::{LookHere, Looked};
use super::tally::{Change, Machine, Moment, ProcId, ProcReading, Tally};
use crate::core::clock::Clock;
use crate::core::status::ProcessStatus;

/// Walking all of /proc for new children takes at most one part in so many of a core: on a machine with very many
/// processes children are found later, and the watching is no load of its own.
const WALK_SHARE: u64 = 50;

/// Follows one process or tree from look to look.
#[derive(Debug)]
pub(super) struct LocalWatch {
    target: Target,
    proc_fs: ProcFs,
    tree: bool,
    pss: Pss,
    clock: Clock,
    tally: Tally,
    machine: Option<Machine>,
    /// The last readings: the root first, every parent before its children.
    members: Vec<ProcReading>,
    next_walk_ns: u64,
}

impl LocalWatch {
    pub(super) fn new(settings: &LocalProcessSettings, clock: Clock) -> Self {
        Self {
            target: Target::new(settings),
            proc_fs: ProcFs::new(&settings.proc_root),
            tree: settings.tree,
            pss: Pss::new(settings.pss),
            clock,
            tally: Tally::new(settings.tree),
            machine: None,
            members: Vec::new(),
            next_walk_ns: 0,
        }
    }

    fn try_look(&mut self) -> Result<(Change, Looked), ProcessError> {
        let from_ns = self.clock.now_ns();
        let mut readings = read_again(&self.members, |pid| self.proc_fs.read(pid))?;
        let mut at = Moment { from_ns, to_ns: self.clock.now_ns() };
        let root = readings.first().filter(|root| Some(root.id()) == self.tally.root() && !root.ended());
        let mut looked = Looked::default();
        if root.is_none() || self.has_moved() {
            self.tally.finish(&readings);
            // The wall clock may have been set since: boot time is read again with every process that is found.
            let machine = self.proc_fs.machine()?;
            self.machine = Some(machine);
            let found: Found = self.target.find(&self.proc_fs, &machine)?;
            looked.remarks.extend(found.remarks(self.tree));
            looked.remarks.extend(hidden(&found.root));
            self.pss.forget();
            self.next_walk_ns = 0;
            at.from_ns = self.clock.now_ns();
            readings = vec![found.root];
            self.add_children(&mut readings)?;
            at.to_ns = self.clock.now_ns();
        } else {
            self.add_children(&mut readings)?;
        }
        let Some(machine) = self.machine else {
            // Never so: a root is only known after the machine was.
            return Err(ProcessError::Proc { what: "/proc/stat".into(), error: "it was not read".into() });
        };
        let change = self.tally.take(&readings, at, &machine);
        self.members = readings;
        Ok((change, looked))
    }

    /// Whether a pid file names another living process now. An empty or stale file is no reason to turn away from a
    /// process that lives: servers remove it before they have ended, and it may be just being written.
    fn has_moved(&self) -> bool {
        let Some(machine) = self.machine.filter(|_| self.target.can_move()) else { return false };
        self.target
            .find(&self.proc_fs, &machine)
            .is_ok_and(|found| Some(found.root.id()) != self.tally.root())
    }

    /// Adds the members' descendants that are not members yet. A member stays one until it ends, also when its
    /// parent ends before it.
    fn add_children(&mut self, readings: &mut Vec<ProcReading>) -> Result<(), ProcessError> {
        let from_ns = self.clock.now_ns();
        if !self.tree || from_ns < self.next_walk_ns {
            return Ok(());
        }
        let all = self.proc_fs.read_all()?;
        let to_ns = self.clock.now_ns();
        self.next_walk_ns = to_ns + to_ns.saturating_sub(from_ns) * (WALK_SHARE - 1);
        for child in descendants(readings, &all, self.proc_fs.own_pid()) {
            // Read again, parents first: the walk goes by pid, and the tally needs this order.
            if let Ok(Some(now)) = self.proc_fs.read(child.pid)
                && now.id() == child
            {
                readings.push(now);
            }
        }
        Ok(())
    }
}

impl LookHere for LocalWatch {
    fn look(&mut self, status: &mut ProcessStatus) -> (Change, Result<Looked, ProcessError>) {
        let (change, result) = match self.try_look() {
            Ok((change, looked)) => (change, Ok(looked)),
            Err(error) => {
                self.members.clear();
                self.pss.forget();
                (self.tally.lose(), Err(error))
            }
        };
        if let Some(machine) = &self.machine {
            self.tally.publish(machine, status);
        }
        let pids = self.members.iter().filter(|one| self.tally.is_up() && !one.ended()).map(|one| one.pid);
        status.memory_pss_bytes = self.pss.look(&self.proc_fs, self.clock, pids);
        (change, result)
    }
}

/// What may not be read of a process that was found, and why.
pub(super) fn hidden(root: &ProcReading) -> Option<String> {
    root.io.is_none().then(|| {
        "its bytes read and written, and its PSS, may not be read: run soakd as its user or as root"
            .to_owned()
    })
}

/// Reads known members, in their order: parents first. Those that are gone are left out; those that cannot be read
/// at the moment stay as they were, for they have not ended. Without the root nothing can be said.
fn read_again(
    members: &[ProcReading],
    read: impl Fn(u32) -> Result<Option<ProcReading>, ProcessError>,
) -> Result<Vec<ProcReading>, ProcessError> {
    let mut readings = Vec::with_capacity(members.len());
    for (index, last) in members.iter().enumerate() {
        match read(last.pid) {
            Ok(Some(now)) if now.id() == last.id() => readings.push(now),
            Ok(_) => {}
            Err(error) if index == 0 => return Err(error),
            Err(_) => readings.push(*last),
        }
    }
    Ok(readings)
}

/// The processes below the members, parents first. soakd itself and what it started are left out: its own load is not
/// the system's, even where both have one ancestor that is watched.
fn descendants(members: &[ProcReading], all: &[ProcReading], own_pid: Option<u32>) -> Vec<ProcId> {
    let mut children: BTreeMap<u32, Vec<&ProcReading>> = BTreeMap::new();
    for one in all {
        children.entry(one.ppid).or_default().push(one);
    }
    let mut known: BTreeSet<ProcId> = members.iter().map(ProcReading::id).collect();
    let mut to_visit: VecDeque<u32> = members.iter().map(|one| one.pid).collect();
    let mut found = Vec::new();
    while let Some(parent) = to_visit.pop_front() {
        for child in children.get(&parent).into_iter().flatten() {
            if Some(child.pid) != own_pid && known.insert(child.id()) {
                to_visit.push_back(child.pid);
                found.push(child.id());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, ppid: u32) -> ProcReading {
        ProcReading::sleeping(pid, ppid, u64::from(pid))
    }

    #[test]
    fn x5_descendants_come_parents_first_once_and_without_ourselves() {
        // 30 is a grandchild with a lower pid than its parent; 20 is soakd with a child; 60 is a stranger.
        let all = [
            process(10, 1),
            process(30, 50),
            process(50, 10),
            process(20, 10),
            process(21, 20),
            process(60, 1),
        ];
        let found = |members: &[ProcReading], own| -> Vec<u32> {
            descendants(members, &all, Some(own)).iter().map(|id| id.pid).collect()
        };
        assert_eq!(found(&[process(10, 1)], 20), [50, 30]);
        assert_eq!(found(&[process(10, 1), process(50, 10)], 20), [30]);
        assert_eq!(found(&[process(20, 10)], 20), [21], "watched on purpose");
        assert!(found(&[process(60, 1)], 20).is_empty());
    }

    #[test]
    fn x5_a_members_pid_that_is_somebody_elses_now_and_one_that_may_not_be_read() {
        let members = [process(10, 1), process(11, 10), process(12, 10), process(13, 10)];
        let denied = || ProcessError::Denied { path: "/proc/12/stat".into() };
        let read = |pid| match pid {
            10 => Ok(Some(ProcReading { utime_ticks: 5, ..process(10, 1) })),
            11 => Ok(Some(ProcReading { start_ticks: 9_999, ..process(11, 1) })),
            12 => Err(denied()),
            _ => Ok(None),
        };
        let again = read_again(&members, read).unwrap();
        let seen: Vec<(u32, u64)> = again.iter().map(|one| (one.pid, one.utime_ticks)).collect();
        assert_eq!(seen, [(10, 5), (12, 0)], "11 is a stranger, 12 lives, 13 is gone");
        assert!(read_again(&members, |_| Err(denied())).is_err());
    }
}
