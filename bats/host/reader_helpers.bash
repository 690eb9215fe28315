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

setup_file() {
	build_reader
	need_python
}

teardown_file() {
	rm -rf "$READER_DIR"
}

# For setup_file: sets $TCPLAT to the reader to test, built here unless it is set. Builds the
# man pages.
build_reader() {
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
	export READER_DIR
}

# For setup_file: sets $PYTHON to a Python with the packages of ../requirements.txt.
need_python() {
	# shellcheck disable=SC2016 # for the other shell
	PYTHON=$(bash -c '. "$1/vm/lib.sh" && need_venv "$1/bats/requirements.txt" && echo "$venv/bin/python3"' \
		- "$(cd "$SOURCE" && pwd -P)")
	export PYTHON
}

# For setup_file: puts Debian's prometheus, promtool and prometheus-node-exporter on PATH. They
# are only unpacked, since their services must not start on this machine.
need_prometheus() {
	# shellcheck disable=SC2016 # for the other shell
	PROMETHEUS=$(bash -c '. "$1/vm/lib.sh" && need_prometheus && echo "$unpacked"' \
		- "$(cd "$SOURCE" && pwd -P)")
	export PROMETHEUS PATH=$PATH:$PROMETHEUS/usr/bin
}

# For setup: enters an empty directory that any user may enter.
enter_work_dir() {
	WORK=$READER_DIR/$BATS_TEST_NUMBER
	mkdir "$WORK"
	cd "$WORK" || return
}

# set_all GROUP/FILE=VALUE...: writes the values.
set_all() {
	local pair
	for pair; do set_to "${pair%%=*}" "${pair#*=}"; done
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

# Adds the group sndhold with three holds.
add_sndhold() {
	make_tree <<-END
		group sndhold
		nagle 3
		nagle_time_ns 120000000
		nagle_time_max_ns 44000000
		nagle_hist 0 0 1 2
		nagle_hist_le_ns 8388608 16777216 33554432 +Inf
	END
}

# make_live_tree EVENT...: a module whose groups all count, a tracefs with these events, and the files
# that names come from.
make_live_tree() {
	local event
	make_tree groups
	add_sndhold
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
	local key text=''
	for key in "${@:3}"; do
		case $key in
		comm=*) text+=$(printf ', comm: %-35sX' "${key#*=}") ;;
		common_pid=*) text+=$(printf ', common_pid: %-16s[%10s]X' "${key#*=}" "${key##*/}") ;;
		peer=*) text+=$(printf ', peer: %-35sX' "${key#*=}") ;;
		*) text+=$(printf ', %s: %10sX' "${key%%=*}" "${key#*=}") ;;
		esac
		text=${text%X}
	done
	printf '{ %s } hitcount: %10s%s\n' "${text#, }" "$1" "${2:+  ${2%%=*}: $(printf '%10s' "${2#*=}")}"
}

# An escape sequence that sets the title, the end of an entry and of a line, a tab, invalid UTF-8.
# shellcheck disable=SC2034 # for the tests
EVIL=($'\e]0;own\a' $'a\n} hitcount: 9' $'b\tc, pid: 1 }' $'d\xff\xfe\xc2\x9b31m' '"x`\}')

# shellcheck disable=SC2154 # run sets output
# is_whole: $output is printable ASCII and newlines.
is_whole() { ! grep -aqP '[^\x20-\x7e\n]' <<<"$output" || fail "not whole: $output"; }

# documented_files: prints GROUP/FILE for each file of the ABI, with <group> replaced by every
# group that has files of its own.
documented_files() {
	local documented groups
	documented=$(sed -n 's|^What:.*/sys/kernel/tcplat/\([a-z<>]*/[a-z_]*\)$|\1|p' \
		"$SOURCE/Documentation/ABI/testing/sysfs-kernel-tcplat")
	groups=$(sed -n 's|^\([a-z]*\)/.*|\1|p' <<<"$documented" | grep -vx clock | sort -u)
	grep -v '^<group>' <<<"$documented"
	local group
	for group in $groups; do
		sed -n "s|^<group>|$group|p" <<<"$documented"
	done
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

# Runs the reader under valgrind, where each complaint is a failure. With BARE set, without it:
# for a reader with sanitizers, as in bats/check, which is faster.
tcplat() {
	if [[ ${BARE:-} ]]; then
		"$READER_DIR/tcplat" "$@"
		return
	fi
	valgrind -q --vgdb=no --leak-check=full --error-exitcode=99 \
		--errors-for-leak-kinds=definite,indirect,possible \
		"$READER_DIR/tcplat" "$@"
}

# strace_tcplat -f -o FILE -e WHAT COMMAND ARGUMENT...: runs the reader on ./sys under strace. The
# leak sanitizer does not work there.
strace_tcplat() {
	strace -E LSAN_OPTIONS=detect_leaks=0 "${@:1:5}" "$READER_DIR/tcplat" "$6" --root sys "${@:7}"
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
		# shellcheck disable=SC2016 # for later
		echo 'n=$(($(cat step) + 1)); echo $n >step; T=sys/kernel/tcplat; step_$n'
	} >steps
	echo 0 >step
	with_fault "FAULT_SLEEP=bash steps" "$@"
}

# Runs the reader as an ordinary user.
tcplat_as_user() {
	if ((EUID)); then
		"$READER_DIR/tcplat" "$@"
	else
		setpriv --reuid 65534 --regid 65534 --clear-groups -- \
			"$READER_DIR/tcplat" "$@"
	fi
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

# captured PATTERN [LINES]: waits until PATTERN is on the screen, in LINES if given; saves the screen
# in the file shot.
captured() {
	local i
	for ((i = 0; i < 200; i++)); do
		screen capture-pane -p >shot
		! sed -n "${2:-1,\$}p" shot | grep -qE -- "$1" || return 0
		sleep 0.1
	done
	screen kill-server
	fail "no '$1' on the screen: $(<shot)"
}
