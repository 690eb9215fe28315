#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Messages of the build for kernels that lack something, and for machines that lack libraries:
# only this builds against such headers, which are the default kernel's, modified for one command.

load ../libraries

setup_file() {
	export SOURCE KDIR COMMON
	SOURCE=$(cd "$BATS_TEST_DIRNAME/../.." && pwd -P)
	KDIR=$("$SOURCE/vm/kernel" --kdir 6.1)
	COMMON=$(sed -n 's|^include \(.*\)/Makefile$|\1|p' "$KDIR/Makefile")
	cp -r "$SOURCE/Kbuild" "$SOURCE/dkms.conf" "$SOURCE/module" "$BATS_FILE_TMPDIR"
	rm -f "$BATS_FILE_TMPDIR"/module/*.o
}

setup() {
	untraced
	edits=()
}

# edit FILE SED: this file of the headers will be edited, for make_edited only.
edit() {
	local changed=$BATS_TEST_TMPDIR/changed.${#edits[@]}
	sed "$2" "$1" >"$changed"
	run -1 cmp -s "$1" "$changed"
	edits+=("$changed" "$1")
}

# make_edited STATUS DIRECTORY TARGET: make TARGET, which alone sees the edited files mounted, ends
# with STATUS.
make_edited() {
	local as_root=()
	[[ $(id -u) == 0 ]] || as_root=(sudo)
	# shellcheck disable=SC2016 # for the inner shell
	run "-$1" "${as_root[@]}" unshare --mount --propagation private bash -c '
		until [[ $1 == make ]]; do mount --bind "$1" "$2" && shift 2 || exit; done && exec "$@"
	' make_edited "${edits[@]}" make -s -C "$KDIR" M="$2" "$3"
}

# lacks FILE SED TEXT: so edited, the kernel lacks something, which one sentence names.
lacks() {
	edit "$1" "$2"
	make_edited 2 "$BATS_FILE_TMPDIR" modules
	edits=()
	assert_output --partial "tcplat needs $3 the kernel to build for"
	refute_output --partial 'error: '
}

@test "a kernel that lacks an interface or kprobes: the build says so in a sentence" {
	local header=net/inet_connection_sock.h
	lacks "$COMMON/include/$header" 's/inet_csk_in_pingpong_mode/other_name/' \
		"inet_csk_in_pingpong_mode, which is not in include/$header of"
	lacks "$KDIR/include/config/auto.conf" '/^CONFIG_KPROBES=/d' \
		'CONFIG_KPROBES=y, which is not set in'
}

@test "a function with other arguments: the build names the function and both prototypes" {
	local name names declared=0
	edit "$COMMON/include/net/tcp.h" \
		's/tcp_push(struct sock \*sk, int flags, int mss_now/tcp_push(int flags, struct sock *sk, int mss_now/'
	make_edited 2 "$BATS_FILE_TMPDIR" module/symbols.o
	assert_output --regexp "prototypes\.h:[0-9:]+ error: conflicting types for .tcp_push.; have .void\(struct sock \*, int, "
	assert_output --regexp "previous declaration of .tcp_push. with type .void\(int,  ?struct sock \*, "
	assert_equal "$(grep -c 'error: conflicting' <<<"$output")" 1
	# Every probed function that a header declares is in prototypes.h.
	mapfile -t names < <(sed -nE 's/^\t*\.(symbol|fallback) = "(.*)",$/\2/p' "$SOURCE"/module/*.c | sort -u)
	for name in "${names[@]}"; do
		grep -qrE "\b$name\(" "$COMMON"/include/{net,linux/tcp.h} || continue
		((++declared))
		grep -qE "[ *]$name\(" "$SOURCE/module/prototypes.h" || fail "$name is missing"
	done
	((declared >= 15)) || fail "only $declared of ${#names[@]}"
}

# crc_of_layout: compiles what the kernel's tcp_cong.c includes, and prints the checksum that
# genksyms gives to tcp_slow_start.
crc_of_layout() {
	local dir=$BATS_TEST_TMPDIR/crc
	rm -rf "$dir"
	mkdir "$dir"
	echo 'obj-y := crc.o' >"$dir/Kbuild"
	{
		printf '#include <%s>\n' linux/{module,mm,types,list,gfp,jhash}.h \
			net/tcp.h trace/events/tcp.h
		echo 'u32 tcp_slow_start(struct tcp_sock *tp, u32 acked) { return acked; }'
		echo 'EXPORT_SYMBOL_GPL(tcp_slow_start);'
	} >"$dir/crc.c"
	make_edited 0 "$dir" crc.o
	sed -n 's/^#SYMVER tcp_slow_start //p' "$dir/.crc.o.cmd"
}

# weak_modules_finds SYMVERS: prints what keeps weak-modules of Enterprise Linux from linking the
# module into the kernel with these checksums. It links the module, and removes the link again if
# this depmod complains about the link.
weak_modules_finds() {
	local base=$BATS_TEST_TMPDIR/base
	mkdir -p "$base/lib/modules/1.0.0/weak-updates"
	touch "$base"/lib/modules/1.0.0/modules.{builtin,order}
	ln -sf "$BATS_FILE_TMPDIR/tcplat.ko" "$base/lib/modules/1.0.0/weak-updates"
	{ PATH=$PATH:/usr/sbin:/sbin depmod -b "$base" -naeE "$1" 1.0.0 >/dev/null; } 2>&1
}

# The module is built for a kernel whose struct tcp_sock has one more field, whose checksum
# genksyms calculates from the header, and loaded on the kernel without that field. weak-modules
# compares the same checksums. For the compiler, that kernel is newer than any known one.
# bats test_tags=all
@test "a newer kernel with another struct tcp_sock: it builds; this one refuses it, as does weak-modules" {
	local this other
	this=$(awk '$2 == "tcp_slow_start" { print $1 }' "$KDIR/Module.symvers")
	assert_equal "$(crc_of_layout)" "$this"
	edit "$KDIR/include/generated/uapi/linux/version.h" \
		's/\(LINUX_VERSION_CODE\) .*/\1 16711680/; s/\(LINUX_VERSION_MAJOR\) .*/\1 255/'
	edit "$COMMON/include/linux/tcp.h" 's/^\tu32\tsegs_out;/\tu32\tone_more;\n&/'
	other=$(crc_of_layout)
	assert_regex "$other" '^0x[0-9a-f]{8}$'
	[[ $other != "$this" ]]
	edit "$KDIR/Module.symvers" "s/^$this\ttcp_slow_start\t/$other\ttcp_slow_start\t/"
	make_edited 0 "$BATS_FILE_TMPDIR" modules
	prints '' weak_modules_finds "${edits[-2]}"
	run -0 weak_modules_finds "$KDIR/Module.symvers"
	assert_output --regexp '^[^ ]+ WARNING: [^ ]+/weak-updates/tcplat\.ko disagrees about version of symbol tcp_slow_start$'

	printf '%s\n' '#!/bin/sh' 'insmod tcplat.ko; dmesg | grep tcp_slow_start' >"$BATS_TEST_TMPDIR/guest"
	run -0 "$SOURCE/vm/bare" --kernel 6.1 --live "$BATS_TEST_TMPDIR/guest" "$BATS_FILE_TMPDIR/tcplat.ko"
	assert_line --partial 'tcplat: disagrees about version of symbol tcp_slow_start'
	assert_line --partial 'Invalid'
}

