# SPDX-License-Identifier: GPL-2.0
"""fleet.py TCPLAT FLEET EXTRA HOST...: exports HOST.zero and then HOST.sys of each host, each
through its own node_exporter, to one Prometheus with the rules of FLEET, and queries it; then
the same for EXTRA, which has every file of the ABI."""
import json
import os
import re
import signal
import subprocess
import sys

from prom import Prometheus, free_address, get, start, stop

tcplat, fleet, extra, *hosts = sys.argv[1:]


def export(host, state):
    subprocess.run([tcplat, "show", "--root", f"{host}.{state}", "--prometheus",
                    "--output", f"{host}/tcplat.prom"], check=True)


def numbers(host, name):
    with open(f"{host}.sys/kernel/tcplat/{name}") as f:
        return f.read().split()


def ports(host, name):
    return int(numbers(host, f"portsearch/{name}")[0])


def connects(host):
    return ports(host, "searches") - ports(host, "unverified")


def close(a, b):
    return abs(a - b) <= 1e-9 * max(abs(a), abs(b))


def quantile(q, bounds, counts):
    """Like Prometheus: linear within the bucket, at most the last bound."""
    rank, below, low = q * sum(counts), 0, 0.0
    for bound, count in zip(bounds, counts):
        if below + count >= rank:
            if bound == "+Inf":
                return low
            high = int(bound) / 1e6
            return low + (high - low) * (rank - below) / count
        below += count
        low = int(bound) / 1e6 if bound != "+Inf" else low


