//! What both kinds that ask over HTTP have in common: asking in time, and when a silence is a loss.

use std::time::Duration;

use tokio::time::Instant;

use super::error::ProcessError;
use crate::config::Properties;
use crate::core::clock::Clock;
use crate::net::http::Answer;
use crate::net::web::{Access, AskError, Question, Web, text_of};

/// So many looks in a row may fail before a process counts as lost: one is a hiccup of the network.
pub(super) const MISSES: u32 = 3;

/// A server that is asked about processes.
pub(super) struct Remote {
    /// Made at the first look, and again while its files cannot be read.
    web: Option<Web>,
    make: Box<dyn Fn() -> Result<Web, ProcessError> + Send>,
    timeout: Duration,
    misses: u32,
    pub(super) clock: Clock,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Nothing of what is sent along.
        f.debug_struct("Remote").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// An answer, and when it was asked for and whole.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) answer: Answer,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
}

impl Heard {
    /// The body as text.
    pub(super) fn text(&self) -> Result<&str, ProcessError> {
        text_of(&self.answer, false).map_err(|error| ProcessError::Remote(error.text))
    }
}

impl Remote {
    /// Nothing is read and nothing connected yet.
    pub(super) fn new(
        make: impl Fn() -> Result<Web, ProcessError> + Send + 'static,
        timeout: Duration,
        clock: Clock,
    ) -> Self {
        Self { web: None, make: Box::new(make), timeout, misses: 0, clock }
    }

    /// Asks once; a connection that the server had closed for being idle costs no look.
    pub(super) async fn ask(&mut self, path: &str) -> Result<Heard, ProcessError> {
        let deadline = Instant::now() + self.timeout;
        let web = match &mut self.web {
            Some(web) => web,
            none => none.insert((self.make)()?),
        };
        let question = Question::get(path.to_owned());
        let failed = |error: AskError| ProcessError::Remote(error.text);
        for last in [false, true] {
            Box::pin(web.ready(deadline)).await.map_err(failed)?;
            let from_ns = self.clock.now_ns();
            match Box::pin(web.ask(&question, deadline)).await {
                Ok(answer) => return Ok(Heard { answer, from_ns, to_ns: self.clock.now_ns() }),
                Err(error) if error.stale && !last => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(ProcessError::Remote("the connection was closed twice".to_owned()))
    }

    /// Counts looks that failed; whether it is time to say that the process is lost.
    pub(super) fn missed(&mut self) -> bool {
        self.misses = self.misses.saturating_add(1);
        self.misses >= MISSES
    }

    pub(super) const fn heard(&mut self) {
        self.misses = 0;
    }
}

/// A server of settings.
pub(super) fn web(access: &Access<'_>, accept: &str, most_bytes: usize) -> Result<Web, ProcessError> {
    let headers = Properties::from_iter([("accept", accept)]);
    Web::new(access, &headers, most_bytes).map_err(|error| ProcessError::Remote(error.to_string()))
}
