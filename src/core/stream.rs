//! The shared state of one stream: its schedule, and what each lane published at its last wake-up.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::clock::Clock;
use super::counters::{Counters, Head, LimitedBy};
use super::held_back::HeldBack;
use super::histogram::{Buckets, Latency};
use super::lag::Records;
use super::lock::lock;
use super::marker::{Fate, Marker, Markers};
use super::pace::Pace;
use super::rate::Rate;
use super::schedule::{Planned, Schedule};
use super::timeline::{Cursor, Found, Key, Line, Timeline};
use super::wire::Wire;

/// One partition of a lane.
#[derive(Debug, Clone, Default)]
pub struct PartitionState {
    /// How far it is acked.
    pub head: Head,
    /// Which record was intended when.
    pub timeline: Timeline,
    /// The last markers sent to it.
    pub markers: Markers,
}

impl PartitionState {
    /// A partition whose timeline was put together from the record of an earlier process: the head is where its acks
    /// ended. `baseline` is the end offset from before the run's first record.
    #[must_use]
    pub fn resumed(timeline: Timeline, baseline: u64) -> Self {
        let last = timeline.last();
        let head = Head {
            next_offset: last.map_or(baseline, |last| last.offset.saturating_add(1)),
            last_sequence: last.map(|last| last.sequence),
            acked: timeline.count(),
            baseline,
            ..Head::default()
        };
        Self { head, timeline, markers: Markers::default() }
    }
}

/// What a lane publishes at each wake-up.
#[derive(Debug, Default)]
pub struct LaneState {
    /// Record counters of the lane.
    pub counters: Counters,
    /// From intended time to hand-over.
    pub schedule_delay: Latency,
    /// From intended time to the ack.
    pub ack_from_intended: Latency,
    /// From hand-over to the ack.
    pub ack_from_sent: Latency,
    /// The lane's partitions.
    pub partitions: BTreeMap<u32, PartitionState>,
    /// Who limits the lane now.
    pub limited: Option<LimitedBy>,
    /// Whether acks have stopped although records are in flight.
    pub acks_stopped: bool,
    /// Age of the oldest record in the backlog.
    pub oldest_backlog_ns: u64,
    /// Round trip to each broker in microseconds (average of the client's last statistics).
    pub broker_rtt_micros: BTreeMap<i32, u64>,
    /// What the client made of the records.
    pub wire: Wire,
    /// The lane has ended: nothing more is sent or reported.
    pub done: bool,
    /// Records that were still in flight when the lane ended at the deadline of a stop.
    pub undelivered: u64,
    /// Of a stream that is only watched: when the last good look at its ends began (monotonic).
    pub looked_ns: Option<u64>,
    /// Of a stream that is only watched: how many partitions that look found.
    pub present: Option<u32>,
}

impl PartitionState {
    /// Takes in that the log, which ended beyond, goes on at this offset: what it held from there on is gone. What is known of
    /// it goes too, so that the head is that of the log that is there.
    #[cold]
    pub fn begins_again(&mut self, offset: u64) {
        let head = &mut self.head;
        let here = head.acked.saturating_sub(head.lost);
        // Below the run's first record it is another log, and nothing of the run is in it.
        let gone =
            if offset <= head.baseline { here } else { head.next_offset.saturating_sub(offset).min(here) };
        head.restarts += 1;
        head.lost = head.lost.saturating_add(gone);
        head.baseline = head.baseline.min(offset);
        (head.next_offset, head.log_start) = (offset, 0);
        self.timeline = Timeline::beginning_at(head.acked);
    }

    /// Takes in that the log, which somebody else writes, ends here; what came since the last look came between the two
    /// instants.
    fn ends_at(&mut self, end: u64, since_ns: u64, at_ns: u64) {
        if end < self.head.next_offset {
            // The topic was made anew: all that it holds has come since.
            self.begins_again(0);
        }
        let head = &mut self.head;
        self.timeline.grew(head.next_offset..end, head.acked, since_ns, at_ns);
        head.unseen = end - head.next_offset;
        head.acked += head.unseen;
        head.next_offset = end;
    }
}

