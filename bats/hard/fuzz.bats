#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Random calls on sockets, also while groups are switched. The module's counts must
# equal the counts of others, however senseless the calls: BPF for ackmode, the kernel's counters
# for delack, events of tracefs for the other groups. Seeds are printed; bats/fuzz/sockets.c
# explains what they reproduce. Only this makes calls in combinations that no other test contains.

# shellcheck disable=SC2154 # hist_sum sets sum

load ../ackmode

SOCKETS=${TRAFFIC%/*}/sockets

setup_file() {
	load_afresh
	oracle_start
	watch_calls
}

teardown_file() {
	unwatch_calls
	oracle_stop
	! loaded || unload_module
}

setup() {
	untraced
	oracle_open
	loaded || load_module
	namespaces
}

teardown() {
	[[ ! ${background[*]:-} ]] || kill "${background[@]}" 2>/dev/null || :
	set_back
	remove_namespaces
	oracle_close
	assert_no_splat
}

# ---- where the calls go ----

# Two network namespaces with different sysctls.
namespaces() {
	local ns
	NAMESPACES=(tcplat-a tcplat-b)
	for ns in "${NAMESPACES[@]}"; do
		ip netns add "$ns"
		ip -n "$ns" link set lo up
	done
}

# sockets OPTION...: makes random calls. Sets made[KIND] to the number of successes per kind.
declare -gA made
sockets() {
	local ns kind calls good names=()
	for ns in "${NAMESPACES[@]}"; do
		names+=(--netns "$ns")
	done
	"$SOCKETS" "${names[@]}" --least 8000 "$@" >"$BATS_TEST_TMPDIR/sockets" 3>&- || fail "$(<"$BATS_TEST_TMPDIR/sockets")"
	sed '/^[a-z_]* [0-9]* [0-9]*$/d; s/^/# /' "$BATS_TEST_TMPDIR/sockets" >&3
	made=()
	while read -r kind calls good; do
		[[ ! $good || $good == *[!0-9]* ]] || made[$kind]=$good
	done <"$BATS_TEST_TMPDIR/sockets"
}

# assert_reached [EXCEPT]: each kind of call succeeded at times; calls that only fail test nothing.
assert_reached() {
	local kind missing='' got
	((${#made[@]} > 35)) || fail "only ${#made[@]} kinds of calls"
	for kind in "${!made[@]}"; do
		((made[$kind] >= 2)) || [[ $kind == "${1-}" ]] || missing+=" $kind"
	done
	[[ ! $missing ]] || fail "succeeded less than twice:$missing"
	got=$(sed -n 's/^options set=\([0-9]*\).*/\1/p' "$BATS_TEST_TMPDIR/sockets")
	((got >= 50)) || fail "only $got options were ever set: $(<"$BATS_TEST_TMPDIR/sockets")"
}

# Ends the remaining connections, without the minutes that the kernel would otherwise give to
# orphaned ones.
settle() {
	local ns
	set_meanwhile /proc/sys/net/ipv4/tcp_max_orphans 0
	for ns in "${NAMESPACES[@]}"; do
		ip netns exec "$ns" sysctl -q net.ipv4.tcp_fin_timeout=1 net.ipv4.tcp_orphan_retries=1
	done
	# ackmode does not follow all of them.
	no_sockets
	all_dead
	quiet
	set_back
}

# ---- counts by others ----

# Events of tracefs, each with a filter for the calls that the module counts, and each in its own
# instance: the number of events that its buffers ever got is the number of calls.
declare -gA EVENTS=(
	[search]="__inet_hash_connect num=+%d(\$arg2):u16 num==0"
	[bind]="inet_csk_get_port port=\$arg2:u16 port==0"
	[wait]="sk_stream_wait_memory time=+0(\$arg2):s64 time!=0"
	[restart]="tcp_cwnd_restart num=\$arg2:s32 num!=2147483647"
)

watch_calls() {
	local name offset symbol field filter
	insmod "$TCPLAT_MODULES/offsets.ko"
	offset=$(</sys/module/offsets/parameters/port)
	rmmod offsets
	for name in "${!EVENTS[@]}"; do
		read -r symbol field filter <<<"${EVENTS[$name]}"
		echo "p:tcplat_test/$name $symbol ${field/\%d/$offset}" >>"$TRACING/kprobe_events"
		mkdir "$TRACING/instances/$name"
		echo 8 >"$TRACING/instances/$name/buffer_size_kb"
		echo "$filter" >"$TRACING/instances/$name/events/tcplat_test/$name/filter"
		echo 1 >"$TRACING/instances/$name/events/tcplat_test/$name/enable"
	done
}

