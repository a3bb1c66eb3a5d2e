"""soakd as its users meet it: a program, a settings file, /metrics, a report."""

import json
import re
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from rig.processes import Child, free_port, wait_for

LINE = re.compile(r"^(\w+(?:\{.*\})?) (\S+)$")
BOUND = re.compile(r'le="([^"]+)"')
LOOK_S = 0.1


class Daemon:
    def __init__(self, binary, home, settings):
        self.home = Path(home)
        self.home.mkdir()
        self.url = f"http://127.0.0.1:{free_port()}"
        settings += f'\n[http]\nlisten = "{self.url[7:]}"\n[store]\ndir = "{self.home}/data"\n'
        (self.home / "settings.toml").write_text(settings)
        command = [binary, "run", "-c", self.home / "settings.toml"]
        self.out = open(self.home / "out", "wb")
        self.child = Child(command, stdout=self.out, stderr=open(self.home / "log", "wb"))
        # By source, every good sample as /metrics shows it; and every scrape as (wall time, figures).
        self.samples, self.scrapes = {}, []
        self.follower = threading.Thread(target=self.follow, daemon=True)
        self.follower.start()

    @property
    def pid(self):
        return self.child.pid

    def get(self, path, method="GET", patience_s=5):
        request = urllib.request.Request(self.url + path, method=method, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=patience_s) as answer:
            return answer.read().decode()

    def scrape(self):
        found = {}
        for line in self.get("/metrics").splitlines():
            match = LINE.match(line)
            if match:
                found[match[1]] = float(match[2])
        return found

    def follow(self):
        while self.child.poll() is None:
            try:
                found = self.scrape()
            except (OSError, urllib.error.URLError):
                time.sleep(LOOK_S)
                continue
            self.scrapes.append((time.time(), found))
            for name in found:
                if name.startswith("soakd_progress_last_success_timestamp_seconds"):
                    self.take(re.search(r'source="(\w+)"', name)[1], found)
            time.sleep(LOOK_S)

    def take(self, source, found):
        labels = f'{{source="{source}",stream="main"}}'
        names = ("progress_last_success_timestamp_seconds", "progress_up", "lag_records", "lag_seconds")
        names += ("lag_uncertainty_records", "progress_records", "progress_duration_seconds_sum")
        names += ("progress_duration_seconds_count", "marker_oldest_unseen_seconds", "catch_up_seconds")
        names += ("progress_resolution_seconds", "standstill_seconds_total", "standstills_total")
        sample = {name: found.get(f"soakd_{name}{labels}") for name in names}
        have = self.samples.setdefault(source, [])
        at = sample["progress_last_success_timestamp_seconds"]
        if sample["progress_up"] == 1 and (not have or have[-1]["at"] < at):
            before = have[-1] if have else None
            polls = sample["progress_duration_seconds_count"] - (
                before["progress_duration_seconds_count"] if before else 0
            )
            took = sample["progress_duration_seconds_sum"] - (before["progress_duration_seconds_sum"] if before else 0)
            have.append(sample | {"at": at, "took": took if polls == 1 else None})

    def draining(self):
        """The load has ended."""
        state = {name: value for name, value in self.scrapes[-1][1].items() if name.startswith("soakd_run_state")}
        return any(value == 1 and ("flush" in name or "drain" in name) for name, value in state.items())

    def status(self):
        return json.loads(self.get("/api/v1/status"))

    def until(self, what, condition, patience_s=30):
        def holds():
            if self.child.poll() is not None:
                raise RuntimeError(f"soakd has ended with {self.child.returncode}: {self.tail()}")
            return bool(self.scrapes) and condition(self.scrapes[-1][1])

        wait_for(f"{what} ({self.home})", holds, patience_s)

    def loaded(self):
        self.until("records are acked", lambda found: found.get('soakd_records_acked_total{stream="main"}', 0) > 0)
        return self

    def tail(self):
        return (self.home / "log").read_text()[-2000:]

    def report(self, patience_s=60):
        """Waits for the end of the run, looks at /metrics once more and ends the program."""
        finished = 'soakd_run_state{state="finished"}'
        self.until("the end of the run", lambda found: found.get(finished) == 1, patience_s)
        self.scrapes.append((time.time(), self.scrape()))
        (self.home / "samples.json").write_text(json.dumps(self.samples))
        self.child.terminate()
        try:
            self.child.wait(20)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"soakd does not end: {self.tail()}") from None
        found = list(self.home.glob("data/runs/*/report.json"))
        if not found:
            raise RuntimeError(f"soakd left no report: {self.tail()}")
        return json.loads(found[0].read_text())

    def last_of(self, series):
        """The last value of a series, by its whole name."""
        return self.scrapes[-1][1].get(series)

    def last_of_name(self, name):
        found = [value for series, value in self.scrapes[-1][1].items() if series.split("{")[0] == name]
        return found[0] if found else None

    def bounds(self, histogram):
        """Upper bounds of its buckets in seconds, without the infinite one."""
        found = {float(le) for name in self.scrapes[-1][1] for le in BOUND.findall(name) if name.startswith(histogram)}
        return sorted(found - {float("inf")})

    def buckets(self, histogram, origin):
        """Its cumulative counts, the infinite bucket last."""
        named = {
            float(BOUND.findall(name)[0]): value
            for name, value in self.scrapes[-1][1].items()
            if name.startswith(histogram + "_bucket") and f'from="{origin}"' in name
        }
        return [named[bound] for bound in sorted(named)]
