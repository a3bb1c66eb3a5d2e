//! `/api/v1/rate` and `/api/v1/streams/{name}/rate`.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;

use super::body::Fields;
use super::problem::Problem;
use super::{App, Segment, Shared};
use crate::core::control::ControlError;
use crate::core::lock::lock;
use crate::core::rate::Rate;
use crate::core::stream::Stream;

/// The one field of a change.
const FIELD: &str = "records_per_second";

/// The rate of one stream.
#[derive(Debug, Serialize)]
pub(super) struct StreamRate {
    /// As set, whether paused or not.
    records_per_second: f64,
    /// What the schedule follows now: 0 while paused, before the start and after the end.
    target_records_per_second: f64,
    /// The highest rate that may be set.
    max_records_per_second: f64,
    paused: bool,
}

/// The rates of all streams.
#[derive(Debug, Serialize)]
pub(super) struct Rates {
    /// Total of the rates that are set.
    records_per_second: f64,
    target_records_per_second: f64,
    streams: BTreeMap<String, StreamRate>,
}

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/api/v1/rate", get(total).put(set_total))
        .route("/api/v1/streams/{name}/rate", get(one).put(set_one))
}

async fn total(State(app): State<Shared>) -> Json<Rates> {
    Json(rates(&app))
}

async fn set_total(State(app): State<Shared>, fields: Fields) -> Result<Json<Rates>, Problem> {
    app.control.set_total_rate(asked(fields)?)?;
    Ok(Json(rates(&app)))
}

async fn one(State(app): State<Shared>, Segment(name): Segment) -> Result<Json<StreamRate>, Problem> {
    stream_rate(&app, &name).map(Json)
}

async fn set_one(
    State(app): State<Shared>,
    Segment(name): Segment,
    fields: Fields,
) -> Result<Json<StreamRate>, Problem> {
    app.control.set_rate(&name, asked(fields)?)?;
    stream_rate(&app, &name).map(Json)
}

/// The rate that a body asks for.
fn asked(fields: Fields) -> Result<Rate, Problem> {
    let number = fields.only(&[FIELD])?.number(FIELD)?;
    Rate::from_per_second(number).map_err(|error| Problem::unprocessable(error.to_string()).field(FIELD))
}

/// What every stream is set to now.
pub(super) fn rates(app: &App) -> Rates {
    let (mut set, mut target) = (0_u64, 0_u64);
    let mut streams = BTreeMap::new();
    for (name, stream) in &app.board().streams {
        let (rate, now, line) = read(stream);
        set = set.saturating_add(rate.micros());
        target = target.saturating_add(now.micros());
        streams.insert(name.clone(), line);
    }
    // Added up in millionths, so that the total is exactly what was asked for.
    Rates {
        records_per_second: Rate::from_micros(set).per_second(),
        target_records_per_second: Rate::from_micros(target).per_second(),
        streams,
    }
}

/// What one stream is set to now.
pub(super) fn stream_rate(app: &App, name: &str) -> Result<StreamRate, Problem> {
    let streams = &app.board().streams;
    let stream = streams.get(name).ok_or_else(|| ControlError::UnknownStream {
        name: name.to_owned(),
        known: streams.keys().cloned().collect::<Vec<_>>().join(", "),
    })?;
    Ok(read(stream).2)
}

fn read(stream: &Stream) -> (Rate, Rate, StreamRate) {
    let schedule = lock(&stream.schedule);
    let (set, target) = (schedule.rate(), schedule.target_now(stream.clock.now_ns()));
    let line = StreamRate {
        records_per_second: set.per_second(),
        target_records_per_second: target.per_second(),
        max_records_per_second: stream.max_rate.per_second(),
        paused: schedule.is_paused(),
    };
    (set, target, line)
}
