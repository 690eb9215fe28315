# SPDX-License-Identifier: GPL-2.0
"""exposition.py TEXT TREE VERSION: checks that TEXT has the values in the files of TREE, and no
others, according to prometheus_client's parser of Prometheus's text format."""
import os
import sys
from fractions import Fraction
from prometheus_client.parser import text_string_to_metric_families as parse

text_file, tree, version = sys.argv[1:]
a = {}
for family in parse(open(text_file).read()):
    assert family.documentation, family.name
    for s in family.samples:
        # Bounds are compared as text elsewhere.
        assert "." in s.labels.get("le", ".") or s.labels["le"] == "+Inf", s
        labels = ((k, float(v) if k == "le" else v) for k, v in s.labels.items())
        key = (s.name, tuple(sorted(labels)))
        assert key not in a, key
        a[key] = (s.value, family.type)
assert a.pop(("tcplat_info", (("hz", "300"), ("kernel", "6.1.0-x"), ("reader", version),
                              ("version", "0.9.0"))))[0] == 1
assert a.pop(("tcplat_up", ()))[0] == 1

# The causes of lost time: their events, and their times. Each file is in one cause only.
CAUSES = {
    "stalls": ("delack/stalls", "delack/stall_us"),
    "nagle": ("sndhold/nagle", "sndhold/nagle_time_ns"),
    "cork": ("sndhold/cork", "sndhold/cork_time_ns"),
    "loss": ("loss/rto loss/tlp loss/fast", "loss/rto_time_ns loss/tlp_time_ns loss/fast_time_ns"),
    "syn": ("loss/syn loss/synack", "loss/syn_time_ns loss/synack_time_ns"),
    "accept": ("listen/accept", "listen/accept_time_ns"),
    "peerwnd": ("peerwnd/wait", "peerwnd/wait_time_ns"),
    "sndwait": ("sndwait/waits", "sndwait/time_ns"),
    "again": ("sndwait/again_hist", "sndwait/again_time_ns"),
    "ports": ("portsearch/searches", "portsearch/time_ns"),
    "slowbind": ("bindsearch/searches", "bindsearch/time_ns"),
}


def total(names):
    return sum(int(n) for name in names.split() for n in open(os.path.join(tree, name)).read().split())


lost = {dict(k[1])["cause"]: a.pop(k)[0] for k in [*a] if k[0] == "tcplat_lost_seconds_total"}
delays = {dict(k[1])["cause"]: a.pop(k)[0] for k in [*a] if k[0] == "tcplat_delays_total"}
for cause, (events, times) in CAUSES.items():
    if not os.path.exists(os.path.join(tree, times.split()[0])) or "unavailable" in open(
            os.path.join(tree, times.split("/")[0], "status")).read():
        assert cause not in lost and cause not in delays, cause
        continue
    seconds = total(times) / (1e6 if times.endswith("_us") else 1e9)
    assert abs(lost.pop(cause) - seconds) <= 1e-9, cause
    assert delays.pop(cause) == total(events), cause
assert not lost and not delays, (lost, delays)

SCALE = {"ns": Fraction(1, 10**9), "us": Fraction(1, 10**6), "jiffies": Fraction(1, 300)}
found = 0
for group in sorted(os.listdir(tree)):
    folder = os.path.join(tree, group)
    if not os.path.isdir(folder):
        continue
    files = {f: open(os.path.join(folder, f)).read().strip() for f in os.listdir(folder)}
    status = files.get("status", "").split(":")[0]
    label = (("group", group),)
    if group != "clock":
        assert a.pop(("tcplat_group_available", label))[0] == (status != "unavailable"), group
        assert a.pop(("tcplat_group_enabled", label))[0] == (status == "armed"), group
    if status == "unavailable":
        continue
    for f, text in sorted(files.items()):
        if f in ("status", "enabled") or "_hist_le" in f:
            continue
        stem, _, unit = f.rpartition("_")
        if unit not in SCALE:
            stem, unit = f, ""
        base = f"tcplat_{group}_{stem}" + ("_seconds" if unit else "")
        if f.endswith("_hist"):
            bounds_file = next(x for x in files if x.startswith(f + "_le"))
            unit = bounds_file[len(f + "_le_"):]
            base = f"tcplat_{group}_{f[:-5]}" + ("_seconds" if unit else "")
            below = 0
            for le, count in zip(files[bounds_file].split(), text.split()):
                below += int(count)
                bound = float(le if le == "+Inf" else int(le) * SCALE.get(unit, 1))
                assert a.pop((base + "_bucket", (("le", bound),))) == (below, "histogram"), (f, le)
            assert a.pop((base + "_count", ())) == (below, "histogram"), f
            found += 1
            continue
        if group == "clock" and not unit or unit == "jiffies" and stem + "_us" in files:
            continue
        value = float(int(text) * SCALE.get(unit, 1))
        if "_max" in f or f.endswith("_unseen") or group == "clock" or f == "tracked":
            name = base
        elif f == "missed":
            name = "tcplat_missed_total"
        elif unit and stem.endswith("_time") and stem[:-5] + "_hist" in files:
            name = f"tcplat_{group}_{stem[:-5]}_seconds_sum"
        elif stem + "_hist" in files and bool(unit) == (stem + "_hist_le" not in files):
            name = base + "_sum"
        else:
            name = base + "_total"
        is_value, kind = a.pop((name, label if f == "missed" else ()))
        assert abs(is_value - value) <= 1e-9, (group, f, is_value, value)
        assert kind == {"total": "counter", "sum": "histogram"}.get(name.split("_")[-1], "gauge"), f
        found += 1
assert not a, a
print(found, "values of files found")
