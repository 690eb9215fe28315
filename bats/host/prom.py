# SPDX-License-Identifier: GPL-2.0
"""A real Prometheus, and other servers, on loopback, for fleet.py and board.py."""
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

children = []
deadline = time.monotonic() + 600


def free_address():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{s.getsockname()[1]}"


def start(name, *args):
    with open(name + ".log", "w") as log:
        children.append(subprocess.Popen(args, stdout=log, stderr=log))


def stop(which):
    """Ends all servers with this signal."""
    while children:
        child = children.pop()
        child.send_signal(which)
        child.wait()


def get(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


def until(what, check):
    """Polls: programs take time to start, and Prometheus scrapes and evaluates rules once per second."""
    while True:
        try:
            value = check()
        except OSError:
            value = None
        if value:
            return value
        if time.monotonic() > deadline:
            sys.exit(f"timeout waiting for: {what}")
        time.sleep(0.2)


class Prometheus:
    """On ./data, with a configuration, until stop()."""

    def __init__(self, config, *args):
        with open("prometheus.yml", "w") as f:
            json.dump(config, f)
        address = free_address()
        self.at = {}
        self.url = f"http://{address}"
        start("prometheus", "prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
              f"--web.listen-address={address}", *args)
        # Until it is ready it answers "Service Unavailable".
        until("Prometheus", lambda: get(self.url + "/-/ready"))

    def settle(self, what, check):
        """Like until(), and then asks for the moment of the check: while a scrape takes longer than
        a second, its series are gone."""
        def now():
            self.at = {"time": time.time()}
            return check()
        return until(what, now)

    def ask(self, expr, **when):
        """The result of a query: at the moment that settled, at time, or from start to end by step."""
        url = f"{self.url}/api/v1/query{'_range' if 'step' in when else ''}?"
        try:
            answer = json.loads(get(url + urllib.parse.urlencode({"query": expr, **(when or self.at)})))
        except urllib.error.HTTPError as e:
            sys.exit(f"{expr}: {e.read().decode()}")
        assert answer["status"] == "success", answer
        return answer["data"]["result"]
