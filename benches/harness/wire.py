"""The few requests of Kafka's protocol that a judge needs: topics made and deleted, end offsets, group offsets.

A program of its own on purpose: what soakd says it sent is checked by code that shares nothing with it, and a look
at the end offsets costs a tenth of a millisecond, where a tool of Kafka's jars costs a second and a core. One
connection per broker, one request at a time, no TLS, no passwords.
"""

import socket
import struct
import time

PRODUCE_TIMEOUT_MS = 10_000

# Requests: (api key, version). All of them are spoken by Kafka 4 and by librdkafka's mock cluster, if it knows them.
METADATA, LIST_OFFSETS, FIND_COORDINATOR = (3, 4), (2, 1), (10, 0)
CREATE_TOPICS, DELETE_TOPICS, OFFSET_COMMIT = (19, 2), (20, 1), (8, 2)
LATEST = -1

TOPIC_ALREADY_EXISTS = 36
RETRY = {5, 6, 7, 14, 15, 16}  # leader or coordinator not (yet) known, still loading, request timed out


class KafkaError(Exception):
    """The broker refused, or could not be reached."""


class Reader:
    """Reads an answer."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, form):
        size = struct.calcsize(form)
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += size
        return value

    def int16(self):
        return self.number(">h")

    def int32(self):
        return self.number(">i")

    def int64(self):
        return self.number(">q")

    def text(self):
        size = self.int16()
        if size < 0:
            return None
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def array(self, item):
        return [item() for _ in range(max(0, self.int32()))]


def text(value):
    if value is None:
        return struct.pack(">h", -1)
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def array(items):
    items = list(items)
    return struct.pack(">i", len(items)) + b"".join(items)


class Connection:
    """One connection to one broker."""

    def __init__(self, address, timeout_s=10.0):
        host, port = address.rsplit(":", 1)
        try:
            self.socket = socket.create_connection((host, int(port)), timeout_s)
        except OSError as error:
            raise KafkaError(f"{address} cannot be reached: {error}") from error
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.address, self.number = address, 0

    def close(self):
        self.socket.close()

    def ask(self, api, body):
        """Sends a request and returns its answer's body."""
        self.number += 1
        head = struct.pack(">hhi", api[0], api[1], self.number) + text("soakd-benches")
        try:
            self.socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
            (size,) = struct.unpack(">i", self.take(4))
            answer = Reader(self.take(size))
        except OSError as error:
            raise KafkaError(f"{self.address} did not answer request {api}: {error}") from error
        if answer.int32() != self.number:
            raise KafkaError(f"{self.address} answered another request")
        return answer

    def take(self, size):
        parts = []
        while size > 0:
            part = self.socket.recv(size)
            if not part:
                raise KafkaError(f"{self.address} closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


class Cluster:
    """A cluster by its first broker; the others are found by metadata."""

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self.connections = {}
        self.leaders = {}

    def close(self):
        for connection in self.connections.values():
            connection.close()
        self.connections = {}

    def at(self, address=None):
        address = address or self.bootstrap
        if address not in self.connections:
            self.connections[address] = Connection(address)
        return self.connections[address]

    def metadata(self, topics, create=False):
        """Brokers by id, the controller's id, and each topic's leaders (or error code)."""
        body = array(text(topic) for topic in topics) + struct.pack(">?", create)
        answer = self.at().ask(METADATA, body)
        answer.int32()  # throttle time

        def broker():
            node, host, port = answer.int32(), answer.text(), answer.int32()
            answer.text()
            return node, f"{host}:{port}"

        brokers = dict(answer.array(broker))
        answer.text()
        controller = answer.int32()

        def partition():
            error, number, leader = answer.int16(), answer.int32(), answer.int32()
            answer.array(answer.int32)
            answer.array(answer.int32)
            return number, error, leader

        def topic():
            error, name = answer.int16(), answer.text()
            answer.at += 1  # is internal
            return name, (error, answer.array(partition))

        return brokers, controller, dict(answer.array(topic))

    def create_topic(self, name, partitions, config):
        """Creates a topic and waits until each partition has a leader."""
        brokers, controller, _ = self.metadata([])
        entries = array(text(key) + text(str(value)) for key, value in config.items())
        topic = text(name) + struct.pack(">ih", partitions, 1) + array([]) + entries
        body = array([topic]) + struct.pack(">ib", PRODUCE_TIMEOUT_MS, 0)
        answer = self.at(brokers.get(controller)).ask(CREATE_TOPICS, body)
        answer.int32()
        for _ in range(answer.int32()):
            topic, error, reason = answer.text(), answer.int16(), answer.text()
            if error not in (0, TOPIC_ALREADY_EXISTS):
                raise KafkaError(f"topic {topic} cannot be created: error {error}, {reason}")
        self.await_leaders(name, partitions)

    def await_leaders(self, name, partitions, timeout_s=20.0, create=False):
        """Waits for a topic; the mock cluster creates it when it is asked so."""
        deadline = time.monotonic() + timeout_s
        while True:
            brokers, _, topics = self.metadata([name], create)
            error, found = topics.get(name, (0, []))
            good = [(number, leader) for number, wrong, leader in found if not wrong and leader in brokers]
            if error == 0 and len(good) >= partitions:
                self.leaders[name] = {number: brokers[leader] for number, leader in good}
                return
            if time.monotonic() > deadline:
                raise KafkaError(f"topic {name} has {len(good)} of {partitions} leaders after {timeout_s:g} s")
            time.sleep(0.02)

    def delete_topic(self, name):
        """Deletes a topic; the broker removes its files some time later."""
        brokers, controller, _ = self.metadata([])
        body = array([text(name)]) + struct.pack(">i", PRODUCE_TIMEOUT_MS)
        self.at(brokers.get(controller)).ask(DELETE_TOPICS, body)
        self.leaders.pop(name, None)

    def end_offsets(self, name, timeout_s=10.0):
        """The end offset of each partition, in order."""
        deadline = time.monotonic() + timeout_s
        while True:
            if name not in self.leaders:
                self.await_leaders(name, 1)
            ends, errors = self.ask_end_offsets(name)
            if not errors:
                return [ends[partition] for partition in sorted(ends)]
            if not errors <= RETRY or time.monotonic() > deadline:
                raise KafkaError(f"no end offsets of {name}: errors {sorted(errors)}")
            self.leaders.pop(name, None)
            time.sleep(0.02)

    def ask_end_offsets(self, name):
        by_leader = {}
        for partition, address in self.leaders[name].items():
            by_leader.setdefault(address, []).append(partition)
        ends, errors = {}, set()
        for address, partitions in by_leader.items():
            asked = array(struct.pack(">iq", partition, LATEST) for partition in sorted(partitions))
            answer = self.at(address).ask(LIST_OFFSETS, struct.pack(">i", -1) + array([text(name) + asked]))
            for _ in range(answer.int32()):
                answer.text()
                for _ in range(answer.int32()):
                    partition, error = answer.int32(), answer.int16()
                    answer.int64()
                    offset = answer.int64()
                    if error:
                        errors.add(error)
                    ends[partition] = offset
        return ends, errors

    def coordinator(self, group, timeout_s=30.0):
        """The address of a group's coordinator; Kafka makes its internal topic when it is first asked."""
        deadline = time.monotonic() + timeout_s
        while True:
            answer = self.at().ask(FIND_COORDINATOR, text(group))
            error, _, host, port = answer.int16(), answer.int32(), answer.text(), answer.int32()
            if not error:
                return f"{host}:{port}"
            if error not in RETRY or time.monotonic() > deadline:
                raise KafkaError(f"group {group} has no coordinator: error {error}")
            time.sleep(0.1)

    def commit(self, address, group, topic, offsets):
        """Commits offsets as a client outside the group's membership; returns the worst error code."""
        partitions = array(struct.pack(">iq", partition, offset) + text("") for partition, offset in enumerate(offsets))
        body = text(group) + struct.pack(">i", -1) + text("") + struct.pack(">q", -1)
        answer = self.at(address).ask(OFFSET_COMMIT, body + array([text(topic) + partitions]))
        worst = 0
        for _ in range(answer.int32()):
            answer.text()
            for _ in range(answer.int32()):
                answer.int32()
                worst = max(worst, answer.int16())
        return worst
