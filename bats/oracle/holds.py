#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""TCP senders whose writes the kernel holds back, or does not.

usage: holds.py [-4 | -6] SCRIPT [N]

Both ends are on loopback. What is sent is read by a child process,
in full, and acknowledged by one byte where a script says so. The bytes that came are
checked.
"""

import contextlib
import ctypes
import fcntl
import mmap
import os
import random
import socket
import struct
import sys
import threading
import time

IPPROTO_MPTCP = 262
SOL_TLS = 282
TCP_ULP = 31
# userfaultfd(2), on x86-64.
NR_USERFAULTFD = 323
UFFD_API = 0xAA
UFFDIO_API = 0xC018AA3F
UFFDIO_REGISTER = 0xC020AA00
UFFDIO_ZEROPAGE = 0xC020AA04
UFFDIO_REGISTER_MODE_MISSING = 1

family = socket.AF_INET
protocol = 0


def pair(mss=0, sender=None):
    """A connection: who sends, and who reads."""
    listener = socket.socket(family, socket.SOCK_STREAM, protocol)
    if mss:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, mss)
    listener.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
    listener.listen()
    sender = sender or socket.socket(family, socket.SOCK_STREAM, protocol)
    sender.connect(listener.getsockname()[:2])
    reader, _ = listener.accept()
    listener.close()
    return sender, reader


def read_all(reader, size):
    got = 0
    while got < size:
        data = reader.recv(min(65536, size - got))
        if not data:
            sys.exit(f"holds.py: {got} of {size} bytes came")
        got += len(data)


@contextlib.contextmanager
def meanwhile(sock, read, *args):
    """Meanwhile a process that has only this socket reads from it."""
    child = os.fork()
    if not child:
        # The sender's end must close when the sender closes it.
        os.closerange(3, sock.fileno())
        os.closerange(sock.fileno() + 1, 256)
        read(sock, *args)
        os._exit(0)
    yield
    if os.waitpid(child, 0)[1]:
        sys.exit("holds.py: the reader failed")


def read_messages(reader, n, size, answers):
    for _ in range(n):
        read_all(reader, size)
        if answers:
            reader.send(b"a")


def reading(sock, n, size, answers=True):
    """Meanwhile a process reads n messages of a size, and answers each by a byte."""
    return meanwhile(sock, read_messages, n, size, answers)


@contextlib.contextmanager
def sending(n, size, mss=0, answers=True):
    """The sender's end of a connection whose other end is read to n messages of a size."""
    sender, reader = pair(mss)
    with reading(reader, n, size, answers):
        yield sender


def cork(sender, on):
    sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, on)


def held(sender):
    """Leaves data under a cork."""
    cork(sender, 1)
    sender.send(bytes(300))
    time.sleep(0.01)


def corked(n):
    """Header, 30 ms, body, under TCP_CORK: what sendfile() users do."""
    with sending(n, 300) as sender:
        for _ in range(n):
            cork(sender, 1)
            sender.send(bytes(100))
            time.sleep(0.03)
            sender.send(bytes(200))
            cork(sender, 0)
            sender.recv(1)


def more(n):
    """MSG_MORE, and nothing more."""
    with sending(n, 100) as sender:
        for _ in range(n):
            sender.send(bytes(100), socket.MSG_MORE)
            sender.recv(1)


def followed(n):
    """MSG_MORE, 20 ms, and the rest."""
    with sending(n, 150) as sender:
        for _ in range(n):
            sender.send(bytes(100), socket.MSG_MORE)
            time.sleep(0.02)
            sender.send(bytes(50))
            sender.recv(1)


def released(n, delays=(0.022, 0.03), ahead=0):
    """MSG_MORE, 22 or 30 ms, and a segment of the peer's, whose ACK releases the data.

    It acknowledges the data of the time before; a segment that acknowledges nothing new releases
    nothing.
    """
    for delay in delays:
        sender, reader = pair()
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        child = os.fork()
        if not child:
            sender.close()
            # The kernel delays no ACK of a connection's first segments.
            for _ in range(20):
                read_all(reader, 100)
                reader.send(b"a")
            read_all(reader, 100)
            for _ in range(n):
                time.sleep(delay)
                reader.send(b"a")
                read_all(reader, 100 + ahead)
            os._exit(0)
        for _ in range(20):
            sender.send(bytes(100))
            sender.recv(1)
        sender.send(bytes(100))
        for i in range(n):
            if ahead and i:
                sender.send(bytes(ahead))
            sender.send(bytes(100), socket.MSG_MORE)
            sender.recv(1)
        sender.send(bytes(ahead))
        if os.waitpid(child, 0)[1]:
            sys.exit("holds.py: the reader failed")


