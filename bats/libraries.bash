# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Loads bats' assertions, and keeps bats itself from taking most of a test's time.

bats_require_minimum_version 1.5.0

# The libraries' own load.bash starts a process for each of these, for each test; and for
# setup_file(), bats traces the loading.
set +T
for library in "${BATS_LIB_PATH%%:*}"/bats-{support,assert}/src/*.bash; do
	# shellcheck source=/dev/null
	. "$library"
done
unset library
set -T

# Called twice for each test; bats' own starts a process. Bash 4 has no such clock.
[[ ! ${EPOCHREALTIME-} ]] || get_mills_since_epoch() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }

# To be called first in each setup(): bats runs some twenty commands of its own for each command of
# a test, to know the line that fails. The trap for errors knows it, too.
# shellcheck disable=SC2034 # for bats
untraced() {
	trap - DEBUG
	set +T
	BATS_DEBUG_LAST_STACK_TRACE=() BATS_DEBUG_LASTLAST_STACK_TRACE=()
}

# shellcheck disable=SC2034 # for bats
bats_error_trap() {
	bats_check_status_from_trap
	bats_capture_stack_trace
	BATS_DEBUG_LAST_STACK_TRACE_IS_VALID=1
}

setup() { untraced; }

# prints [-STATUS] [--partial | --regexp] TEXT COMMAND...: COMMAND ends with STATUS (0), and prints
# TEXT, as assert_output checks it.
prints() {
	local status=-0 how=()
	[[ $1 != -[0-9]* ]] || { status=$1; shift; }
	[[ $1 != --* ]] || { how=("$1"); shift; }
	run "$status" "${@:2}"
	assert_output "${how[@]}" "$1"
}

# soon COMMAND...: waits until COMMAND succeeds, up to five minutes, or $SOON tenths of a second.
soon() {
	local i
	for ((i = 0; i < ${SOON-3000}; i++)); do
		! "$@" || return 0
		sleep 0.1
	done
	fail "timeout: $*"
}

# replaced FILE: it is not the file that it was; version is its inode.
replaced() {
	local was=${version:-}
	version=$(stat -c %i "$1" 2>/dev/null) && [[ $version != "$was" ]]
}

# asleep PID: waits until the process sleeps for its interval, in poll(), select() or nanosleep(),
# that is, until the reader has read the files and set its triggers. The debug kernel takes a minute
# for these. 5.10 does not show wchan.
asleep() {
	local i
	for ((i = 0; i < 1200; i++)); do
		kill -0 "$1" || fail "process $1 has ended"
		[[ $(</proc/"$1"/syscall) != @(7|23|35|230|270|271)\ * ]] || return 0
		sleep 0.1
	done
	fail "process $1 does not sleep"
}
