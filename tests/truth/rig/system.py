"""The system under test, played: it reads the topic, ingests it as it is told, and says how far it is at three doors
(PostgreSQL's protocol, HTTP, a consumer group). Every answer is written down with the instant that it holds for.

Arguments: one JSON object. Commands come as JSON lines on standard input, each answered by a line.
"""

import bisect
import http.server
import json
import random
import socket
import socketserver
import struct
import sys
import threading
import time
import urllib.parse
from array import array

import confluent_kafka as kafka

from rig import topic

GOLDEN = (5**0.5 - 1) / 2
KINDS = ("next_offset", "last_offset", "sequence", "count", "event_time", "marker", "lag_records", "lag_seconds")


class Shares:
    """Where within its time each answer holds: spread evenly (by the golden ratio), so that few answers already cover all
    of it, and their mean lies in the middle."""

    def __init__(self, seed):
        self.random, self.last = random.Random(seed), {}

    def next(self, asked):
        last = self.last.get(asked)
        self.last[asked] = self.random.random() if last is None else (last + GOLDEN) % 1.0
        return self.last[asked]


class System:
    def __init__(self, told):
        self.told = told
        self.lock = threading.Lock()
        self.partitions = [topic.Partition() for _ in range(told["partitions"])]
        # By partition: when so many records had come.
        self.came_s = [array("d") for _ in self.partitions]
        self.behind, self.delay_s = told.get("behind", 0), told.get("delay", 0.0)
        # From an instant on, no further than these offsets and what is worked off at a rate since.
        self.held = None
        self.log = open(told["log"], "w", buffering=1)
        self.shares, self.away = Shares(told.get("seed", 1)), False

    def write(self, **entry):
        self.log.write(json.dumps(entry) + "\n")

    # --- ingesting ---

    def follow(self):
        reader = topic.consumer(self.told["bootstrap"], "truth-system")
        while self.told["topic"] not in reader.list_topics(timeout=10).topics:
            time.sleep(0.02)
        topic.assigned(reader, self.told["topic"], len(self.partitions))
        while True:
            first = reader.poll(1.0)
            if first is None:
                continue
            messages = [first, *reader.consume(2000, 0)]
            now = time.time()
            with self.lock:
                for message in messages:
                    number = topic.good(message).partition()
                    self.partitions[number].take(message)
                    self.came_s[number].append(now)

    def ingested(self, at_s):
        """By partition: the next offset to ingest."""
        each = self.behind // len(self.partitions)
        if self.delay_s > 0:
            done = [bisect.bisect_right(came, at_s - self.delay_s) for came in self.came_s]
        else:
            done = [max(0, len(have) - each) for have in self.partitions]
        if self.held:
            since_s, base, rate = self.held
            more = int(rate / len(self.partitions) * (at_s - since_s))
            done = [min(have, low + more) for have, low in zip(done, base)]
        return done

    def obey(self, command):
        with self.lock:
            now = time.time()
            done = self.ingested(now)
            verb = command["do"]
            if verb in ("pause", "leave"):
                self.held, self.away = (now, done, 0.0), verb == "leave"
            elif verb == "work":
                self.away = False
                # Back to work at a rate, perhaps from further back, as a system that has lost its last commits.
                lost = command.get("lost", 0) // len(self.partitions)
                self.held = (now, [max(0, have - lost) for have in done], command["rate"])
            elif verb == "free":
                self.held, self.behind, self.delay_s = None, 0, 0.0
            after = self.ingested(now)
        self.write(command=verb, at=now, next=after, before=done)
        return {"at": now, "next": after}

    # --- answering ---

    def values(self, kind, done):
        def last(number, column):
            return column[done[number] - 1] if done[number] else None

        rows = []
        for number, have in enumerate(self.partitions):
            if kind == "next_offset":
                value = done[number]
            elif kind == "last_offset":
                value = done[number] - 1 if done[number] else None
            elif kind == "sequence":
                value = last(number, have.sequence)
            elif kind == "event_time":
                value = last(number, have.intended_ms)
            elif kind == "lag_records":
                value = len(have) - done[number]
            elif kind == "marker":
                at = have.marker.rfind(1, 0, done[number])
                value = have.sequence[at] if at >= 0 else None
            else:
                raise ValueError(kind)
            rows.append((number, value))
        return rows

    def total(self, kind, done, at_s):
        if kind == "count":
            return sum(done)
        oldest = [have.intended_ms[next_] for have, next_ in zip(self.partitions, done) if next_ < len(have)]
        return max(0.0, at_s - min(oldest) / 1000) if oldest else 0.0

    def answer(self, kind, door, render, send):
        """Sends what is true at one instant of the time that the answer takes."""
        came_s = time.time()
        took_s = self.told.get("query", 0.0)
        share = self.shares.next((door, kind))
        time.sleep(took_s * share)
        with self.lock:
            at_s = time.time()
            done = self.ingested(at_s)
            if kind in ("count", "lag_seconds"):
                rows = [(None, self.total(kind, done, at_s))]
            else:
                rows = self.values(kind, done)
        body = render(rows)
        time.sleep(max(0.0, came_s + took_s - time.time()))
        left_s = time.time()
        send(body)
        values = [value for _, value in rows]
        self.write(door=door, kind=kind, came=came_s, at=at_s, left=left_s, sent=time.time(), next=done, values=values)

    def commit(self):
        group = kafka.Consumer({"bootstrap.servers": self.told["bootstrap"], "group.id": self.told["group"]})
        while True:
            with self.lock:
                at_s = time.time()
                done = self.ingested(at_s)
            if any(done):
                offsets = [kafka.TopicPartition(self.told["topic"], p, n) for p, n in enumerate(done)]
                group.commit(offsets=offsets, asynchronous=False)
                now_s = time.time()
                self.write(
                    door="group", kind="group", came=at_s, at=at_s, left=now_s, sent=now_s, next=done, values=done
                )
            time.sleep(self.told["commit"])


