# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Trees that replace /sys, to test the reader without a module.

load ../libraries
load ../tree

FIXTURES=$BATS_TEST_DIRNAME/../fixtures
SOURCE=$BATS_TEST_DIRNAME/../..

# Every test has the same width, and ASCII unless it sets another locale.
export LC_ALL=C
unset COLUMNS

# shellcheck disable=SC2034 # for the tests
{
	RESTARTED='the counters restarted between the two readings (reset, module reload or reboot)'
	DISK_FULL='tcplat: cannot write the output: No space left on device'
	THIS_ABI='this tcplat supports ABI 2; use the tcplat built with the module'
	MISSING='missing, or removed while being read (was the module unloaded?)'
	# An escape sequence that sets the title, ends of an entry and a line, a tab, invalid UTF-8.
	EVIL=($'\e]0;own\a' $'a\n} hitcount: 9' $'b\tc, pid: 1 }' $'d\xff\xfe\xc2\x9b31m' '"x`\}')
}

# Builds the man pages, and the reader to test unless $TCPLAT is set to it. Sets $PYTHON to a Python
# with the packages of ../requirements.txt. Puts Debian's prometheus, promtool and
# prometheus-node-exporter on PATH; they are only unpacked, since their services must not start on
# this machine.
setup_file() {
	local prometheus
	make -s -C "$SOURCE/userspace" tcplat.4 tcplat.8 >&2
	if [[ ! ${TCPLAT:-} ]]; then
		make -s -C "$SOURCE/userspace" >&2
		TCPLAT=$SOURCE/userspace/tcplat
	fi
	# A place where an ordinary user may run it, wherever the source is.
	READER_DIR=$(mktemp -d "${BATS_TMPDIR:-/tmp}/reader.XXXXXX")
	chmod 755 "$READER_DIR"
	install -m 755 "$TCPLAT" "$READER_DIR/tcplat"
	gcc -shared -fPIC -Wall -Wextra -Werror -o "$READER_DIR/faults.so" \
		"$FIXTURES/faults.c"
	# shellcheck disable=SC2016 # for the other shell
	read -r PYTHON prometheus < <(bash -c '. "$0/vm/lib.sh"
		need_venv "$top/bats/requirements.txt" && need_prometheus &&
			echo "$venv/bin/python3 $unpacked"' "$SOURCE")
	export READER_DIR PYTHON PATH=$PATH:$prometheus/usr/bin
}

teardown_file() {
	rm -rf "$READER_DIR"
}

# For setup: enters an empty directory that any user may enter.
enter_work_dir() {
	WORK=$READER_DIR/$BATS_TEST_NUMBER
	mkdir "$WORK"
	cd "$WORK" || return
}

# set_all GROUP/FILE=VALUE...: writes the values; that of a histogram into the first of four buckets.
set_all() {
	local pair
	for pair; do
		[[ $pair != *_hist=+([0-9]) ]] || pair+=' 0 0 0'
		set_to "${pair%%=*}" "${pair#*=}"
	done
}

# json EXPRESSIONS [TEXT]: prints their values, where d is TEXT, or $output, as JSON.
json() {
	"$PYTHON" -c 'import json, sys
d = json.loads(sys.argv[2])
eval(f"print({sys.argv[1]})")' "$1" "${2-$output}"
}

# on_kernel: the host's kernel has this release.
on_kernel() {
	mkdir -p proc/sys/kernel
	echo 6.1.0-x >proc/sys/kernel/osrelease
}

# make_live_tree EVENT...: a module whose groups all count, a tracefs with these events, and the files
# that names come from.
make_live_tree() {
	local event
	make_tree groups
	make_tree sndhold
	echo armed >"$T"/delack/status
	mkdir -p sys/kernel/tracing/instances instance/events/tcplat proc/self/{ns,net} run/netns
	touch proc/self/ns/net
	echo 1 >instance/tracing_on
	touch instance/{trace_clock,trace_pipe} instance/events/{enable,tcplat/enable}
	for event; do
		mkdir -p "instance/events/tcplat/$event"
		touch "instance/events/tcplat/$event"/{enable,filter,trigger,hist}
	done
	export FAULT_INSTANCE=$PWD/instance
}

# hist EVENT KEYS VALUE FILTER LINE...: appends a histogram with these entries to the instance's file,
# which exists while the reader waits.
hist() {
	local file
	file=$(echo sys/kernel/tracing/instances/*/events/tcplat/"$1"/hist)
	{
		printf '# event histogram\n#\n# trigger info: hist:keys=%s:vals=hitcount%s:sort=hitcount:size=8192%s [active]\n#\n\n' \
			"$2" "${3:+,$3}" "${4:+ if $4}"
		printf '%s\n' "${@:5}"
		printf '\nTotals:\n    Hits: 1\n    Entries: 1\n    Dropped: 0\n'
	} >>"$file"
}

# entry COUNT TIME KEY...: prints an entry as the kernel does; TIME is NAME=NUMBER or empty.
entry() {
	local key name text=''
	for key in "${@:3}"; do
		name=${key%%=*} key=${key#*=}
		case $name in
		comm | peer) printf -v key '%-35s' "$key" ;;
		common_pid) printf -v key '%-16s[%10s]' "${key%/*}" "${key#*/}" ;;
		*) printf -v key '%10s' "$key" ;;
		esac
		text+=", $name: $key"
	done
	printf '{ %s } hitcount: %10s%s\n' "${text#, }" "$1" "${2:+  ${2%%=*}: $(printf '%10s' "${2#*=}")}"
}

# shellcheck disable=SC2154 # run sets output
# is_whole: $output is printable ASCII and newlines.
is_whole() { ! grep -aqP '[^\x20-\x7e\n]' <<<"$output" || fail "not whole: $output"; }

# documented_files: prints GROUP/FILE for each file of the ABI, with <group> replaced by every
# group that has files of its own.
documented_files() {
	awk -F / '
		!/^What:.*\/sys\/kernel\/tcplat\/[a-z<>]+\/[a-z_]+$/ { next }
		$5 == "<group>" { every[$6]; next }
		{ print $5 "/" $6 }
		$5 != "clock" { groups[$5] }
		END { for (group in groups) for (file in every) print group "/" file }
	' "$SOURCE/Documentation/ABI/testing/sysfs-kernel-tcplat"
}

# documented_counters: the same without units, bounds, and what every group has.
documented_counters() {
	documented_files | grep -vE '/(status|enabled|missed)$|_hist_le' |
		sed -E 's/_[nu]s$//; s/_jiffies$//' | sort -u
}

# make_every_file: adds each file of the ABI that the tree lacks, with artificial values.
make_every_file() {
	local f value
	while read -r f; do
		case $f in
		*/status) value=armed ;;
		*/enabled) value=1 ;;
		*_hist) value='1 2 3 0' ;;
		*_le_ns) value='8388608 16777216 33554432 +Inf' ;;
		*_le_us) value='10000 20000 30000 +Inf' ;;
		*_le) value='1 2 4 +Inf' ;;
		*) value=2 ;;
		esac
		mkdir -p "$T/${f%/*}"
		[[ -e $T/$f && $value != armed ]] || set_to "$f" "$value"
	done < <(documented_files)
}

