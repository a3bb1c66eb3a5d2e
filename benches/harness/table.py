"""What a bench shows: lines while it runs, Markdown and JSON at the end."""

import json
import os
import shlex

from . import rig
from .tools import REFERENCE


def markdown(head, rows):
    """A table whose columns are as wide as they must be."""
    rows = [[str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def number(value, form="{:,.0f}"):
    return "" if value is None else form.format(value)


def of_machine(facts):
    load = " ".join(f"{value:.2f}" for value in facts["load_before"])
    return (
        f"{facts['time']}, {facts['cores']} cores of {facts['cpu']}, {facts['memory_gib']} GiB, {facts['system']}, "
        f"Linux {facts['kernel']}; load before {load}, others used {facts['others_cores']:.2f} cores"
    )


def write(folder, name, text, data):
    os.makedirs(folder, exist_ok=True)
    for path, content in ((f"{name}.md", text), (f"{name}.json", json.dumps(data, indent=1) + "\n")):
        with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
            file.write(content)
    print(f"written: {os.path.join(folder, name)}.md and .json")


class Report:
    """Lines that are printed and kept."""

    def __init__(self):
        self.lines = []

    def say(self, line=""):
        print(line, flush=True)
        self.lines.append(line)


class Peers(Report):
    """The report of benches/peers."""

    HEAD = ["client", "records/s", "min", "max", "ratio", "MB/s", "by its own clock", "CPU s per million", "ratio",
            "without start", "broker CPU s", "others, cores", "faults"]  # fmt: skip

    def __init__(self, facts, chosen, properties, found, scratch):
        super().__init__()
        self.facts, self.chosen, self.properties, self.tools, self.scratch = facts, chosen, properties, found, scratch
        self.runs, self.tables = [], []

    def start(self, seconds):
        self.say("# soakd and its peers")
        self.say()
        self.say(of_machine(self.facts) + ".")
        self.say(f"{self.chosen.rounds} rounds, interleaved; broker's data in {self.scratch}.")
        self.say("Properties of every client: " + ", ".join(f"{k}={v}" for k, v in self.properties.items()) + ";")
        self.say("enable.idempotence is true with acks=all and false with acks=1.")
        self.say()
        for tool in self.tools:
            what = f"not here: {tool.missing}" if tool.missing else f"{tool.version()}. {tool.note}"
            self.say(f"- {tool.name}: {what}")
            if not tool.missing and getattr(tool, "max_rate", True) is False:
                self.say('  This soakd has no rate = "max": everything is due at once instead (1e9 records/s, "wait").')
        self.say()
        print(f"about {seconds / 60:.0f} minutes on a quiet machine of this kind" if seconds > 90 else
              f"about {seconds:.0f} seconds on a quiet machine of this kind", flush=True)  # fmt: skip

    def add(self, cell, tool, round_number, result):
        result["round"] = round_number
        self.runs.append(result)
        what = result["fault"] or "ok"
        rate, cpu = result["records_per_second"], result["cpu_s"] / max(1, result["stored"]) * 1e6
        print(
            f"  {cell.name()} round {round_number}{' (thrown away)' if round_number == 0 else ''}: {tool.name}: "
            f"{number(rate) or '-'} records/s, {cpu:.2f} CPU s per million, "
            f"others {result['others_cores']:.2f} cores, {what}",
            flush=True,
        )
        if round_number == 1:
            print("    $ " + shlex.join(result["command"]), flush=True)
        if result["fault"]:
            print("    " + "\n    ".join(result["log"].splitlines()[-6:]), flush=True)

    def end_of(self, cell, tools_here):
        rows = [self.row(cell, tool) for tool in tools_here]
        reference = next((row for row in rows if row["client"] == REFERENCE), None)
        shown = []
        for row in rows:
            rate, cpu = row["records_per_second"] or {}, row["cpu_s_per_million"] or {}
            ratios = [None, None]
            if reference and reference["records_per_second"] and rate:
                ratios[0] = rate["median"] / reference["records_per_second"]["median"]
            if reference and reference["cpu_s_per_million"] and cpu:
                ratios[1] = cpu["median"] / reference["cpu_s_per_million"]["median"]
            row["ratio"], row["cpu_ratio"] = ratios
            shown.append(
                [
                    row["client"],
                    number(rate.get("median")),
                    number(rate.get("min")),
                    number(rate.get("max")),
                    number(ratios[0], "{:.2f}"),
                    number(row["mb_per_second"]),
                    number(row["own"]),
                    number(cpu.get("median"), "{:.2f}"),
                    number(ratios[1], "{:.2f}"),
                    number(row["cpu_s_per_million_without_start"], "{:.2f}"),
                    number(row["broker_cpu_s_per_million"], "{:.2f}"),
                    number(row["others_cores"], "{:.2f}"),
                    row["faults"],
                ]  # fmt: skip
            )
        for tool in self.tools:
            if tool.missing and (cell.where == "kafka" or tool.on_mock):
                shown.append([tool.name] + [""] * (len(self.HEAD) - 2) + [f"not here: {tool.missing}"])
        self.tables.append({"cell": cell.name(), "rows": rows})
        self.say(f"## {cell.name()}, {cell.partitions} partitions")
        self.say()
        self.say(markdown(self.HEAD, shown))
        self.say()

    def row(self, cell, tool):
        runs = [run for run in self.runs if run["cell"] == cell.name() and run["tool"] == tool.name]
        warm, runs = runs[0], runs[1:]
        faults = [run["fault"] for run in runs if run["fault"]]
        good = [run for run in runs if not run["fault"]]
        rate = rig.spread(run["records_per_second"] for run in good)
        own = rig.spread(run["records_per_second_own"] for run in good)
        cpu_s = rig.spread(run["cpu_s"] for run in good)
        broker = rig.spread(
            run["broker_cpu_s"] / run["records"] * 1e6 for run in good if run["broker_cpu_s"] is not None
        )
        others = rig.spread(run["others_cores"] for run in good)
        more = max(1, (good[0]["records"] if good else 0) - warm["records"])
        return {
            "client": tool.name,
            "records_per_second": rate,
            "mb_per_second": rate["median"] * cell.value_bytes / 1e6 if rate else None,
            "own": own["median"] if own else None,
            "cpu_s_per_million": rig.spread(run["cpu_s"] / run["records"] * 1e6 for run in good),
            # The run of round 0 was a tenth as long: what is between is records and nothing else.
            "cpu_s_per_million_without_start": (
                (cpu_s["median"] - warm["cpu_s"]) / more * 1e6 if cpu_s and not warm["fault"] else None
            ),
            "broker_cpu_s_per_million": broker["median"] if broker else None,
            "others_cores": others["median"] if others else None,
            "faults": f"{len(faults)} of {len(runs)}: {faults[0]}" if faults else "",
        }

    def exit_code(self):
        return 1 if any(run["fault"] for run in self.runs if run["tool"].startswith("soakd")) else 0

    def write(self, complete):
        if not complete:
            self.lines += [
                "**Stopped before its end**: the tables of the cells that were done, all runs in the JSON.",
                "",
            ]
        commands = [
            "## Commands",
            "",
            "One run of each client in each cell; the others differ in topic and folder.",
            "",
        ]
        shown = set()
        for run in self.runs:
            if run["round"] != 1 or (run["cell"], run["tool"]) in shown:
                continue
            shown.add((run["cell"], run["tool"]))
            commands += [f"{run['cell']}, {run['tool']}:", "", "```sh", shlex.join(run["command"]), "```", ""]
            for name, content in run["files"].items():
                commands += [f"`{name}`:", "", "```toml", content.rstrip(), "```", ""]
        data = {
            "machine": self.facts,
            "complete": complete,
            "options": vars(self.chosen),
            "properties": self.properties,
            "tools": [
                {
                    "name": tool.name,
                    "note": tool.note,
                    "missing": tool.missing,
                    "version": None if tool.missing else tool.version(),
                }
                for tool in self.tools  # fmt: skip
            ],
            "tables": self.tables,
            "runs": self.runs,
        }
        write(self.chosen.out, "peers", "\n".join(self.lines + commands) + "\n", data)
