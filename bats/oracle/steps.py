#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Scripted TCP connections whose ACK modes are read between the steps.

usage: steps.py [-6] SCRIPT

The modes come from the kernel: the field after ATO in /proc/net/tcp, which is
quick << 1 | pingpong, and getsockopt(TCP_QUICKACK), which says "not pingpong". What
they say one after the other has to be what the module's debugfs file `transitions`
counts, cell by cell and after each step, and the sockets in each mode have to be its
`live` lines. The module sees a socket at its next event only; the event that changes
nothing is a setsockopt(TCP_QUICKACK) without a value, which the kernel refuses.

No socket of anybody else may be live meanwhile.
"""

import collections
import ctypes
import socket
import sys
import time

QUICKACK = socket.TCP_QUICKACK
MODES = ("delayed", "quickack", "pingpong")
family = socket.AF_INET
followed = []


def fail(text):
    sys.exit(f"steps.py: {text}")


def transitions():
    """{words: count}, the words being all but the last of a line."""
    with open("/sys/kernel/debug/tcplat/transitions", encoding="ascii") as f:
        lines = [line.split() for line in f if not line.startswith("#")]
    return collections.Counter({tuple(words[:-1]): int(words[-1]) for words in lines})


class Side:
    """One end of a connection."""

    def __init__(self, sock):
        self.sock = sock
        self.local, self.peer = sock.getsockname()[1], sock.getpeername()[1]
        self.seen = ["delayed"]
        followed.append(self)

    def kernel_mode(self):
        name = "/proc/net/tcp6" if family == socket.AF_INET6 else "/proc/net/tcp"
        with open(name, encoding="ascii") as f:
            for line in f:
                words = line.split()
                if words[1].endswith(f":{self.local:04X}") and \
                        words[2].endswith(f":{self.peer:04X}"):
                    value = int(words[14])
                    return MODES[2 if value & 1 else 1 if value else 0]
        return fail(f"no line for port {self.local} in {name}")

    def changes(self):
        """What was seen one after the other, as pairs."""
        return list(zip(self.seen, self.seen[1:]))

    def look(self):
        """What the kernel says, when its two ways to say it agree."""
        for _ in range(100):
            before = self.sock.getsockopt(socket.IPPROTO_TCP, QUICKACK)
            mode = self.kernel_mode()
            after = self.sock.getsockopt(socket.IPPROTO_TCP, QUICKACK)
            if before == after:
                break
        if (mode != "pingpong") != bool(after):
            fail(f"/proc says {mode}, getsockopt(TCP_QUICKACK) {after}")
        if mode != self.seen[-1]:
            self.seen.append(mode)
        return mode

    def in_pingpong(self):
        """By getsockopt alone: where the kernel checks itself, /proc takes longer than ATO."""
        if self.sock.getsockopt(socket.IPPROTO_TCP, QUICKACK):
            return False
        self.seen.append("pingpong")
        return True

    def poke(self):
        try:
            self.sock.setsockopt(socket.IPPROTO_TCP, QUICKACK, None, 0)
        except OSError:
            return
        fail("TCP_QUICKACK was set without a value")

    def quickack(self, value):
        self.sock.setsockopt(socket.IPPROTO_TCP, QUICKACK, value)

    def send(self, size=16):
        self.sock.sendall(b"x" * size)

    def recv(self, size=16):
        while size:
            size -= len(self.sock.recv(size)) or fail("the connection ended")


def look():
    return [side.look() for side in followed]


def check(what):
    """The module has counted what was seen, and nothing else."""
    look()
    for _ in range(100):
        for side in followed:
            side.poke()
        modes = [side.seen[-1] for side in followed]
        counted = transitions()
        # A timer may have fired between two looks.
        if look() == modes:
            break
    else:
        fail(f"{what}: the modes do not stand still")
    expected = collections.Counter()
    for side in followed:
        expected.update(side.changes())
    for a in MODES:
        for b in MODES:
            if a == b:
                continue
            n = sum(counted[key] - base[key] for key in counted
                    if len(key) == 3 and key[:2] == (a, b))
            if n != expected[a, b]:
                fail(f"{what}: {n} changes from {a} to {b} counted, {expected[a, b]} seen:"
                     f" {[side.seen for side in followed]}")
        if counted["live", a] != modes.count(a):
            fail(f"{what}: {counted['live', a]} sockets live in {a}, not {modes.count(a)}")
    print(f"{what}: client {modes[0]}, server {modes[1]}", flush=True)


def listen():
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
    listener.listen(1)
    return listener


def connect():
    global base
    followed.clear()
    base = transitions()
    listener = listen()
    client = socket.socket(family, socket.SOCK_STREAM)
    client.connect(listener.getsockname())
    server, _ = listener.accept()
    listener.close()
    return Side(client), Side(server)


def close():
    """When it returns, both sockets have died."""
    for side in followed:
        side.sock.close()
    for _ in range(200):
        now = transitions()
        if not any(now["live", mode] for mode in MODES):
            return
        time.sleep(0.05)
    fail("the sockets do not die")


def caused(cause, a, b):
    return transitions()[a, b, cause] - base[a, b, cause]


def expect(what, got, wanted):
    if got != wanted:
        fail(f"{what}: {got}, not {wanted}")


def until(condition):
    for _ in range(200):
        if condition():
            return True
        time.sleep(0.02)
    return False


class TooSlow(Exception):
    """What has to be done within ATO may be too slow on an emulated machine."""


def retried(script):
    for _ in range(60):
        try:
            return script()
        except TooSlow:
            close()
    return fail("60 times too slow")


def replies(client, server):
    """Replies to requests until the server is in pingpong; some kernels want three or four."""
    for _ in range(4):
        server.send()
        client.recv()
        if look()[1] == "pingpong":
            return
        # A reply counts if its request came in a later jiffy than the reply before.
        time.sleep(0.008)
        client.send()
        server.recv()
        look()
    raise TooSlow


def greet():
    """Request and reply, both sides past the first data. The server is in pingpong."""
    client, server = connect()
    check("connected")
    client.send()
    server.recv()
    look()
    replies(client, server)
    check("request and reply")
    return client, server


def story():
    """TCP_QUICKACK does not last: data sent within ATO ends it."""
    client, server = greet()
    client.send()
    server.recv()
    if server.look() != "pingpong":
        raise TooSlow
    server.quickack(1)
    set_to = server.look()
    replies(client, server)
    check("TCP_QUICKACK 1, reply")
    if set_to != "quickack" or server.seen[-3:] != ["pingpong", "quickack", "pingpong"]:
        raise TooSlow
    expect("changes by TCP_QUICKACK", caused("setsockopt", "pingpong", "quickack"), 1)
    expect("changes back", caused("answer", "quickack", "pingpong") >= 1, True)
    expect("changes back by TCP_QUICKACK", caused("setsockopt", "quickack", "pingpong"), 0)


def timeout():
    """A late reply: the delayed-ACK timer ends pingpong."""
    client, server = greet()
    client.send()
    if not until(lambda: server.look() != "pingpong"):
        fail("the timer does not end pingpong")
    check("no reply")
    to = server.seen[-1]
    expect("timeouts", caused("timeout", "pingpong", to), 1)
    server.recv()
    server.send()
    client.recv()
    check("late reply")


def halfclose():
    """The receiver of a FIN enters pingpong."""
    client, server = connect()
    check("connected")
    client.sock.shutdown(socket.SHUT_WR)
    # Not for long: the timer ends it.
    if not server.in_pingpong():
        raise TooSlow
    check("client's FIN")
    server.send()
    client.recv()
    # The timer may have ended it since the last look, so that nobody saw it.
    seen = server.changes()
    if any(caused("timeout", "pingpong", to) > seen.count(("pingpong", to)) for to in MODES):
        raise TooSlow
    check("data against the FIN")
    server.sock.shutdown(socket.SHUT_WR)
    server.sock.close()
    followed.remove(server)


def values():
    """TCP_QUICKACK 0, 1 and 2 in each mode, and 0 and 1 with an ACK to send."""
    client, server = connect()
    for value in (0, 1, 2, 0, 0, 2, 1, 1):
        server.quickack(value)
        check(f"TCP_QUICKACK {value}")
    expect("pingpong by TCP_QUICKACK", caused("setsockopt", "delayed", "pingpong"), 2)
    expect("delayed by TCP_QUICKACK", caused("setsockopt", "pingpong", "delayed"), 2)
    # Not 2: with an ACK to send it leaves pingpong and is back before one can look.
    for value in (0, 1, 0, 0, 1, 1):
        client.send()
        look()
        server.recv()
        look()
        server.quickack(value)
        check(f"with data: TCP_QUICKACK {value}")


def again():
    """One socket, two connections: the second does not inherit the first's mode."""
    global base
    client, server = greet()
    client.quickack(0)
    check("first connection")
    server.sock.close()
    followed.remove(server)
    if client.sock.recv(1):
        fail("there is more than was sent")
    # The delayed-ACK timer ends it when it fires, before or after the look.
    before = transitions()
    if client.look() != "pingpong":
        raise TooSlow
    # connect() to AF_UNSPEC, which takes a socket's connection away.
    if ctypes.CDLL(None).connect(client.sock.fileno(), bytes(16), 16):
        fail("connect() to AF_UNSPEC failed")
    listener = listen()
    client.sock.connect(listener.getsockname())
    other, _ = listener.accept()
    listener.close()
    base = transitions()
    if any(base["pingpong", to, "timeout"] != before["pingpong", to, "timeout"]
           for to in MODES):
        raise TooSlow
    expect("born", base["born", "delayed"] - before["born", "delayed"], 2)
    for to in MODES:
        expect(f"changes from pingpong to {to} by connecting again",
               base["pingpong", to, "none"] - before["pingpong", to, "none"], 0)
    expect("died in pingpong", base["died", "pingpong"] >
           before["died", "pingpong"], True)
    followed.clear()
    client, other = Side(client.sock), Side(other)
    check("second connection")
    client.send()
    look()
    other.recv()
    check("request on the second connection")


def hold():
    """100 sockets in pingpong for as long as stdin says, a word each time."""
    sides = [side for _ in range(50) for side in connect()]
    followed[:] = sides
    for side in sides:
        side.quickack(0)
    expect("modes", set(look()), {"pingpong"})
    print("ready", flush=True)
    for line in sys.stdin:
        word = line.strip()
        if word == "touch":
            # Keep-alive probes: events that change nothing, of both sides.
            for side in sides:
                side.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
                side.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
                side.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        elif word == "change":
            sides[1].quickack(1)
        expect("modes", look().count("pingpong"), 99 if word == "change" else 100)
        print(word, flush=True)


SCRIPTS = {f.__name__: f for f in (story, timeout, halfclose, values, again, hold)}
base = collections.Counter()


def main():
    global family
    words = sys.argv[1:]
    if words and words[0] == "-6":
        family = socket.AF_INET6
        words.pop(0)
    if len(words) != 1 or words[0] not in SCRIPTS:
        print(__doc__, "\nscripts:", ", ".join(SCRIPTS), file=sys.stderr)
        sys.exit(2)
    retried(SCRIPTS[words[0]])
    close()


main()
