//! `/api/v1/runs`: the runs, and stopping the current one.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Serialize;

use super::body::NoFields;
use super::problem::Problem;
use super::{App, Segment, Shared};
use crate::core::clock::Clock;
use crate::core::lock::lock;
use crate::core::status::RunStatus;

/// The name of the running run in paths.
const CURRENT: &str = "current";

/// A run.
#[derive(Debug, Serialize)]
pub(super) struct RunBody {
    id: String,
    name: String,
    tags: BTreeMap<String, String>,
    state: &'static str,
    /// When the load began.
    started: Option<String>,
    /// When the measured phase began.
    measuring: Option<String>,
    finished: Option<String>,
    /// Length of the measured phase; none when the run goes on until it is stopped.
    duration_seconds: Option<f64>,
    warmup_seconds: f64,
    /// Why it was asked to stop, if it was.
    stop_requested: Option<String>,
    /// Why it stopped or is stopping.
    cause: Option<String>,
    verdict: Option<String>,
}

impl RunBody {
    pub(super) fn new(run: &RunStatus, clock: Clock, stop_requested: Option<String>) -> Self {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let stamp = |at_ns: u64| clock.rfc3339(at_ns);
        Self {
            id: run.id.clone(),
            name: run.name.clone(),
            tags: run.tags.clone(),
            state: run.state.name(),
            started: run.started_ns.map(stamp),
            measuring: run.measuring_ns.map(stamp),
            finished: run.finished_ns.map(stamp),
            duration_seconds: run.duration_ns.map(seconds),
            warmup_seconds: seconds(run.warmup_ns),
            stop_requested,
            cause: run.cause.clone(),
            verdict: run.verdict.clone(),
        }
    }
}

#[derive(Debug, Serialize)]
struct Runs {
    runs: Vec<RunBody>,
}

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/api/v1/runs", get(list))
        .route("/api/v1/runs/{id}", get(one))
        .route("/api/v1/runs/{id}/stop", post(stop))
}

fn current(app: &App) -> RunBody {
    let run = lock(&app.board().run).clone();
    RunBody::new(&run, app.board().clock, app.control.stop_requested())
}

fn find(app: &App, id: &str) -> Result<RunBody, Problem> {
    let run = current(app);
    if id == CURRENT || id == run.id {
        return Ok(run);
    }
    let detail = format!("there is no run {id:?}: the current one is {:?}", run.id);
    Err(Problem::not_found(detail))
}

async fn list(State(app): State<Shared>) -> Json<Runs> {
    Json(Runs { runs: vec![current(&app)] })
}

async fn one(State(app): State<Shared>, Segment(id): Segment) -> Result<Json<RunBody>, Problem> {
    find(&app, &id).map(Json)
}

/// Asks the run to stop; it does so on its own, so that the answer is 202. A second time changes nothing.
async fn stop(
    State(app): State<Shared>,
    Segment(id): Segment,
    _: NoFields,
) -> Result<(StatusCode, Json<RunBody>), Problem> {
    let run = find(&app, &id)?;
    if run.finished.is_none() {
        app.control.request_stop("http");
    }
    Ok((StatusCode::ACCEPTED, Json(current(&app))))
}
