# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For tests whose python() runs both ends of a connection, since they need the programs' own clocks.
# Such a file's setup() makes the two namespaces.

load ../loaded

# Traffic is between the two, which are new for each test, so that the kernel's counts begin at 0.
# shellcheck disable=SC2034 # helpers.bash uses it
FIRST_NETNS=

# without_sack: connections from now on do not use SACK.
without_sack() {
	local ns
	for ns in a b; do
		ip netns exec "tcplat-$ns" sysctl -q net.ipv4.tcp_sack=0
	done
}
