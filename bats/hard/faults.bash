# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Checks of the module's state after something has failed, for all files that inject faults.

# shellcheck disable=SC2154 # files that load this set attached and came

# Whether to check counts and load again after each failure, not only once. Files may set it.
thorough=''

# Starts the part of the kernel's log that said() searches.
log_begins() {
	mark="faults: $BATS_TEST_NUMBER.$((++marks))"
	echo "$mark" >/dev/kmsg
	log=''
}
marks=0

# Set if the part of the log includes loading the module.
from_load=''

# said TEXT: searches the log, which is read once.
said() {
	[[ $log ]] || log=$(dmesg | sed -n "/$mark/,\$p")
	[[ $log == *"$1"* ]]
}

# says TEXT: the same, with what the log says by now.
says() {
	log=''
	said "$1"
}

# nothing_left WHAT: checks that nothing of the module is left, compared with $attached.
nothing_left() {
	[[ $(attachments) == "$attached" && ! -e $TREE && ! -e $DEBUG && ! -e /sys/module/tcplat ]] ||
		fail "$1: left behind: $(traces)"
	assert_no_splat
}

# ---- the module's state ----

# truth WHAT: sets state[GROUP] to each group's status, and checks that status, enabled, the
# probes in debugfs, the kernel's lists of probes and its log agree.
declare -gA state
truth() {
	local what=$1 group status symbol pairs='' enabled
	for group in "${GROUPS_ALL[@]}"; do
		counter_into status "$group/status"
		counter_into enabled "$group/enabled"
		state[$group]=$status
		pairs+="$group=${status%%:*} "
		case $status in
		armed) same "$what: $group/enabled" "$enabled" 1 ;;
		off) same "$what: $group/enabled" "$enabled" 0 ;;
		unavailable:*)
			symbol=${status#*: }
			same "$what: $group/enabled" "$enabled" 0
			same "$what: $group" "$(cd "$TREE/$group" && echo *)" "enabled status"
			[[ ! $from_load ]] || said "tcplat: $group is unavailable: this kernel has no $symbol to probe" ||
				fail "$what: the log does not say that $group is unavailable"
			;;
		*) fail "$what: $group is $status" ;;
		esac
	done
	[[ -e $DEBUG/probes ]] || return 0
	attachments >"$BATS_TEST_TMPDIR/attached"
	awk -v pairs="$pairs" '
		BEGIN {
			n = split(pairs, pair, " ")
			for (i = 1; i <= n; i++) {
				split(pair[i], part, "=")
				status[part[1]] = part[2]
			}
		}
		FNR == NR {
			if ($1 == "ftrace") there["ftrace " $2]
			else { sub(/\+.*/, "", $3); there[$2 " " $3] }
			next
		}
		/^#/ { next }
		{
			sub(/\+.*/, "", $2)
			at = ($3 == "return" ? "r " : $4 == "ftrace" ? "ftrace " : "k ") $2
			states[$1 " " $5]
			if ($5 == "armed") {
				armed[$2]
				if (!(at in there)) print $0 ": and it is not"
			} else {
				not[$2]
			}
		}
		END {
			for (f in not)
				if (!(f in armed) && (("k " f) in there || ("r " f) in there || ("ftrace " f) in there))
					print f " is watched, and no probe of it is armed"
			for (g in status) {
				if (status[g] == "armed" && (((g " off") in states) || !((g " armed") in states)))
					print g " is said to be armed, and a probe is off"
				if (status[g] != "armed" && ((g " armed") in states))
					print g " is said to be " status[g] ", and a probe is armed"
				if (status[g] == "unavailable" && !((g " unavailable") in states))
					print g " is said to be unavailable, and no probe is"
			}
		}' "$BATS_TEST_TMPDIR/attached" "$DEBUG/probes" >"$BATS_TEST_TMPDIR/lies"
	[[ ! -s $BATS_TEST_TMPDIR/lies ]] ||
		fail "$what: $(<"$BATS_TEST_TMPDIR/lies")"$'\n'"$(<"$DEBUG/probes")"$'\n'"$(<"$BATS_TEST_TMPDIR/attached")"
}

all_armed() {
	local group
	truth "$1"
	for group in "${GROUPS_ALL[@]}"; do
		same "$1: $group" "${state[$group]}" armed
	done
}