def overtaken(n):
    """The same with another segment in flight, and 45 ms, where a delayed ACK comes first."""
    released(n, (0.022, 0.03, 0.045), 100)


def sendfile(n):
    """A header by MSG_MORE and a file by sendfile(), neither a multiple of anything."""
    with sending(n, 150 + 70001) as sender:
        with open("/tmp/holds", "w+b") as f:
            f.write(bytes(70001))
            f.flush()
            for _ in range(n):
                sender.send(bytes(150), socket.MSG_MORE)
                done = 0
                while done < 70001:
                    done += os.sendfile(sender.fileno(), f.fileno(), done, min(9001, 70001 - done))
                sender.recv(1)


def splice(n):
    """Small pieces through a pipe."""
    with sending(n, 7 * 777) as sender:
        out, into = os.pipe()
        for _ in range(n):
            for _ in range(7):
                os.write(into, bytes(777))
                if ctypes.CDLL(None).splice(out, None, sender.fileno(), None, 777, 0) != 777:
                    sys.exit("holds.py: splice() failed")
            sender.recv(1)


def odd(n):
    """Bulk in writes that are no multiple of a segment."""
    for size in (777, 7001, 100003):
        with sending(1, n * size) as sender:
            for _ in range(n):
                sender.sendall(bytes(size))
            sender.recv(1)
        sender.close()


def grown(n):
    """A held segment that later writes make full, with and without a rest."""
    sizes = (10, 200, 400, 1000)
    with sending(n, sum(sizes), mss=536) as sender:
        for _ in range(n):
            for size in sizes:
                sender.send(bytes(size))
                time.sleep(0.004)
            sender.recv(1)


def deferred(n):
    """A write that the kernel puts off for want of room in the congestion window, for a bigger one.

    Seven segments of ten are in flight, the oldest for most of a round trip: the kernel
    waits for its ACK (tcp_tso_should_defer()) before it sends two segments and a rest. In every
    second connection a rest waits there already because of Nagle's algorithm.
    """
    for i in range(n):
        held = 100 * (i % 2)
        with sending(1, 0, mss=1000, answers=False) as sender:
            mss = sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
            sender.send(bytes(4 * mss + 100))
            time.sleep(0.0034)
            sender.send(bytes(2 * mss + held))
            sender.send(bytes(2 * mss + 100))
            time.sleep(0.02)
        sender.close()


def urgent(n):
    """Urgent data is not held."""
    sender, reader = pair()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
    with reading(reader, n, 101):
        for _ in range(n):
            sender.send(bytes(100))
            sender.send(b"!", socket.MSG_OOB)
            sender.recv(1)


def fin(n):
    """A FIN takes what is held along."""
    for _ in range(n):
        with sending(1, 300, answers=False) as sender:
            held(sender)
            sender.close()


def purge(n):
    """A reset, of either end in turn, throws away what is held."""
    for i in range(n):
        sender, reader = ends = pair()
        held(sender)
        ends[i % 2].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        ends[i % 2].close()
        sender.close()
        reader.close()


def again(n):
    """A socket that is disconnected while it holds data, and connects anew."""
    for _ in range(n):
        sender, reader = pair()
        held(sender)
        nobody = struct.pack("HxxIxxxxxxxx", socket.AF_UNSPEC, 0)
        if ctypes.CDLL(None).connect(sender.fileno(), nobody, len(nobody)):
            sys.exit("holds.py: cannot disconnect")
        cork(sender, 0)
        _, other = pair(sender=sender)
        with reading(other, 1, 100):
            sender.send(bytes(100))
            sender.recv(1)
        sender.close()
        reader.close()
        other.close()


def shut(n):
    """The peer reads nothing for a while: its window holds the data, and not Nagle's algorithm."""
    for _ in range(n):
        sender, reader = pair()
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sender.setblocking(False)
        size = 0
        try:
            while True:
                size += sender.send(bytes(1001))
        except BlockingIOError:
            pass
        sender.setblocking(True)
        time.sleep(0.3)
        with reading(reader, 1, size):
            sender.recv(1)


