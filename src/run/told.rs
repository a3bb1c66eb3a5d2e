//! Events as log lines, one a change of state: what happened in words, the details as fields, so that a person reads
//! them and a log search filters by them. What explains a bad chart is a warning.

use std::borrow::Cow;

use tracing::{info, warn};

use crate::core::event::Event;

/// Logs an event.
pub fn tell(event: &Event) {
    match event {
        Event::RunStarted { run } => info!(%run, "run started"),
        Event::MeasuringStarted { run } => info!(%run, "measured phase began"),
        Event::RunStopping { run, cause } => info!(%run, %cause, "load ended"),
        Event::RunFinished { run, verdict } => info!(%run, %verdict, "run finished"),
        Event::RateChanged { stream, from_records_per_second: from, to_records_per_second: to } => {
            info!(%stream, from_records_per_second = %from, to_records_per_second = %to, "rate changed");
        }
        Event::ProfileStarted { stream, profile } => {
            info!(%stream, profile = %shortened(profile), "profile started");
        }
        Event::Paused { stream: None } => info!("paused"),
        Event::Paused { stream: Some(stream) } => info!(%stream, "paused"),
        Event::Resumed { stream: None } => info!("resumed"),
        Event::Resumed { stream: Some(stream) } => info!(%stream, "resumed"),
        Event::LoadLimited { stream, by, reason } => warn!(%stream, by, reason, "load limited"),
        Event::LoadUnlimited { stream, by, seconds } => {
            info!(%stream, by, after_seconds = rounded(*seconds), "load no longer limited");
        }
        Event::AcksStopped { stream, lane } => warn!(%stream, lane, "acks stopped"),
        Event::AcksResumed { stream, lane, seconds } => {
            info!(%stream, lane, after_seconds = rounded(*seconds), "acks resumed");
        }
        Event::ClientRebuilt { stream, lane, reason } => warn!(%stream, lane, reason, "kafka client rebuilt"),
        Event::SourceLost { source, error } => warn!(%source, error, "source lost"),
        Event::SourceFound { source, seconds } => {
            info!(%source, after_seconds = rounded(*seconds), "source found again");
        }
        Event::ProgressReset { source, from, to } => warn!(%source, from, to, "progress fell"),
        Event::Recovered { source, back_seconds, caught_up_seconds } => {
            let (back_seconds, caught_up_seconds) = (rounded(*back_seconds), rounded(*caught_up_seconds));
            info!(%source, back_seconds, caught_up_seconds, "the system has caught up again");
        }
        Event::StandstillBegan { source, seconds } => {
            let for_seconds = rounded(*seconds);
            warn!(%source, for_seconds, "standstill: there is lag and progress does not move");
        }
        Event::StandstillEnded { source, seconds } => {
            info!(%source, after_seconds = rounded(*seconds), "standstill ended");
        }
        Event::ProcessLost { process } => warn!(%process, "process lost"),
        Event::ProcessFound { process, pid } => info!(%process, pid, "process found"),
        Event::LogRestarted { stream, partitions, lost_records } => {
            let what = "the topic's offsets began again: it was deleted and made anew, or its log was cut short, and what it held is \
                        gone";
            warn!(%stream, partitions, lost_records, "{what}");
        }
        Event::PartitionsChanged { stream, from, to } if to < from => {
            warn!(%stream, from, to, "the topic was deleted and made anew with fewer partitions");
        }
        Event::PartitionsChanged { stream, from, to } => {
            warn!(%stream, from, to, "the topic's partitions changed; what soakd produces goes on to those of the start");
        }
        Event::ProcessRestarted { process, pid } => warn!(%process, pid, "process restarted"),
        Event::RecordsUnmade { stream, reason } => {
            warn!(%stream, reason, "records cannot be made: dropping them")
        }
        Event::ClockStepped { seconds } => warn!(by_seconds = rounded(*seconds), "wall clock stepped"),
    }
}

/// Most characters of a profile in a log line: a thousand parts are 50 KB, and whoever sends them may do so often.
const MOST_SHOWN: usize = 300;

/// The beginning of a long text.
fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MOST_SHOWN).and_then(|(end, _)| text.get(..end)) {
        Some(beginning) => format!("{beginning}… ({} bytes in all)", text.len()).into(),
        None => text.into(),
    }
}

/// Milliseconds are as much as a reader of a log wants.
fn rounded(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_profile_is_cut_between_characters() {
        assert_eq!(shortened("[{\"rate\":5}]"), "[{\"rate\":5}]");
        let long = "ä".repeat(MOST_SHOWN + 1);
        assert_eq!(shortened(&long), format!("{}… (602 bytes in all)", "ä".repeat(MOST_SHOWN)));
        assert_eq!(shortened(&long[2..]), long[2..]);
    }
}