# counts WHAT [UNVERIFIED]: checks that groups that are armed count each connection and each
# timeout. UNVERIFIED searches of one are unverified if the log says that table_perturb was not
# found (1).
counts() {
	local was timeouts searches unverified
	quiet
	reset_counters
	was=$(tcp_ext DelayedACKs)
	"$TRAFFIC" wwr -n 3 --settle >/dev/null
	quiet
	if [[ ${state[delack]} == armed ]]; then
		counter_into timeouts delack/timeouts
		same "$1: timeouts" "$timeouts" $(($(tcp_ext DelayedACKs) - was))
		((timeouts >= 2)) || fail "hardly any traffic"
	fi
	if [[ ${state[portsearch]} == armed ]]; then
		counter_into searches portsearch/searches
		counter_into unverified portsearch/unverified
		same "$1: searches" "$searches" 1
		! said table_perturb || same "$1: unverified" "$unverified" "${2-1}"
	fi
	[[ ${state[bindsearch]} != armed ]] || same "$1: ports" "$(counter bindsearch/searches)" 1
	[[ ${state[sndhold]} != armed ]] || (($(counter sndhold/nagle) >= 2)) ||
		fail "$1: sndhold is armed and counts nothing"
	[[ ${state[ackmode]} != armed ]] || (($(counter ackmode/pingpong_enters) > 0)) ||
		fail "$1: ackmode is armed and counts nothing"
}

# each_load STEP WHAT [PARAMETER...]: loads the module with these parameters, again and again:
# fails() makes the first call of a function fail, then the call STEP later, until that call is
# no longer reached. Files that load this define fails N PARAMETER..., which sets failed, status
# and output. Sets n to the number of calls plus one, refused and came to the number of refused
# and successful loads, and texts to the errors.
each_load() {
	local step=$1 of=$2 what text
	shift 2
	refused=0 came=0 texts=''
	attached=$(attachments)
	from_load=1
	for ((n = 1; ; n += step)); do
		progress "$n"
		what="$of, $n"
		fails "$n" "$@"
		if ((!failed)); then
			((status == 0)) || fail "$what: does not load, but nothing failed: $output"
			unload_module
			break
		fi
		if ((status)); then
			((++refused))
			text=${output##*: }
			[[ $texts == *"$text;"* ]] || texts+="$text;"
		else
			((++came))
			there "$what"
			unload_module
		fi
		nothing_left "$what"
		[[ ! $thorough ]] || comes_back "after $what"
	done
	comes_back "after $of"
}

# each_enable ATTACH WHAT: loads the module with its probes attached by ATTACH, and enables each
# group again and again: enable_fails() makes the first call of a function fail, then the next,
# until that call is no longer reached. Files that load this define enable_fails N GROUP, which sets
# failed, status and output, and says_why WHAT, which checks how a failure was reported. Sets
# refused and came to the number of groups refused, and enabled in spite of a failure.
each_enable() {
	local attach=$1 of=$2 group n what all off
	refused=0 came=0
	insmod "$TCPLAT_KO" "attach=$attach"
	all=$(attachments)
	for group in "${GROUPS_ALL[@]}"; do
		echo 0 >"$TREE/$group/enabled"
		off=$(attachments)
		for ((n = 1; ; n++)); do
			what="$group by $attach, $of, $n"
			enable_fails "$n" "$group"
			truth "$what"
			if ((status)); then
				((failed)) || fail "$what: refused, but nothing failed: $output"
				((++refused))
				same "$what" "${state[$group]}" off
				same "$what: attachments" "$(attachments)" "$off"
				says_why "$what"
			else
				((!failed || ++came))
				same "$what" "${state[$group]}" armed
			fi
			echo 0 >"$TREE/$group/enabled"
			same "$what, disabled again: attachments" "$(attachments)" "$off"
			((failed)) || break
		done
		echo 1 >"$TREE/$group/enabled"
		same "$group enabled again: attachments" "$(attachments)" "$all"
	done
	all_armed "after $attach, $of"
	counts "after $attach, $of"
	unload_module
	assert_no_trace
}

# comes_back WHAT: the module loads completely.
comes_back() {
	load_module
	all_armed "$1"
	unload_module
	nothing_left "$1"
}

# there WHAT: the module has loaded in spite of the failure. Groups that are off can be enabled
# once nothing fails.
there() {
	local group unverified=1
	truth "$1"
	for group in "${GROUPS_ALL[@]}"; do
		[[ ${state[$group]} != off ]] || said "tcplat: $group: cannot probe " ||
			fail "$1: the log does not say why $group is off"
	done
	if [[ $thorough ]] || ((came == 1)); then
		counts "$1"
	fi
	[[ ${state[*]} == *off* ]] || return 0
	# It looks for table_perturb when it is armed.
	[[ ${state[portsearch]} != off ]] || unverified=0
	for group in "${GROUPS_ALL[@]}"; do
		[[ ${state[$group]} == unavailable* ]] || echo 1 >"$TREE/$group/enabled"
	done
	truth "$1, and enabled again"
	[[ ${state[*]} != *off* ]] || fail "$1: a group that was off stays off"
	[[ ! $thorough ]] || counts "$1, and enabled again" "$unverified"
}
