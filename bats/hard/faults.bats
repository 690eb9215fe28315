#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Makes each call that can fail do so, one after the other, when the module is loaded, and when a
# group is enabled or disabled. The operation must be refused and leave nothing behind, or succeed
# and report what is missing. bats/kernel/fail.c injects the failures. Only this reaches the error
# paths of loading and enabling on all kernels.

# shellcheck disable=SC2030,SC2031 # bats runs each test in its own subshell
# shellcheck disable=SC2034,SC2154 # shared with helpers.bash and faults.bash

load ../helpers
load faults

# Not in debug-allocations.bats: after each of its failures it would take hours.
thorough=$(often '' 1)

PLAN=/sys/module/fail/parameters/plan

# Functions that the module calls when it loads, enables or disables, under their names in all
# supported kernels, by what they return on failure: NULL or an error.
MEMORY=(__kmalloc __kmalloc_noprof kmalloc_trace __kmalloc_cache_noprof __alloc_percpu
	pcpu_alloc_noprof __vmalloc __vmalloc_noprof)
FTRACE=(ftrace_set_filter_ip register_ftrace_function)
SYSFS=(kobject_create_and_add kobject_init_and_add sysfs_create_file_ns sysfs_create_group)
DEBUGFS=(debugfs_create_dir debugfs_create_file)
OTHERS=(register_kprobe register_kretprobe copy_from_kernel_nofault disable_kprobe
	register_pernet_subsys unregister_ftrace_function)

# Functions that cannot fail, and symbols added by the compiler and the kernel's checkers.
CANNOT='_printk|__warn_printk|snprintf|sprint_symbol|sysfs_streq|mem(set|cpy|cmp)|strlen|strn?cmp'
CANNOT+='|kfree|vfree|free_percpu|debugfs_remove|kobject_(del|put)|kobj_sysfs_ops|complete|wait_for_completion|ftrace_free_filter|unregister_.*'
CANNOT+='|schedule_timeout_idle|(__)?module_(get|put)|mutex_(un)?lock(_nested)?|synchronize_rcu(_tasks)?|queue_work_on|flush_work'
CANNOT+='|ktime_get_mono_fast_ns|__msecs_to_jiffies'
CANNOT+='|sock_diag_save_cookie|__sock_gen_cookie|_find_next_bit|jiffies|system_(percpu_)?wq|kernel_kobj'
CANNOT+='|nr_cpu_ids|__cpu_(online|possible)_mask|(const_)?pcpu_hot|cpu_number|this_cpu_off|__per_cpu_offset'
CANNOT+='|(get|poll)_state_synchronize_rcu|init_net|current_task|tcp_stream_memory_free'
CANNOT+='|__fentry__|__stack_chk_fail|__SC[TK]__.*|__x86_.*|__preempt_count|__(asan|kasan|ubsan|sanitizer)_.*'
CANNOT+='|static_key_(en|dis)able|rb_(first|last)|usleep_range(_state)?'
# Imported, not called.
CANNOT+='|tcp_slow_start'
CANNOT+='|lock(dep)?_.*|(__)?rcu_.*|__list_(add|del)_.*|debug_.*|preempt_count_.*|__might_.*'

# Used only when a file is read or written, for parameters, or by enabled tracepoints.
ELSEWHERE='capable|(__)?seq_.*|single_(open|release)|sysfs_emit(_at)?|kstrtouint|param_.*'
ELSEWHERE+='|try_module_get|bpf_trace_.*|perf_trace_.*|_*trace_.*|__cond_resched'

setup_file() {
	! loaded || unload_module
	insmod "$TCPLAT_MODULES/fail.ko"
}

teardown_file() {
	! loaded || unload_module
	rmmod fail
}

setup() {
	untraced
	# Other files may have run before in this boot.
	[[ -e $PLAN ]] || insmod "$TCPLAT_MODULES/fail.ko"
	echo >"$PLAN"
	! loaded || unload_module
	before=$(traces)
	at_first=$(attachments)
	imported=$(nm -u "$TCPLAT_KO" | awk '{ print $2 }')
}

teardown() {
	echo >"$PLAN"
	[[ ! -e /sys/module/giveup ]] || rmmod giveup
	[[ ! ${unloading:-} ]] || wait "$unloading" || :
	! loaded || unload_module
	assert_no_splat
}

# ---- failing ----

# failing FUNCTION NTH COUNT RESULT COMMAND...: runs COMMAND; COUNT calls of FUNCTION from the
# NTH on return RESULT. Sets failed to the number of failed calls, status and output.
failing() {
	echo "$1 $2 $3 $4" >"$PLAN"
	shift 4
	log_begins
	status=0
	output=$("$@" 2>&1) || status=$?
	read -r _ failed <"$PLAN"
	echo >"$PLAN"
}

