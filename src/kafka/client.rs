//! Kafka clients from the settings.

use std::sync::Mutex;
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::settings::KafkaSettings;
use crate::core::lock::lock;

/// How often a producer publishes its statistics (round trips to the brokers).
const STATISTICS_INTERVAL_MS: &str = "5000";
/// After an outage librdkafka would wait up to 10 s before it tries again; the load should be back sooner.
const RECONNECT_BACKOFF_MAX_MS: &str = "1000";

/// soakd's defaults for properties that the user did not set: nothing acked may be lost or doubled.
const PRODUCER_DEFAULTS: [(&str, &str); 7] = [
    ("acks", "all"),
    ("enable.idempotence", "true"),
    ("statistics.interval.ms", STATISTICS_INTERVAL_MS),
    ("reconnect.backoff.max.ms", RECONNECT_BACKOFF_MAX_MS),
    // A producer's metadata requests would bring a deleted topic back, with the broker's number of partitions.
    ("allow.auto.create.topics", "false"),
    // Enough for full batches at high rates.
    ("batch.num.messages", "10000"),
    // Larger values go to the socket from where they are, smaller ones are copied into the batch first. By the client's own
    // default (65,535) nearly all are copied, which at 1 KB was a tenth of a record's cost.
    ("message.copy.max.bytes", "511"),
];

/// The configuration of a producer. Properties of the user win over soakd's defaults.
#[must_use]
pub fn producer_config(settings: &KafkaSettings) -> ClientConfig {
    let mut config = base_config(settings);
    let weak_acks = ["acks", "request.required.acks"]
        .iter()
        .filter_map(|name| settings.client.get(name))
        .any(|acks| !matches!(acks, "all" | "-1"));
    for (name, value) in PRODUCER_DEFAULTS {
        // The client refuses idempotence with weaker acks, which a user may well want.
        let refused = weak_acks && name == "enable.idempotence";
        let aliased = name == "acks" && settings.client.get("request.required.acks").is_some();
        if settings.client.get(name).is_none() && !refused && !aliased {
            config.set(name, value);
        }
    }
    config
}

/// The configuration of a client that only asks (metadata, watermarks, a group's offsets) and never consumes.
#[must_use]
pub fn reader_config(settings: &KafkaSettings) -> ClientConfig {
    let mut config = base_config(settings);
    config
        .set("allow.auto.create.topics", "false")
        .set("enable.auto.commit", "false")
        // Nobody serves these, so they would pile up.
        .set("statistics.interval.ms", "0");
    if settings.client.get("reconnect.backoff.max.ms").is_none() {
        config.set("reconnect.backoff.max.ms", RECONNECT_BACKOFF_MAX_MS);
    }
    config
}

fn base_config(settings: &KafkaSettings) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", settings.brokers.join(","));
    config.set("client.id", "soakd");
    for (name, value) in settings.client.iter() {
        config.set(name, value);
    }
    if let Some(authorities) = machines_authorities(settings) {
        config.set("ssl.ca.location", authorities);
    }
    config.set_log_level(RDKafkaLogLevel::Warning);
    config
}

/// Where this machine keeps the authorities it trusts, for TLS whose authorities the user did not name: an OpenSSL
/// that was built along with soakd does not know, and would refuse every broker.
fn machines_authorities(settings: &KafkaSettings) -> Option<String> {
    let tls = settings.client.get("security.protocol")?.to_ascii_lowercase().ends_with("ssl");
    let named = ["ssl.ca.location", "ssl.ca.pem"].iter().any(|name| settings.client.get(name).is_some());
    if !tls || named {
        return None;
    }
    let found = openssl_probe::probe();
    let place = found.cert_file.or_else(|| found.cert_dir.into_iter().next())?;
    place.into_os_string().into_string().ok()
}

/// The client library does not take the settings. Names the property and never its value: a mistyped name may be a
/// password's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(String);

impl From<KafkaError> for Refused {
    fn from(error: KafkaError) -> Self {
        Self(match error {
            KafkaError::ClientConfig(_, reason, key, value) => {
                let reason = if value.is_empty() { reason } else { reason.replace(&value, "…") };
                format!("{key}: {reason}")
            }
            other => other.to_string(),
        })
    }
}

/// Makes a reader.
///
/// # Errors
/// When a property is unknown or its value is refused; the error names it.
pub fn reader(settings: &KafkaSettings) -> Result<BaseConsumer<Quiet>, Refused> {
    Ok(reader_config(settings).create_with_context(Quiet::default())?)
}

/// What a client said of itself: its code and, where it gave one, the reason in words.
pub type Heard = (Option<RDKafkaErrorCode>, String);

