//! All processes of a cgroup: its own figures, and what /proc says of its members. Blocking, briefly.
//!
//! CPU time, throttling, memory and kills are the cgroup's own, so what ended between two looks is in them. Resident memory,
//! threads and open files are sums over the members. Bytes of storage are the cgroup's where its I/O controller is on, else
//! the members'. A cgroup that was made again, or whose members are all others than before, is a restart.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::carry::{Carry, Counters, Totals};
use super::cgroup_fs::{CgroupFs, CgroupReading};
use super::error::ProcessError;
use super::find::oldest_root;
use super::io_tally::IoTally;
use super::proc_fs::ProcFs;
use super::pss::Pss;
use super::settings::LocalProcessSettings;
use super::source::{LookHere, Looked};
use super::tally::{Change, Living, Machine, Moment, ProcId, ProcReading};
use crate::core::clock::Clock;
use crate::core::status::ProcessStatus;

/// How the settings name the cgroup.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// By its path from the root on.
    Path(PathBuf),
    /// By its systemd unit.
    Unit(String),
    /// Not known at the moment: the container's, which is elsewhere at every start.
    Elsewhere,
}

/// Where the bytes of storage are read, for as long as a cgroup lives: a controller that is switched on meanwhile counts
/// from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Storage {
    Controller,
    Members,
}

/// Follows the processes of a cgroup from look to look.
#[derive(Debug)]
pub(super) struct CgroupWatch {
    place: Place,
    cgroup_root: PathBuf,
    proc_fs: ProcFs,
    clock: Clock,
    pss: Pss,
    carry: Carry,
    io: IoTally,
    storage: Storage,
    machine: Option<Machine>,
    identity: Option<u64>,
    folder: Option<PathBuf>,
    members: BTreeSet<ProcId>,
}

impl CgroupWatch {
    pub(super) fn new(settings: &LocalProcessSettings, clock: Clock) -> Self {
        let place = match (&settings.cgroup, &settings.unit) {
            (Some(path), _) => Place::Path(path.clone()),
            (None, Some(unit)) => Place::Unit(unit.clone()),
            (None, None) => Place::Elsewhere,
        };
        Self {
            place,
            cgroup_root: settings.cgroup_root.clone(),
            proc_fs: ProcFs::new(&settings.proc_root),
            clock,
            pss: Pss::new(settings.pss),
            carry: Carry::default(),
            io: IoTally::default(),
            storage: Storage::Members,
            machine: None,
            identity: None,
            folder: None,
            members: BTreeSet::new(),
        }
    }

    /// Where to look from now on.
    pub(super) fn move_to(&mut self, path: &Path) {
        self.place = Place::Path(path.to_owned());
        self.folder = None;
    }

    /// The counters, for a source that reads elsewhere for a while.
    pub(super) const fn carry(&mut self) -> &mut Carry {
        &mut self.carry
    }

    fn try_look(&mut self, status: &mut ProcessStatus) -> Result<(Change, Looked), ProcessError> {
        let fs = CgroupFs::open(&self.cgroup_root)?;
        let from_ns = self.clock.now_ns();
        let reading = self.read(&fs)?;
        let mut members = self.read_members(&reading);
        let at = Moment { from_ns, to_ns: self.clock.now_ns() };
        let is_new = self.identity != Some(reading.identity);
        if is_new {
            self.identity = Some(reading.identity);
            self.machine = Some(self.proc_fs.machine()?);
            self.storage = if reading.io.is_some() { Storage::Controller } else { Storage::Members };
        }
        let ids: BTreeSet<ProcId> = members.iter().map(ProcReading::id).collect();
        let replaced =
            !is_new && !self.members.is_empty() && !ids.is_empty() && ids.is_disjoint(&self.members);
        if is_new {
            self.io.begin(&members);
        } else {
            self.io.settle(&members);
        }
        // Those of the last look that had any: an empty cgroup does not make its next member the first one.
        if !ids.is_empty() {
            self.members = ids;
        }
        if is_new || replaced {
            self.pss.forget();
        }
        let mut totals = Totals {
            identity: reading.identity,
            replaced,
            counters: self.counters(&reading),
            gauges: ProcessStatus::default(),
        };
        if !reading.populated {
            self.carry.finish(&totals);
            let path = self.folder.as_deref().map_or_else(String::new, |folder| fs.path(folder));
            return Err(ProcessError::EmptyCgroup { path });
        }
        members.retain(|one| !one.ended());
        totals.gauges = self.gauges(&reading, &members);
        let cores = self.machine.map_or(f64::INFINITY, |machine| machine.cores);
        let change = self.carry.take(&totals, at, cores, status);
        let remarks = if change == Change::Same { Vec::new() } else { remarks(&reading, &members) };
        Ok((change, Looked { remarks }))
    }

