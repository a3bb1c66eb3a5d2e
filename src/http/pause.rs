//! `POST /api/v1/pause` and `/api/v1/resume`, and the same of one stream. Idempotent.

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};

use super::body::NoFields;
use super::problem::Problem;
use super::rate::{Rates, StreamRate, rates, stream_rate};
use super::{Segment, Shared};

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/api/v1/pause", post(pause_all))
        .route("/api/v1/resume", post(resume_all))
        .route("/api/v1/streams/{name}/pause", post(pause_one))
        .route("/api/v1/streams/{name}/resume", post(resume_one))
}

async fn pause_all(State(app): State<Shared>, _: NoFields) -> Result<Json<Rates>, Problem> {
    app.control.pause(None)?;
    Ok(Json(rates(&app)))
}

async fn resume_all(State(app): State<Shared>, _: NoFields) -> Result<Json<Rates>, Problem> {
    app.control.resume(None)?;
    Ok(Json(rates(&app)))
}

async fn pause_one(
    State(app): State<Shared>,
    Segment(name): Segment,
    _: NoFields,
) -> Result<Json<StreamRate>, Problem> {
    app.control.pause(Some(&name))?;
    stream_rate(&app, &name).map(Json)
}

async fn resume_one(
    State(app): State<Shared>,
    Segment(name): Segment,
    _: NoFields,
) -> Result<Json<StreamRate>, Problem> {
    app.control.resume(Some(&name))?;
    stream_rate(&app, &name).map(Json)
}