/// Keeps librdkafka's lines at debug: in an outage it repeats itself several times a second, and what matters is
/// told once by soakd's own events. The last error is remembered, because a failed question alone says only that the
/// broker did not answer, and not that it refused the password.
#[derive(Debug, Default)]
pub struct Quiet {
    last_error: Mutex<Option<Heard>>,
}

impl Quiet {
    /// The last error that the client met.
    #[must_use]
    pub fn heard(&self) -> Option<Heard> {
        lock(&self.last_error).clone()
    }

    /// Forgets it: the client works again.
    pub fn forget(&self) {
        lock(&self.last_error).take();
    }

    fn remember(&self, error: &KafkaError, reason: &str) {
        let mut last = lock(&self.last_error);
        let code = error.rdkafka_error_code();
        // "All brokers down" says less than the reason that came before it.
        match &mut *last {
            Some((known, _)) if code == Some(RDKafkaErrorCode::AllBrokersDown) => *known = code,
            last => *last = Some((code, reason.to_owned())),
        }
    }
}

impl ClientContext for Quiet {
    fn log(&self, level: RDKafkaLogLevel, fac: &str, log_message: &str) {
        log(&level, fac, log_message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(error = %error, reason, "kafka client error");
        self.remember(&error, reason);
    }
}

impl ConsumerContext for Quiet {}

/// Most errors that are served at once.
const MAX_EVENTS: usize = 100;
/// A poll takes all log lines and one error. Without a time it would end at the first log line and look like one
/// that found nothing.
const SERVE: Duration = Duration::from_millis(1);

/// Serves the events of a consumer that never subscribed: errors and logs.
pub fn serve_events(consumer: &BaseConsumer<Quiet>) {
    for _ in 0..MAX_EVENTS {
        if consumer.poll(SERVE).is_none() {
            return;
        }
    }
}

/// `; last heard: REASON`, for the end of an error about a question that failed, or nothing.
#[must_use]
pub fn last_heard(consumer: &BaseConsumer<Quiet>) -> String {
    serve_events(consumer);
    match consumer.context().heard() {
        Some((_, reason)) if !reason.is_empty() => format!("; last heard: {reason}"),
        _ => String::new(),
    }
}

/// One line of librdkafka, at debug.
pub fn log(level: &dyn std::fmt::Debug, facility: &str, message: &str) {
    tracing::debug!(?level, facility, message, "librdkafka");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(client: &[(&str, &str)]) -> KafkaSettings {
        KafkaSettings { brokers: vec!["a:1".into(), "b:2".into()], client: client.iter().copied().collect() }
    }

    #[test]
    fn the_users_properties_win_and_idempotence_yields_to_weak_acks() {
        let config = producer_config(&settings(&[("linger.ms", "7"), ("acks", "1")]));
        assert_eq!(config.get("bootstrap.servers"), Some("a:1,b:2"));
        assert_eq!((config.get("linger.ms"), config.get("acks")), (Some("7"), Some("1")));
        assert_eq!(config.get("enable.idempotence"), None);
        let config = producer_config(&settings(&[]));
        assert_eq!((config.get("acks"), config.get("enable.idempotence")), (Some("all"), Some("true")));
    }

    #[test]
    fn tls_trusts_the_machines_authorities_unless_the_user_names_some() {
        let location = |client: &[(&str, &str)]| {
            producer_config(&settings(client)).get("ssl.ca.location").map(str::to_owned)
        };
        for protocol in ["ssl", "SASL_SSL"] {
            let found =
                location(&[("security.protocol", protocol)]).expect("this machine has ca-certificates");
            assert!(std::path::Path::new(&found).exists(), "{found}");
        }
        reader(&settings(&[("security.protocol", "ssl")])).expect("the client takes what was found");
        assert_eq!(location(&[]), None);
        assert_eq!(location(&[("security.protocol", "sasl_plaintext")]), None);
        assert_eq!(location(&[("security.protocol", "ssl"), ("ssl.ca.pem", "PEM")]), None);
        let own = [("security.protocol", "ssl"), ("ssl.ca.location", "/mine.pem")];
        assert_eq!(location(&own).as_deref(), Some("/mine.pem"));
    }

    #[test]
    fn a_refusal_names_the_property_and_never_its_value() {
        for name in ["sasl.pasword", "sasl.oauthbearer.client.secret", "linger.ms"] {
            let error = reader(&settings(&[(name, "hunter2secret")])).err().map(|error| error.to_string());
            let error = error.unwrap_or_else(|| name.to_owned());
            assert!(error.contains(name) && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn c4_an_unknown_property_is_refused_by_name() {
        let error = reader(&settings(&[("linger.sm", "7")])).err().unwrap().to_string();
        assert!(error.contains("linger.sm"), "{error}");
    }
}
