"""How long an ack is on its way: a producer that is not soakd's sends a small record again and again, to a topic of its
own on the same broker, and writes down when the broker had each (`LogAppendTime`) and when its ack was heard.

Arguments: bootstrap servers, topic, seconds between records, log file. Ends with its standard input.
"""

import json
import sys
import threading
import time

import confluent_kafka as kafka
from confluent_kafka import admin


def make(bootstrap, topic):
    config = {"message.timestamp.type": "LogAppendTime"}
    one = admin.NewTopic(topic, num_partitions=1, replication_factor=1, config=config)
    client = admin.AdminClient({"bootstrap.servers": bootstrap})
    for result in client.create_topics([one]).values():
        result.result(20)


def main():
    bootstrap, topic, every_s, path = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4]
    make(bootstrap, topic)
    log = open(path, "w", buffering=1)
    producer = kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all"})
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()

    def heard(error, message):
        if not error:
            log.write(json.dumps({"had": message.timestamp()[1] / 1000, "heard": time.time()}) + "\n")

    producer.produce(topic, b"ack", on_delivery=heard)
    producer.flush(20)
    print("ready", flush=True)
    next_s = time.monotonic()
    while not over.is_set():
        producer.produce(topic, b"ack", on_delivery=heard)
        next_s = max(next_s + every_s, time.monotonic())
        while (left_s := next_s - time.monotonic()) > 0:
            producer.poll(left_s)
        producer.poll(0)


if __name__ == "__main__":
    main()
