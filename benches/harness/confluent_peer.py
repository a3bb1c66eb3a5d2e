"""confluent-kafka as its users use it: produce with a callback, poll now and then. Arguments: one JSON object."""

import json
import random
import sys
import time

from confluent_kafka import Producer, libversion, version


def main():
    what = json.loads(sys.argv[1])
    acked = failed = 0

    def delivered(error, _message):
        nonlocal acked, failed
        if error is None:
            acked += 1
        else:
            failed += 1

    producer = Producer(what["properties"])
    value = random.Random(42).randbytes(what["size"])
    keys = [number.to_bytes(8, "big") for number in random.Random(1).sample(range(2**40), 65536)]
    began_s = time.monotonic()
    for number in range(what["records"]):
        while True:
            try:
                producer.produce(what["topic"], value, keys[number & 65535], on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush(60)
    seconds = time.monotonic() - began_s
    print(
        json.dumps({"acked": acked, "failed": failed, "seconds": seconds, "versions": [version()[0], libversion()[0]]})
    )


main()