# --- PostgreSQL's protocol, as far as a simple query goes ---


def exactly(connection, count):
    found = b""
    while len(found) < count:
        more = connection.recv(count - len(found))
        if not more:
            raise ConnectionError("closed")
        found += more
    return found


def packet(kind, body=b""):
    return kind + struct.pack(">I", len(body) + 4) + body


READY = packet(b"Z", b"I")


def text(value):
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(str(value))) + str(value).encode()


def table(rows):
    columns = ["partition", "value"] if rows[0][0] is not None else ["value"]
    named = b"".join(name.encode() + b"\0" + struct.pack(">IHIHIH", 0, 0, 25, 65535, 0xFFFFFFFF, 0) for name in columns)
    answer = packet(b"T", struct.pack(">H", len(columns)) + named)
    for row in rows:
        answer += packet(b"D", struct.pack(">H", len(columns)) + b"".join(text(cell) for cell in row[-len(columns) :]))
    return answer + packet(b"C", b"SELECT %d\0" % len(rows)) + READY


class Sql(socketserver.BaseRequestHandler):
    system = None

    def handle(self):
        try:
            self.serve()
        except (ConnectionError, OSError):
            pass

    def serve(self):
        link = self.request
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            (length,) = struct.unpack(">I", exactly(link, 4))
            (code,) = struct.unpack_from(">I", exactly(link, length - 4))
            if code == 80877102:  # a cancel request
                return
            if code != 80877103:  # no request for TLS
                break
            link.sendall(b"N")
        link.sendall(packet(b"R", struct.pack(">I", 0)) + packet(b"S", b"client_encoding\0UTF8\0") + READY)
        while True:
            kind = exactly(link, 1)
            (length,) = struct.unpack(">I", exactly(link, 4))
            body = exactly(link, length - 4)
            if kind == b"X":
                return
            words = body.decode(errors="replace").replace("\0", " ").split()
            asked = next((word for word in words if word in KINDS), None)
            if self.system.away:
                return
            if asked:
                self.system.answer(asked, "sql", table, link.sendall)
            else:
                link.sendall(packet(b"C", b"SET\0") + READY)


class Http(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    system = None

    def do_GET(self):
        if self.system.away:
            self.close_connection = True
            return
        url = urllib.parse.urlparse(self.path)
        kind = urllib.parse.parse_qs(url.query).get("kind", ["next_offset"])[0]
        render = self.series if url.path == "/metrics" else self.rows
        door = "prometheus" if url.path == "/metrics" else "http"
        self.system.answer(kind, door, render, self.send)

    def send(self, body):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4" if "/metrics" in self.path else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    @staticmethod
    def rows(rows):
        if rows[0][0] is None:
            return json.dumps({"value": rows[0][1]}).encode()
        return json.dumps({"rows": [{"partition": p, "value": v} for p, v in rows if v is not None]}).encode()

    @staticmethod
    def series(rows):
        lines = ["# TYPE sut_progress gauge"]
        for partition, value in rows:
            labels = "" if partition is None else f'{{partition="{partition}"}}'
            lines += [] if value is None else [f"sut_progress{labels} {value}"]
        return ("\n".join(lines) + "\n").encode()

    def log_message(self, *_):
        pass


class Threads(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads = True, True

    def handle_error(self, *_):
        """A client that goes away is none of the system's business."""


def background(work):
    threading.Thread(target=work, daemon=True).start()


def main():
    told = json.loads(sys.argv[1])
    system = System(told)
    Sql.system = Http.system = system
    doors = {}
    for name, handler in (("sql", Sql), ("http", Http)):
        server = Threads(("127.0.0.1", 0), handler)
        doors[name] = server.server_address[1]
        background(server.serve_forever)
    background(system.follow)
    if told.get("group"):
        background(system.commit)
    print(json.dumps(doors), flush=True)
    for line in sys.stdin:
        print(json.dumps(system.obey(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
