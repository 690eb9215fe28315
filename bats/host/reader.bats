#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The reader on trees of files, where all figures are known: output, usage errors, permissions,
# and malformed files. Only this checks exact output and trees that no module would make.
#
# shellcheck disable=SC2154 # run --separate-stderr sets stderr, stderr_lines

bats_require_minimum_version 1.5.0
load reader_helpers

setup_file() {
	build_reader
}

teardown_file() {
	rm -rf "$READER_DIR"
}

setup() {
	untraced
	enter_work_dir
	make_tree delack
}

# ---- show ----

@test "show: a tree of one group, exactly" {
	run_tcplat 0 show
	assert_equal "$stderr" ''
	assert_output - <"$FIXTURES/delack.show"
}

@test "show is the default command" {
	run_tcplat 0
	assert_output - <"$FIXTURES/delack.show"
}

@test "show: many groups, off, unavailable and unknown ones, exactly" {
	make_tree groups
	run_tcplat 0 show
	assert_equal "$stderr" ''
	sed 's/µs/us/g' "$FIXTURES/groups.show" >expected
	assert_output - <expected
}

@test "show: the same in UTF-8" {
	make_tree groups
	LC_ALL=C.UTF-8 run_tcplat 0 show
	assert_output - <"$FIXTURES/groups.show"
}

@test "show GROUP prints that one alone, and clock is a name too" {
	make_tree groups
	run_tcplat 0 show idlerestart
	sed -n '/^idlerestart/,/^$/p' "$FIXTURES/groups.show" >expected
	assert_output "$(<expected)"

	run_tcplat 0 show zeta clock
	assert_line --index 0 'clock: HZ 300, a jiffy (timer tick) is 3.333333 ms'
	assert_line 'zeta [armed]'
	refute_line --partial 'delack:'
}

@test "show: a maximum in jiffies is put into time at this HZ" {
	echo 300 >"$T"/delack/delay_max_jiffies
	echo 3333333 >"$T"/clock/tick_ns
	run_tcplat 0 show delack
	assert_line --regexp '^  delay_max_jiffies +300  1 s +longest wait of a delayed ACK$'
}

@test "show: no mean without events, no share above 100%" {
	echo 0 >"$T"/delack/timeouts
	run_tcplat 0 show delack
	refute_line --partial 'mean wait'
	echo 48 >"$T"/delack/timeouts
	run_tcplat 0 show delack
	assert_line '  mean wait: 41.83 ms (delay_us / timeouts)'
	refute_line --partial 'in pingpong mode:'
}

@test "show: a share is never rounded to none or all" {
	echo 1 >"$T"/delack/timeouts_pingpong
	echo 100000 >"$T"/delack/timeouts
	run_tcplat 0 show delack
	assert_line --partial 'in pingpong mode: <0.1%'
	echo 99999 >"$T"/delack/timeouts_pingpong
	run_tcplat 0 show delack
	assert_line --partial 'in pingpong mode: >99.9%'
}

@test "show: a group that newer modules have is found by its status" {
	mkdir "$T"/newer "$T"/nogroup
	echo armed >"$T"/newer/status
	echo 0 >"$T"/newer/missed
	echo 5 >"$T"/newer/whatever_ns
	run_tcplat 0 show
	assert_line 'newer [armed]'
	assert_line '  whatever_ns  5  5 ns'
	refute_output --partial nogroup
}

@test "show: words after armed are shown" {
	echo 'armed: through tcp_rcv_established' >"$T"/delack/status
	run_tcplat 0 show delack
	assert_line 'delack: delayed ACKs [armed: through tcp_rcv_established]'
}

@test "show: an unavailable group shows no counter" {
	echo 'unavailable: tcp_delack_timer_handler not found' >"$T"/delack/status
	run_tcplat 0 show delack
	assert_output "\
delack: delayed ACKs [unavailable: tcp_delack_timer_handler not found]
  this kernel lacks what the group needs: nothing is counted"
}

@test "show: a file that can only be written is no counter" {
	echo 1 >"$T"/delack/poke
	chmod 200 "$T"/delack/poke
	run_tcplat 0 show delack
	refute_output --partial poke
}

# Prints each read of one run, as the directory's descriptor and the name.
reads() {
	FAULT_LOG=$PWD/log LD_PRELOAD=$READER_DIR/faults.so \
		"$READER_DIR/tcplat" --root sys "$@" >/dev/null
	grep -v '/\.$' log | sort
}

@test "every file is read once a run" {
	make_tree groups
	local cmd
	for cmd in show json openmetrics 'doctor --total'; do
		rm -f log
		# shellcheck disable=SC2086 # words
		reads $cmd >all
		# Check the log itself: it must have each group's counters.
		assert_equal "$(grep -c /missed all)" 7
		uniq -d all >twice
		assert_equal "$(<twice)" ''
	done
}

@test "hist and show GROUP leave other groups alone" {
	make_tree groups
	echo rubbish >"$T"/sndwait/status
	echo rubbish >"$T"/sndwait/waits
	run_tcplat 0 show delack
	run_tcplat 0 hist portsearch
}

# ---- the matrix ----

@test "matrix: why there is none without debugfs" {
	make_tree groups
	rm -r sys/kernel/debug
	run_tcplat 0 show ackmode
	assert_equal "$stderr" ''
	assert_line '  no matrix: sys/kernel/debug/tcplat/transitions not found; debugfs is not mounted or not in this kernel'
}

@test "matrix: why there is none from a module without it" {
	make_tree groups
	rm sys/kernel/debug/tcplat/transitions
	run_tcplat 0 show ackmode
	assert_line '  no matrix: the module has no sys/kernel/debug/tcplat/transitions'
}

@test "matrix: why an ordinary user gets none" {
	make_tree groups
	chmod 0 sys/kernel/debug
	run -0 --separate-stderr tcplat_as_user --root sys show ackmode
	chmod 755 sys/kernel/debug
	assert_equal "$stderr" ''
	assert_line '  no matrix: sys/kernel/debug/tcplat/transitions needs root'
}

@test "matrix: lines add up, beyond 64 bits too, and comments are skipped" {
	make_tree groups
	{
		echo '# delayed quickack none 5'
		echo 'delayed quickack none 18446744073709551615'
		echo 'delayed quickack timeout 1'
	} >sys/kernel/debug/tcplat/transitions
	run_tcplat 0 show ackmode
	assert_line '  delayed         -  18446744073709551616         0      0     0'
	assert_line '  delayed  to quickack  1  by timeout'
}

