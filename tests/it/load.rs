//! The load, end to end on the mock broker.

use std::time::Duration;

use crate::daemon;
use crate::mock::MockKafka;

#[test]
fn r4_thirty_records_a_second_for_three_seconds_is_ninety() {
    let kafka = MockKafka::start(4);
    for lanes in [1, 3] {
        let before = kafka.records();
        let settings = kafka.settings("duration = \"3s\"", "", &format!("rate = 30\nlanes = {lanes}"));
        let ended = daemon::start(&settings).wait(Duration::from_secs(30));
        assert_eq!(ended.code(), 0, "{}\n{}", ended.out, ended.log);
        assert_eq!(kafka.records() - before, 90, "{lanes} lanes");
        assert_eq!(ended.report()["streams"]["main"]["totals"]["acked"], 90);
    }
}
