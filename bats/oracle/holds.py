#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""TCP senders whose writes the kernel holds back, or does not.

usage: holds.py [-6] SCRIPT [N]

Both ends are on loopback and in this process. What is sent is read in another thread,
in full, and acknowledged by one byte where a script says so. The bytes that came are
checked.
"""

import ctypes
import os
import socket
import struct
import sys
import threading
import time

MSG_MORE = 0x8000
IPPROTO_MPTCP = 262
SOL_TLS = 282
TCP_ULP = 31

family = socket.AF_INET
protocol = 0


def pair(mss=0):
    """A connection: who sends, and who reads."""
    listener = socket.socket(family, socket.SOCK_STREAM, protocol)
    if mss:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, mss)
    listener.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
    listener.listen()
    sender = socket.socket(family, socket.SOCK_STREAM, protocol)
    sender.connect(listener.getsockname()[:2])
    reader, _ = listener.accept()
    listener.close()
    return sender, reader


def read_all(reader, size):
    got = 0
    while got < size:
        data = reader.recv(65536)
        if not data:
            sys.exit(f"holds.py: {got} of {size} bytes came")
        got += len(data)


class Reader(threading.Thread):
    """Reads messages of a size, and answers each by a byte."""

    def __init__(self, sock, n, size, answers=True):
        super().__init__(daemon=True)
        self.sock, self.n, self.size, self.answers = sock, n, size, answers
        self.start()

    def run(self):
        for _ in range(self.n):
            read_all(self.sock, self.size)
            if self.answers:
                self.sock.send(b"a")

    def end(self):
        self.join(60)
        if self.is_alive():
            os._exit(3)


def cork(sender, on):
    sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, on)


def corked(n):
    """Header, 30 ms, body, under TCP_CORK: what sendfile() users do."""
    sender, reader = pair()
    end = Reader(reader, n, 300)
    for _ in range(n):
        cork(sender, 1)
        sender.send(bytes(100))
        time.sleep(0.03)
        sender.send(bytes(200))
        cork(sender, 0)
        sender.recv(1)
    end.end()


def more(n):
    """MSG_MORE, and nothing more."""
    sender, reader = pair()
    end = Reader(reader, n, 100)
    for _ in range(n):
        sender.send(bytes(100), MSG_MORE)
        sender.recv(1)
    end.end()


def followed(n):
    """MSG_MORE, 20 ms, and the rest."""
    sender, reader = pair()
    end = Reader(reader, n, 150)
    for _ in range(n):
        sender.send(bytes(100), MSG_MORE)
        time.sleep(0.02)
        sender.send(bytes(50))
        sender.recv(1)
    end.end()


def sendfile(n):
    """A header by MSG_MORE and a file by sendfile(), neither a multiple of anything."""
    sender, reader = pair()
    end = Reader(reader, n, 150 + 70001)
    with open("/tmp/holds", "w+b") as f:
        f.write(bytes(70001))
        f.flush()
        for _ in range(n):
            sender.send(bytes(150), MSG_MORE)
            done = 0
            while done < 70001:
                done += os.sendfile(sender.fileno(), f.fileno(), done, min(9001, 70001 - done))
            sender.recv(1)
    end.end()


def splice(n):
    """Small pieces through a pipe."""
    sender, reader = pair()
    end = Reader(reader, n, 7 * 777)
    out, into = os.pipe()
    for _ in range(n):
        for _ in range(7):
            os.write(into, bytes(777))
            os.splice(out, sender.fileno(), 777)
        sender.recv(1)
    end.end()


def odd(n):
    """Bulk in writes that are no multiple of a segment."""
    for size in (777, 7001, 100003):
        sender, reader = pair()
        end = Reader(reader, 1, n * size)
        for _ in range(n):
            sender.sendall(bytes(size))
        sender.recv(1)
        end.end()
        sender.close()


def grown(n):
    """A held segment that later writes make full, with and without a rest."""
    sizes = (10, 200, 400, 1000)
    sender, reader = pair(536)
    end = Reader(reader, n, sum(sizes))
    for _ in range(n):
        for size in sizes:
            sender.send(bytes(size))
            time.sleep(0.004)
        sender.recv(1)
    end.end()


def urgent(n):
    """Urgent data is not held."""
    sender, reader = pair()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
    end = Reader(reader, n, 101)
    for _ in range(n):
        sender.send(bytes(100))
        sender.send(b"!", socket.MSG_OOB)
        sender.recv(1)
    end.end()


def fin(n):
    """A FIN takes what is held along."""
    for _ in range(n):
        sender, reader = pair()
        end = Reader(reader, 1, 300, answers=False)
        cork(sender, 1)
        sender.send(bytes(300))
        time.sleep(0.01)
        sender.close()
        end.end()


def purge(n):
    """A reset throws away what is held."""
    for _ in range(n):
        sender, reader = pair()
        cork(sender, 1)
        sender.send(bytes(300))
        time.sleep(0.01)
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sender.close()
        reader.close()


def again(n):
    """A socket that is disconnected while it holds data, and connects anew."""
    for _ in range(n):
        sender, reader = pair()
        cork(sender, 1)
        sender.send(bytes(300))
        time.sleep(0.01)
        nobody = struct.pack("HxxIxxxxxxxx", socket.AF_UNSPEC, 0)
        if ctypes.CDLL(None).connect(sender.fileno(), nobody, len(nobody)):
            sys.exit("holds.py: cannot disconnect")
        cork(sender, 0)
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        listener.listen()
        sender.connect(listener.getsockname()[:2])
        other, _ = listener.accept()
        end = Reader(other, 1, 100)
        sender.send(bytes(100))
        sender.recv(1)
        end.end()
        sender.close()
        reader.close()
        other.close()


def shut(n):
    """The peer reads nothing for a while: its window holds the data, and not Nagle's rule."""
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
        end = Reader(reader, 1, size)
        sender.recv(1)
        end.end()


def wwr(n):
    """Write, write, read."""
    sender, reader = pair()
    end = Reader(reader, n, 200)
    for _ in range(n):
        sender.send(bytes(100))
        sender.send(bytes(100))
        sender.recv(1)
    end.end()


def mptcp(n):
    """Write, write, read over MPTCP."""
    global protocol
    protocol = IPPROTO_MPTCP
    wwr(n)


def ktls(n):
    """Records of TLS by the kernel."""
    sender, reader = pair()
    # TLS 1.2, AES-GCM-128: version, cipher, iv, key, salt, sequence.
    info = struct.pack("HH8s16s4s8s", 0x303, 51, bytes(8), bytes(16), bytes(4), bytes(8))
    for sock, name in ((sender, 1), (reader, 2)):
        sock.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tls")
        sock.setsockopt(SOL_TLS, name, info)
    end = Reader(reader, n, 150, answers=False)
    for _ in range(n):
        sender.send(bytes(100))
        sender.send(bytes(50))
        time.sleep(0.06)
    end.end()


def main():
    global family
    words = sys.argv[1:]
    if words and words[0] == "-6":
        family = socket.AF_INET6
        words.pop(0)
    globals()[words[0]](int(words[1]) if len(words) > 1 else 10)


main()
