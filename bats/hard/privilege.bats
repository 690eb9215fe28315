#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Only root of the host can change anything, and nobody can read kernel addresses. Tries
# everything below the module's directories as users, in containers and in sandboxes.

load ../helpers

EVENTS=$TRACING/kprobe_events
RESTRICT=/proc/sys/kernel/kptr_restrict
NOBODY=(setpriv --reuid=65534 --regid=65534 --clear-groups)

# Copies that other users can reach, unlike the directory of the tests.
SHARED=/tmp/tcplat_test
ATTEMPTS=$SHARED/attempts.pl
READER=$SHARED/tcplat
MODULE=$SHARED/tcplat.ko

setup_file() {
	mkdir -p "$SHARED"
	cp "$BATS_TEST_DIRNAME/attempts.pl" "$TCPLAT" "$TCPLAT_KO" "$SHARED/"
	chmod 755 "$SHARED" "$SHARED"/*
	load_afresh
}

teardown_file() {
	rm -r "$SHARED"
	! loaded || unload_module
}

setup() {
	untraced
	# A failed test may have let somebody change something.
	if ! loaded || grep -qx off "$TREE"/*/status; then
		load_afresh
	fi
}

teardown() { tidy; }

# ---- users ----

as_nobody() { "${NOBODY[@]}" "$@"; }

# Root of a user namespace that the user created.
as_nobodys_root() { "${NOBODY[@]}" unshare --user --map-root-user "$@"; }

# The same, mapped to the host's root.
as_root_of_its_own() { unshare --user --map-root-user "$@"; }

# More than a container runtime leaves to root without a user namespace.
as_root_without_sys_admin() {
	setpriv --inh-caps=-sys_admin,-sys_module --bounding-set=-sys_admin,-sys_module "$@"
}

# ---- attempts ----

PLACES=("$TREE" "$DEBUG" /sys/module/tcplat)