def read_some(reader, chance):
    """Reads as much as chance has it, and sometimes pauses, acknowledges at once or answers."""
    while reader.recv(chance.choice((100, 5000, 65536))):
        what = chance.random()
        if what < 0.05:
            time.sleep(chance.choice((0.005, 0.03, 0.06)))
        elif what < 0.2:
            # MPTCP's sockets may not have it.
            with contextlib.suppress(OSError):
                reader.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        elif what < 0.25:
            reader.send(b"a", socket.MSG_DONTWAIT)


def write_some(sender, chance):
    """One write, option or pause."""
    what = chance.random()
    size = chance.randrange(1, chance.choice((400, 400, 6000, 80000)))
    if what < 0.6:
        sender.send(bytes(size), chance.choice((0, 0, 0, socket.MSG_MORE)) |
                    chance.choice((0,) * 10 + (socket.MSG_EOR,)))
    elif what < 0.7:
        cork(sender, chance.randrange(2))
    elif what < 0.8:
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, chance.randrange(2))
    else:
        time.sleep(chance.choice((0, 0.001, 0.004, 0.02, 0.05)))


def mixed(n):
    """Connections of which each does other things, the same ones each time."""
    for seed in range(220, 220 + n):
        chance = random.Random(seed)
        sender, reader = pair(0 if protocol else chance.choice((0, 536, 1000)))
        if chance.random() < 0.3:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with meanwhile(reader, read_some, chance):
            reader.close()
            for _ in range(100):
                write_some(sender, chance)
            sender.shutdown(socket.SHUT_WR)
            while sender.recv(1000):
                pass
            sender.close()


def mixed_mptcp(n):
    """The same over MPTCP."""
    global protocol
    protocol = IPPROTO_MPTCP
    mixed(n)


def wwr(n):
    """Write, write, read."""
    with sending(n, 200) as sender:
        for _ in range(n):
            sender.send(bytes(100))
            sender.send(bytes(100))
            sender.recv(1)


def mptcp(n):
    """Write, write, read over MPTCP."""
    global protocol
    protocol = IPPROTO_MPTCP
    wwr(n)


def long_write(n):
    """Write, write, and write a page that comes after 30 ms: the probe timer waits for its end."""
    page = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = ctypes.addressof(ctypes.c_char.from_buffer(page))
    faults = ctypes.CDLL(None).syscall(NR_USERFAULTFD, os.O_CLOEXEC)
    fcntl.ioctl(faults, UFFDIO_API, struct.pack("QQQ", UFFD_API, 0, 0))
    fcntl.ioctl(faults, UFFDIO_REGISTER,
                struct.pack("QQQQ", start, len(page), UFFDIO_REGISTER_MODE_MISSING, 0))

    def serve():
        while os.read(faults, 32):
            time.sleep(0.03)
            fcntl.ioctl(faults, UFFDIO_ZEROPAGE, struct.pack("QQQQ", start, len(page), 0, 0))

    threading.Thread(target=serve, daemon=True).start()
    for _ in range(n):
        page.madvise(mmap.MADV_DONTNEED)
        sender, reader = pair(1000)
        reader.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        # The probe timer of a single segment would be longer than an ACK is delayed.
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sender.send(bytes(100))
        sender.send(bytes(100))
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        sender.send(bytes(100))
        sender.send(page)
        read_all(reader, 300 + len(page))


def ktls(n):
    """Records of TLS by the kernel."""
    sender, reader = pair()
    # TLS 1.2, AES-GCM-128: version, cipher, iv, key, salt, sequence.
    info = struct.pack("HH8s16s4s8s", 0x303, 51, bytes(8), bytes(16), bytes(4), bytes(8))
    for sock, name in ((sender, 1), (reader, 2)):
        sock.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tls")
        sock.setsockopt(SOL_TLS, name, info)
    with reading(reader, n, 150, answers=False):
        for _ in range(n):
            sender.send(bytes(100))
            sender.send(bytes(50))
            time.sleep(0.06)


def main():
    global family
    words = [word for word in sys.argv[1:] if word not in ("-4", "-6")]
    if "-6" in sys.argv:
        family = socket.AF_INET6
    globals()[words[0]](int(words[1]) if len(words) > 1 else 10)


main()