# zero TREE: makes all counters 0.
zero() {
	find "$1" -type f ! -path '*/clock/*' ! -name '*_le*' ! -name status ! -name abi \
		! -name version -exec sed -i 's/[0-9][0-9]*/0/g' {} +
}

# Runs the reader under valgrind, where each complaint is a failure. With BARE set, without it:
# for a reader with sanitizers, as in bats/check, which is faster.
tcplat() {
	local valgrind=(valgrind -q --vgdb=no --leak-check=full --error-exitcode=99
		'--errors-for-leak-kinds=definite,indirect,possible')
	[[ ! ${BARE:-} ]] || valgrind=()
	"${valgrind[@]}" "$READER_DIR/tcplat" "$@"
}

# strace_tcplat CALLS COMMAND ARGUMENT...: runs the reader on ./sys, and leaves these system calls
# in the file log. The leak sanitizer does not work there.
strace_tcplat() {
	strace -f -o log -e "trace=$1" -s 300 -E LSAN_OPTIONS=detect_leaks=0 \
		-E LD_PRELOAD="$READER_DIR/faults.so" "$READER_DIR/tcplat" "$2" --root sys "${@:3}"
}

# saved NS: prints what show --json says, as if it had run at this time of the monotonic clock.
saved() {
	"$READER_DIR/tcplat" show -j --root sys | sed "s/\"monotonic_ns\":[0-9]*/\"monotonic_ns\":$1/"
}

