//! Bytes from and to storage of a tree, without counting twice. Pure; readings are arguments.
//!
//! `/proc/<pid>/io` holds a process's own bytes and those of the children that it waited for, in one sum. So what is known
//! already of a process that vanished is taken off its nearest living ancestor's growth, by the rule for CPU time (see
//! [`tally`](super::tally)): it stays owed for one look more, for a child that was reaped between its parent's reading and
//! its own.

use std::collections::BTreeMap;

use super::tally::{ProcId, ProcReading};

/// Bytes by direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IoBytes {
    /// Read from storage.
    pub read: u64,
    /// Written to storage.
    pub written: u64,
}

impl IoBytes {
    const fn plus(self, other: Self) -> Self {
        Self {
            read: self.read.saturating_add(other.read),
            written: self.written.saturating_add(other.written),
        }
    }

    const fn minus(self, other: Self) -> Self {
        Self {
            read: self.read.saturating_sub(other.read),
            written: self.written.saturating_sub(other.written),
        }
    }

    fn highest(self, other: Self) -> Self {
        Self { read: self.read.max(other.read), written: self.written.max(other.written) }
    }
}

/// What a process had at the last look, and whose child it was.
#[derive(Debug, Clone, Copy)]
struct Seen {
    io: IoBytes,
    ppid: u32,
}

/// The bytes of one watched process or tree.
#[derive(Debug, Default)]
pub(super) struct IoTally {
    seen: BTreeMap<ProcId, Seen>,
    /// What may still come in by an ancestor's sum.
    owed: BTreeMap<ProcId, IoBytes>,
    counted: IoBytes,
    /// Whether all members could be read at the last look.
    known: bool,
}

impl IoTally {
    /// What was counted; absent while a member cannot be read.
    pub(super) fn counted(&self) -> Option<IoBytes> {
        self.known.then_some(self.counted)
    }

    /// Another process is there: what these have used so far is not counted.
    pub(super) fn begin(&mut self, readings: &[ProcReading]) {
        self.owed.clear();
        self.seen = readings
            .iter()
            .filter_map(|one| Some((one.id(), Seen { io: one.io?, ppid: one.ppid })))
            .collect();
        self.known = readable(readings);
    }

    /// Adds what was used since the last look. Every parent comes before its children.
    pub(super) fn settle(&mut self, readings: &[ProcReading]) {
        let (mut now, mut growth) = (BTreeMap::new(), BTreeMap::new());
        for one in readings {
            let before = self.seen.remove(&one.id());
            match (one.io, before) {
                (Some(io), before) => {
                    // A process that was not there at the last look was born since: all of it is new.
                    let before = before.map_or_else(IoBytes::default, |seen| seen.io);
                    growth.insert(one.id(), io.minus(before));
                    now.insert(one.id(), Seen { io: io.highest(before), ppid: one.ppid });
                }
                (None, Some(before)) => {
                    now.insert(one.id(), before);
                }
                (None, None) => {}
            }
        }
        let vanished = std::mem::replace(&mut self.seen, now);
        let mut gone: BTreeMap<ProcId, IoBytes> = BTreeMap::new();
        for seen in vanished.values() {
            if let Some(heir) = heir(seen.ppid, readings, &vanished) {
                let all = gone.entry(heir).or_default();
                *all = all.plus(seen.io);
            }
        }
        for (id, grown) in growth {
            let rest = grown.minus(self.owed.get(&id).copied().unwrap_or_default());
            let gone = gone.get(&id).copied().unwrap_or_default();
            self.owed.insert(id, gone.minus(rest));
            self.counted = self.counted.plus(rest.minus(gone));
        }
        self.owed.retain(|id, bytes| *bytes != IoBytes::default() && self.seen.contains_key(id));
        self.known = readable(readings);
    }
}

/// Whether all that live could be read.
fn readable(readings: &[ProcReading]) -> bool {
    readings.iter().filter(|one| !one.ended()).all(|one| one.io.is_some())
}

/// Whose sum gets the bytes of a child of `ppid`: the nearest ancestor that is still there.
fn heir(ppid: u32, readings: &[ProcReading], vanished: &BTreeMap<ProcId, Seen>) -> Option<ProcId> {
    let mut pid = ppid;
    // A chain of parents is no longer than there are processes.
    for _ in 0..=vanished.len() {
        if let Some(living) = readings.iter().find(|one| one.pid == pid) {
            return Some(living.id());
        }
        pid = vanished.iter().find(|(id, _)| id.pid == pid)?.1.ppid;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(pid: u32, ppid: u32, written: u64) -> ProcReading {
        let io = Some(IoBytes { read: written * 2, written });
        ProcReading { io, ..ProcReading::sleeping(pid, ppid, u64::from(pid)) }
    }

    fn counted(tally: &IoTally) -> Option<u64> {
        let counted = tally.counted();
        assert!(counted.is_none_or(|io| io.read == io.written * 2), "{counted:?}");
        counted.map(|io| io.written)
    }

    #[test]
    fn what_was_used_before_the_first_look_is_not_counted_and_a_new_child_is_whole() {
        let mut tally = IoTally::default();
        assert_eq!(tally.counted(), None);
        tally.begin(&[one(7, 1, 1_000)]);
        tally.settle(&[one(7, 1, 1_010), one(8, 7, 5)]);
        assert_eq!(counted(&tally), Some(15));
    }

    #[test]
    fn x5_a_child_that_ends_is_counted_once_also_with_its_own_children() {
        let mut tally = IoTally::default();
        tally.begin(&[one(7, 1, 0)]);
        tally.settle(&[one(7, 1, 0), one(8, 7, 100), one(9, 8, 200)]);
        assert_eq!(counted(&tally), Some(300));
        // 9 wrote 5 more, 8 wrote 10 more; 8 reaped 9, 7 reaped 8 and wrote 1.
        tally.settle(&[one(7, 1, 316)]);
        assert_eq!(counted(&tally), Some(316));
        tally.settle(&[one(7, 1, 320)]);
        assert_eq!(counted(&tally), Some(320));
    }

    #[test]
    fn x5_a_child_reaped_between_its_parents_reading_and_its_own_is_not_counted_twice() {
        let mut tally = IoTally::default();
        tally.begin(&[one(7, 1, 0), one(8, 7, 400)]);
        tally.settle(&[one(7, 1, 0)]);
        tally.settle(&[one(7, 1, 425)]);
        assert_eq!(counted(&tally), Some(25));
        // Nobody's sum gets what a stranger reaps, and other growth is not eaten for it.
        tally.settle(&[one(7, 1, 430), one(9, 1, 50)]);
        tally.settle(&[one(7, 1, 440)]);
        assert_eq!(counted(&tally), Some(25 + 5 + 50 + 10));
    }

    #[test]
    fn m2_nothing_falls_and_a_member_that_may_not_be_read_makes_the_sum_unknown() {
        let mut tally = IoTally::default();
        tally.begin(&[one(7, 1, 100)]);
        tally.settle(&[one(7, 1, 150)]);
        tally.settle(&[one(7, 1, 120)]);
        assert_eq!(counted(&tally), Some(50));
        let hidden = ProcReading { io: None, ..one(7, 1, 0) };
        tally.settle(&[hidden]);
        assert_eq!(counted(&tally), None);
        tally.settle(&[one(7, 1, 160)]);
        assert_eq!(counted(&tally), Some(60), "it goes on from where it was");
    }
}