@test "matrix: a malformed line is refused" {
	local line
	make_tree groups
	for line in 'delayed nowhere none 1' 'delayed quickack none' \
		'delayed quickack none -1' 'delayed quickack none 1 2' \
		'died sometimes 3' 'died delayed x' 'd!ed delayed 3' 'delayed quickack no!ne 1' 'word'; do
		echo "$line" >sys/kernel/debug/tcplat/transitions
		run_tcplat 1 show ackmode
		assert_error "sys/kernel/debug/tcplat/transitions: invalid line '$line'"
		assert_line '  no matrix: the data of the module is not usable'
	done
}

@test "matrix: a file that is too big, empty or binary is refused" {
	make_tree groups
	local f=sys/kernel/debug/tcplat/transitions
	head -c 65537 /dev/zero | tr '\0' '#' >$f
	run_tcplat 1 show ackmode
	assert_error "$f: larger than 64 KiB, not a tcplat file"
	: >$f
	run_tcplat 1 show ackmode
	assert_error "$f: empty file"
	printf '#\0\n' >$f
	run_tcplat 1 show ackmode
	assert_error "$f: not a text file"
}

# ---- histograms ----

@test "hist: ASCII bars, exactly" {
	run_tcplat 0 hist delack
	assert_equal "$stderr" ''
	assert_output - <"$FIXTURES/delack.hist"
}

@test "hist: UTF-8 bars, exactly" {
	LC_ALL=C.UTF-8 run_tcplat 0 hist delack
	assert_output - <"$FIXTURES/delack.hist.utf8"
}

@test "hist: both histograms of a group, empty ends left out" {
	make_tree groups
	LC_ALL=C.UTF-8 run_tcplat 0 hist portsearch
	assert_output - <"$FIXTURES/portsearch.hist.utf8"
	run_tcplat 0 hist portsearch
	assert_output - <"$FIXTURES/portsearch.hist"
}

@test "hist GROUP/NAME draws that one alone" {
	make_tree groups
	run_tcplat 0 hist portsearch/time_hist
	sed -n '/time_hist/,$p' "$FIXTURES/portsearch.hist" >expected
	assert_output - <expected
	run_tcplat 2 hist portsearch/time_his
	assert_error "group 'portsearch' has no histogram 'time_his'"
}

@test "hist: an empty one says so, a switched-off one too" {
	make_tree groups
	run_tcplat 0 hist delack
	assert_output "\
delack/delay_hist: how long delayed ACKs waited; 0 counted (off: not counting now)
  empty: nothing counted yet"
}

@test "hist: percentiles in the first and the last bucket, exactly at a bound" {
	echo 1 2 4 +Inf >"$T"/delack/delay_hist_le_us
	echo 50 40 9 1 >"$T"/delack/delay_hist
	run_tcplat 0 hist delack
	assert_line '  p50 <= 0.001 ms, p90 <= 0.002 ms, p99 <= 0.004 ms, max 48 ms'
	echo 49 40 9 2 >"$T"/delack/delay_hist
	run_tcplat 0 hist delack
	assert_line '  p50 <= 0.002 ms, p90 <= 0.004 ms, p99 <= 48 ms, max 48 ms'
	rm "$T"/delack/delay_max_jiffies
	LC_ALL=C.UTF-8 run_tcplat 0 hist delack
	assert_line '  p50 ≤ 0.002 ms, p90 ≤ 0.004 ms, p99 > 0.004 ms'
}

@test "hist: no percentile is above the maximum" {
	set_to delack/delay_max_jiffies 9
	set_to delack/delay_hist '0 0 0 0 0 0 0 50 0 0 0 0 0 0 0 0'
	run_tcplat 0 hist delack
	assert_line '  p50 <= 36 ms, p90 <= 36 ms, p99 <= 36 ms, max 36 ms'
	# A maximum that contradicts the counts, as after a concurrent reset, is ignored.
	set_to delack/delay_max_jiffies 0
	run_tcplat 0 hist delack
	assert_line '  p50 <= 40 ms, p90 <= 40 ms, p99 <= 40 ms, max 0 s'
}

@test "hist: a maximum in jiffies without a clock stays in jiffies" {
	rm "$T"/clock/tick_ns
	run_tcplat 0 hist delack
	assert_line '  p50 <= 40 ms, p90 <= 40 ms, p99 <= 50 ms, max 12 jiffies'
}

@test "hist: what only +Inf holds is drawn" {
	printf '%s\n' 5 >"$T"/delack/delay_hist
	printf '%s\n' +Inf >"$T"/delack/delay_hist_le_us
	COLUMNS=40 run_tcplat 0 hist delack
	assert_output "\
delack/delay_hist: how long delayed ACKs waited; 5 counted
  up to  count  percent
   +Inf      5   100.0%  ###############
  p50 <= 48 ms, p90 <= 48 ms, p99 <= 48 ms, max 48 ms"
}

@test "hist: counts up to 2^64-1, and a sum beyond" {
	echo 18446744073709551615 18446744073709551615 1 0 >"$T"/delack/delay_hist
	echo 1 1500 18446744073709551615 +Inf >"$T"/delack/delay_hist_le_us
	COLUMNS=75 run_tcplat 0 hist delack
	assert_output "\
delack/delay_hist: how long delayed ACKs waited; 36893488147419103231 counted
                     up to                 count  percent
                  0.001 ms  18446744073709551615    50.0%  ################
                    1.5 ms  18446744073709551615    50.0%  ################
  18446744073709551.615 ms                     1    <0.1%  #
                      +Inf                     0     0.0%
  p50 <= 1.5 ms, p90 <= 1.5 ms, p99 <= 1.5 ms, max 48 ms"
}

longest() {
	tr -d '\r' | awk 'length > n { n = length } END { print n }'
}

@test "hist fills the width that COLUMNS says" {
	run_tcplat 0 hist delack
	assert_equal "$(longest <<<"$output")" 80
	COLUMNS=133 run_tcplat 0 hist delack
	assert_equal "$(longest <<<"$output")" 133
	for COLUMNS in 0 x -5 '' 99999999999999999999; do
		export COLUMNS
		run_tcplat 0 hist delack
		assert_equal "$(longest <<<"$output")" 80
	done
	COLUMNS=4000000000 run_tcplat 0 hist delack
	assert_equal "$(longest <<<"$output")" 1000
	COLUMNS=1 run_tcplat 0 hist delack
	assert_line '   40 ms     49    98.0%  ##########'
}

