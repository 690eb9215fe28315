#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# tcplat record on live events: what it wrote names the pod that lost time when the pod is gone, and
# equals the groups' counters and the program's own clock; and it lets go of the module. Only this
# runs tcplat record on live events.

load ../live

CGROUPS=/sys/fs/cgroup
UID_A=0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0
UID_B=11111111-2222-3333-4444-555555555555
# As containerd makes them with the drivers systemd and cgroupfs.
POD_A=kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod${UID_A//-/_}.slice/cri-containerd-$(printf %064d 1).scope
POD_B=kubepods/besteffort/pod$UID_B/$(printf %064d 2)

setup() {
	untraced
	cgroups
	mkdir -p /var/log
	mount -t tmpfs none /var/log
	live
}

teardown() {
	[[ ! ${recorder:-} ]] || kill -KILL "$recorder" 2>/dev/null || :
	umount /var/log
	remove_pod "$POD_A"
	remove_pod "$POD_B"
	tidy
}

# remove_pod CGROUP: removes the cgroup with those above it, which must be empty.
remove_pod() {
	local path=$1
	while [[ $path != . ]]; do
		[[ ! -d $CGROUPS/$path ]] || rmdir "$CGROUPS/$path" 2>/dev/null || :
		path=$(dirname "$path")
	done
}

# Starts tcplat record, and waits until it counts.
record() {
	"$TCPLAT" record --interval "$(slower 6)" >lines 2>errors &
	recorder=$!
	asleep "$recorder"
	grep -q '^hist:' "$TRACING/instances/tcplat-record-$recorder/events/tcplat/snd_hold/trigger" ||
		fail "record does not listen: $(<errors)"
	reset_counters
}

# Ends it; it writes the interval so far.
end_record() {
	kill -TERM "$recorder"
	wait "$recorder" || fail "status $?: $(<errors)"
	recorder=''
	same instances "$(instances)" ''
}

# has_lines N: so many lines are written.
has_lines() { (($(wc -l <lines) >= $1)); }

# in_pod CGROUP WORKLOAD ADDRESS [OPTION...]: runs the workload, with the client in the cgroup and in
# tcplat-a, and the server in tcplat-b.
in_pod() {
	# shellcheck disable=SC2034 # for between
	local client_in=(in_cgroup "$1")
	between "${@:2}" --slow 20 >client.log
}

# sum_of CAUSE MEMBER: prints the sum over all owners of all lines.
sum_of() {
	python3 -c 'import json, sys
print(sum(x.get(sys.argv[1], {}).get(sys.argv[2], 0) for line in open("lines") for d in [json.loads(line)]
          for x in d["owners"] + [d["other"]]))' "$@"
}

# The form of --hard has the hour after which people ask.
@test "two pods, one hit for 30 s and gone: the record names it, its cause, its peer and the time it lost" {
	local slow_ns count time other from to end nagle_ns tolerance=0.02
	veth_pair delay 50us
	mkdir -p "$CGROUPS/$POD_A" "$CGROUPS/$POD_B" /var/log/pods/{shop_cart-1_$UID_A/web,shop_other-2_$UID_B/{init,web}}
	record
	from=$(date +%s)
	in_pod "$POD_A" wwr 10.9.0.2 -n 750
	to=$(date +%s)
	((to - from >= 29)) || fail "the hit took only $((to - from)) s"
	slow_ns=$(sed -n 's/.* slow_ns=\([0-9]*\)$/\1/p' client.log)
	count=$(counter sndhold/nagle)
	time=$(counter sndhold/nagle_time_ns)
	# The pod is gone, and the line with it not yet written or long ago: other traffic follows.
	sleep 3
	remove_pod "$POD_A"
	rm -r "/var/log/pods/shop_cart-1_$UID_A"
	[[ ! -d $CGROUPS/$POD_A ]]
	sleep "$(slower 4)"
	end=$((to + $(often 40 3600)))
	while (($(date +%s) < end)); do
		in_pod "$POD_B" wwr fd09::2 -n 20
		sleep "$(often 5 55)"
	done
	other=$(($(counter sndhold/nagle) - count))
	"$TRAFFIC" wwr -n 5 --settle >/dev/null
	soon has_lines $(($(wc -l <lines) + 2))
	quiet
	end_record
	nagle_ns=$(counter sndhold/nagle_time_ns)
	same "holds" "$(sum_of nagle count)" "$(counter sndhold/nagle)"
	same "their time" "$(sum_of nagle time_ns)" "$nagle_ns"
	same "stalls" "$(sum_of stall count)" "$(counter delack/stalls)"
	same "late ACKs" "$(sum_of ack count)" "$(counter delack/timeouts)"
	same "searches" "$(sum_of port count)" "$(counter portsearch/searches)"
	unload_module

	! on_debug || tolerance=0.1
	python3 - "$TCPLAT" "$tolerance" "$count" "$time" "$slow_ns" "$other" "$(date -ud "@$from" +%FT%TZ)" \
		"$(date -ud "@$to" +%FT%TZ)" <<-'END'
		import json, subprocess, sys
		tcplat, tolerance = sys.argv[1], float(sys.argv[2])
		count, time, slow, other_count = map(int, sys.argv[3:7])
		def top(*args):
		    out = subprocess.run([tcplat, "top", "--from", "lines", "--json", *args], check=True, capture_output=True)
		    return json.loads(out.stdout)["losses"]
		pods = {x["name"]: x for x in top("--key", "pod")}
		hit, other = pods["shop/cart-1/web"], pods["shop/other-2"]
		assert hit["nagle"] == {"count": count, "time_ns": time}, (hit, count, time)
		assert count >= 700 and other["nagle"]["count"] == other_count >= 20, (hit, other)
		# "Who was it at 03:12?"
		then = top("--key", "pod", "--since", sys.argv[7], "--until", sys.argv[8])
		assert [x["name"] for x in then if x["name"] != "/"] == ["shop/cart-1/web"], then
		# / has the servers, at the other ends of the same waits.
		assert {*pods} == {"/", "shop/cart-1/web", "shop/other-2"}, list(pods)
		# What the program measured, less a round trip each time.
		assert abs(time - slow) <= tolerance * slow, (time, slow)
		owners = [x["name"] for x in top("--key", "owner")]
		assert any("traffic" in x and "10.9.0.2" in x and "shop/cart-1/web" in x for x in owners), owners
		peers = {x["name"]: x for x in top("--key", "peer")}
		assert peers["10.9.0.2"]["nagle"]["count"] == count, peers
		causes = {x["name"]: x for x in top("--key", "cause")}
		assert causes["nagle"]["time_ns"] >= time, causes
		# What both ends of a connection over loopback waited counts once.
		here = peers["127.0.0.1"]
		assert here["time_ns"] == sum(here[c].get("time_ns", 0) for c in here if isinstance(here[c], dict) and
		                              c not in ("ack", "answer", "peer_answer")) - min(here["stall"]["time_ns"], here["nagle"]["time_ns"]), here
	END
}

@test "rmmod: refused while it records; when all groups are off it lets go, and goes on with the next module" {
	local group
	record
	stays_loaded
	for group in "${GROUPS_ALL[@]}"; do
		echo 0 >"$TREE/$group/enabled"
	done
	soon no_instances
	rmmod tcplat
	soon has_lines 2
	load_module
	soon grep -qs '^hist:' "$TRACING/instances/tcplat-record-$recorder/events/tcplat/late_answer/trigger"
	asleep "$recorder"
	reset_counters
	"$TRAFFIC" wwr -n 10 --settle >/dev/null
	quiet
	end_record
	same "holds" "$(sum_of nagle count)" "$(counter sndhold/nagle)"
	(($(counter sndhold/nagle) >= 5))
	run -0 grep -c '"module":"absent"' lines
	run -0 grep -c '"module":"reloaded"' lines
	assert_output 1
	run -0 grep -cE 'nothing to record until (a group is armed|the module is loaded)' errors
	assert_output 1
}