/// The shared state of one stream.
#[derive(Debug)]
pub struct Stream {
    /// The stream's name in the settings.
    pub name: String,
    /// The topic, with `{run}` filled in.
    pub topic: String,
    /// Number of partitions of the topic.
    pub partitions: u32,
    /// Whether soakd produces it. A stream that it only watches has one lane that nobody runs: what is known of the topic
    /// stands there in the place of acks.
    pub produced: bool,
    /// Highest rate that may be set.
    pub max_rate: Rate,
    /// The daemon's clock.
    pub clock: Clock,
    /// When each record is due.
    pub schedule: Mutex<Schedule>,
    /// What each lane published. Partition p belongs to lane p mod lanes.
    pub lanes: Vec<Mutex<LaneState>>,
    /// How long the lanes were held back.
    pub held_back: Mutex<HeldBack>,
}

impl Stream {
    /// Partitions that the load goes to; of a stream that is only watched those that the topic has now.
    #[must_use]
    pub fn present(&self) -> u32 {
        let lane = self.lanes.first().filter(|_| !self.produced);
        lane.and_then(|lane| lock(lane).present).unwrap_or(self.partitions)
    }

    /// How often partitions began again, and the acked records that went with their logs.
    #[must_use]
    pub fn restarts(&self) -> (u64, u64) {
        self.lanes.iter().fold((0, 0), |sum, lane| {
            let lane = lock(lane);
            let heads = lane.partitions.values().map(|state| state.head);
            heads.fold(sum, |(restarts, lost), head| (restarts + head.restarts, lost + head.lost))
        })
    }

    /// How far each partition is acked, in order.
    #[must_use]
    pub fn heads(&self) -> Vec<Head> {
        let mut heads = vec![Head::default(); self.present() as usize];
        for lane in &self.lanes {
            for (partition, state) in &lock(lane).partitions {
                if let Some(head) = heads.get_mut(*partition as usize) {
                    *head = state.head;
                }
            }
        }
        heads
    }

    /// Looks a record up in the timeline of one partition.
    #[must_use]
    pub fn find(&self, partition: u32, key: Key) -> Option<Found> {
        let lane = self.lanes.get(partition as usize % self.lanes.len().max(1))?;
        lock(lane).partitions.get(&partition)?.timeline.find(key)
    }

    /// Copies of all timelines, by partition: for look-ups over the whole stream.
    #[must_use]
    pub fn timelines(&self) -> Vec<Timeline> {
        let mut all = vec![Timeline::default(); self.present() as usize];
        for lane in &self.lanes {
            for (partition, state) in &lock(lane).partitions {
                if let Some(timeline) = all.get_mut(*partition as usize) {
                    timeline.clone_from(&state.timeline);
                }
            }
        }
        all
    }

    /// For the run's record: what the timelines have gained since they were told up to these cursors, which are by
    /// partition and move on. Of partitions that have gained nothing there is no line.
    #[must_use]
    pub fn timeline_lines(&self, told: &mut BTreeMap<u32, Cursor>) -> BTreeMap<u32, Line> {
        let (now_ns, mut lines) = (self.clock.now_ns(), BTreeMap::new());
        for lane in &self.lanes {
            for (partition, state) in &lock(lane).partitions {
                let cursor = told.entry(*partition).or_default();
                if let Some((line, next)) = Line::since(&state.timeline, *cursor, now_ns) {
                    lines.insert(*partition, line);
                    *cursor = next;
                }
            }
        }
        lines
    }

    /// By partition: the number of the newest marker that is acked.
    #[must_use]
    pub fn acked_markers(&self) -> Vec<Option<u64>> {
        let mut newest = vec![None; self.partitions as usize];
        for lane in &self.lanes {
            for (partition, state) in &lock(lane).partitions {
                let acked = state.markers.iter().rev().find(|marker| marker.fate == Fate::Acked);
                if let Some(newest) = newest.get_mut(*partition as usize) {
                    *newest = acked.map(|marker| marker.number);
                }
            }
        }
        newest
    }

