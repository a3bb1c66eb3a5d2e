//! Looks at the kernel's files, again and again.

use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

/// Has a watch look at every interval until it is told to stop, each time on a thread that may wait. A look that breaks off, as
/// none ever should, is logged as `end` and ends the watching.
pub(super) async fn looks<W: Send + 'static>(
    mut watch: W,
    interval: Duration,
    look: fn(&mut W),
    end: &'static str,
    stop: CancellationToken,
) {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let looking = tokio::task::spawn_blocking(move || {
            look(&mut watch);
            watch
        });
        let looked = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            looked = looking => looked,
        };
        match looked {
            Ok(back) => watch = back,
            Err(error) => {
                tracing::error!(%error, "{end}");
                return;
            }
        }
    }
}
