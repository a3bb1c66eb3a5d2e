//! `GET /`: what there is.

use axum::Router;
use axum::routing::get;

use super::Shared;

const TEXT: &str = "\
soakd, a load daemon for systems that ingest from Kafka

GET  /metrics                             metrics for Prometheus
GET  /livez                               200 while the daemon answers
GET  /readyz                              200 once the start is over; the body says ok or degraded, with reasons
GET  /api/v1/status                       run, streams, sources, processes, machines, totals, settings; ?partitions=true shows sources by partition
GET  /api/v1/rate                         rates of all streams
PUT  /api/v1/rate                         {\"records_per_second\": N or \"max\"}: the total of all streams
GET  /api/v1/streams/{name}/rate          the rate of one stream
PUT  /api/v1/streams/{name}/rate          {\"records_per_second\": N or \"max\"}
GET  /api/v1/streams/{name}/profile       the profile of one stream and where in it it is
PUT  /api/v1/streams/{name}/profile       {\"profile\": [{\"ramp_to\": N, \"over\": \"10m\"}, ...], \"profile_repeat\": N or \"forever\"}
POST /api/v1/pause                        pauses the whole load
POST /api/v1/resume                       resumes it
POST /api/v1/streams/{name}/pause         pauses one stream
POST /api/v1/streams/{name}/resume        resumes it
GET  /api/v1/runs                         the runs
GET  /api/v1/runs/{id}                    one run; \"current\" is the running one
POST /api/v1/runs/{id}/stop               no more load, then flush, drain, report
";

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/", get(async || TEXT))
}
