# SPDX-License-Identifier: GPL-2.0
"""openmetrics.py OPEN TEXT TREE: checks that both files have the values in the files of TREE,
according to prometheus_client's parsers of OpenMetrics and of Prometheus's text format."""
import os
import sys
from fractions import Fraction
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_text

open_file, text_file, tree = sys.argv[1:]
documents = []
for name, parse in ((open_file, parse_open), (text_file, parse_text)):
    samples, types = {}, {}
    for family in parse(open(name).read()):
        assert family.documentation, family.name
        types[family.name] = family.type
        for s in family.samples:
            key = (s.name, tuple(sorted(s.labels.items())))
            assert key not in samples, key
            samples[key] = (s.value, family.type)
    documents.append(samples)

a, b = documents
# Only the text format has the count of a histogram without a known sum.
assert {k: v[0] for k, v in a.items()} == {k: v[0] for k, v in b.items() if k in a}
assert {k[0] for k in b if k not in a} == {"tcplat_zeta_size_count"}
for key, (_, kind) in b.items():
    if key[0] != "tcplat_info":
        assert a.get(key, b[key])[1] == kind, key
assert a[("tcplat_info", (("hz", "300"), ("kernel", "6.1.0-x"), ("version", "0.9.0")))][0] == 1

SCALE = {"ns": Fraction(1, 10**9), "us": Fraction(1, 10**6), "jiffies": Fraction(1, 300)}
found = 0
for group in sorted(os.listdir(tree)):
    folder = os.path.join(tree, group)
    if not os.path.isdir(folder):
        continue
    files = {f: open(os.path.join(folder, f)).read().strip() for f in os.listdir(folder)}
    if files.get("status", "").startswith("unavailable"):
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
                key = le if le == "+Inf" else float(int(le) * SCALE.get(unit, 1))
                match = [v[0] for (n, labels), v in a.items() if n == base + "_bucket"
                         and (dict(labels)["le"] == le if le == "+Inf" else
                              dict(labels)["le"] != "+Inf" and float(dict(labels)["le"]) == key)]
                assert match == [below], (f, le, match, below)
            found += 1
            continue
        if group == "clock" and not unit or unit == "jiffies" and stem + "_us" in files:
            continue
        value = float(int(text) * SCALE.get(unit, 1))
        if "_max" in f or group == "clock" or f == "tracked":
            name = base
        elif f == "missed":
            name = "tcplat_missed_total"
        elif unit and stem.endswith("_time") and stem[:-5] + "_hist" in files:
            name = f"tcplat_{group}_{stem[:-5]}_seconds_sum"
        elif stem + "_hist" in files and bool(unit) == (stem + "_hist_le" not in files):
            name = base + "_sum"
        else:
            name = base + "_total"
        labels = (("group", group),) if f == "missed" else ()
        is_value = a[(name, labels)][0]
        assert abs(is_value - value) <= 1e-9, (group, f, is_value, value)
        found += 1
print(found, "values of files found")
