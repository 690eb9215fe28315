#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Messages of the build for kernels that lack something, and for machines that lack libraries:
# only this builds against such headers, which are the default kernel's, modified for one command.

bats_require_minimum_version 1.5.0
load ../libraries

setup_file() {
	export SOURCE KDIR COMMON
	SOURCE=$(cd "$BATS_TEST_DIRNAME/../.." && pwd -P)
	KDIR=$("$SOURCE/vm/kernel" --kdir 6.1)
	COMMON=$(sed -n 's|^include \(.*\)/Makefile$|\1|p' "$KDIR/Makefile")
	cp -r "$SOURCE/Kbuild" "$SOURCE/dkms.conf" "$SOURCE/module" "$BATS_FILE_TMPDIR"
	rm -f "$BATS_FILE_TMPDIR"/module/*.o
}

# build_with FILE SED: builds with this file of the headers edited, visible only to this build.
build_with() {
	local as_root=() changed=$BATS_TEST_TMPDIR/changed
	[[ $(id -u) == 0 ]] || as_root=(sudo)
	sed "$2" "$1" >"$changed"
	run cmp -s "$1" "$changed"
	assert_failure 1
	# shellcheck disable=SC2016 # for the inner shell
	run "${as_root[@]}" unshare --mount --propagation private bash -c '
		mount --bind "$1" "$2" && shift 2 && exec "$@"
	' build_with "$changed" "$1" make -s -C "$KDIR" M="$BATS_FILE_TMPDIR" modules
}

@test "a kernel that lacks an interface: the build names it in a sentence" {
	build_with "$COMMON/include/net/inet_connection_sock.h" 's/inet_csk_in_pingpong_mode/other_name/'
	assert_failure
	assert_output --partial 'tcplat needs inet_csk_in_pingpong_mode, which is not in include/net/inet_connection_sock.h of the kernel to build for'
	refute_output --partial 'error: '
}

@test "a kernel without kprobes: the build says so in a sentence" {
	build_with "$KDIR/include/config/auto.conf" '/^CONFIG_KPROBES=/d'
	assert_failure
	assert_output --partial 'tcplat needs CONFIG_KPROBES=y, which is not set in the kernel to build for'
	refute_output --partial 'error: '
}

@test "a kernel newer than any known one, with all that is needed: it builds" {
	rm -f "$BATS_FILE_TMPDIR/tcplat.ko"
	build_with "$KDIR/include/generated/uapi/linux/version.h" \
		's/\(LINUX_VERSION_CODE\) .*/\1 16711680/; s/\(LINUX_VERSION_MAJOR\) .*/\1 255/'
	assert_success
	[[ -s $BATS_FILE_TMPDIR/tcplat.ko ]]
}

# build_reader WORD...: builds a copy of the reader, with these words for make.
build_reader() {
	mkdir "$BATS_TEST_TMPDIR/source"
	cp -r "$SOURCE/userspace" "$SOURCE/dkms.conf" "$BATS_TEST_TMPDIR/source"
	rm -f "$BATS_TEST_TMPDIR"/source/userspace/tcplat{,.4,.8}
	run -0 make -s -C "$BATS_TEST_TMPDIR/source/userspace" "$@"
	reader=$BATS_TEST_TMPDIR/source/userspace/tcplat
}

@test "a machine with all libraries: the reader has all commands, and the build says nothing" {
	build_reader
	assert_output ''
	run -0 "$reader" --help
	assert_line --regexp '^  top '
	assert_line --regexp '^  trace '
}

@test "a machine without libtracefs: the reader is built without trace, and the build says so" {
	build_reader TRACEFS=
	assert_output 'tcplat is built without the command trace: it needs pkg-config with libtracefs-dev and libtraceevent-dev'
	run -0 "$reader" --help
	assert_line --regexp '^  top '
	refute_line --regexp '^  trace '
	run -0 ldd "$reader"
	refute_output --partial trace
}

@test "a machine without ncurses: watch prints lines on a terminal, and the build says so" {
	build_reader NCURSES=
	assert_output 'tcplat is built without the screen of watch and top (they print line after line): it needs pkg-config and libncurses-dev'
	run -0 ldd "$reader"
	refute_output --partial curses
	mkdir -p "$BATS_TEST_TMPDIR/sys/kernel/tcplat/delack"
	cd "$BATS_TEST_TMPDIR/sys/kernel/tcplat"
	echo 1 >abi
	echo armed >delack/status
	echo 7 >delack/timeouts
	mkdir clock
	run -0 env TERM=xterm script -qec "$reader --root $BATS_TEST_TMPDIR/sys watch -z 0.1 2" /dev/null
	assert_equal "${#lines[@]}" 2
	assert_line --index 1 --regexp $'^[0-9T:.+-]+  delack/timeouts +0\r$'
}

@test "the man pages need no compiler and no library, and a table that they cannot tell is an error" {
	build_reader CC=false TRACEFS= NCURSES= tcplat.4 tcplat.8
	cd "$BATS_TEST_TMPDIR/source/userspace"
	run -0 grep -A 1 '^\.Cm trace$' tcplat.8
	assert_line '.Op Fl j'
	sed -i '/^@command top@$/d' tcplat.8.in
	run -2 make -s tcplat.8
	assert_line --partial 'the command top is missing'
	[[ ! -e tcplat.8 ]]
	sed -i 's/{ "count", /{ COUNT, /' cmd_watch.c
	run -2 make -s tcplat.8
	assert_line --partial 'cmd_watch.c:'
}
