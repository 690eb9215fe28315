#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Writes the figures of Documentation/guide/hz.md, in place of what is there.

usage: hz-table.py HZ.MD MEASURED...

Each file MEASURED is what vm/hz-table.guest printed on a kernel. Fails if a timer fired outside of
its computed range.
"""

import math
import re
import sys

path, *files = sys.argv[1:]
kernels = []
for file in files:
    with open(file, encoding="ascii") as f:
        kernels.append(dict(line.rstrip("\n").split("=", 1) for line in f if "=" in line))
rates = [int(k["hz"]) for k in kernels]


def step(n):
    """The granularity in jiffies of a timer that is set n jiffies ahead, in the kernel's timer
    wheel (kernel/time/timer.c). It fires at the end of the step that contains its expiry."""
    return next((s for end, s in ((63, 1), (504, 8), (4032, 64), (32256, 512)) if n < end), 4096)


def time(ms):
    return f"{ms:.4g} ms" if ms < 1000 else f"{ms / 1000:.4g} s"


def table(*rows):
    """Each row is a title and a function of the kernel."""
    lines = ["| |" + "".join(f" HZ={hz} |" for hz in rates), "|---|" + "---|" * len(kernels)]
    for title, cell in rows:
        lines.append(f"| {title} |" + "".join(f" {cell(k)} |" for k in kernels))
    return lines


def timers(k, name):
    """Of the kind NAME+ASKED+LATE:COUNT, in jiffies."""
    for item in k.get(name, "").split(","):
        if item:
            function, *numbers = re.split("[+:]", item)
            yield function, *map(int, numbers)


def picture():
    """Timer granularity over the timeout, both axes logarithmic."""
    marks = {100: "a", 250: "b", 300: "c", 1000: "d"}
    at = {}
    for hz in rates:
        for x in range(65):
            ms = 10 * 10 ** (x / 16)
            y = int(math.log2(step(ms * hz / 1000) * 1000 / hz) + 0.5)
            both = at.get((x, y), "") + marks[hz]
            at[x, y] = {"bc": "="}.get(both, both if len(both) == 1 else "#")
    for y in range(13, -1, -1):
        line = "".join(at.get((x, y), " ") for x in range(65))
        yield f"    {time(2 ** y):>7} |{line}".rstrip()
    yield "            +---------------+---------------+---------------+---------------+"
    yield "          10 ms          100 ms            1 s            10 s           100 s"


def computed(ms):
    """How late a timer of ms may be, and the latest time at which it fires."""
    def cell(k):
        n = ms * int(k["hz"]) / 1000
        s = step(n)
        most = f"…{s}" if s > 1 else ""
        return f"{int(n)} + 1{most}: at most {time((n + s) * 1000 / int(k['hz']))}"
    return cell


def measured(ms, name, function):
    """How late the timers of this name were that were set ms ahead, or up to a tick and 3% more.
    The longest delay of an ACK is a jiffy shorter than 200 ms."""
    def cell(k):
        asked = ms * int(k["hz"]) / 1000
        least, most = asked - (ms == 200 and function == "ack"), asked * 1.03 + 1
        found = [t for t in timers(k, name) if t[0] == function and least <= t[1] <= most]
        bad = [t for t in found if not 1 <= t[2] <= step(t[1])]
        n = sum(t[3] for t in found)
        if not n or bad:
            sys.exit(f"hz-table: HZ={k['hz']}: {function} after {ms} ms: {n} timers;"
                     f" not as computed: {bad}")
        first, last = min(t[2] for t in found), max(t[2] for t in found)
        return f"+ {first}…{last} ({n} timers)" if first < last else f"+ {first} ({n} timers)"
    return cell


def all_timers():
    rows = []
    for ms, name, function, title in (
            (40, "near", "ack", "delayed ACK, 40 ms"), (80, "far", "ack", "delayed ACK, 80 ms"),
            (160, "far", "ack", "delayed ACK, 160 ms"), (200, "far", "ack", "delayed ACK, 200 ms"),
            (200, "others", "rto", "retransmission, 200 ms"),
            (1000, "others", "tcp_write_timer", "first SYN, 1 s"),
            (60000, "others", "tw_timer_handler", "TIME_WAIT, 60 s")):
        rows += (title, computed(ms)), ("measured", measured(ms, name, function))
    return table(*rows)


def longest(name):
    """The longest requested delay of an ACK."""
    def cell(k):
        most = max((t[1] for t in timers(k, name) if t[0] == "ack"), default=0)
        return f"{most} = {most * 1000 / int(k['hz']):.5g} ms" if most else "-"
    return cell


def constant(name):
    return lambda k: f"{k[name]} = {int(k[name + '_us']) / 1000:.7g} ms"


def delays(name):
    """Each measured delay in jiffies and ms, and how often it occurred."""
    def cell(k):
        out = []
        for one in k[name].split(","):
            jiffies, n = one.split(":")
            times = "once" if n == "1" else f"{n} times"
            out.append(f"{jiffies} jiffies = {int(jiffies) * 1000 / int(k['hz']):.5g} ms ({times})")
        return ", ".join(out)
    return cell


def histograms():
    """Those of the write-write-reads, and their sum."""
    bounds = {k["le"] for k in kernels}
    if len(bounds) > 1:
        sys.exit("hz-table: the histograms' bounds differ")
    counts = [[int(n) for n in k["wwr_hist"].split(",")] for k in kernels]
    rows = [("delay_hist_le_us", bounds.pop().split(",")),
            *((f"HZ={hz}", row) for hz, row in zip(rates, counts)),
            ("sum", [sum(column) for column in zip(*counts)])]
    return [f"    {name:<17} {' '.join(map(str, row))}" for name, row in rows]


figures = [
    picture(),
    all_timers(),
    table(("nothing set", longest("usual")),
          ("a route with `rto_min 20ms`", longest("route")),
          ("`net.ipv4.tcp_rto_min_us=20000`", longest("sysctl"))),
    table(("a tick, `tick_ns`", lambda k: f"{int(k['tick_ns']) / 1000000:.7g} ms"),
          ("shortest delay of an ACK, `delack_min`", constant("delack_min")),
          ("longest, `delack_max`", constant("delack_max")),
          ("the timer's first setting, `ato_min`", constant("ato_min")),
          ("shortest retransmission timeout, `rto_min`", constant("rto_min")),
          ("TIME_WAIT, `timewait_len`", constant("timewait_len")),
          ("measured: ACK delays of 200 write-write-reads", delays("wwr_delays")),
          ("what their user waited for, in the median", lambda k: f"{k['wwr_median_ms']} ms"),
          ("measured: ACK delays of 100 messages one way, not read for 70 ms",
           delays("oneway_delays"))),
    histograms(),
]
with open(path, encoding="utf-8") as f:
    text = f.read()
# Figures are indented text, and tables with a column per HZ.
figure = re.compile(r"^(?:    .*\n)+|^\| \| HZ=.*\n(?:\|.*\n)+", re.MULTILINE)
if len(figure.findall(text)) != len(figures):
    sys.exit(f"hz-table: {path} does not have {len(figures)} figures")
text = figure.sub(lambda _: "\n".join(figures.pop(0)) + "\n", text)
with open(path, "w", encoding="utf-8") as f:
    f.write(text)
