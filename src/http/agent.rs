//! What an agent serves: its report for soakd, the same as metrics for Prometheus, and nothing that changes anything. Where there
//! is a token, reading needs it.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::edge::Guard;
use super::problem::Problem;
use super::server::{HttpListener, serve_all};
use super::{behind_the_edge, health, nothing_here};
use crate::core::agent::{AgentReport, FORMAT, PATH};
use crate::core::clock::wall_now;
use crate::core::machine::OWN_MACHINE;
use crate::core::status::Board;
use crate::metrics::{CONTENT_TYPE, Renderer};

const TEXT: &str = "\
soakd agent: processes of this machine, for a soakd on another

GET  /livez          200 while the agent answers
GET  /metrics        processes and machine as metrics for Prometheus
GET  /api/v1/agent   the same for soakd: processes with kind = \"agent\"
";

/// The server of an agent, not serving yet.
#[derive(Debug)]
pub struct AgentServer {
    listener: TcpListener,
    guard: Guard,
    app: Arc<App>,
}

#[derive(Debug)]
struct App {
    board: Arc<Board>,
    instance: String,
    interval_ns: BTreeMap<String, u64>,
    metrics: Renderer,
}

impl AgentServer {
    /// A server on a taken address, that shows processes and machine of the board. `instance` is another with each start;
    /// `interval_ns` holds the time between two looks by process.
    #[must_use]
    pub fn new(
        on: HttpListener,
        board: Arc<Board>,
        instance: String,
        interval_ns: BTreeMap<String, u64>,
    ) -> Self {
        let HttpListener { listener, token, .. } = on;
        let app = App { board, instance, interval_ns, metrics: Renderer::default() };
        Self { listener, guard: Guard { token, protects_reads: true }, app: Arc::new(app) }
    }

    /// Serves until `stop`, as the daemon's server does; calls back once a second meanwhile.
    pub async fn run(self, stop: CancellationToken, every_second: impl Fn() + Send) {
        let resources = Router::new()
            .route("/", get(async || TEXT))
            .route("/livez", get(health::live))
            .route("/metrics", get(metrics))
            .route(PATH, get(report))
            .fallback(nothing_here)
            .with_state(self.app);
        serve_all(self.listener, behind_the_edge(resources, self.guard), stop, every_second).await;
    }
}

async fn report(State(app): State<Arc<App>>) -> Json<AgentReport> {
    let snapshot = app.board.snapshot();
    Json(AgentReport {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instance: app.instance.clone(),
        now_ns: snapshot.now_ns,
        // As it stands now: an operator may have set the clock since the agent was started.
        wall_ms: i64::try_from(wall_now().as_millis()).ok(),
        interval_ns: app.interval_ns.clone(),
        machine: snapshot.machines.get(OWN_MACHINE).cloned().unwrap_or_default(),
        processes: snapshot.processes,
    })
}

async fn metrics(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let text = app.metrics.render_agent(&app.board.snapshot()).map_err(|error| {
        let detail = format!("the metrics cannot be rendered: {error}");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
    })?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response())
}