# of_those NAME...: sets functions to those that this kernel's module imports.
of_those() {
	local f
	functions=()
	for f; do
		! grep -qx "$f" <<<"$imported" || functions+=("$f")
	done
	((${#functions[@]})) || fail "the module calls none of $*"
}

# ---- loading ----

# load_failing FUNCTION COUNT RESULT [PARAMETER...]: makes COUNT calls fail, from the first on,
# then from the second on (or $step later), until the call is not reached. Sets refused and came.
load_failing() {
	local function=$1 count=$2 result=$3 n
	shift 3
	each_load "${step:-1}" "$function, $result, $count times $*" "$@"
	((n > 1)) || fail "$function was never called"
	echo "# $function $result x$count $*: $refused refused (${texts%;}), $came loaded" >&3
}

# refuses TEXT FUNCTION COUNT RESULT [PARAMETER...]: each load is refused with TEXT.
refuses() {
	load_failing "${@:2}"
	same "$2: refused with" "$texts $came" "$1; 0"
}

fails() { failing "$function" "$1" "$count" "$result" insmod "$TCPLAT_KO" "${@:2}"; }

# ---- the tests ----

@test "each function that the module calls is made to fail here, or cannot fail" {
	local f known wrong=''
	known=" ${MEMORY[*]} ${FTRACE[*]} ${SYSFS[*]} ${DEBUGFS[*]} ${OTHERS[*]} "
	for f in $imported; do
		[[ $known == *" $f "* || $f =~ ^($CANNOT|$ELSEWHERE)$ ]] || wrong+=" $f"
	done
	[[ $(wc -w <<<"$imported") -gt 50 ]] || fail "nm shows too few symbols: $imported"
	[[ ! $wrong ]] || fail "not listed in this file:$wrong"
}

@test "loading without memory is refused" {
	local f functions step
	of_those "${MEMORY[@]}"
	for f in "${functions[@]}"; do
		# Memory for counters and tables is allocated in one loop over the groups.
		step=1
		[[ $f == *kmalloc* ]] || step=$(often 3 1)
		refuses "Cannot allocate memory" "$f" 1 0
	done
}

@test "loading where functions cannot be probed: their groups are unavailable" {
	local step
	step=$(often 11 1)
	load_failing register_kprobe 1 -22
	((came)) || fail "a single failing probe made each load fail"
	load_failing register_kprobe 1 -12
	same refused "$texts" "Cannot allocate memory;"
	[[ $thorough ]] || return 0
	load_failing register_kprobe 0 -22
	load_failing register_kprobe 1 -95
	same refused "$texts" "Operation not supported;"
}

@test "loading where returns cannot be probed: their groups are off" {
	local step
	step=$(often 3 1)
	load_failing register_kretprobe 1 -22
	same refused "$refused" 0
	refuses "Cannot allocate memory" register_kretprobe 1 -12
	[[ ! $thorough ]] || load_failing register_kretprobe 0 -22
}

@test "loading where ftrace fails: by kprobes" {
	local f step
	for f in "${FTRACE[@]}"; do
		step=$(often 9 1)
		load_failing "$f" 1 -12
		same "$f: refused" "$refused" 0
		step=$(often 17 1)
		load_failing "$f" 0 -16
		same "$f: refused" "$refused" 0
	done
}

@test "loading by kprobes where they fail" {
	local step
	step=$(often 17 1)
	# Two attempts per function: first behind its ftrace site, then on it.
	load_failing register_kprobe 2 -22 attach=kprobe
	[[ $thorough ]] || return 0
	load_failing register_kprobe 1 -22 attach=kprobe
	load_failing register_kprobe 2 -12 attach=kprobe
	load_failing register_kprobe 0 -22 attach=kprobe
}

@test "loading where sysfs fails, or namespaces cannot be watched, is refused" {
	local f step
	refuses "Cannot allocate memory" register_pernet_subsys 1 -12
	refuses "Cannot allocate memory" kobject_create_and_add 1 0
	for f in kobject_init_and_add sysfs_create_file_ns sysfs_create_group; do
		# One call for each file.
		step=1
		[[ $f != *file* ]] || step=$(often 50 1)
		refuses "Cannot allocate memory" "$f" 1 -12
		refuses "File exists" "$f" 1 -17
	done
}

@test "loading where debugfs fails: its files are missing, and nothing else" {
	local f n=0 all
	load_module
	all=$(find "$DEBUG" -type f | wc -l)
	unload_module
	# On kernels before 5.0 an error is NULL, which is the root of debugfs as a directory.
	load_failing debugfs_create_dir 1 0
	[[ ! -e ${DEBUG%/*}/probes ]] || fail "its files are in the root of debugfs"
	for f in "${DEBUGFS[@]}"; do
		load_failing "$f" 1 -12
		same "$f: refused" "$refused" 0
	done
	same "files that were missing" "$came" "$all"
}

@test "loading where the kernel's memory cannot be read: searches are unverified" {
	load_failing copy_from_kernel_nofault 1 -14
	same refused "$refused" 0
}

# enable_failing ATTACH FUNCTION COUNT RESULT: makes enabling of each group fail.
enable_failing() {
	local function=$2 count=$3 result=$4
	each_enable "$1" "$function, $result, $count times"
	echo "# $1: $function $result x$count: $refused refused, $came enabled" >&3
	((refused + came)) || fail "$function was never called"
}

enable_fails() {
	failing "$function" "$1" "$count" "$result" write_once "$TREE/$2/enabled" <<<1
}

says_why() { said "tcplat: $group: cannot probe " || fail "$1: not in the log"; }

@test "enabling where ftrace fails: by kprobes" {
	enable_failing ftrace ftrace_set_filter_ip 1 -12
	enable_failing ftrace ftrace_set_filter_ip 0 -16
}

@test "enabling the first group where ftrace cannot be registered" {
	local group n
	insmod "$TCPLAT_KO"
	for group in "${GROUPS_ALL[@]}"; do
		echo 0 >"$TREE/$group/enabled"
	done
	attached=$(attachments)
	[[ $attached == "$at_first" ]] || fail "still watched with all groups off: $attached"
	for group in delack ackmode; do
		failing register_ftrace_function 1 0 -16 write_once "$TREE/$group/enabled" <<<1
		same "$group: status, failed" "$status $((failed > 0))" "0 1"
		truth "$group without ftrace"
		same "$group" "${state[$group]}" armed
		grep -q "^$group .* kprobe:" "$DEBUG/probes" || fail "not by kprobes: $(<"$DEBUG/probes")"
		counts "$group without ftrace"
		echo 0 >"$TREE/$group/enabled"
		same "$group: attachments" "$(attachments)" "$attached"
	done
}

@test "enabling where kprobes fail: off, and nothing else is touched" {
	enable_failing kprobe register_kprobe 2 -12
	[[ $thorough ]] || return 0
	enable_failing kprobe register_kprobe 1 -22
	enable_failing kprobe register_kprobe 0 -22
}

@test "enabling where return probes fail: off, and nothing else is touched" {
	enable_failing ftrace register_kretprobe 1 -12
	enable_failing ftrace register_kretprobe 1 -22
}

# A function that cannot be removed from ftrace's filter stays there until it can be removed; the
# group does not count.
@test "disabling and unloading where the kernel fails" {
	local group f n plan step plans
	step=$(often 7 1)
	plans=$(often '1,0 2,1' '1,0 1,1 2,0 2,1')
	attached=$(attachments)
	for f in ftrace_set_filter_ip disable_kprobe; do
		load_module
		all=$(attachments)
		for group in "${GROUPS_ALL[@]}"; do
			# All calls from the first or second on, or that one.
			for plan in $plans; do
				failing "$f" "${plan%,*}" "${plan#*,}" -12 \
					write_once "$TREE/$group/enabled" <<<0
				same "$f, $group, $plan: status" "$status" 0
				same "$f, $group, $plan" \
					"$(counter "$group/status") $(counter "$group/enabled")" "off 0"
				echo 1 >"$TREE/$group/enabled"
				same "$f, $group, $plan: attachments" "$(attachments)" "$all"
			done
		done
		all_armed "after $f"
		counts "after $f"
		unload_module
		nothing_left "after $f"
		for ((n = 1; ; n += step)); do
			load_module
			failing "$f" "$n" 1 -12 rmmod tcplat
			same "$f: rmmod's status" "$status" 0
			nothing_left "rmmod, $f"
			((failed)) || break
		done
		((n > 1)) || fail "$f was never called"
	done
	load_module
	failing ftrace_set_filter_ip 1 0 -12 rmmod tcplat
	nothing_left "rmmod, ftrace_set_filter_ip"
	load_module
	all_armed "at last"
	unload_module
	assert_no_trace
}

# ---- the kernel does not let go ----

# If the kernel still calls the module, the module must stay loaded. ftrace returns -ENODEV
# permanently once it has met code that it does not expect.

switch_all() {
	local group
	for group in "${GROUPS_ALL[@]}"; do
		echo "$1" >"$TREE/$group/enabled"
	done
}

# in_use WHAT: checks that the module cannot be unloaded, and that traffic works.
in_use() {
	stays_loaded
	"$TRAFFIC" wwr -n 3 --settle >/dev/null || fail "$1: no traffic"
	assert_no_splat
}

# Prints attachments except those that make $f fail.
watched() { attachments | grep -vE "^(kprobe . |ftrace )${f}[+ ]"; }

# holds FUNCTION RESULT: checks a FUNCTION that fails each time that groups are disabled.
holds() {
	local f=$1 result=$2 group what="$1, error $2" off all at_most failed
	load_module
	all=$(attachments)
	at_most=$(wc -l <<<"$all")
	log_begins
	echo "$f 1 0 $result" >"$PLAN"
	switch_all 0
	read -r _ failed <"$PLAN"
	((failed > 0)) || fail "$what: it was never called"
	off=$(tree_contents | grep -v /missed)
	for group in "${GROUPS_ALL[@]}"; do
		same "$what: $group" "$(counter "$group/status") $(counter "$group/enabled")" "off 0"
	done
	said "error $result" || fail "$what: the log does not say what failed"
	said "the kernel still calls the module" || fail "$what: the log does not say that it stays"
	# With an empty filter ftrace would watch all functions.
	(($(watched | wc -l) <= at_most)) || fail "$what: more is watched than before"
	in_use "$what"
	same "$what: files, while off" "$(tree_contents | grep -v /missed)" "$off"

	# Remaining probes count again, and missed does not grow.
	switch_all 1
	all_armed "$what"
	same "$what: attachments" "$(watched)" "$all"
	counts "$what"
	switch_all 0
	in_use "$what, again"

	log_begins
	echo >"$PLAN"
	switch_all 1
	switch_all 0
	said "no longer calls the module" || fail "$what: the log does not say that it may go"
	switch_all 1
	all_armed "$what, mended"
	counts "$what, mended"
	unload_module
	nothing_left "$what"
}

@test "ftrace or probes that cannot be switched off: the module cannot be unloaded" {
	attached=$(attachments)
	holds unregister_ftrace_function -19
	holds unregister_ftrace_function -16
	holds disable_kprobe -19
	assert_no_trace
}

# Unloading cannot be refused once it has begun, so it waits.
waits() {
	local f=$1 what="rmmod, $1"
	load_module
	log_begins
	echo "$f 1 0 -19" >"$PLAN"
	rmmod tcplat 3>&- &
	unloading=$!
	# rmmod has other work to do before.
	soon says "unloading waits"
	said "error -19" || fail "$what: the log does not say what failed"
	kill -KILL "$unloading"
	for _ in 1 2 3; do
		"$TRAFFIC" wwr -n 3 --settle >/dev/null || fail "$what: no traffic"
		"$TRAFFIC" crr -n 50 >/dev/null || fail "$what: no traffic"
		sleep 1
		[[ -e /sys/module/tcplat ]] || fail "$what: the module is gone, but still called"
	done
	kill -0 "$unloading" || fail "$what: rmmod has ended"
	assert_no_splat
	echo >"$PLAN"
	wait "$unloading" || :
	unloading=''
	nothing_left "$what"
	comes_back "after $what"
}

@test "ftrace or probes that cannot be switched off: unloading waits" {
	attached=$(attachments)
	waits unregister_ftrace_function
	waits disable_kprobe
	assert_no_trace
}

# Without faked calls: the kernel's ftrace itself gives up, which its warning shows too. Groups
# with return probes are off, since the kernel warns about return probes that it cannot disable.
@test "an ftrace that has given up: the module cannot be unloaded" {
	local group
	attached=$(attachments)
	load_module
	for group in "${GROUPS_ALL[@]}"; do
		[[ $group == @(delack|ackmode) ]] || echo 0 >"$TREE/$group/enabled"
	done
	insmod "$TCPLAT_MODULES/giveup.ko"
	log_begins
	"$TRAFFIC" wwr -n 3 --settle >/dev/null
	echo 0 >"$TREE/delack/enabled"
	echo 0 >"$TREE/ackmode/enabled"
	same status "$(counter delack/status) $(counter ackmode/status)" "off off"
	said "error -19" || fail "the log does not say what failed"
	said "the kernel still calls the module" || fail "the log does not say that it stays"
	in_use "ftrace has given up"
	in_use "ftrace has given up, once more"

	rmmod giveup
	echo 1 >"$TREE/delack/enabled"
	echo 0 >"$TREE/delack/enabled"
	says "no longer calls the module" || fail "the log does not say it may go"
	unload_module
	nothing_left "ftrace, given up for a while"
	assert_no_trace
}
