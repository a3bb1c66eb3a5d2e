//! From settings to librdkafka's configuration.

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;

use super::settings::KafkaSettings;

/// What every Kafka client of soakd begins with: the brokers, and the user's own properties as they are. Librdkafka tells of
/// properties that belong to the other kind of client in its log and goes on.
#[must_use]
pub fn client_config(settings: &KafkaSettings) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("client.id", "soakd");
    for (name, value) in settings.client.iter() {
        config.set(name, value);
    }
    config.set("bootstrap.servers", settings.brokers.join(","));
    config.set_log_level(RDKafkaLogLevel::Warning);
    config
}