@test "hist fills the terminal's width" {
	run -0 script -qec "stty cols 101; $READER_DIR/tcplat --root sys hist delack" \
		/dev/null </dev/null
	assert_equal "$(longest <<<"$output")" 101
}

# ---- reset ----

@test "reset writes 1 and prints nothing" {
	echo 'much longer than one' >"$T"/reset
	run_tcplat 0 reset
	assert_output ''
	assert_equal "$stderr" ''
	assert_equal "$(od -c "$T"/reset)" "$(printf '1\n' | od -c)"
}

@test "reset without permission names the file, exit 3" {
	chmod 444 "$T"/reset
	run -3 --separate-stderr tcplat_as_user --root sys reset
	assert_error "$T/reset: permission denied; run 'tcplat reset' as root"
	assert_output ''
	assert_equal "$(<"$T"/reset)" ''
}

@test "reset: a tree without the file, or with another thing there" {
	rm "$T"/reset
	run_tcplat 1 reset
	assert_error "$T/reset: No such file or directory"
	[[ ! -e $T/reset ]]
	mkfifo "$T"/reset
	run_tcplat 1 reset
	assert_error "$T/reset: No such device or address"
	rm "$T"/reset
	ln -s /dev/full "$T"/reset
	run_tcplat 1 reset
	assert_error "$T/reset: not a regular file"
}

# ---- enable, disable ----

@test "enable and disable write 1 and 0, and nothing elsewhere" {
	make_tree groups
	set_to sndwait/enabled 0
	run_tcplat 0 enable delack sndwait
	assert_output ''
	assert_equal "$(cat "$T"/{delack,sndwait,portsearch,bindsearch}/enabled)" $'1\n1\n1\n0'
	run_tcplat 0 disable delack
	assert_equal "$(cat "$T"/{delack,sndwait}/enabled)" $'0\n1'
	run_tcplat 0 disable delack sndwait
	assert_equal "$(cat "$T"/{delack,sndwait,portsearch}/enabled)" $'0\n0\n1'
}

@test "enable without permission names the file, exit 3" {
	chmod 444 "$T"/delack/enabled
	run -3 --separate-stderr tcplat_as_user --root sys enable delack
	assert_error "$T/delack/enabled: permission denied; run 'tcplat enable' as root"
	run -3 --separate-stderr tcplat_as_user --root sys disable delack
	assert_error "$T/delack/enabled: permission denied; run 'tcplat disable' as root"
	assert_equal "$(<"$T"/delack/enabled)" 1
}

@test "enable: a group without the file" {
	rm "$T"/delack/enabled
	run_tcplat 1 enable delack
	assert_error "$T/delack/enabled: No such file or directory"
	[[ ! -e $T/delack/enabled ]]
}

# ---- probes ----

@test "probes: the list as a table" {
	mkdir -p sys/kernel/debug/tcplat
	cat >sys/kernel/debug/tcplat/probes <<-'END'
		# group symbol+offset/size at kind state hits missed
		delack tcp_delack_timer_handler+0x0/0x170 entry ftrace armed 18446744073709551615 0
		portsearch __inet_hash_connect+0x0/0x4f0 return kretprobe armed 12 3
		ackmode mptcp_x+0x4/0x20 [mptcp] entry kprobe off - 0
	END
	run_tcplat 0 probes
	assert_equal "$stderr" ''
	assert_output "\
  group       function                            at      kind       state                  hits  missed
  delack      tcp_delack_timer_handler+0x0/0x170  entry   ftrace     armed  18446744073709551615       0
  portsearch  __inet_hash_connect+0x0/0x4f0       return  kretprobe  armed                    12       3
  ackmode     mptcp_x+0x4/0x20                    entry   kprobe     off                       -       0"
}

@test "probes: why there is none, and lines that are none" {
	run_tcplat 1 probes
	assert_error 'sys/kernel/debug/tcplat/probes: not found; debugfs is not mounted or not in this kernel'
	assert_output ''
	mkdir -p sys/kernel/debug/tcplat
	run_tcplat 1 probes
	assert_error 'sys/kernel/debug/tcplat/probes: missing, or removed while being read (was the module unloaded?)'
	local line
	for line in 'a b c d e f' 'a b c d e f 0' 'a b c d e 1 x' 'a b c d e 1 2 3' $'a b c d \te 1 2'; do
		echo "$line" >sys/kernel/debug/tcplat/probes
		run_tcplat 1 probes
		assert_error "sys/kernel/debug/tcplat/probes: invalid line '${line//$'\t'/?}'"
	done
	chmod 700 sys/kernel/debug
	run -3 --separate-stderr tcplat_as_user --root sys probes
	chmod 755 sys/kernel/debug
	assert_error "sys/kernel/debug/tcplat/probes: permission denied; run 'tcplat probes' as root"
}

@test "nothing is mounted, whatever is asked for" {
	local cmd
	rm -rf sys/kernel/debug
	for cmd in show probes json openmetrics 'openmetrics -o out' 'hist delack' reset \
		'watch -n 1 -i 0.1' 'delta true' 'doctor --total' 'enable delack' 'disable delack'; do
		# shellcheck disable=SC2086 # words
		strace_tcplat -f -o log -e trace=mount,fsmount,move_mount,fsopen,umount2 \
			--root sys $cmd >/dev/null 2>&1 || :
		run -1 grep -E 'mount|fsopen' log
	done
}

# ---- the command line ----

@test "version is that of dkms.conf" {
	# shellcheck source=/dev/null
	. "$SOURCE/dkms.conf"
	run_tcplat 0 --version
	assert_output "tcplat $PACKAGE_VERSION"
	run_tcplat 0 show --version
	assert_output "tcplat $PACKAGE_VERSION"
}

@test "help lists every command, and each has its own" {
	local BARE=1 cmd commands='show watch hist delta new json openmetrics doctor top trace probes reset enable disable'
	run_tcplat 0 --help
	assert_line --index 0 'Usage: tcplat [OPTION...] [COMMAND [ARGUMENT...]]'
	for cmd in $commands; do
		assert_line --regexp "^  $cmd "
	done
	for cmd in $commands; do
		run_tcplat 0 "$cmd" --help
		assert_equal "$stderr" ''
		assert_line --index 0 --regexp "^Usage: tcplat $cmd \\[OPTION\\.\\.\\.\\]"
	done
}

@test "top --help says what its sum leaves out" {
	run_tcplat 0 top --help
	output=$(tr -s '\n ' ' ' <<<"$output")
	assert_output --partial 'STALL: data that peers held back until a late ACK from this host arrived.'
	assert_output --partial 'ms/s is the sum of all times except ACK; lines are sorted by it.'
}

