"""Reads what callgrind writes, as far as it is needed: own instructions by function, and what calls cost."""

import glob
import re
from collections import Counter

NAME = re.compile(r"^(c?fn)=\((\d+)\)(?: (.*))?$")


class Profile:
    """One thread. `own`: instructions by function; `calls`: by (caller, callee), with all that was called below."""

    def __init__(self, path):
        self.own, self.calls, self.total = Counter(), Counter(), 0
        if path:
            with open(path, encoding="utf-8", errors="replace") as file:
                self.read(file)

    def read(self, file):
        names, function, callee, call = {}, None, None, False
        for line in file:
            if line[0] in "+-*" or line[0].isdigit():
                cost = int(line.split()[-1])
                if call:
                    self.calls[function, callee] += cost
                    call = False
                else:
                    self.own[function] += cost
                    self.total += cost
                continue
            named = NAME.match(line)
            if named:
                kind, number, name = named.groups()
                if name is not None:
                    names[number] = name
                if kind == "fn":
                    function = names[number]
                else:
                    callee = names[number]
            elif line.startswith("calls="):
                call = True

    def add(self, other):
        self.own.update(other.own)
        self.calls.update(other.calls)
        self.total += other.total

    def calls_into_client(self):
        """What Rust's calls of librdkafka cost, by the function called."""
        found = Counter()
        for (caller, callee), cost in self.calls.items():
            if callee.startswith("rd_kafka_") and "::" in caller:
                found[callee] += cost
        return found

    def kind(self):
        """Whose thread it is, by what only that thread does."""
        if any("produce" in callee for callee in self.calls_into_client()):
            return "lane"
        for function, kind in (("rd_kafka_broker_thread_main", "broker"), ("rd_kafka_thread_main", "client")):
            if function in self.own:
                return kind
        return "lane" if "do_produce" in self.own or "main" in self.own and "msg_delivered" in self.own else "others"


def files(out):
    """The files of one run: one a thread, or one in all."""
    return [path for path in glob.glob(glob.escape(out) + "*") if re.fullmatch(re.escape(out) + r"(-\d+)?", path)]


def by_thread(profiles):
    """Threads of a kind together."""
    found = {}
    for profile in profiles:
        if profile.total:
            found.setdefault(profile.kind(), Profile(None)).add(profile)
    return found


def short(function):
    """A function's name without the hash that Rust appends."""
    return re.sub(r"::h[0-9a-f]{16}", "", function)
