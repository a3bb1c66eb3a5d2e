//! `GET /livez` and `GET /readyz`. An outage of broker or system under test is what soakd is there to watch: it shows
//! as degraded and never makes the daemon unready.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;

use super::Shared;
use crate::core::counters::LimitedBy;
use crate::core::status::{RunState, Snapshot, SourceStatus};

#[derive(Debug, Serialize)]
pub(super) struct Health {
    status: &'static str,
    reasons: Vec<String>,
}

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/livez", get(live)).route("/readyz", get(ready))
}

pub(super) async fn live() -> Json<Health> {
    Json(Health { status: "ok", reasons: Vec::new() })
}

async fn ready(State(app): State<Shared>) -> (StatusCode, Json<Health>) {
    let snapshot = app.board().snapshot();
    if snapshot.run.state == RunState::Starting {
        let reasons = vec!["the start is not over".to_owned()];
        return (StatusCode::SERVICE_UNAVAILABLE, Json(Health { status: "starting", reasons }));
    }
    let reasons = degraded(&snapshot);
    let status = if reasons.is_empty() { "ok" } else { "degraded" };
    (StatusCode::OK, Json(Health { status, reasons }))
}

/// Everything that is out of order, a sentence each.
pub(super) fn degraded(snapshot: &Snapshot) -> Vec<String> {
    let mut reasons = Vec::new();
    for (name, stream) in &snapshot.streams {
        let (in_flight, backlog) = (stream.counters.in_flight, stream.counters.backlog);
        if stream.acks_stopped {
            reasons.push(format!("stream {name}: acks have stopped with {in_flight} records in flight"));
        }
        for ((who, by), _) in LimitedBy::ALL.iter().zip(stream.limited).filter(|(_, limited)| *limited) {
            let oldest = stream.oldest_backlog_ns as f64 / 1e9;
            let own =
                stream.own_text.as_deref().filter(|own| *who == LimitedBy::Generator && !own.is_empty());
            let why = own.map(|own| format!("; {own}")).unwrap_or_default();
            reasons.push(format!(
                "stream {name}: the load is limited by the {by}, with {in_flight} records in flight and a backlog of \
                 {backlog}, the oldest {oldest:.1} s{why}"
            ));
        }
    }
    for (name, source) in &snapshot.sources {
        if is_down(source) {
            let error = source.error.as_deref().unwrap_or("the last poll was not answered");
            reasons.push(format!("source {name}: {error}"));
        }
    }
    for (name, process) in &snapshot.processes {
        if !process.up {
            let error = process.error.as_deref().unwrap_or("it is not there");
            reasons.push(format!("process {name}: {error}"));
        }
    }
    reasons
}

/// A source before its first poll is neither up nor down.
fn is_down(source: &SourceStatus) -> bool {
    !source.up && (source.missed_polls > 0 || source.error.is_some())
}
