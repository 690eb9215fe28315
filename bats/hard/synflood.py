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


def main():
    port, n = map(int, sys.argv[1:])
    net, target = (socket.inet_aton(a) for a in ("198.18.0.0", "127.0.0.1"))
    # The kernel fills in the checksum of this header.
    ip = struct.pack("!BBHHHBBH2s", 0x45, 0, 40, 0, 0, 64, socket.IPPROTO_TCP, 0, net[:2])
    # What is the same in all checksums: addresses, protocol, length, port and window.
    same = sum(struct.unpack("!3H", net[:2] + target)) + socket.IPPROTO_TCP + 20 + port + 65535
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    syns = 0
    for i in range(n):
        flags = ACK if i % 8 == 7 else SYN
        syns += flags == SYN
        source, sport, control = i & 0xffff, 1024 + i % 60000, 5 << 12 | flags
        numbers = [random.getrandbits(16) for _ in range(4)]
        total = same + source + sport + control + sum(numbers)
        total = (total & 0xffff) + (total >> 16)
        check = ~(total + (total >> 16)) & 0xffff
        raw.sendto(ip + struct.pack("!H4s10H", source, target, sport, port, *numbers, control, 65535,
                                    check, 0), ("127.0.0.1", 0))
    print(f"syns={syns}")


main()
