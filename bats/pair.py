# SPDX-License-Identifier: GPL-2.0
"""Programs at both ends of vm/netns.bash's network, in one process, which measure with their own
clock. For use by the Python code of tests: sys.path has this directory."""

import ctypes
import os
import socket
import struct
import threading
import time

ADDRESS = {4: "10.9.0.2", 6: "fd09::2"}
FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}
libc = ctypes.CDLL(None, use_errno=True)


def enter(side):
    """Moves this thread to the network namespace of side a or b."""
    fd = os.open(f"/run/netns/tcplat-{side}", os.O_RDONLY)
    if libc.setns(fd, 0x40000000):
        raise OSError(ctypes.get_errno(), "setns")
    os.close(fd)


def run(*command):
    # Here, since it takes a fifth of the time that Python takes to start, and not all tests need it.
    import subprocess

    subprocess.run(command, check=True)


def netem(side, *what):
    """Changes what the end of this side does with the packets that it sends."""
    run("tc", "-n", f"tcplat-{side}", "qdisc", "change", "dev", f"veth-{side}", "root", "netem", *what)


def link(side, state):
    """Sets this end of the link up or down."""
    run("ip", "-n", f"tcplat-{side}", "link", "set", f"veth-{side}", state)


def later(seconds, function, *args):
    """Calls the function in a thread of its own after some seconds."""
    timer = threading.Timer(seconds, function, args)
    timer.start()
    return timer


def background(function, *args):
    thread = threading.Thread(target=function, args=args, daemon=True)
    thread.start()
    return thread


def listener(family, backlog=128, protocol=0):
    enter("b")
    s = socket.socket(FAMILY[family], proto=protocol)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((ADDRESS[family], 7000))
    s.listen(backlog)
    return s


def fast_open(family, data):
    """A listener, and a client that has sent the data with its SYN (TCP Fast Open)."""
    for side, value in ("a", "5"), ("b", "0x203"):
        enter(side)
        with open("/proc/sys/net/ipv4/tcp_fastopen", "w") as f:
            f.write(value)
    s = listener(family)
    s.setsockopt(socket.IPPROTO_TCP, 23, 5)
    c = client(family)
    c.sendto(data, 0x20000000, (ADDRESS[family], 7000))
    return s, c


def client(family, protocol=0):
    """A socket of side a that is not connected."""
    enter("a")
    return socket.socket(FAMILY[family], proto=protocol)


def connect(s, family):
    """Connects and returns how long that took, in ns."""
    since = time.monotonic_ns()
    try:
        s.connect((ADDRESS[family], 7000))
    except TimeoutError:
        pass
    return time.monotonic_ns() - since


def echo(s):
    """Answers each message of the connection in a thread of its own."""
    def serve():
        while data := s.recv(65536):
            s.sendall(data)
    background(serve)


def ask(s, size=100):
    """Sends a request and returns how long the answer took, in ns."""
    since = time.monotonic_ns()
    s.sendall(b"x" * size)
    left = size
    while left:
        left -= len(s.recv(left))
    return time.monotonic_ns() - since
