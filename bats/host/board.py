# SPDX-License-Identifier: GPL-2.0
"""board.py FLEET [PICTURE]: an hour of sample data of 14 hosts in a real Prometheus, with the rules
of FLEET, and the eight open panels of the dashboard evaluated on it. With PICTURE, draws them, which
needs matplotlib."""
import itertools
import json
import math
import os
import re
import signal
import subprocess
import sys

from prom import Prometheus, stop

fleet, picture = (sys.argv[1:] + [None])[:2]
START = 1768478400      # 2026-01-15 12:00 UTC
END, STEP = START + 3600, 15
HOSTS = [f"{kind}-{i:02}" for kind, n in (("web", 6), ("proxy", 4), ("db", 4)) for i in range(1, n + 1)]
CAUSES = {"nagle": 0.041, "stalls": 0.042, "loss": 0.23, "syn": 1.05, "sndwait": 0.012, "accept": 0.09,
          "peerwnd": 0.15, "cork": 0.203, "ports": 0.0002, "slowbind": 0.0015, "again": 0.02}
# Lost seconds per second of a host and a cause, from one minute to another.
STORY = [("web-03", "nagle", 0.9, 12, 34), ("web-04", "nagle", 0.5, 12, 34), ("db-02", "stalls", 0.7, 12, 34),
         ("db-01", "loss", 1.3, 38, 50), ("db-03", "loss", 0.6, 40, 50), ("proxy-02", "accept", 0.8, 22, 46),
         ("proxy-02", "syn", 0.5, 22, 46), ("proxy-01", "ports", 0.3, 5, 55), ("web-06", "cork", 0.4, 3, 58),
         ("web-01", "sndwait", 0.2, 0, 60), ("web-02", "peerwnd", 0.25, 28, 60)]
# Events per second.
FAILS = [("proxy-01", "portsearch_exhausted", 3, 30, 55), ("proxy-02", "listen_overflows", 8, 22, 46),
         ("web-05", "portsearch_bound_in_use", 1, 10, 25), ("db-04", "bindsearch_exhausted", 0.5, 40, 60)]
ANSWERS = [("db-01", "own", 2.5, 36, 52), ("web-03", "peer", 1.8, 36, 52), ("web-05", "peer", 0.4, 0, 60)]


def ripple(seconds):
    """The integral of a rate that varies by 15% around 1."""
    return seconds + 0.15 * 70 * (1 - math.cos(seconds / 70))


def samples():
    """OpenMetrics text: each counter is the sum of its rate so far."""
    rates = {}
    for host in HOSTS:
        for i, cause in enumerate(CAUSES):
            noise = 0.004 * (1 + (HOSTS.index(host) + i) % 4)
            rates["tcplat_lost_seconds_total", host, f',cause="{cause}"'] = [(noise, 0, 60)]
            rates["tcplat_delays_total", host, f',cause="{cause}"'] = [(noise / CAUSES[cause], 0, 60)]
        for kind in ("portsearch_exhausted", "portsearch_bound_in_use", "bindsearch_exhausted", "listen_overflows"):
            rates[f"tcplat_{kind}_total", host, ""] = [(0, 0, 60)]
        for kind in ("own", "peer"):
            rates[f"tcplat_answer_{kind}_seconds_sum", host, ""] = [(0.01, 0, 60)]
        rates["tcplat_missed_total", host, ',group="delack"'] = [(0.01 if host == "web-05" else 0, 0, 60)]
    for host, cause, rate, *when in STORY:
        rates["tcplat_lost_seconds_total", host, f',cause="{cause}"'].append((rate, *when))
        rates["tcplat_delays_total", host, f',cause="{cause}"'].append((rate / CAUSES[cause], *when))
    for host, kind, rate, *when in FAILS:
        rates[f"tcplat_{kind}_total", host, ""].append((rate, *when))
    for host, kind, rate, *when in ANSWERS:
        rates[f"tcplat_answer_{kind}_seconds_sum", host, ""].append((rate, *when))
    series = {key: lambda t, parts=parts: sum(
        rate * ripple(max(0, min(t, to * 60) - since * 60)) for rate, since, to in parts)
              for key, parts in rates.items()}
    series |= {("tcplat_up", host, ""): lambda t, up=host != "db-04": up for host in HOSTS}
    series["tcplat_down_reason", "db-04", ',reason="no module for this kernel"'] = lambda t: 1
    for family, keys in itertools.groupby(sorted(series), lambda key: key[0]):
        yield f"# TYPE {family} unknown\n"
        for key in keys:
            labels = f'job="node",instance="{key[1]}"{key[2]}'
            for t in range(-600, END - START + 1, STEP):
                yield f"{family}{{{labels}}} {series[key](t):.6f} {START + t}\n"
    yield "# EOF\n"


def legend(target, labels):
    return re.sub(r"{{(\w+)}}", lambda m: labels.get(m[1], ""), target["legendFormat"])


