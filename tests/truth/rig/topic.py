"""A topic as the broker holds it: the truth about what was sent, when it was due and when the broker had it.

The rig's topics are made with `message.timestamp.type = LogAppendTime`, so that the broker's own clock says when it
had each record; when a record was due stands in its value (kind `random`: sequence, partition, milliseconds).
"""

import bisect
import struct
from array import array

import confluent_kafka as kafka

HEAD = struct.Struct(">QIq")
MARKER = 0x80000000
PATIENCE_S = 20


class Partition:
    """Records by offset; each topic of the rig begins at offset 0 and has no gaps."""

    def __init__(self):
        self.sequence, self.intended_ms, self.appended_ms = array("q"), array("q"), array("q")
        self.marker, self.bytes = bytearray(), 0

    def take(self, message):
        if message.offset() != len(self.sequence):
            raise RuntimeError(f"offset {message.offset()} after {len(self.sequence) - 1}: the log has a gap")
        sequence, partition, intended_ms = HEAD.unpack_from(message.value())
        self.sequence.append(sequence)
        self.intended_ms.append(intended_ms)
        self.appended_ms.append(message.timestamp()[1])
        self.marker.append(bool(partition & MARKER))
        self.bytes += len(message.value()) + len(message.key() or b"")

    def __len__(self):
        return len(self.sequence)

    def head(self, at_s):
        """The next offset at a wall time: records that the broker had by then."""
        return bisect.bisect_right(self.appended_ms, int(at_s * 1000))


def consumer(bootstrap, group):
    return kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 100,
            "broker.address.family": "v4",
        }
    )


def assigned(reader, topic, count):
    reader.assign([kafka.TopicPartition(topic, number, 0) for number in range(count)])
    return reader


def good(message):
    if message.error():
        raise RuntimeError(f"the broker says: {message.error()}")
    return message


def read(bootstrap, topic, count):
    """The whole topic up to the end that it has now."""
    reader = consumer(bootstrap, "truth-reader")
    ends = [
        reader.get_watermark_offsets(kafka.TopicPartition(topic, number), timeout=PATIENCE_S, cached=False)[1]
        for number in range(count)
    ]
    assigned(reader, topic, count)
    found = [Partition() for _ in range(count)]
    while any(len(have) < end for have, end in zip(found, ends)):
        # Only the first is waited for: `consume` waits until it has all that it is asked for, and at the end never has.
        first = reader.poll(PATIENCE_S)
        if first is None:
            raise RuntimeError(f"{topic}: the records up to {ends} did not come, only {[len(p) for p in found]}")
        for message in [first, *reader.consume(5000, 0)]:
            found[good(message).partition()].take(message)
    reader.close()
    return found
