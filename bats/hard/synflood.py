#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""synflood.py PORT N: sends N segments to PORT on loopback, with nonexistent source addresses
in 198.18.0.0/15. Seven of eight are SYNs; the others are unsolicited ACKs, like guessed
cookies. Prints the number of SYNs."""

import random
import socket
import struct
import sys

SYN, ACK = 0x02, 0x10


def checksum(data):
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    total = (total & 0xffff) + (total >> 16)
    return ~(total + (total >> 16)) & 0xffff


def segment(source, target, ports, flags):
    sequence, answer = random.getrandbits(32), random.getrandbits(32)

    def tcp(check):
        return struct.pack("!HHIIBBHHH", *ports, sequence, answer, 5 << 4, flags, 65535, check, 0)

    pseudo = source + target + struct.pack("!HH", socket.IPPROTO_TCP, 20)
    # The kernel fills in the checksum of this header.
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40, 0, 0, 64, socket.IPPROTO_TCP, 0, source, target)
    return ip + tcp(checksum(pseudo + tcp(0)))


def main():
    port, n = map(int, sys.argv[1:])
    target = socket.inet_aton("127.0.0.1")
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    syns = 0
    for i in range(n):
        source = socket.inet_aton("198.18.0.0")[:2] + struct.pack("!H", i & 0xffff)
        flags = ACK if i % 8 == 7 else SYN
        syns += flags == SYN
        raw.sendto(segment(source, target, (1024 + i % 60000, port), flags), ("127.0.0.1", 0))
    print(f"syns={syns}")


main()
