"""The truth about samples of a progress source: by the broker's log and by what the system wrote down."""

import bisect

from rig.processes import BUSY_S

# From the broker's log to whoever waits for the ack.
ACK_WAY_S = 0.003
# A machine on which programs wait for a processor (BUSY_S), or the broker for its disk for longer than this, cannot
# tell the truth to within the 2 % that the rig holds soakd to: samples of such moments are not judged. Nor are those for
# which another producer than soakd had to wait for its acks: which records were acked then is not known.
BUSY_BROKER_S = 0.030


class Truth:
    """By the broker's log; `noise(from, to)` is how long a thread of the rig's own had to wait for a processor then,
    `acks(at)` how long the ack of another producer than soakd was on its way around an instant. `far_s` is how long the
    ack of a broker that is far away takes at the least: what it has not acked yet, nobody can know of."""

    def __init__(self, partitions, noise, acks, far_s=0.0):
        self.partitions, self.noise, self.acks, self.far_s, self.in_order = partitions, noise, acks, far_s, None

    def way_s(self, answer):
        """How long soakd's acks may have been on their way around an answer."""
        return ACK_WAY_S + self.noise(answer["came"] - 0.2, answer["left"] + 0.2)

    def quiet(self, answer, query_s):
        """Whether the machine was quiet enough around an answer."""
        begun, ended = answer["came"] - 0.2, answer["left"] + 0.1
        if self.noise(begun, ended) > BUSY_S or answer["sent"] - answer["came"] > query_s + BUSY_S:
            return False
        # Then it is not known which records were acked when it was asked.
        if max(map(self.acks, (answer["came"], answer["left"]))) > self.far_s + self.way_s(answer):
            return False
        if self.far_s:
            return True
        for have in self.partitions:
            for at in range(have.head(begun), have.head(ended)):
                if have.appended_ms[at] - have.intended_ms[at] > BUSY_BROKER_S * 1000:
                    return False
        return True

    def heads(self, at_s):
        return [have.head(at_s) for have in self.partitions]

    def lag(self, done, at_s):
        """Records that the broker had and the system did not, at an instant."""
        return sum(max(0, head - next_) for head, next_ in zip(self.heads(at_s), done))

    def age(self, done, at_s, far_s=0.0):
        """Seconds since the oldest of them was due, of those that the broker had `far_s` before."""
        pairs = zip(self.partitions, self.heads(at_s - far_s), done)
        oldest = [have.intended_ms[next_] for have, head, next_ in pairs if next_ < head]
        return max(0.0, at_s - min(oldest) / 1000) if oldest else 0.0

    def age_of_count(self, count, at_s, far_s=0.0):
        """Seconds since the record was due that comes after the first `count` ones: a count does not say of which
        partition they are."""
        if not self.in_order:
            self.in_order = sorted(ms for have in self.partitions for ms in have.intended_ms)
        there = sum(self.heads(at_s - far_s))
        return max(0.0, at_s - self.in_order[count] / 1000) if count < there else 0.0

    def unseen(self, shown, at_s):
        """Age of the oldest marker that the broker had and that is not shown."""
        oldest = None
        for have, head, number in zip(self.partitions, self.heads(at_s), shown):
            at = have.marker.find(1, 0, head)
            while at >= 0:
                if number is None or have.sequence[at] > number:
                    oldest = min(oldest or have.intended_ms[at], have.intended_ms[at])
                    break
                at = have.marker.find(1, at + 1, head)
        return 0.0 if oldest is None else at_s - oldest / 1000


def pairs(samples, answers, begun=0.0, ended=float("inf")):
    """Each sample with the answer that it is made of: the last one that had left when soakd noted it."""
    left = [answer["left"] for answer in answers]
    for sample in samples:
        if not begun <= sample["at"] <= ended:
            continue
        at = bisect.bisect_right(left, sample["at"] + 0.001) - 1
        if at >= 0 and sample["at"] - left[at] < 0.5:
            yield sample, answers[at]


def group_pairs(truth, samples, commits, begun=0.0, ended=float("inf")):
    """Of a group: the commit whose lag is nearest, of those that may have been the last one when it was asked."""
    left = [commit["left"] for commit in commits]
    for sample in samples:
        if not begun <= sample["at"] <= ended or sample["lag_records"] is None:
            continue
        at = bisect.bisect_right(left, sample["at"])
        around = commits[max(0, at - 2) : at + 1]
        if around:
            asked = sample["at"] - (sample["took"] or 0.0) / 2
            found = min(around, key=lambda one: abs(truth.lag(one["next"], asked) - sample["lag_records"]))
            yield sample, found | {"at": asked, "came": asked, "left": asked}


def outside(published, least, most):
    """The nearest truth to what is published."""
    return min(max(published, least), most)


def lags(truth, found, rate):
    """(truth, published, uncertainty) of lag in records and in seconds; and of each uncertainty what it may be at most.

    Between the broker and the one who hears of an ack lie some milliseconds. Truth is known to within that.
    """
    records, seconds, bounds = [], [], []
    for sample, answer in found:
        uncertainty = sample["lag_uncertainty_records"] or 0.0
        took = sample["took"] or answer["left"] - answer["came"]
        way_s, far_s = truth.way_s(answer), truth.far_s
        if sample["lag_records"] is not None:
            most, least = (truth.lag(answer["next"], answer["at"] - far_s - less) for less in (0.0, way_s))
            if "stated" in answer:
                least = most = answer["stated"]
            records.append((outside(sample["lag_records"], least, most), sample["lag_records"], uncertainty))
            heads = [sum(truth.heads(at_s - far_s)) for at_s in (answer["came"] - way_s, answer["left"] + 0.002)]
            moved = heads[1] - heads[0]
            bounds.append((rate * took / 2 + 1, max(rate * took, moved) / 2 + 1, uncertainty))
        if sample["lag_seconds"] is not None:
            # An instant within the poll, and 10 ms or 1 % to the older side by the timeline.
            instants = [answer["at"] - less for less in (0.0, way_s)]
            if answer.get("kind") == "count":
                most, least = (truth.age_of_count(sum(answer["next"]), at_s, far_s) for at_s in instants)
            else:
                most, least = (truth.age(answer["next"], at_s, far_s) for at_s in instants)
            age = outside(sample["lag_seconds"], least, most)
            seconds.append((age, sample["lag_seconds"], took / 2 + max(0.010, age / 100)))
    return records, seconds, bounds
