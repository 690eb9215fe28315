# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Runs the BPF programs of bats/oracle, which watch the same traffic as the module. Tests that
# load this call oracle_start in setup_file, oracle_open in setup, and the other two functions in
# their teardowns.

# shellcheck disable=SC2034 # used by files that load this

load ../helpers

ORACLE_SRC=${BASH_SOURCE[0]%/*}/oracle
ORACLE_BIN=${TRAFFIC%/*}/oracle

# libbpf relocates the programs with the kernel's BTF. Without BTF oracle_open skips each test; a
# kernel that is configured for BTF but has none makes the tests fail.
has_btf() { grep -qx CONFIG_DEBUG_INFO_BTF=y "$TCPLAT_CONFIG"; }

# oracle_start [NAME]: starts the program NAME (ackmode) and waits until it is ready.
oracle_start() {
	has_btf || return 0
	local d=$BATS_FILE_TMPDIR line='' name=${1:-ackmode} programs
	programs=$ORACLE_BIN/$name.bpf.o
	[[ $(uname -r) != [45].* || ! -e $ORACLE_BIN/$name-before-6.1.bpf.o ]] ||
		programs=$ORACLE_BIN/$name-before-6.1.bpf.o
	mkfifo "$d/in" "$d/out"
	"$ORACLE_BIN/$name" "$programs" <>"$d/in" >"$d/out" 2>"$d/err" 3>&- &
	echo $! >"$d/pid"
	# However long that takes: on a debug kernel, minutes. If the kernel rejects the program, its end
	# closes the pipe.
	exec 7<"$d/out"
	read -r -u 7 line || :
	[[ $line == ready ]] || fail "the BPF program does not start: $(<"$d/err")"
	exec 7<&-
}

oracle_open() {
	has_btf || skip "this kernel has no BTF, which the BPF program needs"
	exec 6<>"$BATS_FILE_TMPDIR/in" 7<>"$BATS_FILE_TMPDIR/out"
}

oracle_close() { exec 6<&- 7<&-; }

# watch_both CHECKS COMMAND...: watches COMMAND with IPv4 and with IPv6, each followed by the
# CHECKS, which are commands with a semicolon between them. @ in COMMAND stands for -4 and -6, or,
# where there is a veth, for the server's addresses.
watch_both() {
	local end check checks words command=("${@:2}") ends=(-4 -6)
	((!${#NAMESPACES[@]})) || ends=(10.9.0.2 fd09::2)
	IFS=';' read -ra checks <<<"$1"
	for end in "${ends[@]}"; do
		echo "# ${*:2}, @ is $end"
		watch "${command[@]/#@/$end}"
		for check in "${checks[@]}"; do
			read -ra words <<<"$check"
			"${words[@]}"
		done
	done
}

# Ends the program, which detaches it from the kernel.
oracle_stop() {
	local pid i
	has_btf || return 0
	pid=$(<"$BATS_FILE_TMPDIR/pid")
	for ((i = 0; i < 100; i++)); do
		kill "$pid" 2>/dev/null || return 0
		sleep 0.1
	done
	fail "the BPF program does not end"
}

oracle_line() {
	read -t 60 -r -u 7 line ||
		fail "the BPF program does not answer: $(<"$BATS_FILE_TMPDIR/err")"
	[[ $line != . ]]
}

# Counts of the program. The key is all words of a line except the last. O_some has the keys whose
# counts are not 0.
declare -gA O=()

oracle_reset() {
	local line
	echo reset >&6
	! oracle_line || fail "unexpected answer of the BPF program: '$line'"
}

oracle_read() {
	local line
	O=() O_some=()
	echo show >&6
	while oracle_line; do
		O[${line% *}]=${line##* }
		[[ $line == *' 0' ]] || O_some+=("${line% *}")
	done
}
