"""soakd watched from outside while it paces: its counters once a second, and what is to disturb it."""

import http.client
import threading
import time

from . import machine, wire

COUNTERS = ("sent", "acked", "failed", "dropped")


class Scraper:
    """Reads /metrics over one connection that is kept."""

    def __init__(self, port):
        self.port, self.connection = port, None

    def scrape(self):
        """(instant before the question, seconds until the whole answer, text); None when soakd is not there."""
        for _ in range(2):
            try:
                if self.connection is None:
                    self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                asked_s = time.monotonic()
                self.connection.request("GET", "/metrics")
                answer = self.connection.getresponse().read().decode()
                return asked_s, time.monotonic() - asked_s, answer
            except (OSError, http.client.HTTPException):
                self.close()
        return None

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def total(text, name):
    """The sum over all series of a metric."""
    found = (line.rsplit(" ", 1) for line in text.splitlines() if line.startswith((name + "{", name + " ")))
    return sum(float(value) for _, value in found)


def counters(text):
    return {name: total(text, f"soakd_records_{name}_total") for name in COUNTERS}


def measuring(text):
    return 'soakd_run_state{state="measuring"} 1' in text


class Often(threading.Thread):
    """Does something again and again until it is told to stop."""

    def __init__(self, every_s, what):
        super().__init__(daemon=True)
        self.every_s, self.what, self.over = every_s, what, threading.Event()
        self.start()

    def run(self):
        next_s = time.monotonic()
        while not self.over.wait(max(0.0, next_s - time.monotonic())):
            self.what()
            next_s = max(next_s + self.every_s, time.monotonic())

    def stop(self):
        self.over.set()
        self.join(10)


class Disturbance:
    """/metrics ten times a second, and groups whose commits follow the topic."""

    def __init__(self, port, bootstrap, topic, groups):
        self.scraper, self.latencies_s, self.commits = Scraper(port), [], 0
        self.cluster, self.topic = wire.Cluster(bootstrap), topic
        self.groups = {group: self.cluster.coordinator(group) for group in groups}
        self.tasks = [Often(0.1, self.scrape), Often(1.0, self.commit)]

    def scrape(self):
        scraped = self.scraper.scrape()
        if scraped and measuring(scraped[2]):
            self.latencies_s.append(scraped[1])

    def commit(self):
        try:
            offsets = [offset * 9 // 10 for offset in self.cluster.end_offsets(self.topic)]
            for group, address in self.groups.items():
                self.commits += self.cluster.commit(address, group, self.topic, offsets) == 0
        except wire.KafkaError:
            self.cluster.close()

    def stop(self):
        for task in self.tasks:
            task.stop()
        self.scraper.close()
        self.cluster.close()


def pace(soakd, port, rate):
    """Follows a running soakd through its measured phase, once a second; returns what was seen."""
    scraper, samples, latencies_s = Scraper(port), [], []
    cpu = others = None
    next_s = time.monotonic()
    while soakd.alive:
        scraped = scraper.scrape()
        if scraped and measuring(scraped[2]):
            if not samples:
                cpu, others = machine.process_cpu_s(soakd.pid), machine.busy_s()
            samples.append({"at_s": scraped[0], **counters(scraped[2])})
            latencies_s.append(scraped[1])
            last = {"cpu_s": machine.process_cpu_s(soakd.pid), "busy_s": machine.busy_s(),
                    "memory": machine.memory_bytes(soakd.pid), "text": scraped[2]}  # fmt: skip
            next_s += 1.0
        elif samples:
            break
        else:
            # Until the measured phase begins, it is looked for more often.
            next_s = time.monotonic() + 0.05
        soakd.wait(max(0.0, next_s - time.monotonic()))
    scraper.close()
    if len(samples) < 3:
        return None
    span_s = samples[-1]["at_s"] - samples[0]["at_s"]
    worst = max(abs(rate_between(a, b) / rate - 1) for a, b in zip(samples, samples[1:]))
    return {
        "seconds": span_s,
        "mean_error": rate_between(samples[0], samples[-1]) / rate - 1,
        "worst_second": worst,
        "cores": ((last["cpu_s"] or 0) - (cpu or 0)) / span_s,
        "busy_cores": (last["busy_s"] - others) / span_s,
        "memory_bytes": last["memory"],
        "sources_up": total(last["text"], "soakd_progress_up"),
        "scrape_latencies_s": latencies_s,
        "samples": samples,
    }


def rate_between(first, last):
    """Records per second from one look to another."""
    return (last["sent"] - first["sent"]) / (last["at_s"] - first["at_s"])


def quantile(numbers, share):
    numbers = sorted(numbers)
    return numbers[min(len(numbers) - 1, int(share * len(numbers)))] if numbers else None