# usage TEXT ARGUMENT...: one line on stderr, nothing on stdout, exit status 2.
usage() {
	run_tcplat 2 "${@:2}"
	assert_error "$1"
	assert_output ''
}

@test "usage errors: one line with a hint, exit 2" {
	usage "unrecognized option '--bogus' (see 'tcplat --help')" --bogus
	usage "unrecognized option '--bogus' (see 'tcplat show --help')" show --bogus
	usage "invalid option -- 'x' (see 'tcplat --help')" -x
	usage "option '--root' requires an argument (see 'tcplat --help')" --root
	usage "--root needs a directory (see 'tcplat --help')" --root= show
	usage "option '--version' doesn't allow an argument (see 'tcplat --help')" --version=1
	usage "unknown command 'nope' (see 'tcplat --help')" nope
	usage "unknown command '' (see 'tcplat --help')" ''
	usage "hist: missing argument NAME (see 'tcplat hist --help')" hist
	usage "-i '0' is not a number of seconds from 0.1 to 86400 (see 'tcplat doctor --help')" doctor -i 0
	usage "hist: unexpected argument 'b' (see 'tcplat hist --help')" hist a b
	usage "delta: missing argument COMMAND [ARG...] (see 'tcplat delta --help')" delta
	usage "enable: missing argument GROUP... (see 'tcplat enable --help')" enable
	usage "unrecognized option '--bogus' (see 'tcplat delta --help')" delta --bogus true
	usage "--proc needs a directory (see 'tcplat --help')" --proc= show
	local n BARE=1
	for n in 0 0.09 86401 -1 x 1s '' nan 1e1 inf; do
		usage "-i '$n' is not a number of seconds from 0.1 to 86400 (see 'tcplat watch --help')" watch -i "$n"
	done
	for n in 0 -1 x '' 1.5 18446744073709551616; do
		usage "-n '$n' is not a number from 1 to 2^64-1 (see 'tcplat watch --help')" watch -n "$n"
	done
	for n in 0 0.09 86401 1s 1e1; do
		usage "'$n' is not a number of seconds from 0.1 to 86400 (see 'tcplat watch --help')" watch "$n" 1
	done
	for n in 0 x '' 1.5 delack 18446744073709551616; do
		usage "'$n' is not a number from 1 to 2^64-1 (see 'tcplat watch --help')" watch delack 1 "$n"
	done
	usage "watch: unexpected argument '3' (see 'tcplat watch --help')" watch 1 2 3
	usage "reset: unexpected argument 'now' (see 'tcplat reset --help')" reset now
	assert_equal "$(<"$T"/reset)" ''
}

@test "an unknown name: one line that lists the known ones, exit 2" {
	make_tree groups
	local names='delack ackmode portsearch bindsearch sndwait idlerestart alpha zeta'
	usage "unknown group 'nope'; available: clock $names" show delack nope
	usage "unknown group '../clock'; available: clock $names" show ../clock
	usage "unknown group 'nope'; available: $names" hist nope
	local BARE=1 cmd
	for cmd in watch json openmetrics enable disable; do
		usage "unknown group 'nope'; available: $names" $cmd delack nope
		usage "unknown group 'clock'; available: $names" $cmd clock
	done
	assert_equal "$(<"$T"/delack/enabled)" 0
	usage "group 'ackmode' has no histogram" hist ackmode
	usage "group 'delack' has no histogram 'time_hist'" hist delack/time_hist
	usage "group 'delack' has no histogram 'timeouts'" hist delack/timeouts
	usage "group 'delack' has no histogram ''" hist delack/
}

@test "an argument cannot steer the terminal" {
	usage "unknown command '?[31mred??' (see 'tcplat --help')" $'\e[31mred\n\x7f'
	usage "unknown command '?31mred??' (see 'tcplat --help')" $'\x9b31mred\xc3\xa9'
	# In this locale U+009B is a control character to a terminal; an accented letter is not.
	LC_ALL=C.UTF-8 usage "unknown command '??31mréd?' (see 'tcplat --help')" $'\xc2\x9b31mr\xc3\xa9d\xff'
}

@test "hist of an unavailable group: says so, exit 1" {
	make_tree groups
	run_tcplat 1 hist bindsearch
	assert_error "this kernel does not support group 'bindsearch': unavailable: inet_csk_get_port"
	assert_output ''
}

@test "--root after the command, SYSFS_PATH, and which one wins" {
	mkdir empty
	run -0 tcplat show --root sys/
	assert_output - <"$FIXTURES/delack.show"
	SYSFS_PATH=sys run -0 tcplat
	assert_output - <"$FIXTURES/delack.show"
	SYSFS_PATH=empty run -0 tcplat --root sys
	assert_output - <"$FIXTURES/delack.show"
	SYSFS_PATH=sys run -1 tcplat --root empty
	refute_line --partial clock
}

@test "--proc, PROCFS_PATH, which one wins, and none with --root" {
	mkdir -p a/sys/kernel b/sys/kernel
	echo 6.1-a >a/sys/kernel/osrelease
	echo 6.1-b >b/sys/kernel/osrelease
	run -0 tcplat --proc a --root sys json
	assert_output --partial '"kernel":"6.1-a"'
	PROCFS_PATH=b run -0 tcplat --root sys json
	assert_output --partial '"kernel":"6.1-b"'
	PROCFS_PATH=b run -0 tcplat --root sys json --proc a
	assert_output --partial '"kernel":"6.1-a"'
	run_tcplat 0 json
	assert_output --partial '"kernel":null'
}

@test "not loaded: one line that says how to load, exit 1" {
	# shellcheck disable=SC2034 # tcplat() uses it
	local BARE=1 cmd
	rm -r "$T"
	for cmd in '' show 'show delack' 'hist delack' reset watch 'delta touch ran' json \
		new openmetrics doctor 'doctor --total' probes 'enable delack' 'disable delack'; do
		# shellcheck disable=SC2086 # words
		run_tcplat 1 $cmd
		assert_error "not loaded; run modprobe tcplat as root, or make load in the source tree (no $T)"
		assert_output ''
	done
	[[ ! -e ran ]]
}

@test "a root that is no directory: exit 2" {
	run -2 --separate-stderr tcplat --root nowhere
	assert_error 'nowhere: No such file or directory; name a directory with the layout of /sys'
	run -2 --separate-stderr tcplat --root "$FIXTURES/delack.tree"
	assert_equal "$stderr" "tcplat: $FIXTURES/delack.tree: Not a directory; name a directory with the layout of /sys"
}