unwatch_calls() {
	local name
	for name in "${!EVENTS[@]}"; do
		echo 0 >"$TRACING/instances/$name/events/tcplat_test/$name/enable"
		rmdir "$TRACING/instances/$name"
		echo "-:tcplat_test/$name" >>"$TRACING/kprobe_events"
	done
}

# Sets calls[NAME] to the number of calls so far, and calls[missed] to the number of events that
# the kernel missed.
declare -gA calls
count_calls() {
	local name key value f missed
	calls=()
	for name in "${!EVENTS[@]}"; do
		calls[$name]=0
		for f in "$TRACING/instances/$name"/per_cpu/cpu*/stats; do
			while IFS=': ' read -r key value; do
				[[ $key != entries && $key != overrun ]] || ((calls[$name] += value)) || :
			done <"$f"
		done
	done
	events_missed
	calls[missed]=$missed
}

# ---- the module's counts ----

# Each histogram, and the counter that must equal its sum.
declare -gA HISTS=(
	[delack/delay_hist]=delack/timeouts
	[portsearch/time_hist]=portsearch/searches
	[bindsearch/time_hist]=bindsearch/searches
	[sndwait/time_hist]=sndwait/waits
)

# assert_sane SECONDS [SLACK]: no maximum exceeds what SECONDS allow, and each histogram's sum
# is its total, give or take SLACK.
assert_sane() {
	local hist total ns f hz jiffies most n slack=${2:-0}
	for hist in "${!HISTS[@]}"; do
		hist_sum "$hist"
		counter_into total "${HISTS[$hist]}"
		n=$((sum - total))
		((${n#-} <= slack)) || fail "$hist adds up to $sum, ${HISTS[$hist]} is $total"
	done
	hist_sum portsearch/iterations_hist
	n=$((sum + $(counter portsearch/unverified) - $(counter portsearch/searches)))
	((${n#-} <= slack)) || fail "portsearch/iterations_hist adds up to $sum"
	for f in portsearch bindsearch sndwait; do
		counter_into most "$f/time_max_ns"
		counter_into ns "$f/time_ns"
		((most <= $1 * 1000000000)) || fail "$f/time_max_ns is $most in $1 s"
		((slack || most <= ns)) || fail "$f: a maximum of $most in $ns ns"
		# Eight threads and their children.
		((ns <= $1 * 32 * 1000000000)) || fail "$f/time_ns is $ns in $1 s"
	done
	counter_into most portsearch/iterations_max
	((most <= 65535)) || fail "$most ports were tried"
	counter_into hz clock/hz
	counter_into jiffies delack/delay_max_jiffies
	((jiffies <= $1 * hz)) || fail "an ACK was delayed by $jiffies jiffies in $1 s"
	for f in delack/timeouts_pingpong delack/stalls; do
		counter_into n "$f"
		counter_into total delack/timeouts
		((n <= total + slack)) || fail "$f is $n of $total"
	done
}

# ---- random calls ----

# The module's counter for each event.
declare -gA COUNTED=(
	[search]=portsearch/searches
	[bind]=bindsearch/searches
	[wait]=sndwait/waits
	[restart]=idlerestart/restarts
)

# near WHAT GOT WANTED MISSED: GOT equals WANTED, or differs by at most MISSED, the number of
# hits that one side reports as missed. Clears exact if they differ.
near() {
	local n=$(($2 - $3))
	echo "# $1: $2 of $3, $4 missed"
	((n == 0)) || exact=''
	((${n#-} <= $4)) || fail "$1: $2, expected $3, with $4 missed"
}

# One round of calls, without any disturbance: all counts must equal the others'. Kprobes miss
# hits while another kprobe's handler is interrupted, BPF programs while they are interrupted
# themselves; both report that.
round() {
	local begin=$SECONDS name value missed n difference changes differing exact=1
	local -a before after
	local -A was=()
	settle
	reset_counters
	oracle_reset
	count_calls
	for name in "${!calls[@]}"; do was[$name]=${calls[$name]}; done
	read -ra before < <(tcp_ext DelayedACKs DelayedACKLocked)

	sockets --no-netns --seconds "$1"
	settle
	read -ra after < <(tcp_ext DelayedACKs DelayedACKLocked)
	count_calls
	oracle_read
	assert_reached netns
	assert_sane $((SECONDS - begin + 2))

	counter_into value delack/timeouts
	# ftrace, which watches this function, misses no hits.
	near delack/timeouts "$value" $((after[0] - before[0])) 0
	counter_into value delack/deferred
	near delack/deferred "$value" $((after[1] - before[1])) 0
	for name in "${!COUNTED[@]}"; do
		counter_into value "${COUNTED[$name]}"
		n=$((calls[$name] - was[$name]))
		((n > 0)) || fail "no ${COUNTED[$name]}"
		counter_into missed "${COUNTED[$name]%/*}/missed"
		near "${COUNTED[$name]}" "$value" "$n" $((missed + calls[missed] - was[missed]))
	done

	same "BPF's own errors" "${O[errors]}" 0
	assert_conserved
	compare
	of O 'events *'
	echo "# ackmode: ${O[born delayed]} sockets, $n events, BPF missed ${O[missed]}, differs by $difference" >&3
	if ((difference)); then
		exact=''
		echo "# $changes changes differ$differing" >&3
		((O[missed] * 100 <= n)) || fail "BPF missed ${O[missed]} of $n hits, too many to be compared with"
		# Threads disconnect sockets that others use, so many calls are late.
		assert_apart '@(setsockopt|disconnect)' 5
	else
		assert_agree
		assert_files
	fi
	[[ ! $exact ]] || ((++exacts))
}

@test "random calls with all groups armed: every count is what others count" {
	local i rounds seconds exacts=0
	rounds=$(often 1 20)
	seconds=$(often 6 30)
	for ((i = 0; i < rounds; i++)); do
		round "$seconds"
	done
	echo "# $exacts of $rounds rounds exact in all" >&3
}

# ---- while groups are switched, reset and read ----

# churn SEED RESETS: performs random actions of administrators until the file churn is removed;
# RESETS of twelve actions are resets. Fails if a counter falls without a reset.
churn() {
	local -A last=()
	local groups=() name f value
	RANDOM=$1
	for f in "$TREE"/*/enabled; do
		f=${f%/enabled}
		groups+=("${f##*/}")
	done
	while [[ -e $BATS_TEST_TMPDIR/churn ]]; do
		name=${groups[RANDOM % ${#groups[@]}]}
		case $((RANDOM % 12)) in
		[0-3]) echo $((RANDOM % 3 > 0)) >"$TREE/$name/enabled" ;;
		4) "$TCPLAT" show >/dev/null ;;
		5) for f in "$DEBUG"/*; do value=$(<"$f"); done ;;
		6) tree_contents >/dev/null ;;
		7) (($2 == 0)) || reset_counters ;;
		*)
			for f in "${COUNTED[@]}" delack/timeouts ackmode/setsockopt; do
				read -r value <"$TREE/$f"
				if (($2 == 0 && value < ${last[$f]-0})); then
					echo "$f fell from ${last[$f]} to $value"
					return 1
				fi
				last[$f]=$value
			done
			;;
		esac
		((++actions))
	done
	echo "actions=$actions"
}

# churned SECONDS RESETS: two administrators at once. Counts must not exceed the number of calls,
# and groups that are off must count nothing. All counts are exact again afterwards.
churned() {
	local begin=$SECONDS seed=$((SRANDOM % 32768)) name value n i resets=$2
	local -A was=()
	settle
	reset_counters
	count_calls
	for name in "${!calls[@]}"; do was[$name]=${calls[$name]}; done
	echo "# churn seed=$seed" >&3
	touch "$BATS_TEST_TMPDIR/churn"
	actions=0
	background=()
	for i in 0 1; do
		churn $((seed + i)) "$resets" >"$BATS_TEST_TMPDIR/churned.$i" 2>&1 3>&- &
		background+=("$!")
	done
	sockets --seconds "$1"
	rm "$BATS_TEST_TMPDIR/churn"
	for i in 0 1; do
		wait "${background[i]}" || fail "$(<"$BATS_TEST_TMPDIR/churned.$i")"
		echo "# $(<"$BATS_TEST_TMPDIR/churned.$i")" >&3
	done
	background=()
	for name in "$TREE"/*/enabled; do
		echo 1 >"$name"
		same "${name%/enabled}" "$(<"${name%/enabled}/status")" armed
	done
	settle
	count_calls
	# A reset may come between two counters of one call.
	assert_sane $((SECONDS - begin + 2)) $((resets ? $(nproc) * 1000 : 0))
	for name in "${!COUNTED[@]}"; do
		counter_into value "${COUNTED[$name]}"
		n=$((calls[$name] - was[$name]))
		((value <= n)) || fail "${COUNTED[$name]}: $value of $n"
	done
	((resets)) || assert_conserved
	assert_reached
}

@test "random calls while groups are switched and read, namespaces come and go" {
	churned "$(often 5 120)" 0
}

@test "random calls while groups are switched, read and reset" {
	churned "$(often 5 120)" 1
	# No effect of the previous phase may remain.
	exacts=0
	round "$(often 3 20)"
}