try:
    targets = []
    for host in [*hosts, extra]:
        os.mkdir(host)
        if host != extra:
            export(host, "zero")
        address = free_address()
        start(f"node-{host}", "prometheus-node-exporter", "--collector.disable-defaults",
              "--collector.textfile", f"--collector.textfile.directory={host}",
              f"--web.listen-address={address}")
        # Only some have a label for the cluster.
        labels = {"instance": host} | ({} if host == extra else {"cluster": "c"})
        targets.append({"targets": [address], "labels": labels})
    prometheus = Prometheus({"global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                             "rule_files": [os.path.join(fleet, "tcplat.rules.yml")],
                             "scrape_configs": [{"job_name": "node", "static_configs": targets}]})
    ask, settle = prometheus.ask, prometheus.settle
    # Prometheus must have scraped the zeros at least twice before all values change at once.
    settle("zeros of all hosts", lambda: len(ask(
        "count_over_time(tcplat_delack_delay_seconds_count[1m]) >= 2")) == len(hosts))
    for host in hosts:
        export(host, "sys")
    settle("figures of all hosts", lambda: len(ask(
        "changes(tcplat_portsearch_iterations_sum[1m]) > 0 and "
        "changes(tcplat_delack_delay_seconds_count[1m]) > 0 and "
        "tcplat_delack_delay_seconds_count")) == len(hosts))

    hz = {s["metric"]["instance"]: s["metric"]["hz"] for s in ask("tcplat_info")}
    assert hz == {host: numbers(host, "clock/hz")[0] for host in hosts}, hz
    assert len(set(hz.values())) == len(hosts)

    bounds = [numbers(h, "delack/delay_hist_le_us") for h in hosts]
    assert all(b == bounds[0] for b in bounds)
    hists = {h: [int(n) for n in numbers(h, "delack/delay_hist")] for h in hosts}
    together = [sum(c) for c in zip(*hists.values())]
    want = quantile(0.99, bounds[0], together)
    have = float(ask("histogram_quantile(0.99, sum by (job, cluster, le) "
                     "(tcplat_delack_delay_seconds_bucket))")[0]["value"][1])
    assert close(have, want), (have, want)

    want = sum(ports(h, "iterations") for h in hosts) / sum(map(connects, hosts))
    have = float(ask("sum(tcplat_portsearch_iterations_sum) / "
                     "(sum(tcplat_portsearch_searches_total) - "
                     "sum(tcplat_portsearch_unverified_total))")[0]["value"][1])
    assert close(have, want) and want != 1, (have, want)

    # rate() scales all counters of a host by the same factor, so ratios in the rules equal those of
    # the host's totals.
    for host in hosts:
        of = f'{{instance="{host}"}}'
        means = {
            f'instance:tcplat_lost_seconds:rate5m{of}{{cause="ports"}} / on () '
            f'instance:tcplat_delays:rate5m{of}{{cause="ports"}} > 0'.replace("}{", ","):
            ports(host, "time_ns") / 1e9 / ports(host, "searches"),
            f"instance:tcplat_portsearch_iterations:mean5m{of} > 0":
            ports(host, "iterations") / connects(host)}
        for expr, mean in means.items():
            rule = settle(f"the rules for {host}", lambda: ask(expr))
            assert close(float(rule[0]["value"][1]), mean), (rule, mean)
    rules = [rule for group in json.loads(get(prometheus.url + "/api/v1/rules"))
             ["data"]["groups"] for rule in group["rules"]]
    assert rules and all(rule["health"] == "ok" for rule in rules), rules

    # EXTRA has a node_exporter but no file so far.
    alerts = {rule["name"]: rule["alerts"] for rule in rules if rule["type"] == "alerting"}
    pending = alerts["TcplatNoFile"]
    assert [(a["labels"]["job"], a["annotations"]["summary"][:7], a["annotations"]["description"])
            for a in pending] == [("node", "1 host(", f"{extra}. ")], pending

    # Every query of the dashboard has a result if everything it may query is counted.
    of = f'{{instance="{extra}"}}'
    export(extra, "zero")
    settle("zeros of all groups", lambda: ask(
        f"count_over_time(tcplat_delack_stalls_total{of}[1m]) >= 2"))
    export(extra, "sys")
    settle("figures of all groups", lambda: ask(
        f"changes(tcplat_delack_stalls_total{of}[1m]) > 0 and tcplat_delack_stalls_total{of} and on (instance) "
        f"instance:tcplat_lost_seconds:rate5m{of} > 0"))
    with open(os.path.join(fleet, "tcplat.dashboard.json")) as f:
        dashboard = json.load(f)
    shown = [p for p in dashboard["panels"] if p["type"] != "row"]
    rows = [p for p in dashboard["panels"] if p["type"] == "row"]
    assert len(shown) == 8 and all(row["collapsed"] and row["panels"] for row in rows)
    panels = shown + [p for row in rows for p in row["panels"]]
    ids = [p["id"] for p in panels + rows]
    assert len(set(ids)) == len(ids)
    assert all(len(p["description"]) > 40 for p in panels)
    variables = [v["name"] for v in dashboard["templating"]["list"]]
    assert variables == ["datasource", "cluster", "job", "instance"], variables
    for i, variable in enumerate(dashboard["templating"]["list"][1:], 1):
        expr, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]).groups()
        # One depends on those before it, and its label need not be there.
        assert re.findall(r"\$(\w+)", expr) == variables[1:i] and label == variables[i], variable
        assert variable["allValue"] == ".*", variable
        assert ask(re.sub(r"\$\w+", ".*", expr)), expr
    exprs = [(p, t["expr"]) for p in panels for t in p["targets"]]
    # Every metric and recorded series is selected by all variables.
    for _, template in exprs:
        selectors = set(re.findall(r"\btcplat_[a-z0-9_:]+(\{.*?\}|.)", template))
        assert selectors == {'{cluster=~"$cluster",job=~"$job",instance=~"$instance"}'}, template
        # Few series, however many hosts there are.
        assert "instance" not in re.sub(r"instance(:|=~)|\$instance", "", template) or re.search(
            r"topk\(|^count\(count", template), template
    recorded = {rule["name"] for rule in rules if rule["type"] == "recording"}
    used = set(re.findall(r"\binstance:[a-z0-9_:]+", " ".join(
        [e for _, e in exprs] + [rule["query"] for rule in rules if rule["type"] == "alerting"])))
    assert used == recorded, used ^ recorded
    for panel, template in exprs:
        for instance in (".*", extra):
            expr = template.replace("$__rate_interval", "5m").replace("$__range", "5m")
            expr = expr.replace("$cluster", ".*").replace("$job", "node")
            expr = expr.replace("$instance", instance)
            assert "$" not in expr, expr
            result = ask(expr)
            assert all(s["value"][1] != "NaN" for s in result), (expr, result)
            # A row of a table or a series for each cause, at most.
            assert 1 <= len(result) <= 15, (expr, len(result))
        # An axis has one unit; seconds per second are not shown as a percentage.
        if panel["type"] == "timeseries" and re.match(r"[^/]*\brate\([^/]*$", expr) and (
                "quantile" not in expr):
            unit = "si:s/s" if "_seconds_" in expr else "pps" if "_cwnd_" in expr else "cps"
            assert panel["fieldConfig"]["defaults"]["unit"] == unit, panel["title"]
    print(len(exprs), "expressions of the dashboard: ok")
finally:
    stop(signal.SIGKILL)
