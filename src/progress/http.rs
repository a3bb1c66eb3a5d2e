//! Progress by an answer over HTTP: a number in JSON or text, or rows of partition and number.

mod lookup;
mod pick;

use hyper::Method;
use tokio::time::Instant;

use crate::core::lag::{Progress, ValueKind};
use crate::core::stream::Stream;

use super::poll::{Answering, ProbeError, Source};
use super::rows::{Answer, interpret};
use super::settings::{HttpLookup, HttpMethod, HttpSettings};
use super::web::{Question, Web, WebError, as_part, text_of};
use lookup::{Found, look_up, put_in};
use pick::Pick;

pub(super) use lookup::{is_pointer, refuse as refuse_lookups};
pub(super) use pick::compile;

/// Progress takes some kilobytes; what is larger is another answer.
const MOST_BYTES: usize = 1 << 20;
/// Longest path that what was found is put into. Many servers take no first line of more than 4 KiB; the rest is asked for by
/// another request.
const MOST_PATH_BYTES: usize = 3500;

/// Asks a server over HTTP.
pub(super) struct HttpSource {
    web: Web,
    method: Method,
    path: String,
    body: String,
    pick: Pick,
    kind: ValueKind,
    topic: String,
    partitions: u32,
    lookups: Vec<HttpLookup>,
    /// Good answers with a lag below zero.
    below_zero: u64,
    /// What the look-ups of this poll found.
    found: Found,
}

impl HttpSource {
    /// A source for a stream. Reads files, connects to nothing.
    ///
    /// # Errors
    /// When URL, credentials, headers, files or the regular expression cannot be used.
    pub(super) fn new(settings: &HttpSettings, kind: ValueKind, stream: &Stream) -> Result<Self, WebError> {
        let web = Web::new(&settings.access(), &settings.headers, MOST_BYTES)?;
        let method = match settings.method {
            HttpMethod::Get => Method::GET,
            HttpMethod::Post => Method::POST,
        };
        Ok(Self {
            web,
            method,
            path: settings.path.clone(),
            body: settings.body.clone(),
            pick: Pick::new(settings).map_err(WebError::Setting)?,
            kind,
            topic: stream.topic.clone(),
            partitions: stream.partitions,
            lookups: settings.lookup.clone(),
            below_zero: 0,
            found: Found::default(),
        })
    }

    async fn prepare(&mut self, deadline: Instant) -> Result<(), ProbeError> {
        self.web.ready(deadline).await?;
        // At every poll: Flink goes on serving the last figures of a job that has ended, whether or not another of its name
        // runs by now.
        self.found = look_up(&mut self.web, &self.lookups, &self.topic, deadline).await?;
        // The last answer may have been the connection's last.
        self.web.ready(deadline).await?;
        Ok(())
    }

    async fn asked(&mut self, deadline: Instant) -> Result<Progress, ProbeError> {
        let found = std::mem::take(&mut self.found);
        self.answer(&found, deadline).await
    }

    async fn answer(&mut self, found: &Found, deadline: Instant) -> Result<Progress, ProbeError> {
        let mut whole: Option<Answer> = None;
        for found in portions(found) {
            let path = put_in(&self.path, &found, as_part);
            let body = put_in(&self.body, &found, str::to_owned);
            let question = Question { method: self.method.clone(), path, body };
            let answer = self.web.ask(&question, deadline).await?;
            let part = self.pick.read(text_of(&answer, self.pick.reads_html())?, &self.topic)?;
            match &mut whole {
                None => whole = Some(part),
                Some(whole) => whole.rows.extend(part.rows),
            }
        }
        let whole = whole.unwrap_or_default();
        let progress = interpret(&whole, self.kind, self.partitions)?;
        self.below_zero += u64::from(whole.states_below_zero(self.kind));
        Ok(progress)
    }
}

impl Source for HttpSource {
    fn ready(&mut self, deadline: Instant) -> Answering<'_, ()> {
        Box::pin(self.prepare(deadline))
    }

    fn ask(&mut self, deadline: Instant) -> Answering<'_, Progress> {
        Box::pin(self.asked(deadline))
    }

    fn below_zero(&self) -> u64 {
        self.below_zero
    }
}

/// What was found, in as many portions as it takes for the path to stay short.
fn portions(found: &Found) -> Vec<Found> {
    let Some((name, values)) = found.iter().find(|(_, values)| values.len() > 1) else {
        return vec![found.clone()];
    };
    let mut portions: Vec<Vec<String>> = Vec::new();
    let mut room = 0;
    for value in values {
        let needed = as_part(value).len() + 1;
        match portions.last_mut() {
            Some(last) if needed <= room => last.push(value.clone()),
            _ => {
                room = MOST_PATH_BYTES;
                portions.push(vec![value.clone()]);
            }
        }
        room = room.saturating_sub(needed);
    }
    let portion = |values| {
        let mut portion = found.clone();
        portion.insert(name.clone(), values);
        portion
    };
    portions.into_iter().map(portion).collect()
}

#[cfg(test)]
mod tests;