def draw(panels, results):
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams.update({"font.size": 7, "svg.hashsalt": "tcplat", "svg.fonttype": "none", "axes.titlesize": 8})
    from matplotlib import pyplot
    unit = {"si:s/s": "s/s", "cps": "1/s", "s": "s"}
    figure = pyplot.figure(figsize=(12, 13))
    for panel in panels:
        pos = panel["gridPos"]
        axes = figure.add_axes((pos["x"] / 24 + 0.04, 1 - (pos["y"] + pos["h"] - 1) / 34.5,
                                pos["w"] / 24 - 0.06, (pos["h"] - 2.2) / 34.5))
        axes.set_title(panel["title"], loc="left", weight="bold")
        answers = list(zip(panel["targets"], results[panel["id"]]))
        if panel["type"] == "timeseries":
            lines = [(legend(t, s["metric"]), {int(float(x)): float(y) for x, y in s["values"]})
                     for t, series in answers for s in series]
            # topk() differs from step to step: what peaks highest comes first, and in the legend.
            lines = [line for line in lines if max(line[1].values()) > 0]
            lines.sort(key=lambda line: -max(line[1].values()))
            times = range(START, END + 1, 2 * STEP)
            minutes = [(t - START) / 60 for t in times]
            if "custom" in panel["fieldConfig"]["defaults"]:
                axes.stackplot(minutes, [[v.get(t, 0) for t in times] for _, v in lines],
                               labels=[name for name, _ in lines], alpha=0.8)
            else:
                for name, v in lines:
                    axes.plot(minutes, [v.get(t, math.nan) for t in times], label=name, linewidth=1)
            axes.set_xlim(0, 60)
            axes.set_ylim(bottom=0)
            axes.set_ylabel(unit[panel["fieldConfig"]["defaults"]["unit"]])
            axes.grid(alpha=0.3)
            axes.legend(*(part[:8] for part in axes.get_legend_handles_labels()), fontsize=6,
                        loc="upper left", ncol=2, framealpha=0.7)
            continue
        axes.axis("off")
        if panel["type"] == "stat":
            rows = [(legend(t, s["metric"]), s["value"][1]) for t, series in answers for s in series]
            head = None
        else:
            table = {}
            for column, (_, series) in enumerate(answers):
                for s in series:
                    key = (s["metric"]["instance"], s["metric"]["cause"])
                    table.setdefault(key, [""] * 3)[column] = f"{float(s['value'][1]):.3g}"
            rows = sorted(((*k, *v) for k, v in table.items()), key=lambda r: -float(r[2]))[:10]
            head = ["host", "cause", "lost, s/s", "delays/s", "mean, s"]
        axes.table(rows, colLabels=head, loc="upper left", cellLoc="left", edges="horizontal").scale(1, 1.1)
    figure.savefig("board.svg", metadata={"Date": None, "Title": "tcplat's dashboard"})
    with open("board.svg") as f, open(picture, "w") as out:
        # Smaller: no more digits than the eye sees, and a path on one line.
        text = re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d)\d+", r"\1", path[0])
                      .replace("\n", " "), re.sub(r" +$", "", f.read(), flags=re.M))
        out.write(text.replace(
            "<metadata>", "<!-- SPDX-License-Identifier: GPL-2.0 -->\n <metadata>", 1))


with open("samples.txt", "w") as f:
    f.writelines(samples())
rules = os.path.join(fleet, "tcplat.rules.yml")
RETENTION = "--storage.tsdb.retention.time=20y"
AT, ALL = {"time": START + 45 * 60}, {"start": START, "end": END, "step": 2 * STEP}
QUIET = {"check": True, "stdout": subprocess.DEVNULL}
subprocess.run(["promtool", "tsdb", "create-blocks-from", "openmetrics", "samples.txt", "data"], **QUIET)
try:
    prometheus = Prometheus({}, RETENTION)
    subprocess.run(["promtool", "tsdb", "create-blocks-from", "rules", f"--start={START}", f"--end={END}",
                    f"--eval-interval={STEP}s", f"--url={prometheus.url}", "--output-dir=data", rules], **QUIET)
finally:
    stop(signal.SIGTERM)
with open(os.path.join(fleet, "tcplat.dashboard.json")) as f:
    open_panels = [p for p in json.load(f)["panels"] if p["type"] != "row"]
answers = {}
try:
    prometheus = Prometheus({}, RETENTION)
    for panel in open_panels:
        answers[panel["id"]] = [prometheus.ask(
            re.sub(r"\$(cluster|job|instance)", ".*", t["expr"]).replace("$__rate_interval", "5m")
            .replace("$__range", "1h"), **(AT if t.get("instant") else ALL)) for t in panel["targets"]]
        assert all(answers[panel["id"]]), panel["title"]
finally:
    stop(signal.SIGTERM)
# The board shows the story.
title = {p["title"]: p["id"] for p in open_panels}
peak = {s["metric"]["cause"]: max(float(v) for _, v in s["values"]) for s in answers[title["Lost time by cause"]][0]}
for cause in CAUSES:
    most = sum(rate for _, what, rate, *_ in STORY if what == cause)
    assert most * 0.8 <= peak[cause] <= most * 1.2 + 0.25, (cause, peak[cause], most)
worst = {s["metric"]["instance"] for s in answers[title["Hosts that lose most time"]][0]}
assert {host for host, *_ in STORY} <= worst, worst
hosts = {s["metric"].get("reason", t["legendFormat"]): int(s["value"][1]) for p in open_panels if p["title"] == "Hosts"
         for t, series in zip(p["targets"], answers[p["id"]]) for s in series}
assert hosts == {"with counters": 13, "no module for this kernel": 1, "missed events": 1}, hosts
print(len(open_panels), "panels:", sum(len(a) for p in answers.values() for a in p), "series")
if picture:
    draw(open_panels, answers)
# The picture has these panels.
with open(os.path.join(fleet, "../../Documentation/guide/board.svg")) as f:
    assert not set(title) - set(re.findall(">([^<]*)<", f.read()))
