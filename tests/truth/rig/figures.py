"""The table: every published figure beside the truth, and how far it may be off."""

import math

SHARE = 0.02
EXACTLY = "0"
MARKS = {True: "ok ", False: "OFF", None: "?  "}


class Table:
    def __init__(self):
        self.rows, self.scene = [], ""

    def begin(self, scene):
        self.scene = scene
        print(f"--- {scene}", flush=True)

    def add(self, figure, truth, published, allowed=None, why=None):
        """One figure. `allowed` is absolute; without it 2 % of the truth."""
        share = allowed is None
        allowed = abs(truth) * SHARE if share else allowed
        why = why or ("2 %" if share else "")
        known = published is not None and truth is not None
        good = known and abs(published - truth) <= allowed + 1e-9
        self.put(figure, truth, published, f"{allowed:.4g}" + (f" ({why})" if why else ""), good)

    def put(self, figure, truth, published, allowed, good):
        """`good` is None where the machine was too busy to tell."""
        difference = published - truth if published is not None and truth is not None else None
        self.rows.append((self.scene, figure, truth, published, difference, allowed, good))
        print(
            f"{MARKS[good]}  {figure:58} {number(truth):>12} {number(published):>12}  {allowed}",
            flush=True,
        )

    def exact(self, figure, truth, published, quiet=False):
        """Without `quiet` a figure that no other program on the machine can move."""
        self.put(figure, truth, published, "0 (on a quiet machine)" if quiet else EXACTLY, published == truth)

    def doubt(self):
        """What is off and may have been moved by a busy machine is not told."""
        self.rows = [(*row[:-1], None) if row in self.off and row[-2] != EXACTLY else row for row in self.rows]

    def at_most(self, figure, most, published, why):
        good = published is not None and published <= most + 1e-9
        self.put(figure, most, published, f"at most ({why})", good)

    def samples(self, figure, found, mean_allowed=None):
        """Many samples of (truth, published, uncertainty): each within 2 % or its uncertainty, their mean in 2 %."""
        if not found:
            self.put(figure, None, None, "samples to compare", False)
            return
        truth, published, uncertainty = (sum(column) / len(found) for column in zip(*found))
        # Where within its poll a sample looked is as good as random: three standard deviations of the mean of that.
        spread = 3 * uncertainty / math.sqrt(3 * len(found))
        why = None
        if mean_allowed is None and spread > SHARE * abs(truth):
            mean_allowed, why = spread, "3 σ of so few polls"
        self.add(f"{figure}, mean of {len(found)} samples", truth, published, mean_allowed, why)

        def excess(one):
            truth, published, uncertainty = one
            return abs(published - truth) / max(SHARE * abs(truth), uncertainty, 1e-9)

        truth, published, uncertainty = max(found, key=excess)
        allowed = max(SHARE * abs(truth), uncertainty)
        why = "its uncertainty" if uncertainty >= SHARE * abs(truth) else "2 %"
        self.add(f"{figure}, worst of {len(found)} samples", truth, published, allowed, why)

    def in_bucket(self, figure, bounds, truth, published):
        """A latency by the buckets of /metrics: the same one or its neighbour."""
        from rig.models import bucket

        good = published is not None and abs(bucket(bounds, truth) - bucket(bounds, published)) <= 1
        self.put(figure, truth, published, "1 bucket", good)

    @property
    def off(self):
        return [row for row in self.rows if row[-1] is False]

    @property
    def untold(self):
        return [row for row in self.rows if row[-1] is None]

    def markdown(self):
        lines = ["| figure | truth | published | difference | allowed |", "| --- | ---: | ---: | ---: | --- |"]
        scene = None
        for row in self.rows:
            if row[0] != scene:
                scene = row[0]
                lines.append(f"| **{scene}** | | | | |")
            mark = {True: "", False: " **off**", None: " **not told**"}[row[-1]]
            cells = (row[1], number(row[2]), number(row[3]), number(row[4], sign=True), row[5] + mark)
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join(lines) + "\n"


def number(value, sign=False):
    if value is None:
        return "none"
    if isinstance(value, bool) or isinstance(value, str):
        return str(value)
    if value == int(value) and abs(value) < 1e12:
        return f"{int(value):+,}" if sign else f"{int(value):,}"
    digits = 1 if abs(value) >= 1000 else 2 if abs(value) >= 100 else 3
    return f"{value:+,.{digits}f}" if sign else f"{value:,.{digits}f}"
