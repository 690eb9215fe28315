# SPDX-License-Identifier: GPL-2.0
"""fleet.py TCPLAT FLEET EXTRA HOST...: exports HOST.zero and then HOST.sys of each host, each
through its own node_exporter, to one Prometheus with the rules of FLEET, and queries it; then
the same for EXTRA, which has every file of the ABI."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request

tcplat, fleet, extra, *hosts = sys.argv[1:]
DEADLINE = time.monotonic() + 100
children = []


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(name, *args):
    log = open(name + ".log", "w")
    child = subprocess.Popen(args, stdout=log, stderr=log)
    children.append(child)
    return child


def get(url):
    with urllib.request.urlopen(url, timeout=5) as answer:
        return answer.read().decode()


def ask(expr):
    url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": expr})
    try:
        answer = json.loads(get(url))
    except urllib.error.HTTPError as e:
        sys.exit(f"{expr}: {e.read().decode()}")
    assert answer["status"] == "success", answer
    return answer["data"]["result"]


# Polls: programs take time to start, and Prometheus scrapes and evaluates rules once per second.
def until(what, check):
    while True:
        try:
            value = check()
        except OSError:
            value = None
        if value:
            return value
        if time.monotonic() > DEADLINE:
            sys.exit(f"timeout waiting for: {what}")
        time.sleep(0.2)


def export(host, state):
    subprocess.run([tcplat, "--root", f"{host}.{state}", "openmetrics", "--prometheus",
                    "--output", f"{host}/tcplat.prom"], check=True)


def numbers(host, name):
    with open(f"{host}.sys/kernel/tcplat/{name}") as f:
        return f.read().split()


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
        address = f"127.0.0.1:{free_port()}"
        start(f"node-{host}", "prometheus-node-exporter", "--collector.disable-defaults",
              "--collector.textfile", f"--collector.textfile.directory={host}",
              f"--web.listen-address={address}")
        targets.append({"targets": [address], "labels": {"instance": host}})
    port = free_port()
    with open("prometheus.yml", "w") as f:
        json.dump({"global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                   "rule_files": [os.path.join(fleet, "tcplat.rules.yml")],
                   "scrape_configs": [{"job_name": "node", "static_configs": targets}]}, f)
    start("prometheus", "prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
          f"--web.listen-address=127.0.0.1:{port}")

    # Until it is ready it answers "Service Unavailable".
    until("Prometheus", lambda: get(f"http://127.0.0.1:{port}/-/ready"))
    # Prometheus must have scraped the zeros at least twice before all values change at once.
    until("zeros of all hosts", lambda: len(ask(
        "count_over_time(tcplat_delack_delay_seconds_count[1m]) >= 2")) == len(hosts))
    for host in hosts:
        export(host, "sys")
    until("figures of all hosts", lambda: len(ask(
        "changes(tcplat_portsearch_iterations_sum[1m]) > 0 and "
        "changes(tcplat_delack_delay_seconds_count[1m]) > 0")) == len(hosts))

    hz = {s["metric"]["instance"]: s["metric"]["hz"] for s in ask("tcplat_info")}
    assert hz == {host: numbers(host, "clock/hz")[0] for host in hosts}, hz
    assert len(set(hz.values())) == len(hosts)

    bounds = [numbers(h, "delack/delay_hist_le_us") for h in hosts]
    assert all(b == bounds[0] for b in bounds)
    hists = {h: [int(n) for n in numbers(h, "delack/delay_hist")] for h in hosts}
    together = [sum(c) for c in zip(*hists.values())]
    want = quantile(0.99, bounds[0], together)
    have = float(ask("histogram_quantile(0.99, sum by (le) (tcplat_delack_delay_seconds_bucket))")
                 [0]["value"][1])
    print("fleet p99:", have, "computed:", want)
    assert close(have, want)
    print("fleet p99 as computed from the files: ok")

    iterations = sum(int(numbers(h, "portsearch/iterations")[0]) for h in hosts)
    connects = sum(int(numbers(h, "portsearch/searches")[0]) -
                   int(numbers(h, "portsearch/unverified")[0]) for h in hosts)
    have = float(ask("sum(tcplat_portsearch_iterations_sum) / "
                     "(sum(tcplat_portsearch_searches_total) - "
                     "sum(tcplat_portsearch_unverified_total))")[0]["value"][1])
    print("iterations per connect:", have, "computed:", iterations / connects)
    assert close(have, iterations / connects) and iterations != connects
    print("fleet iterations per connect as computed from the files: ok")

    # rate() scales every bucket of a host by the same factor, so quantiles and means of one host
    # in the rules equal those of its totals.
    for host in hosts:
        of = f'{{instance="{host}"}}'
        rule = until(f"the rules for {host}", lambda: ask(
            f"instance:tcplat_delack_delay_seconds:p99_5m{of} > 0"))
        assert close(float(rule[0]["value"][1]), quantile(0.99, bounds[0], hists[host])), rule
        rule = until(f"the rules for {host}", lambda: ask(
            f"instance:tcplat_portsearch_iterations:mean_5m{of} > 0"))
        mean = int(numbers(host, "portsearch/iterations")[0]) / (
            int(numbers(host, "portsearch/searches")[0]) -
            int(numbers(host, "portsearch/unverified")[0]))
        assert close(float(rule[0]["value"][1]), mean), (rule, mean)
    for rule in ("tcplat:delack_delay_seconds:p99_5m", "tcplat:portsearch_iterations:mean_5m"):
        assert until(rule, lambda: ask(rule)), rule
    print("recording rules: ok")
    rules = [rule for group in json.loads(get(f"http://127.0.0.1:{port}/api/v1/rules"))
             ["data"]["groups"] for rule in group["rules"]]
    assert rules and all(rule["health"] == "ok" for rule in rules), rules

    # EXTRA has a node_exporter but no file so far.
    pending = ask('ALERTS{alertname="TcplatNoFile"}')
    assert [s["metric"]["instance"] for s in pending] == [extra], pending
    print("a host without a file: ok")

    # Every query of the dashboard has a result if everything it may query is counted.
    of = f'{{instance="{extra}"}}'
    export(extra, "zero")
    until("zeros of all groups", lambda: ask(
        f"count_over_time(tcplat_delack_stalls_total{of}[1m]) >= 2"))
    export(extra, "sys")
    until("figures of all groups", lambda: ask(
        f"changes(tcplat_delack_stalls_total{of}[1m]) > 0"))
    with open(os.path.join(fleet, "tcplat.dashboard.json")) as f:
        dashboard = json.load(f)
    panels = [p for p in dashboard["panels"] if p["type"] != "row"]
    assert len({p["id"] for p in dashboard["panels"]}) == len(dashboard["panels"])
    exprs = [(p, t["expr"]) for p in panels for t in p["targets"]]
    for panel, template in exprs:
        for instance in (".*", extra):
            expr = template.replace("$__rate_interval", "5m").replace("$__range", "5m")
            expr = expr.replace("$job", "node").replace("$instance", instance)
            assert "$" not in expr, expr
            result = ask(expr)
            if not result:
                sys.exit(f"no data for {expr}")
            assert all(s["value"][1] != "NaN" for s in result), (expr, result)
        # An axis has one unit; seconds per second are not shown as a percentage.
        if panel["type"] == "timeseries" and re.match(r"(sum[^/]*\()?rate\([^/]*$", expr):
            unit = "si:s/s" if "_seconds_" in expr else "pps" if "_cwnd_" in expr else "cps"
            assert panel["fieldConfig"]["defaults"]["unit"] == unit, panel["title"]
    print(len(exprs), "expressions of the dashboard: ok")
    # A dashboard uses the buckets of histograms and the value of other metrics. Artificial names
    # are ignored.
    text = " ".join(template for _, template in exprs)
    with open(f"{extra}/tcplat.prom") as f:
        types = re.findall("^# TYPE (tcplat_(?!zeta|.*_zz_).*) (.*)", f.read(), re.M)
    print("not on the dashboard:", *(name for name, kind in types if
          f"{name}_bucket{{" not in text and (kind == "histogram" or f"{name}{{" not in text)))
finally:
    for child in children:
        child.send_signal(signal.SIGKILL)
        child.wait()
