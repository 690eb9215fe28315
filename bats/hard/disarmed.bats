#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Disarms all kprobes with the switch in debugfs, or those based on ftrace with ftrace's own.
# Only this checks that the module reports groups as off when others switched off their probes.

load ../unloaded

teardown() {
	echo 1 >"$ARMED"
	sysctl -q kernel.ftrace_enabled=1
	! loaded || unload_module
	assert_no_splat
}

# Prints each group and its status.
statuses() {
	local file
	for file in "$TREE"/*/status; do
		read -r line <"$file"
		file=${file%/status}
		echo "${file##*/} $line"
	done
}

# Prints groups with a probe that is a kprobe.
by_kprobes() { awk '$4 ~ /^kprobe/ { print $1 }' "$DEBUG/probes" | sort -u; }

# told GROUP...: exactly these groups are off though enabled; the reader explains why, and the
# list of probes shows their probes as disarmed.
told() {
	local group wanted=''
	for group in "${GROUPS_ALL[@]}"; do
		if [[ " $* " == *" $group "* ]]; then
			wanted+="$group off"$'\n'
		else
			wanted+="$group armed"$'\n'
		fi
	done
	same statuses "$(statuses | sort)" "$(sort <<<"${wanted%$'\n'}")"
	for group; do
		same "$group/enabled" "$(counter "$group/enabled")" 1
		run "$TCPLAT" show "$group"
		assert_output --partial "[off]"
		assert_output --partial "echo 1 > $ARMED"
	done
	run awk -v any=$# '!/^#/ && (any && $4 ~ /^kprobe/) != ($5 == "disarmed")' "$DEBUG/probes"
	assert_output ""
}

# connects N: of ten connections, N (none or all) are counted.
connects() {
	local before
	before=$(counter portsearch/searches)
	"$TRAFFIC" crr -n 10 >/dev/null
	same "searches of 10 connects" "$(($(counter portsearch/searches) - before))" "$1"
}

disarmed_and_armed() {
	local group groups
	groups=$(by_kprobes | xargs)
	[[ " $groups " == *" portsearch "* ]]
	told
	connects 10

	echo 0 >"$ARMED"
	# shellcheck disable=SC2086 # words
	told $groups
	connects 0
	# Switching the group by hand makes no difference.
	echo 0 >"$TREE/portsearch/enabled"
	same status "$(counter portsearch/status)" off
	run "$TCPLAT" show portsearch
	assert_output --partial "echo 1 > $TREE/portsearch/enabled"
	echo 1 >"$TREE/portsearch/enabled"
	# shellcheck disable=SC2086 # words
	told $groups
	connects 0

	echo 1 >"$ARMED"
	told
	connects 10
}

@test "kprobes disarmed while it is loaded: status shows which groups are off" {
	load_module
	disarmed_and_armed
	[[ " $(by_kprobes | xargs) " != *" ackmode "* ]]
	unload_module
	# All of its probes are kprobes.
	load_module attach=kprobe
	disarmed_and_armed
	[[ " $(by_kprobes | xargs) " == *" ackmode "* ]]
}

@test "kprobes disarmed before it is loaded" {
	echo 0 >"$ARMED"
	load_module
	# shellcheck disable=SC2046 # words
	told $(by_kprobes)
	connects 0
	echo 1 >"$ARMED"
	told
	connects 10
}

# The kernel refuses to switch off ftrace while it has users, so all entries use kprobes.
@test "ftrace switched off: what sits on it is off" {
	local group hushed
	insmod "$TCPLAT_KO" attach=kprobe
	hushed=$(awk '$4 == "kprobe:ftrace" { print $1 }' "$DEBUG/probes" | sort -u | xargs)
	[[ " $hushed " == *" portsearch "* ]]
	connects 10
	sysctl -q kernel.ftrace_enabled=0
	connects 0
	run statuses
	for group in "${GROUPS_ALL[@]}"; do
		if [[ " $hushed " == *" $group "* ]]; then
			assert_line "$group off"
		else
			assert_line "$group armed"
		fi
	done
	run awk '!/^#/ && ($4 == "kprobe:ftrace") != ($5 == "disarmed")' "$DEBUG/probes"
	assert_output ""
	sysctl -q kernel.ftrace_enabled=1
	told
	connects 10
	unload_module
	load_module
	run -1 sysctl kernel.ftrace_enabled=0
	told
}

@test "a kernel that does not tell whether kprobes are disarmed: groups are shown as armed" {
	insmod "$TCPLAT_KO" hide=kprobes_all_disarmed
	echo 0 >"$ARMED"
	run statuses
	refute_output --partial off
}
