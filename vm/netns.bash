# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# A network of two namespaces, for tests and demos.

# Namespaces that were created besides the current one. The module counts over all
# namespaces; the kernel counts per namespace.
NAMESPACES=()

# veth_pair NETEM...: creates namespaces tcplat-a (10.9.0.1, fd09::1) and tcplat-b (10.9.0.2,
# fd09::2), connected by veth, with netem NETEM (such as delay 5ms) at each end.
veth_pair() {
	local side n=0
	NAMESPACES=(tcplat-a tcplat-b)
	ip netns add tcplat-a
	ip netns add tcplat-b
	ip link add veth-a netns tcplat-a type veth peer name veth-b netns tcplat-b
	for side in a b; do
		((++n))
		# Duplicate address detection would take seconds.
		ip -n "tcplat-$side" -batch - <<-END
			link set lo up
			addr add 10.9.0.$n/24 dev veth-$side
			addr add fd09::$n/64 dev veth-$side nodad
			link set veth-$side up
		END
		tc -n "tcplat-$side" qdisc add dev "veth-$side" root netem "$@"
	done
	# Without link-local addresses IPv6 finds no neighbour yet, and connect() takes a second.
	for side in a b; do
		while [[ $(ip -n "tcplat-$side" -6 addr show tentative) ]]; do sleep 0.2; done
	done
}

# know_each_other: makes both ends know the other's hardware address. Lost packets that ask for it
# would hold back segments, which the kernel then does not send again.
know_each_other() {
	local pair of
	for pair in 'a b 10.9.0.2 fd09::2' 'b a 10.9.0.1 fd09::1'; do
		read -ra pair <<<"$pair"
		of=$(ip netns exec "tcplat-${pair[1]}" cat "/sys/class/net/veth-${pair[1]}/address")
		ip -n "tcplat-${pair[0]}" neigh add "${pair[2]}" lladdr "$of" dev "veth-${pair[0]}"
		ip -n "tcplat-${pair[0]}" neigh add "${pair[3]}" lladdr "$of" dev "veth-${pair[0]}"
	done
}

# remove_namespaces: after closed sockets have sent their last segments. Without a peer they would
# keep their namespace, and send again for a minute, which the module counts.
remove_namespaces() {
	local ns i
	((${#NAMESPACES[@]})) || return 0
	for ns in "${NAMESPACES[@]}"; do
		tc -n "$ns" qdisc del dev "veth-${ns#tcplat-}" root 2>/dev/null || :
		ip netns exec "$ns" sysctl -q net.ipv4.tcp_orphan_retries=1 2>/dev/null || :
	done
	for ((i = 0; i < 600; i++)); do
		[[ ! $(</proc/net/sockstat) =~ orphan\ 0\  ]] || break
		sleep 0.1
	done
	for ns in "${NAMESPACES[@]}"; do
		ip netns del "$ns" 2>/dev/null || :
	done
	NAMESPACES=()
}
