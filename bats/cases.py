# SPDX-License-Identifier: GPL-2.0
"""Reports of late answers, rebuilt small over vm/netns.bash's network, and what tcplat doctor must
say of them. In Python code of tests: the server is at side b, the client at side a, and both have
TCP_NODELAY unless a case turns it off."""

import errno
import fnmatch
import json
import select
import subprocess
import sys
from pair import *

TCPLAT = os.environ["TCPLAT"]
shots = []
kept = []


def tcplat(*args):
    return json.loads(subprocess.run([TCPLAT, *args], check=True, stdout=subprocess.PIPE).stdout)


def snapshot():
    shots.append(tcplat("show", "--json"))


def doctor(without=()):
    """What doctor says of the time between the two snapshots. without: groups that this host does
    not have, or counters, by pattern, that did not grow: those of the other end."""
    for name, shot in zip("AB", shots):
        shot = json.loads(json.dumps(shot))
        for pattern in without:
            group, _, counters = pattern.partition("/")
            if not counters:
                del shot["groups"][group]
                continue
            for counter in fnmatch.filter(shot["groups"][group], counters):
                shot["groups"][group][counter] = shots[0]["groups"][group][counter]
        with open(name, "w") as f:
            json.dump(shot, f)
    return tcplat("doctor", "--json", "--from", "A", "--to", "B")


def finds(rules, without="", took=None, slack=0, says="", **counters):
    """Checks that doctor finds exactly these rules, worst first. counters: of the findings, with _
    for /. took: the time lost by the first, in ns, at most slack more or less."""
    found = doctor(without.split())
    findings = found["findings"]
    names = " ".join(f["rule"] for f in findings)
    print(f"# without '{without}': {names}", file=sys.stderr)
    for f in findings:
        print("#", f["what"], f["counters"], f.get("lost_ns"), file=sys.stderr)
    assert names == rules, f"'{names}', not '{rules}'"
    assert not {*rules.split()} & {*found["ruled_out"]}, found
    got = {k.replace("/", "_", 1): v for f in findings for k, v in f["counters"].items()}
    for name, value in counters.items():
        assert got[name] == value, f"{name} is {got[name]}, not {value}"
    if took is not None:
        lost = findings[0]["lost_ns"]
        assert abs(lost - took) <= slack, f"lost {lost} ns, the program took {took} ns"
    assert says in " ".join(f["what"] for f in findings), findings
    return found


def watch(rules, traffic, *args):
    """Checks that doctor, which watches meanwhile, finds exactly these rules. Returns its findings."""
    command = [TCPLAT, "doctor", "-i", "20", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as watching:
        call = ""
        while call not in ("7", "23", "35", "230", "270", "271"):   # as asleep()
            time.sleep(0.1)
            assert watching.poll() is None, "doctor has ended"
            with open(f"/proc/{watching.pid}/syscall") as f:
                call = f.read().split()[0]
        traffic(*args)
        assert watching.poll() is None, "the traffic took longer than doctor"
        found = json.load(watching.stdout)
    names = " ".join(f["rule"] for f in found["findings"])
    print("#", found, file=sys.stderr)
    assert watching.returncode == 0 and names == rules, f"'{names}', not '{rules}'"
    assert not os.listdir("/sys/kernel/tracing/instances")
    return found["findings"]


def whose(finding, counter):
    """The shares of a finding, whose sums are its counter and, if known, the time lost."""
    shares = finding["whose"]
    assert sum(s["count"] for s in shares) == finding["counters"][counter], finding
    if shares and "time_ns" in shares[0]:
        assert sum(s["time_ns"] for s in shares) == finding["lost_ns"], finding
    return shares


def nodelay(s, value=1):
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, value)


def quick(s):
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def connected(rcvbuf=None):
    """Both ends of a connection. rcvbuf: the client's."""
    s = listener(4)
    c = client(4)
    if rcvbuf:
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
    c.connect((ADDRESS[4], s.getsockname()[1]))
    server = s.accept()[0]
    s.close()
    nodelay(server)
    nodelay(c)
    return c, server


def need(s, size, quickack=False):
    while size:
        if quickack:
            quick(s)
        data = s.recv(size)
        assert data, "the peer closed"
        size -= len(data)


def asks(n, size, answer, nagle=False, quickack=False, then=None, gap=0, last=None):
    """n requests of 10 bytes, gap seconds apart, each answered with size bytes by answer(socket).
    nagle: the server has no TCP_NODELAY. quickack: it sets TCP_QUICKACK before each recv(). then:
    called with the client when it has connected. last: called before it closes. Returns how long
    the answers took, in ns."""
    c, server = connected()
    if nagle:
        nodelay(server, 0)
    if then:
        then(c)

    def serve():
        for _ in range(n):
            need(server, 10, quickack)
            answer(server)

    thread = background(serve)
    since = time.monotonic_ns()
    for i in range(n):
        c.send(b"q" * 10)
        need(c, size)
        time.sleep(gap if i < n - 1 else 0)
    took = time.monotonic_ns() - since - int((n - 1) * gap * 1e9)
    thread.join()
    if last:
        last()
    time.sleep(0.3)
    return took


