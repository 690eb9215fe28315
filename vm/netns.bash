# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# A network of two namespaces, for tests and demos.

# Those there are besides the one that this is run in: the module counts over all of
# them, the kernel for each.
NAMESPACES=()

# veth_pair NETEM...: namespaces tcplat-a (10.9.0.1, fd09::1) and tcplat-b (10.9.0.2,
# fd09::2) with a veth between them, at each end of which netem does so (delay 5ms).
veth_pair() {
	local side n=0
	NAMESPACES=(tcplat-a tcplat-b)
	ip netns add tcplat-a
	ip netns add tcplat-b
	ip link add veth-a netns tcplat-a type veth peer name veth-b netns tcplat-b
	for side in a b; do
		((++n))
		ip -n "tcplat-$side" link set lo up
		ip -n "tcplat-$side" addr add "10.9.0.$n/24" dev "veth-$side"
		# No duplicate address detection: it would take seconds.
		ip -n "tcplat-$side" addr add "fd09::$n/64" dev "veth-$side" nodad
		ip -n "tcplat-$side" link set "veth-$side" up
		tc -n "tcplat-$side" qdisc add dev "veth-$side" root netem "$@"
	done
}

remove_namespaces() {
	local ns
	for ns in ${NAMESPACES[@]+"${NAMESPACES[@]}"}; do
		ip netns del "$ns" 2>/dev/null || :
	done
	NAMESPACES=()
}