@test "a full disk is no success" {
	run -1 --separate-stderr to_full_disk
	assert_error 'cannot write the output: No space left on device'
}

to_full_disk() {
	tcplat --root sys show >/dev/full
}

# ---- permissions ----

@test "a file that the user may not read is named, exit 3, the rest is shown" {
	chmod 0 "$T"/delack/timeouts
	run -3 --separate-stderr tcplat_as_user --root sys show
	assert_error "$T/delack/timeouts: permission denied"
	assert_line --regexp '^  timeouts +\? '
	assert_line --regexp '^  deferred +0 '
}

@test "of several faults the highest status counts" {
	chmod 0 "$T"/delack/timeouts
	echo x >"$T"/delack/missed
	run -3 --separate-stderr tcplat_as_user --root sys show
	assert_equal "${#stderr_lines[@]}" 2
	chmod 644 "$T"/delack/timeouts
	echo x >"$T"/delack/timeouts
	chmod 0 "$T"/delack/missed
	run -3 --separate-stderr tcplat_as_user --root sys show
	assert_equal "${#stderr_lines[@]}" 2
}

@test "a directory that the user may not read is named, exit 3" {
	chmod 0 "$T"/delack
	run -3 --separate-stderr tcplat_as_user --root sys show delack
	chmod 755 "$T"/delack
	assert_equal "${stderr_lines[0]}" \
		"tcplat: $T/delack: permission denied"
	chmod 0 "$T"
	run -3 --separate-stderr tcplat_as_user --root sys show
	chmod 755 "$T"
	assert_error "$T: permission denied"
}

# ---- characters ----

# Prints the commands to run: the help of each, and each with arguments.
every_command() {
	local cmd
	for cmd in '' show watch hist delta new json openmetrics doctor top trace probes reset enable disable; do
		echo "$cmd --help"
	done
	echo show
	echo 'hist portsearch'
	echo 'hist ackmode'
	echo 'show nope'
	echo 'watch -n 1 -i 0.1'
	echo 'delta bash -c "echo 1002 >sys/kernel/tcplat/portsearch/time_ns"'
	echo json
	echo openmetrics
	echo 'doctor --total'
	echo 'doctor --total --json'
	echo probes
}

@test "nothing but ASCII where the locale is not UTF-8, whatever is asked for" {
	local command
	make_tree groups
	set_to portsearch/exhausted 2
	set_to sndwait/waits 3000
	set_to portsearch/iterations 2500000
	rm "$T"/clock/ato_min
	while read -r command; do
		LC_ALL=C bash -c "$READER_DIR/tcplat --root sys $command" >out 2>&1 || :
		[[ -s out || $command == delta* ]]
		run -1 grep -aP '[^\x20-\x7e\n]' out
	done < <(every_command)
	# The UTF-8 locale does have other characters.
	LC_ALL=C.UTF-8 run_tcplat 0 show portsearch
	assert_output --partial µs
}

# ---- trees that cannot be trusted ----

@test "a counter that is no number from 0 to 2^64-1 is refused" {
	local bad
	for bad in twelve -1 +1 ' 1' '1 ' 0x10 1.5 12a 18446744073709551616 \
		99999999999999999999999999; do
		echo "$bad" >"$T"/delack/timeouts
		refuse "$T/delack/timeouts: '$bad' is not a number from 0 to 2^64-1"
		assert_line --regexp '^  timeouts +\? '
		refute_line --partial 'mean wait'
	done
}

@test "2^64-1 is a number like others" {
	local f
	for f in timeouts delay_us delay_jiffies delay_max_jiffies; do
		echo 18446744073709551615 >"$T"/delack/$f
	done
	run_tcplat 0 show delack
	assert_line --regexp '^  timeouts +18446744073709551615 '
	assert_line --regexp '^  delay_us +18446744073709551615  213503982 d '
	assert_line --regexp '^  delay_max_jiffies +18446744073709551615  854015929338 d '
	assert_line --partial 'mean wait: 1 us'
}

@test "a counter of two lines, and one that steers the terminal, are refused" {
	printf '1\n2\n' >"$T"/delack/timeouts
	refuse "$T/delack/timeouts: '1?2' is not a number from 0 to 2^64-1"
	printf '\e[31m\x9b\n' >"$T"/delack/timeouts
	refuse "$T/delack/timeouts: '?[31m?' is not a number from 0 to 2^64-1"
	LC_ALL=C.UTF-8 refuse "$T/delack/timeouts: '?[31m?' is not a number from 0 to 2^64-1"
}

@test "an empty, a binary and a huge counter are refused" {
	: >"$T"/delack/timeouts
	refuse "$T/delack/timeouts: empty file"
	echo >"$T"/delack/timeouts
	refuse "$T/delack/timeouts: empty file"
	printf '1\0\n' >"$T"/delack/timeouts
	refuse "$T/delack/timeouts: not a text file"
	truncate -s 1T "$T"/delack/timeouts
	refuse "$T/delack/timeouts: larger than 64 KiB, not a tcplat file"
	head -c 65536 /dev/zero | tr '\0' 1 >"$T"/delack/timeouts
	refuse "$T/delack/timeouts: '$(printf '1%.0s' {1..40})...' is not a number from 0 to 2^64-1"
}

@test "a FIFO does not hang it" {
	rm "$T"/delack/timeouts
	mkfifo "$T"/delack/timeouts
	run -1 --separate-stderr timeout 20 "$READER_DIR/tcplat" --root sys
	assert_error "$T/delack/timeouts: not a text file"
}

@test "a dangling link is a missing file" {
	ln -sf nowhere "$T"/delack/timeouts
	refuse "$T/delack/timeouts: missing, or removed while being read (was the module unloaded?)"
}

@test "a status that is none, empty or a directory is refused" {
	printf 'nonsense \e[1m\n' >"$T"/delack/status
	refuse "$T/delack/status: 'nonsense ?[1m' is not one of armed, off, unavailable"
	assert_line 'delack: delayed ACKs [?]'
	echo armedish >"$T"/delack/status
	refuse "$T/delack/status: 'armedish' is not one of armed, off, unavailable"
	: >"$T"/delack/status
	refuse "$T/delack/status: empty file"
	rm "$T"/delack/status
	mkdir "$T"/delack/status
	refuse "$T/delack/status: Is a directory"
}

