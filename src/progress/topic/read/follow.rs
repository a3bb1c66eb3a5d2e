//! Follows the topic's partitions as they are: those that are added, those of a topic that was made anew, and what lies too far
//! ahead to be read.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaResult;
use rdkafka::{Offset, TopicPartitionList};

use super::Reader;
use crate::kafka::topic::{ends, partitions};

/// Records behind the topic's end beyond which the reader leaves some out.
const MAX_BEHIND: u64 = 200_000;
/// Records of each partition that it still reads then, so that the newest are among them.
const KEPT: u64 = 1_000;
/// How long the number of the topic's partitions is good for. Asked between polls: it takes tens of milliseconds, and would make
/// what a poll answers so much less exact.
const PARTITIONS_FRESH: Duration = Duration::from_secs(1);
/// How long that question may take: a poll waits as long.
const PARTITIONS_PATIENCE: Duration = Duration::from_secs(1);

impl Reader {
    /// Looks from time to time whether there are other partitions than before. A failure is for the next poll to tell.
    pub(super) fn look_for_partitions(&mut self) {
        let Some((known, _)) = self.partitions.filter(|(_, at)| at.elapsed() >= PARTITIONS_FRESH) else {
            return;
        };
        self.partitions = None;
        let (asker, topic) = (Arc::clone(&self.asker), self.target.settings.topic.clone());
        let before = self.next.clone();
        let look = || {
            let deadline = Instant::now() + PARTITIONS_PATIENCE;
            let found = partitions(&asker, &topic, deadline).ok().flatten()?;
            let looked =
                if found == known { None } else { Some(ends(&asker, &topic, found, deadline).ok()?) };
            Some((found, looked))
        };
        let Some((found, looked)) = self.reading_meanwhile(look).flatten() else { return };
        if let Some(looked) = looked {
            let topic = &self.target.settings.topic;
            tracing::info!(
                topic,
                from = known,
                to = found,
                "the output topic has another number of partitions now"
            );
            if !before.is_empty() && self.follow(&looked, &before).is_err() {
                return;
            }
        }
        self.partitions = Some((found, Instant::now()));
    }

    /// Reads the partitions that are there, each from where it was (`before` the question): from its end at the first look, from its beginning when
    /// it is new, and all from their beginnings when the topic was made anew.
    pub(super) fn follow(&mut self, ends: &[u64], before: &[u64]) -> KafkaResult<()> {
        if self.consumer.is_none() {
            return Ok(());
        }
        let (first, had) = (self.next.is_empty(), self.next.len());
        let mut changed = first || had > ends.len();
        self.next.truncate(ends.len());
        self.found_at.truncate(ends.len());
        for end in ends.iter().skip(self.next.len()) {
            self.next.push(if first { *end } else { 0 });
            self.found_at.push(if first { 0 } else { *end });
        }
        // Held against what was read before the question: the reader may be beyond the ends that are the answer.
        if before.len() > ends.len() || ends.iter().zip(before).any(|(end, before)| end < before) {
            self.begin_again(ends);
            changed = true;
        }
        changed |= self.leave_out(ends);
        match (changed, had < ends.len()) {
            (true, _) => self.read_from(0),
            (false, true) => self.read_from(had),
            (false, false) => Ok(()),
        }
    }

    /// The topic was deleted and made anew, or cut short: what was read of it is there no more. Those of its partitions whose ends
    /// have not fallen are others as well; which one told which value is not known apart.
    fn begin_again(&mut self, ends: &[u64]) {
        tracing::warn!(
            topic = self.target.settings.topic,
            "the output topic's end fell: it was deleted and made anew, or cut short; reading it from its beginning"
        );
        (self.next, self.found_at) = (vec![0; ends.len()], ends.to_vec());
        self.newest.clear();
        (self.taken, self.unreadable) = (0, 0);
    }

    /// Leaves out what there is no time to read; whether there was such.
    fn leave_out(&mut self, ends: &[u64]) -> bool {
        let behind =
            |next: &[u64]| next.iter().zip(ends).map(|(next, end)| end.saturating_sub(*next)).sum::<u64>();
        let before = behind(&self.next);
        if before <= MAX_BEHIND {
            return false;
        }
        for (next, end) in self.next.iter_mut().zip(ends) {
            *next = end.saturating_sub(KEPT).max(*next);
        }
        self.target.shared.skipped.fetch_add(before - behind(&self.next), Ordering::Relaxed);
        true
    }

    /// Reads the partitions from `first` on where they are to be read; when that is 0 all of them anew, else the others as before.
    fn read_from(&mut self, first: usize) -> KafkaResult<()> {
        let Some(consumer) = &self.consumer else { return Ok(()) };
        let mut list = TopicPartitionList::new();
        for (partition, next) in (0..).zip(&self.next).skip(first) {
            let offset = Offset::Offset(i64::try_from(*next).unwrap_or(i64::MAX));
            list.add_partition_offset(&self.target.settings.topic, partition, offset)?;
        }
        if first > 0 {
            self.at_end.resize(self.next.len(), false);
            return consumer.incremental_assign(&list);
        }
        self.at_end = vec![false; self.next.len()];
        consumer.assign(&list)
    }
}