    /// The remembered markers of a partition with a number above the given one, oldest first.
    #[must_use]
    pub fn markers_after(&self, partition: u32, number: Option<u64>) -> Vec<Marker> {
        let Some(lane) = self.lanes.get(partition as usize % self.lanes.len().max(1)) else {
            return Vec::new();
        };
        let lane = lock(lane);
        let markers = lane.partitions.get(&partition).map(|state| state.markers.after(number));
        markers.map(|markers| markers.copied().collect()).unwrap_or_default()
    }

    /// Takes in how far a stream that is only watched reaches, by partition, as it was seen by a look between two instants.
    /// Partitions that were added came after `counted_ns`.
    pub fn saw_ends(&self, asked_ns: u64, answered_ns: u64, ends: &[u64], counted_ns: u64) {
        let Some(lane) = self.lanes.first().filter(|_| !self.produced) else { return };
        let mut lane = lock(lane);
        // What came before the first look may have come at once.
        let since_ns = lane.looked_ns.replace(asked_ns).unwrap_or(0);
        for (partition, end) in (0..).zip(ends) {
            let known = lane.partitions.contains_key(&partition);
            let since_ns = if known { since_ns } else { counted_ns.min(since_ns) };
            lane.partitions.entry(partition).or_default().ends_at(*end, since_ns, answered_ns);
        }
        let present = u32::try_from(ends.len()).unwrap_or(u32::MAX);
        // Partitions only go with their topic. What came in them has come; should they come back, they are others.
        let gone = lane.partitions.range_mut(present..).filter(|(_, state)| state.head.next_offset > 0);
        gone.for_each(|(_, state)| state.begins_again(0));
        lane.present = Some(present);
    }

    /// Notes that a look at a stream that is only watched failed: the age of what is known counts from the first look on.
    pub fn missed_look(&self, asked_ns: u64) {
        if let Some(lane) = self.lanes.first() {
            lock(lane).looked_ns.get_or_insert(asked_ns);
        }
    }

    /// How long ago the ends of a stream that is only watched were last seen; 0 for one that soakd produces, and before the
    /// first look.
    #[must_use]
    pub fn look_age_ns(&self, now_ns: u64) -> u64 {
        let lane = self.lanes.first().filter(|_| !self.produced);
        lane.and_then(|lane| lock(lane).looked_ns).map_or(0, |looked_ns| now_ns.saturating_sub(looked_ns))
    }

    /// Sets the broker's low watermark of a partition.
    pub fn set_log_start(&self, partition: u32, log_start: u64) {
        let Some(lane) = self.lanes.get(partition as usize % self.lanes.len().max(1)) else { return };
        if let Some(state) = lock(lane).partitions.get_mut(&partition) {
            state.head.log_start = log_start;
        }
    }

