//! `GET /metrics`.

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::Shared;
use super::problem::Problem;
use crate::metrics::CONTENT_TYPE;

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/metrics", get(scrape))
}

async fn scrape(State(app): State<Shared>) -> Result<Response, Problem> {
    let text = app.metrics.render(&app.board().snapshot()).map_err(|error| {
        let detail = format!("the metrics cannot be rendered: {error}");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
    })?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response())
}
