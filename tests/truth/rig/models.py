"""What an open load must show, by arithmetic: nothing is measured here.

Record n is due at begin + n / rate. It is handed over in order, when it is due, when fewer than `cap` records are in
flight, and no faster than `catch_up` times the rate (in steps of 10 ms). The broker acks at once, except that what it
gets while it is stopped it acks at the end of the stop.
"""

import bisect
import math

STEP_S = 0.010


def handed_over(rate, count, begin_s, cap, catch_up, broker_away=None, load_away=None):
    """By record: (due, handed over, acked), in seconds."""
    records, level, filled_s = [], rate * catch_up * STEP_S, begin_s
    most = level
    for number in range(count):
        due_s = begin_s + number / rate
        at_s = due_s
        if number >= cap:
            at_s = max(at_s, records[number - cap][2])
        if records:
            at_s = max(at_s, records[-1][1])
        if load_away and load_away[0] <= at_s < load_away[1]:
            at_s = load_away[1]
        level = min(most, level + (at_s - filled_s) * rate * catch_up)
        if level < 1.0:
            at_s += (1.0 - level) / (rate * catch_up)
            level = 1.0
        level, filled_s = level - 1.0, at_s
        away = broker_away and broker_away[0] <= at_s < broker_away[1]
        records.append((due_s, at_s, broker_away[1] if away else at_s))
    return records


def quantile(values, q):
    """The value that a share q of the sorted values does not exceed."""
    return values[max(1, math.ceil(q * len(values))) - 1]


def bucket(bounds, value):
    """The first bucket whose upper bound is not exceeded."""
    return bisect.bisect_left(bounds, value)


def late_seconds(records, late_s=0.1, on_time_s=0.05):
    """How long the load was late: from when the oldest waiting record was due until none waits for longer than
    `on_time_s`."""
    waits = [(due_s, at_s) for due_s, at_s, _ in records if at_s - due_s > on_time_s]
    if not any(at_s - due_s > late_s for due_s, at_s in waits):
        return 0.0
    return waits[-1][1] - waits[0][0]