@test "a status cannot steer the terminal" {
	printf 'armed \e[31m\xff\n' >"$T"/delack/status
	run_tcplat 0 show delack
	assert_line 'delack: delayed ACKs [armed ?[31m?]'
}

@test "missed and the clock's constants must be there" {
	rm "$T"/clock/ato_min_us
	refuse "$T/clock/ato_min_us: missing"
	make_tree delack
	rm "$T"/delack/missed
	run_tcplat 1 show
	assert_error "$T/delack/missed: missing"
}

@test "a broken clock is refused, the groups are shown" {
	echo fast >"$T"/clock/hz
	refuse "$T/clock/hz: 'fast' is not a number from 0 to 2^64-1"
	assert_line 'clock: HZ ?, a jiffy (timer tick) is 4 ms'
	echo 250 >"$T"/clock/hz
	echo slow >"$T"/clock/ato_min_us
	refuse "$T/clock/ato_min_us: 'slow' is not a number from 0 to 2^64-1"
	assert_line --regexp '^  ato_min +10 +\?$'
	rm -r "$T"/clock
	refuse "$T/clock: missing, or removed while being read (was the module unloaded?)"
}

@test "abi: another version, missing, malformed" {
	echo 2 >"$T"/abi
	run_tcplat 1 show
	assert_error "$T/abi: the module has ABI 2, this tcplat supports ABI 1; use the tcplat built with the module"
	assert_output ''
	echo one >"$T"/abi
	run_tcplat 1 reset
	assert_error "$T/abi: 'one' is not a number from 0 to 2^64-1"
	rm "$T"/abi
	run_tcplat 1 hist delack
	assert_error "$T/abi: missing, or removed while being read (was the module unloaded?)"
	assert_output ''
}

@test "a module without a version is shown, exit 1" {
	rm "$T"/version
	refuse "$T/version: missing, or removed while being read (was the module unloaded?)"
	assert_line --index 0 'tcplat ?, ABI 1'
}

@test "a tree without groups" {
	rm -r "$T"/delack
	run_tcplat 1 show
	assert_error "$T: no groups found"
}

@test "a file where the tree should be" {
	rm -r "$T"
	echo >"$T"
	run_tcplat 1 show
	assert_error "$T: Not a directory"
}

@test "a name that the kernel would not give is left out" {
	echo 1 >"$T/delack/"$'a\e[31mb'
	refuse "$T/delack/a?[31mb: invalid name, ignored"
	refute_output --partial '[31m'
}

@test "histograms that are no line of numbers are refused" {
	local bad
	for bad in x '1 x' '1 -1' '1 18446744073709551616' '1  2' '1 2 ' ' 1' \
		'1,2'; do
		echo "$bad" >"$T"/delack/delay_hist
		refuse "$T/delack/delay_hist: not a list of numbers from 0 to 2^64-1"
		assert_line '  delay_hist: ?'
		run_tcplat 1 hist delack
		assert_output ''
	done
}

@test "histograms whose bounds are missing, mute, unordered or of another length" {
	local bounds=$T/delack/delay_hist_le_us
	echo 1 2 >"$T"/delack/delay_hist
	echo 1 2 +Inf >"$bounds"
	refuse "$T/delack/delay_hist: 2 counts for 3 bounds"
	echo 1 2 3 >"$T"/delack/delay_hist
	for bad in '1 2 3' '1 +Inf 2' 'x y +Inf' '+Inf +Inf' '1 2 +inf'; do
		echo "$bad" >"$bounds"
		refuse "$bounds: not a list of numbers that ends in +Inf"
	done
	for bad in '2 1 +Inf' '1 1 +Inf'; do
		echo "$bad" >"$bounds"
		refuse "$bounds: bounds not in ascending order"
	done
	: >"$bounds"
	refuse "$bounds: empty file"
	rm "$bounds"
	refuse "$T/delack/delay_hist: bounds missing (delay_hist_le*)"
}

@test "a group that vanishes while it is read" {
	run -1 --separate-stderr with_fault "FAULT_VANISH=deferred:$T/delack" show
	assert_line --regexp '^  timeouts +50 '
	assert_line --regexp '^  deferred +\? '
	assert_equal "${stderr_lines[0]}" \
		"tcplat: $T/delack/deferred: missing, or removed while being read (was the module unloaded?)"
}

@test "a group that vanishes after it was found" {
	run -1 --separate-stderr with_fault "FAULT_VANISH=clock:$T/delack" show
	assert_line 'delack: delayed ACKs [?]'
	assert_equal "${stderr_lines[0]}" \
		"tcplat: $T/delack/status: missing, or removed while being read (was the module unloaded?)"
}

@test "a module that is unloaded while it is read" {
	run -1 --separate-stderr with_fault "FAULT_VANISH=tick_ns:sys/kernel" show
	assert_equal "${stderr_lines[0]}" \
		"tcplat: $T/clock/tick_ns: missing, or removed while being read (was the module unloaded?)"
	make_tree delack
	run -1 --separate-stderr with_fault "FAULT_VANISH=delay_hist:sys/kernel" hist delack
	assert_output ''
}

@test "a read that fails" {
	run -1 --separate-stderr with_fault FAULT_EIO=timeouts show
	assert_error "$T/delack/timeouts: Input/output error"
	assert_line --regexp '^  deferred +0 '
}

