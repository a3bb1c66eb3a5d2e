//! SIGTERM and SIGINT.

use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::core::control::Control;

/// Exit code of whoever is told to leave at once: by a signal during the start, or by a second one.
pub(super) const LEFT_AT_ONCE: u8 = 130;

/// The signals that end a daemon. From here on they no longer kill the process by themselves.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn new() -> Result<Self, std::io::Error> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// The first one stops the run (or its drain, or an idle daemon), the second leaves at once.
    pub(super) async fn watch(mut self, control: Arc<Control>, signalled: CancellationToken) {
        self.next().await;
        tracing::info!("signal: stopping; a second one leaves at once");
        // In this order: who sees the request also sees that it was a signal.
        signalled.cancel();
        control.request_stop("signal");
        self.next().await;
        tracing::warn!("second signal: leaving at once, without flush and report");
        std::process::exit(i32::from(LEFT_AT_ONCE));
    }
}