@test "packaging/dkms sources: relative to the caller's directory, and only if new or empty" {
	cd "$BATS_TEST_TMPDIR"
	cp -r "$SOURCE"/{Kbuild,dkms.conf,module,packaging} .
	mkdir empty elsewhere
	run -0 packaging/dkms sources empty
	cd elsewhere
	run -0 ../packaging/dkms sources module
	run -0 diff -r module ../empty
	run -0 diff <(cd module && find . -type f | sort) \
		<(cd .. && find ./Kbuild ./dkms.conf ./module/*.[ch] | sort)
	prints -1 --partial '/module is not empty' ../packaging/dkms sources ../module
	run -0 diff -r ../module "$SOURCE/module"
}

@test "the reader needs no library but the C library, and the man pages no compiler" {
	cp -r "$SOURCE/userspace" "$SOURCE/dkms.conf" "$BATS_TEST_TMPDIR"
	cd "$BATS_TEST_TMPDIR/userspace"
	rm -f tcplat{,.4,.8}
	run -0 make -s CC=false tcplat.4 tcplat.8
	run -0 grep -A 1 '^\.Cm trace$' tcplat.8
	assert_line '.Op Fl p Ar address'
	prints '' make -s
	prints --regexp '^[23]$' bash -c "ldd tcplat | grep -c '\.so'"
}