# Prints everything that an attempt could have changed.
everything() {
	tree_contents
	find "${PLACES[@]}" -printf '%p %y %m %U %G\n' | sort
	attachments
	grep '^tcplat ' /proc/modules
	grep . "$TRACING"/events/tcplat/*/enable
}

# unchanged WHO: WHO has changed nothing.
unchanged() {
	diff "$BATS_TEST_TMPDIR/before" <(everything) ||
		fail "$1 has changed something: < before, > after"
}

# tries WHO WHOM REASON: WHO, which the kernel must see as WHOM, cannot change anything: each write
# to the module's files is refused for REASON.
tries() {
	local who=as_$1 said=$BATS_TEST_TMPDIR/said
	"$who" perl "$ATTEMPTS" write "${PLACES[@]}" >"$said" || fail "$(<"$said")"
	same "who $1 is" "$(head -n 1 "$said")" "$2"
	! grep -E ': ok$' "$said" || fail "$1 could do this"
	(($(grep -cE "^(open|write) O_WRONLY $TREE/(reset|[a-z]+/enabled): $3$" "$said") > ${#GROUPS_ALL[@]})) ||
		fail "hardly anything was tried, or refused for another reason: $(<"$said")"
	run -1 "$who" rmmod tcplat
	assert_output --partial 'Operation not permitted'
	run -1 "$who" insmod "$MODULE"
	assert_output --partial 'Operation not permitted'
	unchanged "$1"
}

# Counts something, so that a reset would be noticed.
have_counted() {
	traffic wwr -n 3
	quiet
	(($(counter delack/timeouts) > 0)) || fail "nothing was counted"
	everything >"$BATS_TEST_TMPDIR/before"
}

# keeps_modes WHO: WHO cannot change permissions.
keeps_modes() {
	local said=$BATS_TEST_TMPDIR/said
	"as_$1" perl "$ATTEMPTS" mode "${PLACES[@]}" >"$said" || fail "$(<"$said")"
	! grep -E ': ok$' "$said" || fail "$1 could do this"
	unchanged "$1"
}

# lets_in WHO: the owner of a file may change its mode, as everywhere in sysfs. The module
# refuses writes of others who can open the file then.
lets_in() {
	local said=$BATS_TEST_TMPDIR/said path mode
	"as_$1" perl "$ATTEMPTS" mode "${PLACES[@]}" >"$said" || fail "$(<"$said")"
	grep -qxF "chmod $TREE/delack/enabled: ok" "$said" || fail "$(<"$said")"
	as_nobody perl "$ATTEMPTS" write "$TREE" >"$said" || fail "$(<"$said")"
	! grep -E ': ok$' "$said" || fail "$1 has allowed others to do this"
	same 'refused writes' "$(grep -cE "^write .*/(reset|enabled): Operation not permitted$" "$said")" $(((${#GROUPS_ALL[@]} + 1) * 4 * 2))
	while read -r path _ mode _; do
		chmod "$mode" "$path"
	done < <(grep '^/sys/.* [df] [0-7]* 0 0$' "$BATS_TEST_TMPDIR/before")
	unchanged "$1"
}

HOST='0 0 4294967295' ALL=1ffffffffff

@test "the attempts change something when root of the host makes them" {
	have_counted
	local group
	perl "$ATTEMPTS" write "$TREE" >"$BATS_TEST_TMPDIR/said"
	same 'who root is' "$(head -n 1 "$BATS_TEST_TMPDIR/said")" "user 0 of $HOST, capabilities $ALL"
	for group in "$TREE"/*/enabled; do
		same "writes to $group" "$(grep -c "^write .* $group: ok$" "$BATS_TEST_TMPDIR/said")" 8
	done
	# Opening it for reading as well fails because of its mode.
	same 'resets' "$(grep -c "^write .* $TREE/reset: ok$" "$BATS_TEST_TMPDIR/said")" 3
	run ! unchanged root
	echo 0 >"$TREE/delack/enabled"
	same status "$(counter delack/status)" off
	echo 1 >"$TREE/delack/enabled"
}

@test "a user, also as root of a user namespace" {
	have_counted
	tries nobody "user 65534 of $HOST, capabilities 0" 'Permission denied'
	keeps_modes nobody
	tries nobodys_root "user 0 of 0 65534 1, capabilities $ALL" 'Permission denied'
	keeps_modes nobodys_root
}

@test "root in a user namespace that maps it to root; root without CAP_SYS_ADMIN" {
	have_counted
	tries root_of_its_own "user 0 of 0 0 1, capabilities $ALL" 'Operation not permitted'
	lets_in root_of_its_own
	tries root_without_sys_admin "user 0 of $HOST, capabilities 1ffffdeffff" 'Operation not permitted'
	lets_in root_without_sys_admin
}

@test "a file that root opened refuses writes of an unprivileged process" {
	have_counted
	run -1 "${NOBODY[@]}" sh -c 'echo 0 >&9' 9>"$TREE/delack/enabled"
	assert_output --partial 'Operation not permitted'
	run -1 "${NOBODY[@]}" sh -c 'echo 1 >&9' 9>"$TREE/reset"
	assert_output --partial 'Operation not permitted'
	unchanged nobody
}

# ---- addresses ----

# Patterns of addresses: plain, hashed by %p, as a signed or unsigned number, or hidden by %pK.
# Kernel addresses begin with ff (page tables of five levels) or ffff, hashed ones with eight
# zeros.
ADDRESSES='(^|[^0-9a-zA-Z])(0x)?([fF]{2}[0-9a-fA-F]{14}|0{8}[0-9a-fA-F]{8})([^0-9a-zA-Z]|$)'
ADDRESSES+='|0x[0-9a-fA-F]{9,16}([^0-9a-fA-F]|$)|\(_*ptrval_*\)'
ADDRESSES+='|(^|[^0-9])18(3[7-9]|4[0-4])[0-9]{16}([^0-9]|$)|(^|[^0-9a-zA-Z])-[0-9]{12,17}([^0-9]|$)'

# addresses: prints the lines of stdin that contain addresses.
addresses() { grep -aE "$ADDRESSES"; }

@test "the search for addresses finds them" {
	local line
	for line in 'sk=ffff888003a1c000' 'sk=0xff40a9d2ed0b9200' 'sk=0xffffffff81234567 ' '00000000d1e2f3a4' 'at (____ptrval____),' \
		'(ptrval)' '0000000000000000' '18446612682139336704' '18375000000000000000' 'x -131391570214912' '0xc0ffee1234'; do
		addresses <<<"$line" >/dev/null || fail "not in '$line'"
	done
	run ! addresses <<<'tcp_delack_timer_handler+0x0/0x1a0 4 1000000000000000 cookie=1003 fd09::1 -11 18446744'
}

# Prints all files, except those that the kernel has for each module: to root they show the
# addresses of its sections.
files() {
	find "${PLACES[@]}" \( -name sections -o -name notes \) -prune -o -type f -perm /444 -print |
		sort | xargs grep -a .
	find /sys/module/tcplat/holders /sys/module/tcplat/drivers 2>/dev/null || :
}

# Prints the reader's output for root and others.
readers() {
	local who
	for who in env as_nobody; do
		"$who" "$READER"
		"$who" "$READER" show --all --bars
		"$who" "$READER" show --json
		"$who" "$READER" show --prometheus
		"$who" "$READER" doctor --total
		"$who" "$READER" show -- true
		"$who" "$READER" show -a -c 2 -i 0.1
	done 2>&1
}

# trace_all: enables all events in an instance, and causes each of them.
trace_all() {
	local event
	mkdir "$INSTANCE"
	echo 1 >"$INSTANCE/events/tcplat/enable"
	every_event
	quiet
	for event in "$TRACING"/events/tcplat/*/; do
		event=$(basename "$event")
		grep -q " $event: " "$INSTANCE/trace" || fail "no $event"
	done
}

@test "nothing that can be read holds an address, whatever kptr_restrict says" {
	local value said=$BATS_TEST_TMPDIR/said
	trace_all
	for value in 0 1 2; do
		set_meanwhile "$RESTRICT" "$value"
		{
			files
			readers
			cat "$INSTANCE/trace"
			cat "$TRACING"/events/tcplat/*/{format,id}
		} >"$said"
		(($(wc -l <"$said") > 300)) || fail "hardly anything was read: $(<"$said")"
		! addresses <"$said" || fail "these are addresses, with kptr_restrict=$value"
	done
	run ! as_nobody cat /sys/module/tcplat/sections/.text
	# The test finds an address if there is one.
	echo "p:tcplat_test/planted tcp_delack_timer_handler sk=%di:x64" >>"$EVENTS"
	echo 1 >"$INSTANCE/events/tcplat_test/enable"
	traffic wwr -n 3
	quiet
	echo 0 >"$INSTANCE/events/tcplat_test/enable"
	addresses <"$INSTANCE/trace" | grep -q ' planted: .*sk=0xff' ||
		fail "the planted address was not found: $(grep -a planted "$INSTANCE/trace")"
	finds_nothing -vE ' planted: ' <(addresses <"$INSTANCE/trace")
}

# memory: prints the address ranges that the kernel uses, in hexadecimal: permanent mappings from
# /proc/kcore, and of wide, sparse ranges only the parts in /proc/vmallocinfo.
memory() {
	perl -e '
		open($core, "<:raw", "/proc/kcore") && sysread($core, $elf, 1 << 16) or die "kcore: $!\n";
		open($areas, "<", "/proc/vmallocinfo") or die "vmallocinfo: $!\n";
		@areas = map { [map(hex, /^0x(\w+)-0x(\w+)/)] } <$areas>;
		($at, $size, $n) = (unpack("Q", substr($elf, 32)), unpack("SS", substr($elf, 54)));
		for ($i = 0; $i < $n; $i++) {
			($type, undef, undef, $from, undef, undef, $length) = unpack("LLQQQQQ", substr($elf, $at + $i * $size));
			$to = $from + $length;
			push(@lasting, [$from, $to]) if $type == 1 && !grep($from <= $_->[0] && $_->[0] < $to, @areas);
		}
		printf("%x %x\n", @$_) for @lasting, @areas;'
}

# raw_addresses: prints values in the raw ring buffer that are addresses in these ranges, at each
# multiple of 4, the alignment of the events' fields.
raw_addresses() {
	local cpu
	for cpu in "$INSTANCE"/per_cpu/cpu*; do
		dd if="$cpu/trace_pipe_raw" bs=4096 iflag=nonblock status=none 2>/dev/null || :
	done >"$BATS_TEST_TMPDIR/raw"
	memory >"$BATS_TEST_TMPDIR/memory"
	perl -e '
		@memory = map { [map(hex, split)] } <STDIN>;
		$/ = undef;
		$_ = <>;
		for ($at = 0; $at + 8 <= length; $at += 4) {
			$address = unpack("Q", substr($_, $at, 8));
			printf("%x\n", $address) if $address >> 56 == 255 &&
				grep($_->[0] <= $address && $address < $_->[1], @memory);
		}
		printf("# %d bytes, %d ranges\n", length, scalar(@memory));' "$BATS_TEST_TMPDIR/raw" <"$BATS_TEST_TMPDIR/memory"
}

# Kernels before 6.10 do not clear the pages of the buffer; what they had before must not be in an
# event either. So first, free pages have structures with addresses.
@test "no event holds an address that is not printed" {
	local said
	(ulimit -n 60000 && perl -e 'for (1 .. 50000) { open($files[$_], "</dev/null") or die "$!\n" }')
	sleep 1
	trace_all
	said=$(raw_addresses)
	[[ $said =~ ^'# '[0-9]{5,}' bytes, '[0-9]{2,}' ranges'$ ]] || fail "$said"
	echo "p:tcplat_test/planted tcp_delack_timer_handler sk=%di:x64" >>"$EVENTS"
	echo 1 >"$INSTANCE/events/tcplat_test/enable"
	traffic wwr -n 3
	quiet
	echo 0 >"$INSTANCE/events/tcplat_test/enable"
	# Reading the raw buffer consumes it, so find the planted address first.
	said=$(sed -n '/ planted: /{s/.*sk=0x//p;q}' "$INSTANCE/trace")
	raw_addresses | grep -qxF "${said:-none}" || fail "the planted address $said was not found"
}

@test "the kernel's log holds no address, from loading to unloading and whatever fails" {
	local value
	unload_module
	for value in 0 1 2; do
		set_meanwhile "$RESTRICT" "$value"
		dmesg -C
		run ! insmod "$TCPLAT_KO" attach=elsewhere
		run ! insmod "$TCPLAT_KO" sockets=1000000000000
		run ! insmod "$TCPLAT_KO" hide="$ONE_OF_EACH_GROUP"
		insmod "$TCPLAT_KO" hide=sk_stream_wait_memory
		run ! load_module
		run ! write_once "$TREE/sndwait/enabled" <<<1
		as_nobody sh -c "echo 1 >$TREE/reset" || :
		unload_module
		insmod "$TCPLAT_KO" attach=kprobe
		traffic wwr -n 1
		unload_module
		dmesg >"$BATS_TEST_TMPDIR/said"
		grep -q 'sndwait is unavailable' "$BATS_TEST_TMPDIR/said" ||
			fail "hardly any messages"
		grep -q 'none of the groups' "$BATS_TEST_TMPDIR/said" || fail "hardly any messages"
		! addresses <"$BATS_TEST_TMPDIR/said" || fail "these are addresses, with kptr_restrict=$value"
	done
}