@test "any file of the tree in any state, with any command: an error message, and no crash" {
	make_tree groups
	mkdir -p sys/kernel/debug/tcplat
	echo 'delack a+0x0/0x10 entry ftrace armed 12 0' >sys/kernel/debug/tcplat/probes
	python3 - "$READER_DIR/tcplat" <<-'END'
		import os, stat, subprocess, sys
		tcplat = sys.argv[1]
		commands = [c.split() for c in (
		    "show", "hist delack", "hist portsearch", "watch -n 1 -i 0.1", "json", "openmetrics",
		    "openmetrics -o out", "doctor --total", "doctor --total --json", "probes",
		    "delta -o gains true")]
		rubbish = [b"", b"\n", b"x\n", b"-1\n", b"1\0\n", b"\xff\x1b[31m\n", b"18446744073709551615\n",
		           b"18446744073709551616\n", b"+Inf\n", b" ".join([b"18446744073709551615"] * 16) + b"\n",
		           b"1 " * 40000, b"unavailable: \x1b[31m\n", None, "directory", "fifo", "loop"]
		files = [os.path.join(d, f) for d, _, fs in os.walk("sys/kernel") for f in fs]
		runs = failed = 0
		for n, path in enumerate(sorted(files)):
		    text = open(path, "rb").read()
		    for k, what in enumerate(rubbish):
		        os.unlink(path)
		        if what == "directory":
		            os.mkdir(path)
		        elif what == "fifo":
		            os.mkfifo(path)
		        elif what == "loop":
		            os.symlink(os.path.basename(path), path)
		        elif what is not None:
		            open(path, "wb").write(what)
		# Each state of each file is tried with one command, in turn; few with watch, which
		# is slow.
		        command = commands[(n + k) % len(commands)]
		        if command[0] == "watch" and n % 8:
		            command = commands[0]
		        r = subprocess.run([tcplat, "--root", "sys", *command], timeout=30,
		                           stdin=subprocess.DEVNULL, capture_output=True)
		        errors = r.stderr.decode("ascii").splitlines()
		        assert r.returncode in (0, 1, 2), (path, what, command, r)
		        assert bool(r.returncode) == bool(errors), (path, what, command, r)
		        assert all(e.startswith("tcplat: ") and e.isprintable() for e in errors), (path, what, r)
		        assert all(c == 10 or 32 <= c < 127 for c in r.stdout), (path, what, command, r)
		        runs += 1
		        failed += bool(errors)
		        if what == "directory":
		            os.rmdir(path)
		        elif what is not None:
		            os.unlink(path)
		        open(path, "wb").write(text)
		print(runs, "runs,", failed, "of them failed")
		assert runs > 1000 and failed > runs / 10
	END
}

# ---- documentation and installation ----

@test "the man pages have no fault that mandoc knows" {
	mandoc -Tlint -W style "$SOURCE"/userspace/tcplat.[48] >said 2>&1 || :
	# Ignore whether referenced pages are installed.
	run -1 grep -vE 'referenced manual not found|outdated mandoc.db' said
}