# with_fault NAME=VALUE ARGUMENT...: runs the reader with a fault of fixtures/faults.c.
with_fault() {
	env "$1" LD_PRELOAD="$READER_DIR/faults.so" "$READER_DIR/tcplat" "$2" --root sys "${@:3}"
}

# with_steps ARGUMENT...: runs the reader; instead of its Nth sleep step_N runs.
with_steps() {
	{
		declare -f
		declare -p EVIL 2>/dev/null
		# shellcheck disable=SC2016 # for later
		echo 'n=$(($(cat step) + 1)); echo $n >step; T=sys/kernel/tcplat; step_$n'
	} >steps
	echo 0 >step
	with_fault "FAULT_SLEEP=bash steps" "$@"
}

# Runs the reader as an ordinary user.
tcplat_as_user() {
	local user=()
	((EUID)) || user=(setpriv --reuid 65534 --regid 65534 --clear-groups --)
	"${user[@]}" "$READER_DIR/tcplat" "$@"
}

# run_tcplat STATUS ARGUMENT...: runs the reader on ./sys and checks its status.
run_tcplat() {
	if [[ ${2-} && $2 != -* ]]; then
		run "-$1" --separate-stderr tcplat "$2" --root sys "${@:3}"
	else
		run "-$1" --separate-stderr tcplat --root sys "${@:2}"
	fi
}

# assert_error TEXT: standard error has exactly this line.
# shellcheck disable=SC2154 # run sets stderr
assert_error() {
	assert_equal "$stderr" "tcplat: $1"
}

# refused STATUS TEXT ARGUMENT...: one line on stderr, nothing on stdout, exit STATUS.
refused() {
	run_tcplat "$1" "${@:3}"
	assert_error "$2"
	assert_output ''
}

# usage TEXT ARGUMENT...: the same with 2, the status of usage errors.
usage() { refused 2 "$@"; }

# refuse TEXT: show prints the error TEXT in one line, exits with 1, and continues with the other
# files, so that the last line of the table is still printed.
refuse() {
	run_tcplat 1 show -a delack
	assert_error "$1"
	assert_line --partial 'missed'
}

# shellcheck disable=SC2154 # run sets output
# words TEXT: $output contains TEXT, ignoring line breaks.
words() { [[ $(tr -s '\n ' ' ' <<<"$output") == *"$1"* ]] || fail "no '$1' in: $output"; }

# Runs tmux, which keeps the screen as a user would see it. Each session has its own server, since
# a server that was told to exit may still answer the next command.
screen() {
	[[ $1 != new-session ]] || ((++screens))
	tmux -L "tcplat$$.$screens" -f /dev/null "$@"
}
screens=0

# bats waits for a server that a failed test leaves.
teardown() { ((!screens)) || screen kill-server 2>/dev/null || :; }

# captured PATTERN [LINES]: waits until PATTERN is on the screen, in LINES if given; saves the screen
# in the file shot.
captured() {
	local i
	for ((i = 0; i < 200; i++)); do
		screen capture-pane -p >shot
		! sed -n "${2:-1,\$}p" shot | grep -qE -- "$1" || return 0
		sleep 0.1
	done
	fail "no '$1' on the screen: $(<shot)"
}