def slowly(seconds, answer):
    def late(s):
        time.sleep(seconds)
        answer(s)
    return late


def prompt(s):
    s.send(b"y" * 100)


def large(s):
    s.sendall(b"y" * 60000)


def two_writes(s):
    s.send(b"h" * 40)
    s.send(b"b" * 60)


def left_corked(s):
    s.send(b"x" * 100, socket.MSG_MORE)


def reads(size, rcvbuf, pause=0):
    """The client reads size bytes that the server sends at once, with a pause before each recv().
    Returns how long that took, in ns."""
    c, server = connected(rcvbuf)
    since = time.monotonic_ns()
    thread = background(server.sendall, b"z" * size)
    while size:
        time.sleep(pause)
        size -= len(c.recv(65536))
    took = time.monotonic_ns() - since
    thread.join()
    time.sleep(0.3)
    return took


def pipelined(each, flight):
    """The client keeps flight requests of 10 bytes in flight until each has been answered this
    often, one write each. Returns how long that took, in ns."""
    c, server = connected()
    nodelay(c, 0)
    total = each * flight

    def serve():
        for _ in range(total):
            need(server, 10)
            server.send(b"y" * 100)

    thread = background(serve)
    since = time.monotonic_ns()
    for _ in range(flight):
        c.send(b"q" * 10)
    for i in range(total):
        need(c, 100)
        if i < total - flight:
            c.send(b"q" * 10)
    thread.join()
    return time.monotonic_ns() - since


def zero_copies(n):
    """The client sends the next frame when the zero-copy of the last is complete."""
    c, server = connected()
    background(need, server, 10 * n)
    c.setsockopt(socket.SOL_SOCKET, 60, 1)
    for _ in range(n):
        c.send(b"q" * 10, 0x4000000)
        poll = select.poll()
        poll.register(c, 0)
        assert poll.poll(2000)
        c.recvmsg(0, 512, socket.MSG_ERRQUEUE)
    time.sleep(0.3)


def crowd(n, pause):
    """Two clients fill the accept queue, then the rest of n clients come at once; the server
    accepts one after each pause.
    Returns how long the connect() calls took, in ns."""
    listening = listener(4, backlog=1)
    kept.append(listening)
    took = []

    def one():
        c = client(4)
        kept.append(c)
        took.append(connect(c, 4))

    def serve():
        while True:
            time.sleep(pause)
            kept.append(listening.accept()[0])

    for _ in range(2):
        one()
    threads = [background(one) for _ in range(n - 2)]
    background(serve)
    for thread in threads:
        thread.join()
    return sum(took)


def lost_syns(n, side):
    """connect() n times while nothing that this side sends arrives for half a second. Returns how
    long that took, in ns."""
    listening = listener(4)
    took = 0
    for _ in range(n):
        netem(side, "loss", "100%")
        timer = later(0.5, netem, side, "delay", "1ms")
        # Not closed: the end of one connection would be lost with the SYN of the next.
        kept.append(client(4))
        took += connect(kept[-1], 4)
        timer.join()
    listening.close()
    return took


def bound_connects(n, port):
    """n connections of this client's port to one server's, which the client closes first. Returns
    how many failed."""
    listening = listener(4)
    failed = 0
    for _ in range(n):
        c = client(4)
        c.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        c.bind(("10.9.0.1", port))
        try:
            c.connect((ADDRESS[4], 7000))
        except OSError as e:
            assert e.errno == errno.EADDRNOTAVAIL, e
            failed += 1
            continue
        server = listening.accept()[0]
        c.close()
        time.sleep(0.05)
        server.close()
        time.sleep(0.05)
    return failed


def without_ports(n, bind_first):
    """n calls of connect() where only ten ports may be chosen, by bind() if it is first. Returns
    how many failed."""
    kept.append(listener(4))
    failed = 0
    enter("a")
    with open("/proc/sys/net/ipv4/ip_local_port_range", "w") as f:
        f.write("30000 30009")
    for _ in range(n):
        c = socket.socket()
        try:
            if bind_first:
                c.bind(("10.9.0.1", 0))
            c.connect((ADDRESS[4], 7000))
            kept.append(c)
        except OSError as e:
            assert e.errno == (errno.EADDRINUSE if bind_first else errno.EADDRNOTAVAIL), e
            failed += 1
    return failed