@test "every command is in the man page as its --help has it" {
	local cmd page
	page=$(mandoc -T ascii -O width=1000 "$SOURCE/userspace/tcplat.8" | col -bx)
	for cmd in $(tcplat --help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
		ARGP_HELP_FMT=no-dup-args-note,rmargin=999,opt-doc-col=70 "$READER_DIR/tcplat" "$cmd" --help | python3 -c '
import re, sys
cmd, page = sys.argv[1:]
page = re.sub(" +", " ", page)
options = re.search("\nOPTIONS\n(.*?)\n[A-Z]", page, re.S)[1]
synopsis = re.search("\nSYNOPSIS\n(.*?)\n[A-Z]", page, re.S)[1]
section = re.search(rf"\n {cmd}\n(.*?)\n( \w+\n|[A-Z])", page, re.S)[1]
uses = re.findall(rf"^ tcplat \[option \.\.\.\] ({cmd}\b.*)", synopsis, re.M)
assert len(uses) == 1, uses
usage, about, *rest = sys.stdin.read().rstrip().split("\n")
args = usage.split("[OPTION...]")[1].strip().lower().replace("...", " ...")
assert uses[0].endswith(args), (uses, args)
assert about + ".\n" in section, (about, section)
for line in filter(None, rest):
    m = re.match(r" +(?:-(\w), )?--([\w-]+)(?:=(\S+))? +(.*)", line)
    if not m:
        assert line in section, (line, section)
        continue
    letter, word, arg, text = m.groups()
    entry = (f"-{letter}, " if letter else "") + f"--{word}"
    if arg:
        entry += "=" + (arg.lower() if arg.isupper() else arg)
    common = word in ("root", "proc", "help", "version")
    assert re.search(rf"^ {re.escape(entry)}\s+{re.escape(text)}\.$", options if common else section, re.M), (entry, text)
    if common:
        continue
    found = rf"-\w*{letter}\w*\b" if letter and f"--{word}" not in uses[0] else f"--{word}\\b"
    assert re.search(found, uses[0]), (letter, word, uses)
' "$cmd" "$page"
	done
}

@test "every file of the ABI is in tcplat(4), below its group" {
	local page file name
	page=$(mandoc -T ascii "$SOURCE/userspace/tcplat.4" | col -bx)
	while read -r file; do
		case $file in
		clock/* | */status | */enabled | */missed | *_hist_le*) continue ;;
		esac
		name=${file#*/}
		name=${name%_[nu]s}
		run -0 sed -n "/^   ${file%/*}: /,/^\$/p" <<<"$page"
		assert_line --regexp "^     ${name%_jiffies} +[A-Za-z]"
	done < <(documented_files)
}

@test "install and uninstall honour DESTDIR and PREFIX" {
	make -s -C "$SOURCE/userspace" install DESTDIR="$PWD/dest" PREFIX=/opt/x
	assert_equal "$(cd dest && find . -type f | sort)" "\
./opt/x/bin/tcplat
./opt/x/lib/systemd/system/tcplat-textfile.service
./opt/x/lib/systemd/system/tcplat-textfile.timer
./opt/x/share/bash-completion/completions/tcplat
./opt/x/share/fish/vendor_completions.d/tcplat.fish
./opt/x/share/man/man4/tcplat.4
./opt/x/share/man/man8/tcplat.8
./opt/x/share/tcplat/tcplat.dashboard.json
./opt/x/share/tcplat/tcplat.rules.yml
./opt/x/share/tcplat/tcplat.schema.json
./opt/x/share/zsh/site-functions/_tcplat"
	run -0 dest/opt/x/bin/tcplat --root sys
	assert_output - <"$FIXTURES/delack.show"
	make -s -C "$SOURCE/userspace" uninstall DESTDIR="$PWD/dest" PREFIX=/opt/x
	assert_equal "$(find dest -type f)" ''
}

# ---- completion, tested with the shells themselves, which ask the reader ----

# for_each_command OFFERS: OFFERS COMMAND prints the completions of "tcplat COMMAND --", which must
# be COMMAND's options.
for_each_command() {
	local cmd
	for cmd in $("$READER_DIR/tcplat" --help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
		assert_equal "$cmd: $("$1" "$cmd")" \
			"$cmd: $("$READER_DIR/tcplat" "$cmd" --help | grep -oE '^ +(-., )?--[a-z-]+' |
				grep -oE -- '--[a-z-]+' | sort | xargs)"
	done
}

# complete_bash WORD...: prints bash's completions of the last WORD.
complete_bash() {
	# shellcheck disable=SC2016 # for the other shell
	PATH=$READER_DIR:$PATH bash -c '. "$0"; COMP_WORDS=(tcplat "$@"); COMP_CWORD=$#; _tcplat; printf "%s\n" "${COMPREPLY[@]}"' \
		"$SOURCE/userspace/completion/tcplat.bash" "$@" | sort -u | xargs
}

@test "completion: bash" {
	make_tree groups
	assert_equal "$(complete_bash e)" enable
	assert_equal "$(complete_bash '')" 'delta disable doctor enable hist json new openmetrics probes reset show top trace watch'
	assert_equal "$(complete_bash --root sys show a)" 'ackmode alpha'
	assert_equal "$(complete_bash --root = sys show c)" clock
	assert_equal "$(SYSFS_PATH=sys complete_bash enable s)" sndwait
	assert_equal "$(complete_bash doctor --tot)" --total
	assert_equal "$(complete_bash watch --z)" --zeros
	assert_equal "$(complete_bash openmetrics --p)" '--proc --prometheus'
	assert_equal "$(complete_bash delta valgrind-l)" valgrind-listener
	assert_equal "$(complete_bash reset x)" ''
	assert_equal "$(complete_bash --root sy)" sys
	assert_equal "$(complete_bash top -k '')" 'cgroup comm netns peer port socket'
	touch a.json
	assert_equal "$(complete_bash doctor --from a)" a.json
	assert_equal "$(complete_bash trace --count '')" ''
	bash_offers() { complete_bash "$1" --; }
	for_each_command bash_offers
	run -0 bash -n "$SOURCE/userspace/completion/tcplat.bash"
}

@test "completion: fish" {
	make_tree groups
	mkdir home
	fish_offers() {
		HOME=$PWD/home PATH=$READER_DIR:$PATH fish --no-config -c "source $SOURCE/userspace/completion/tcplat.fish; complete -C '$1'" |
			cut -f 1 | sort | xargs
	}
	assert_equal "$(fish_offers 'tcplat e')" enable
	assert_equal "$(fish_offers 'tcplat --root sys show a')" 'ackmode alpha'
	assert_equal "$(SYSFS_PATH=sys fish_offers 'tcplat enable s')" sndwait
	assert_equal "$(fish_offers 'tcplat doctor --tot')" --total
	assert_equal "$(fish_offers 'tcplat openmetrics --prom')" --prometheus
	assert_equal "$(fish_offers 'tcplat watch --z')" --zeros
	assert_equal "$(fish_offers 'tcplat delta valgrind-l')" valgrind-listener
	assert_equal "$(fish_offers 'tcplat --root sys delta -o x -- valgrind-l')" valgrind-listener
	assert_equal "$(fish_offers 'tcplat delta -- cat ho')" home/
	# The command that delta runs is not the reader's, so files are offered.
	assert_equal "$(fish_offers 'tcplat delta -- show h')" home/
	assert_equal "$(fish_offers 'tcplat top -k p')" 'peer port'
	touch a.json
	assert_equal "$(fish_offers 'tcplat doctor --from a')" a.json
	run -0 fish_offers 'tcplat trace -'
	assert_regex "$output" '(^| )-m( |$)'
	fish_options() { fish_offers "tcplat $1 --"; }
	for_each_command fish_options
}

@test "completion: zsh" {
	make_tree groups
	mkdir home functions
	cp "$SOURCE/userspace/completion/_tcplat" functions/
	cat >home/.zshrc <<-'END'
		fpath=($PWD/functions $fpath)
		autoload -Uz compinit && compinit -u -D
		zstyle ':completion:*' list-prompt ''
		unsetopt beep
		LISTMAX=1000
		PS1='%% '
	END
	zsh_line() {
		screen new-session -d -x 100 -y 30 "env HOME=$PWD/home ZDOTDIR=$PWD/home SYSFS_PATH=sys PATH=$READER_DIR:$PATH zsh -d -i"
		zsh_wait '^% *$'
		screen send-keys -l "$1"
		screen send-keys Tab
		zsh_wait "$2" || { cat shot; screen kill-server; return 1; }
		screen kill-server
	}
	# zsh_wait PATTERN: waits until zsh has drawn PATTERN.
	zsh_wait() {
		local i
		for ((i = 0; i < 150; i++)); do
			screen capture-pane -p >shot
			! grep -qE -- "$1" shot || return 0
			sleep 0.1
		done
		return 1
	}
	zsh_line 'tcplat en' '^% tcplat enable *$'
	zsh_line 'tcplat enable snd' '^% tcplat enable sndwait *$'
	zsh_line 'tcplat show cl' '^% tcplat show clock *$'
	zsh_line 'tcplat doctor --tot' '^% tcplat doctor --total *$'
	zsh_line 'tcplat watch --z' '^% tcplat watch --zeros *$'
	zsh_line 'tcplat hist ' '^ackmode .* sndwait *$'
	run -1 grep -E -- '-J|default' shot
	zsh_line 'tcplat delta valgrind-l' '^% tcplat delta valgrind-listener *$'
	zsh_line 'tcplat delta -- valgrind-l' '^% tcplat delta -- valgrind-listener *$'
	zsh_line 'tcplat top -k so' '^% tcplat top -k socket *$'
	touch a.json
	zsh_line 'tcplat doctor --from a' '^% tcplat doctor --from a.json *$'
	zsh_line 'tcplat trace --min' '^% tcplat trace --min-ms ?=?.*$'
	zsh_line 'tcplat delta -o x -- cat ho' '^% tcplat delta -o x -- cat home/ *$'
}

# ---- cost, and fuzzing ----

@test "show takes less than 10 ms of CPU" {
	# Sanitizers need more time.
	local most=${CPU_MS:-10}
	make_tree groups
	# The minimum of many runs, since other processes on this machine slow down some.
	"$READER_DIR/tcplat" --root sys show >/dev/null
	python3 - "$READER_DIR/tcplat" "$most" <<-'END'
		import resource, subprocess, sys
		def used():
		    r = resource.getrusage(resource.RUSAGE_CHILDREN)
		    return r.ru_utime + r.ru_stime
		best = 1
		for _ in range(20):
		    before = used()
		    subprocess.run([sys.argv[1], "--root", "sys", "show"], stdout=subprocess.DEVNULL, check=True)
		    best = min(best, used() - before)
		print(f"{best * 1000:.1f} ms")
		sys.exit(best * 1000 >= float(sys.argv[2]))
	END
}

@test "fuzzing for 20 s finds nothing" {
	run -0 "$SOURCE/bats/fuzz/run" 20
	assert_line --regexp '^stat::number_of_executed_units: [0-9]{3}'
}