    /// Reads the cgroup; a unit's is looked for again when it is gone.
    fn read(&mut self, fs: &CgroupFs) -> Result<CgroupReading, ProcessError> {
        let machine_bytes = self.proc_fs.memory_bytes();
        if let Some(folder) = &self.folder
            && let Some(reading) = fs.read(folder, machine_bytes)?
        {
            return Ok(reading);
        }
        self.folder = None;
        let folder = match &self.place {
            Place::Path(path) => fs.folder(path),
            Place::Unit(unit) => fs.find_unit(unit)?,
            Place::Elsewhere => return Err(ProcessError::NoSuchCgroup { path: "of the container".into() }),
        };
        let reading = fs.read(&folder, machine_bytes)?;
        let reading = reading.ok_or_else(|| ProcessError::NoSuchCgroup { path: fs.path(&folder) })?;
        self.folder = Some(folder);
        Ok(reading)
    }

    /// The members that can be read, parents before their children: a child starts later.
    fn read_members(&self, reading: &CgroupReading) -> Vec<ProcReading> {
        let readings = reading.pids.iter().filter_map(|pid| self.proc_fs.read(*pid).ok().flatten());
        let mut members: Vec<ProcReading> = readings.collect();
        members.sort_by_key(|one| (one.start_ticks, one.pid));
        members
    }

    fn counters(&self, reading: &CgroupReading) -> Counters<Option<u64>> {
        let split = reading.cpu_user_ns.zip(reading.cpu_system_ns);
        let io = match self.storage {
            Storage::Controller => reading.io,
            Storage::Members => self.io.counted().map(|io| (io.read, io.written)),
        };
        Counters {
            cpu_user_ns: split.map(|(user, _)| user),
            cpu_system_ns: split.map(|(_, system)| system),
            cpu_unsplit_ns: reading.cpu_usage_ns.filter(|_| split.is_none()),
            cpu_throttled_ns: reading.cpu_throttled_ns,
            io_read_bytes: io.map(|(read, _)| read),
            io_written_bytes: io.map(|(_, written)| written),
            oom_kills: reading.oom_kills,
        }
    }

    fn gauges(&mut self, reading: &CgroupReading, members: &[ProcReading]) -> ProcessStatus {
        let sum = Living::of(members);
        // Of a container's host we may see the cgroup and not the processes.
        let seen = !members.is_empty();
        let root = oldest_root(members).map(|found| found.root);
        let pss = self.pss.look(&self.proc_fs, self.clock, members.iter().map(|one| one.pid));
        ProcessStatus {
            pid: root.map(|root| root.pid),
            processes: sum.processes,
            memory_rss_bytes: seen.then_some(sum.rss_bytes),
            memory_pss_bytes: pss,
            memory_cgroup_bytes: reading.memory_bytes,
            memory_cgroup_peak_bytes: reading.memory_peak_bytes,
            memory_working_set_bytes: reading.working_set_bytes,
            memory_limit_bytes: reading.memory_limit_bytes,
            threads: seen.then_some(sum.threads).or(reading.tasks),
            open_fds: sum.open_fds.filter(|_| seen),
            start_time_seconds: root
                .zip(self.machine)
                .map(|(root, machine)| machine.start_seconds(root.start_ticks)),
            ..ProcessStatus::default()
        }
    }
}

impl LookHere for CgroupWatch {
    fn look(&mut self, status: &mut ProcessStatus) -> (Change, Result<Looked, ProcessError>) {
        match self.try_look(status) {
            Ok((change, looked)) => (change, Ok(looked)),
            Err(error) => {
                self.pss.forget();
                (self.carry.lose(status), Err(error))
            }
        }
    }
}

/// What the cgroup does not tell, and why.
fn remarks(reading: &CgroupReading, members: &[ProcReading]) -> Vec<String> {
    let mut remarks = Vec::new();
    if reading.memory_bytes.is_none() {
        let text =
            "its cgroup has no memory controller: no memory of the cgroup, limit or kills for want of memory";
        remarks.push(text.to_owned());
    }
    if reading.cpu_throttled_ns.is_none() {
        remarks.push("its cgroup has no CPU controller: no throttling".to_owned());
    }
    if members.is_empty() {
        let text = "its processes cannot be seen from here: no resident memory, open files or start time";
        remarks.push(text.to_owned());
    } else if members.iter().any(|one| one.io.is_none()) {
        remarks.push(super::local::HIDDEN.to_owned());
    }
    remarks
}
