#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""record.py COMMAND ARGUMENT...: a model of tcplat record for reader_record.bats. Each command is a
function.

A scenario is a function of the interval's number, which returns what happened in it: a list of
(column, owner, events, ns), where an owner has the members of the JSON.
"""
import glob
import json
import os
import random
import sys
from collections import Counter, defaultdict

# column: (event, keys, value, ns in its unit, filter, part of the sum)
COLUMNS = {
    "stall": ("ack_stall", "cgroup,netns,peer", "stall_us", 1000, None, True),
    "ack": ("delack_timeout", "cgroup,netns,peer", "delay_us", 1000, None, False),
    "nagle": ("snd_hold", "comm,cgroup,peer", "time_ns", 1, "(cause == 1)", True),
    "cork": ("snd_hold", "comm,cgroup,peer", "time_ns", 1, "(cause == 2)", True),
    "port": ("port_search", "common_pid.execname,cgroup,peer", "time_ns", 1, None, True),
    "send": ("snd_wait", "common_pid.execname,cgroup,peer", "time_ns", 1, "(kind == 0)", True),
    "again": ("snd_wait", "cgroup,netns,peer", "time_ns", 1, "(kind == 1)", True),
    "idle": ("idle_restart", "cgroup,netns,peer", None, 0, None, True),
}
MEMBERS = ("pid", "local_port", "peer_port", "netns_inode", "cgroup_id", "comm", "peer")


def owner_for(column, rng, cgroups, peers):
    owner = {"cgroup_id": rng.choice(cgroups), "peer": rng.choice(peers)}
    keys = COLUMNS[column][1]
    if "netns" in keys:
        owner["netns_inode"] = 4026532000 + owner["cgroup_id"] % 3
    if "comm" in keys:
        owner["comm"] = rng.choice(("nginx", "a b", "java"))
    if "pid" in keys:
        owner["pid"] = 1000 + owner["cgroup_id"]
    return owner


def sums(n):
    """Everything, with connections over loopback, and owners that rest in some intervals."""
    rng = random.Random(n)
    cgroups = [100 + i for i in range(12) if rng.random() < 0.7] or [100]
    peers = ["10.9.0.%d" % i for i in range(4)] + ["127.0.0.1", "::ffff:127.0.0.1", "::1", "fe80::1%2", "::ffff:0:1"]
    for _ in range(120):
        column = rng.choice(list(COLUMNS))
        yield column, owner_for(column, rng, cgroups, peers), rng.randint(1, 9), rng.randint(1, 10**6) * 1000


def many(n):
    """2,000 cgroups, each with its own loss."""
    for i in range(2000):
        yield "stall", {"cgroup_id": 1000 + i, "netns_inode": 4026532000, "peer": "10.0.0.1"}, 1 + i % 7, (i * n + 1) * 1000


def full(n):
    """More keys than half a histogram has room for, and then few."""
    for i in range(5000 if n == 1 else 10):
        yield "again", {"cgroup_id": 1000 + i, "netns_inode": 4026532000, "peer": "10.0.0.1"}, 2, i * 1000


# By interval: the seconds that cgroups lose. With two places: 105 and 106 take them; 107 lost less
# than twice as much as either; then it takes that of 106, which goes on, and returns in place of 105;
# 105 takes that of 107, and loses it at once, before its series begin.
TURNS = [{105: 10, 106: 5, 107: 1}, {105: 1, 107: 9}, {107: 30, 106: 1}, {106: 100, 103: 500},
         {104: 120, 105: 200}, {102: 5000, 101: 3000, 100: 3000}, {102: 1, 101: 1}, {101: 1, 102: 1}]


def turns(n):
    """Owners that push each other aside."""
    for cgroup, seconds in TURNS[n - 1].items():
        for column, ns in ("stall", 10**6), ("again", seconds * 10**9 - 10**6):
            yield column, {"cgroup_id": cgroup, "netns_inode": 4026532000, "peer": "10.0.0.1"}, 3, ns


SCENARIOS = {"sums": sums, "plain": sums, "many": many, "full": full, "turns": turns}
# Events whose keys did not fit, by interval, after which histograms are new.
DROPPED = {"sums": {2: 7, 3: 5}, "full": {1: 0, 3: 12}}


def who(owner):
    return tuple(owner.get(m, "" if m in ("comm", "peer") else 0) for m in MEMBERS)


KEYS = {"common_pid.execname": "common_pid: %(comm)-16s[%(pid)10d]", "comm": "comm: %(comm)-35s",
        "peer": "peer: %(peer)-35s", "cgroup": "cgroup: %(cgroup_id)10d",
        "netns": "netns: %(netns_inode)10d"}


def step(name, last):
    """Writes the instance's histograms after the last interval."""
    totals = {c: {} for c in COLUMNS}
    first = 1 + max((n for n in DROPPED.get(name, {}) if n < last), default=0)
    for n in range(first, last + 1):
        for column, owner, count, ns in SCENARIOS[name](n):
            entry = totals[column].setdefault(who(owner), [owner, 0, 0])
            entry[1] += count
            entry[2] += ns
    dropped = sum(v for n, v in DROPPED.get(name, {}).items() if first <= n <= last)
    texts = defaultdict(str)
    for column, (event, keys, value, unit, wanted, _) in COLUMNS.items():
        text = "# event histogram\n#\n# trigger info: hist:keys=%s:vals=hitcount%s:sort=hitcount:size=8192%s [active]\n#\n\n" % (
            keys, "," + value if value else "", " if " + wanted if wanted else "")
        for owner, count, ns in totals[column].values():
            key = ", ".join(KEYS[k] % owner for k in keys.split(","))
            time = "  %s: %10d" % (value, ns // unit) if value else ""
            text += "{ %s } hitcount: %10d%s\n" % (key, count, time)
        texts[event] += text + "\nTotals:\n    Hits: 1\n    Entries: 1\n    Dropped: %d\n\n" % (dropped if column == "again" else 0)
    (instance,) = glob.glob("sys/kernel/tracing/instances/tcplat-record-*")
    for event, text in texts.items():
        with open(f"{instance}/events/tcplat/{event}/hist", "w") as out:
            out.write(text)


def family(owner):
    peer = owner["peer"]
    return 4 if peer.startswith("127.") else 6 if peer == "::1" else 0


def rows_of(name, n):
    """The owners of an interval, the worst first, as record has to write them."""
    rows = {}
    for column, owner, count, ns in SCENARIOS[name](n):
        # IPv4 and IPv6 sockets may have the same peer.
        owner = {**owner, "peer": owner["peer"].replace("::ffff:127", "127")}
        row = rows.setdefault(who(owner), {"owner": owner, "columns": defaultdict(Counter)})
        row["columns"][column]["count"] += count
        if COLUMNS[column][2]:
            row["columns"][column]["time_ns"] += ns
    rows = [rows[k] for k in sorted(rows, key=lambda k: k[:5] + (k[5].encode(), k[6].encode()))]
    holds = Counter()
    for row in rows:
        times = [(COLUMNS[c][5], v["time_ns"]) for c, v in row["columns"].items()]
        row["time_ns"] = sum(t for wanted, t in times if wanted)
        row["apart"] = sum(t for wanted, t in times if not wanted)
        holds[family(row["owner"])] += row["columns"]["nagle"]["time_ns"] if "nagle" in row["columns"] else 0
    for row in rows:
        if family(row["owner"]) and "stall" in row["columns"]:
            both = min(holds[family(row["owner"])], row["columns"]["stall"]["time_ns"])
            row["time_ns"] -= both
            holds[family(row["owner"])] -= both
    # A stable sort: rows with the same times stay in their order.
    return sorted(rows, key=lambda r: (-r["time_ns"], -r["apart"]))


def same(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: {got}\nexpected: {wanted}")


def total(rows):
    columns = defaultdict(Counter)
    for row in rows:
        for c, v in row["columns"].items():
            columns[c].update(v)
    return {c: dict(v) for c, v in columns.items()}


def columns_of(entry):
    return {c: v for c, v in entry.items() if isinstance(v, dict)}


def check(name, worst):
    """Compares the lines on standard input with the model."""
    for n, line in enumerate(sys.stdin, 1):
        got, rows = json.loads(line), rows_of(name, n)
        assert len(line) < 40100, len(line)
        same("dropped", got["dropped"], DROPPED.get(name, {}).get(n, 0))
        same("owners", len(got["owners"]), min(worst, len(rows)))
        for entry, row in zip(got["owners"], rows):
            same("owner", {m: entry[m] for m in MEMBERS if m in entry}, row["owner"])
            same("time", entry["time_ns"], row["time_ns"])
            same("columns", columns_of(entry), total([row]))
        other = got["other"]
        same("other owners", other["owners"], max(0, len(rows) - worst))
        same("other's time", other["time_ns"], sum(r["time_ns"] for r in rows[worst:]))
        same("other's columns", columns_of(other), total(rows[worst:]))
    print(n, "lines")


def top(name, key, first, last, worst=20):
    """Compares 'tcplat top --from --json' on standard input with the model's intervals."""
    got = json.load(sys.stdin)
    wanted = defaultdict(lambda: {"time_ns": 0, "rows": []})
    for n in range(first, last + 1):
        for i, row in enumerate(rows_of(name, n)):
            if key == "cause":
                for c, v in row["columns"].items():
                    wanted[c]["time_ns"] += v["time_ns"]
                    wanted[c]["rows"].append({"columns": {c: v}})
                continue
            # Cgroups without a name are not known to --key pod.
            label = "(others)" if i >= worst else row["owner"]["peer"] if key == "peer" else "?"
            wanted[label]["time_ns"] += row["time_ns"]
            wanted[label]["rows"].append(row)
    same("names", sorted(x["name"] for x in got["losses"]), sorted(wanted))
    for entry in got["losses"]:
        same(entry["name"], entry["time_ns"], wanted[entry["name"]]["time_ns"])
        same(entry["name"], columns_of(entry), total(wanted[entry["name"]]["rows"]))
    order = [x["time_ns"] for x in got["losses"]]
    same("order", order, sorted(order, reverse=True))
    same("dropped", got["dropped"], sum(DROPPED.get(name, {}).get(n, 0) for n in range(first, last + 1)))
    print(len(order), "rows", "%.9g" % got["seconds"], "s")


# The causes of the metrics.
CAUSES = ("stall", "nagle", "cork", "loss", "peerwnd", "listen", "port", "bind", "send", "again")
# Containers; one was started twice. There is no name for UNNAMED, and for most that the scenario full has.
PODS = {100: "shop/cart-1/web", 101: "shop/cart-1/web", 102: "shop/cart-1/proxy", 105: "kube-system/dns-2/dns"}
UNNAMED = 103


def name_of(cgroup):
    return "" if cgroup == UNNAMED or cgroup > 1009 else PODS.get(cgroup, f"/system.slice/{cgroup}.service")


def cgroups():
    """Makes the cgroups that the model has names for, in ./sys and ./cgroups, and their pods."""
    os.makedirs("cgroups")
    os.makedirs("var/log/containers")
    for cgroup in [*range(100, 112), *range(1000, 1010)]:
        path, names = name_of(cgroup), PODS.get(cgroup, "").split("/")
        if names[1:]:
            uid = "00000000-0000-0000-0000-%012x" % sum(names[1].encode())
            path = f"/kubepods/pod{uid}/{cgroup:064}"
            os.makedirs(f"var/log/pods/{names[0]}_{names[1]}_{uid}", exist_ok=True)
            os.symlink("x", f"var/log/containers/{names[1]}_{names[0]}_{names[2]}-{cgroup:064}.log")
        if path:
            os.makedirs("sys/fs/cgroup" + path)
            os.symlink(os.path.abspath("sys/fs/cgroup" + path), f"cgroups/{cgroup}")


def labels_of(name):
    names = [("cgroup", name)] if name[0] == "/" else zip(("namespace", "pod", "container"), name.split("/"))
    return tuple(sorted(names))


def read_metrics(path):
    """The series in nanoseconds, by cause and labels."""
    from prometheus_client.parser import text_string_to_metric_families as parse
    (family,) = parse(open(path).read())
    same("family", (family.name, family.type), ("tcplat_owner_lost_seconds", "counter"))
    series = {}
    for s in family.samples:
        key = s.labels.pop("cause"), tuple(sorted(s.labels.items()))
        assert key not in series, key
        series[key] = round(s.value * 10**9)
    return series


OTHER = (("cgroup", "other"),)


def model_files(name, worst):
    """What the file has at the start and after each interval."""
    rest, owners, n = Counter(), {}, 0
    while True:
        for owner in owners.values():
            owner["shown"] = {c: ns if c in owner["shown"] else 0 for c, ns in owner["ns"].items() if ns}
        yield {(c, OTHER): rest[c] for c in CAUSES} | {
            (c, labels_of(o)): v["shown"][c] for o, v in owners.items() for c in CAUSES if v["ns"][c]}
        for owner in owners.values():
            owner["recent"] -= owner["recent"] // 64
        n += 1
        sums = {}
        for row in rows_of(name, n):
            entry = sums.setdefault(name_of(row["owner"]["cgroup_id"]), [0, 0, Counter()])
            entry[0] += row["time_ns"]
            entry[1] += row["apart"]
            entry[2].update({c: v["time_ns"] for c, v in row["columns"].items()})
        for owner in owners.keys() & sums.keys():
            owners[owner]["recent"] += sums[owner][0]
        for owner, (time, _, columns) in sorted(sums.items(), key=lambda x: (-x[1][0], -x[1][1], x[0])):
            if owner and time and owner not in owners:
                least = min(owners, key=lambda o: owners[o]["recent"]) if len(owners) == worst else None
                if not least or owners[least]["recent"] < time // 2:
                    old = owners.pop(least, {"ns": {}, "shown": {}})
                    rest.update({c: ns - old["shown"].get(c, 0) for c, ns in old["ns"].items()})
                    owners[owner] = {"ns": Counter(), "shown": {}, "recent": time}
            (owners[owner]["ns"] if owner in owners else rest).update(columns)


def metrics(name, worst):
    """Compares the files prom.N, as record had written them by the end of the interval N, with the
    model and with the lines on standard input."""
    lines = [json.loads(line) for line in sys.stdin]
    before, total, ended, gone, back, new, exact = {}, Counter(), Counter(), set(), set(), 0, 0
    files = model_files(name, worst)
    for n in range(len(lines)):
        now = read_metrics(f"prom.{n}")
        same(f"file {n}", sorted(now.items()), sorted(next(files).items()))
        for entry in [*lines[n - 1]["owners"], lines[n - 1]["other"]] if n else []:
            total.update({c: v.get("time_ns", 0) for c, v in columns_of(entry).items()})
        # Counters begin with 0 and do not fall; what ended counts with its last value.
        for key in before.keys() - now.keys():
            ended[key[0]] += before[key]
        assert all(now[key] >= before.get(key, 0) for key in now)
        fresh = now.keys() - before.keys()
        assert all(now[key] == 0 for key in fresh)
        for cause in CAUSES:
            shown = sum(v for key, v in now.items() if key[0] == cause) + ended[cause]
            assert shown <= total[cause], (n, cause)
            # All that the lines have, but for the first interval of new series.
            if not any(key[0] == cause for key in fresh):
                same(f"{cause} after {n}", shown, total[cause])
                exact += total[cause] > 0
        assert len({key[1] for key in now}) <= worst + 1 and len(now) <= len(CAUSES) * (worst + 1)
        back |= fresh & gone
        gone = (gone | before.keys()) - now.keys()
        new += len(fresh) if n else 0
        before = now
    print(len(lines), "files,", new, "new,", len(gone), "gone,", len(back), "back,", exact, "exact")


globals()[sys.argv[1]](*(int(a) if a.isdigit() else a for a in sys.argv[2:]))