    /// The stream at this instant, lanes added up.
    #[must_use]
    pub fn snapshot(&self) -> StreamSnapshot {
        let mut snapshot = StreamSnapshot { topic: self.topic.clone(), ..StreamSnapshot::default() };
        for lane in &self.lanes {
            let lane = lock(lane);
            snapshot.counters.add(&lane.counters);
            snapshot.schedule_delay.add(lane.schedule_delay.buckets());
            snapshot.ack_from_intended.add(lane.ack_from_intended.buckets());
            snapshot.ack_from_sent.add(lane.ack_from_sent.buckets());
            snapshot.acks_stopped |= lane.acks_stopped;
            snapshot.oldest_backlog_ns = snapshot.oldest_backlog_ns.max(lane.oldest_backlog_ns);
            if let Some(by) = lane.limited
                && let Some(limited) = snapshot.limited.get_mut(by as usize)
            {
                *limited = true;
            }
            snapshot.wire.add(&lane.wire);
            if !self.produced {
                let came =
                    lane.partitions.values().fold(0_u64, |sum, state| sum.saturating_add(state.head.acked));
                snapshot.watched_records = Some(snapshot.watched_records.unwrap_or(0).saturating_add(came));
            }
            for (broker, micros) in &lane.broker_rtt_micros {
                let slowest = snapshot.broker_rtt_micros.entry(*broker).or_default();
                *slowest = (*slowest).max(*micros);
            }
        }
        let held_back = lock(&self.held_back);
        snapshot.counters.limited_ns = held_back.limited_ns();
        snapshot.counters.stalls = held_back.stalls();
        if let Some(limited) = snapshot.limited.get_mut(LimitedBy::Generator as usize) {
            *limited |= held_back.own_limit();
            snapshot.own_text = limited.then(|| held_back.own_text().to_owned());
        }
        drop(held_back);
        let mut schedule = lock(&self.schedule);
        let now_ns = self.clock.now_ns();
        snapshot.target = schedule.target_now(now_ns);
        snapshot.set_rate = schedule.pace(now_ns);
        snapshot.planned = schedule.planned(now_ns);
        snapshot.paused = schedule.is_paused();
        snapshot.rate_changed_ns = schedule.rate_changed_ns();
        snapshot
    }

    /// The full distributions, lanes merged: schedule delay, ack from intended time, ack from hand-over. Copies
    /// some hundred kilobytes, so for status and report only.
    #[must_use]
    pub fn latencies(&self) -> Latencies {
        let mut all = Latencies::default();
        for lane in &self.lanes {
            let lane = lock(lane);
            all.schedule_delay.add(&lane.schedule_delay);
            all.ack_from_intended.add(&lane.ack_from_intended);
            all.ack_from_sent.add(&lane.ack_from_sent);
        }
        all
    }
}

impl Records for Stream {
    fn find(&self, partition: u32, key: Key) -> Option<Found> {
        Self::find(self, partition, key)
    }

    fn timelines(&self) -> Vec<Timeline> {
        Self::timelines(self)
    }

    fn markers_after(&self, partition: u32, number: Option<u64>) -> Vec<Marker> {
        Self::markers_after(self, partition, number)
    }
}

/// The three distributions of a stream.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs)]
pub struct Latencies {
    pub schedule_delay: Latency,
    pub ack_from_intended: Latency,
    pub ack_from_sent: Latency,
}

/// A stream at one instant.
#[derive(Debug, Clone, Default)]
pub struct StreamSnapshot {
    /// The topic.
    pub topic: String,
    /// The pace that the schedule follows now: 0 while paused, before the start and after the end.
    pub target: Pace,
    /// The pace that is set, whether paused or not; of a profile the one of this moment.
    pub set_rate: Pace,
    /// What the schedule has asked for up to now.
    pub planned: Planned,
    /// Whether this stream, or the whole load, is paused.
    pub paused: bool,
    /// When the rate was last set (monotonic).
    pub rate_changed_ns: u64,
    /// All record counters.
    pub counters: Counters,
    /// From intended time to hand-over.
    pub schedule_delay: Buckets,
    /// From intended time to the ack.
    pub ack_from_intended: Buckets,
    /// From hand-over to the ack.
    pub ack_from_sent: Buckets,
    /// Who limits the load now, by [`LimitedBy`], in the order of `ALL`.
    pub limited: [bool; LimitedBy::ALL.len()],
    /// While soakd is the limit: what was last measured of it, in words.
    pub own_text: Option<String>,
    /// Whether acks have stopped although records are in flight.
    pub acks_stopped: bool,
    /// Age of the oldest record in the backlog.
    pub oldest_backlog_ns: u64,
    /// Round trip to each broker in microseconds, the slowest lane's.
    pub broker_rtt_micros: BTreeMap<i32, u64>,
    /// What the clients made of the records.
    pub wire: Wire,
    /// Of a stream that is only watched: records that came since the start, by the broker's end offsets.
    pub watched_records: Option<u64>,
}

#[cfg(test)]
mod tests;
