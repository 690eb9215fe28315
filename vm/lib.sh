# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # used by those that source this
#
# What the scripts in vm/ and bats/ share: where things are, how to say
# something, and how to get what is missing from Debian.

# A user's PATH has no sbin, where depmod and ip are.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
# apt, dmesg and grep are read by these scripts: one language.
export LC_ALL=C.UTF-8

HOME=${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}
export HOME

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
build=$top/build
cache=$HOME/.cache/tcplat

# Of each guest's kernel. Code whose address is another in each process is translated
# anew for each: without that a process starts in half the time.
readonly guest_words='panic=-1 norandmaps'

# Progress goes to stderr, so that stdout is the result and nothing else.
say() { printf 'tcplat: %s\n' "$*" >&2; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
usage_die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 2; }

as_root() {
	if [[ $(id -u) == 0 ]]; then
		"$@"
	elif type -P sudo >/dev/null; then
		sudo "$@"
	else
		die "this needs root to install packages; run it as root, or install sudo"
	fi
}

apt_get() {
	# A fresh machine's own apt timer may hold the lock for minutes.
	as_root env DEBIAN_FRONTEND=noninteractive \
		apt-get -y -q -o DPkg::Lock::Timeout=600 "$@" </dev/null
}

refresh_lists() {
	say "refreshing apt's lists"
	apt_get update >/dev/null 2>&1 || true
}

# apt_try COMMAND...: runs it, and once more after `apt-get update`: the lists
# may be missing, or so old that the pool has lost what they name.
apt_try() {
	local log
	log=$(mktemp)
	if ! "$@" >"$log" 2>&1; then
		say "refreshing apt's lists"
		if ! { apt_get update && "$@"; } >>"$log" 2>&1; then
			tail -n 15 "$log" >&2
			rm -f "$log"
			return 1
		fi
	fi
	rm -f "$log"
}

# As root apt downloads as a user of its own, who cannot write here.
apt_download() { apt-get -q -o APT::Sandbox::User=root download "$@"; }

installed() {
	[[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# need CMD:PACKAGE...: installs the packages whose command is missing; with
# nothing before the colon, the packages that are not installed.
need() {
	local want packages=()
	for want; do
		if [[ $want == :* ]]; then
			installed "${want#:}" || packages+=("${want#:}")
		else
			type -P "${want%%:*}" >/dev/null || packages+=("${want#*:}")
		fi
	done
	((${#packages[@]})) || return 0
	type -P apt-get >/dev/null ||
		die "missing: ${packages[*]} (Debian's names); install them and try again"
	say "installing ${packages[*]}"
	apt_try apt_get install --no-install-recommends "${packages[@]}" ||
		die "apt-get could not install: ${packages[*]}"
}

need_compiler() {
	need make:make gcc:gcc pkg-config:pkg-config :libc6-dev :libjson-c-dev :libtracefs-dev \
		:libtraceevent-dev :libncurses-dev
}

# locked FILE COMMAND...: one at a time among those that name the same FILE.
locked() {
	local lock=$1
	shift
	mkdir -p "${lock%/*}"
	(
		flock 9
		"$@" 9>&-
	) 9>"$lock"
}

# source_name DIRECTORY: the name of the kernel that vm/kernel builds of a kernel source
# tree, which has one as long as it stays at its place.
source_name() {
	local tree
	if ! tree=$(realpath -e -- "$1" 2>/dev/null) || ! grep -qs '^PATCHLEVEL = ' "$tree/Makefile" ||
		[[ ! -e $tree/net/ipv4/tcp_input.c ]]; then
		usage_die "'$1' is not a Linux source tree"
	fi
	echo "src-$(basename "$tree" | tr -c '[:alnum:]._\n-' _)-$(sha256sum <<<"$tree" | cut -c -8)"
}

# copy_sources DIRECTORY KDIR: what the module is built from, into a directory
# to build it in for the kernel of KDIR. Only what differs is written, so that
# make does no more than it must.
copy_sources() {
	local dir=$1 kdir=$2 file
	[[ $(cat "$dir/kdir" 2>/dev/null) == "$kdir" ]] || rm -rf "$dir"
	mkdir -p "$dir/module" "$dir/kunit_tests"
	echo "$kdir" >"$dir/kdir"
	(
		shopt -s nullglob
		cd "$top" || exit
		for file in Kbuild dkms.conf {module,kunit_tests}/*.[ch]; do
			cmp -s "$file" "$dir/$file" || cp "$file" "$dir/$file"
		done
		cd "$dir" || exit
		for file in {module,kunit_tests}/*.[ch]; do
			[[ -e $top/$file ]] || rm "$file"
		done
	)
}

# in_root ROOT COMMAND...: with ROOT, one of vm/root, as the root file system and the
# repository at its place in it. The mounts are gone with the command.
in_root() {
	local root=$1
	shift
	[[ $root != / ]] || { "$@"; return; }
	# shellcheck disable=SC2016 # for the inner shell
	as_root unshare --mount --propagation private bash -c '
		set -e
		root=$1 top=$2 user=$3
		shift 3
		mkdir -p "$root$top"
		mount -t proc proc "$root/proc"
		mount --bind "$top" "$root$top"
		exec chroot --userspec="$user" "$root" env -C "$top" "$@"
	' in_root "$root" "$top" "$(id -u):$(id -g)" "$@"
}

# build_modules KERNEL DIRECTORY [WORD...]: what is in DIRECTORY, of the repository, by
# the kernel's build system and its release's compiler, with these words for make.
build_modules() {
	local kernel=$1 dir=$2 kdir root cross=()
	shift 2
	kdir=$("$top/vm/kernel" --kdir "$kernel")
	root=$("$top/vm/kernel" --root "$kernel")
	[[ $kernel != *-arm64 ]] || cross=(ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-)
	in_root "$root" make -s -C "${kdir#"${root%/}"}" M="$dir" "${cross[@]}" "$@" modules >&2
}

version() { sed -n 's/^PACKAGE_VERSION="\(.*\)"$/\1/p' "$top/dkms.conf"; }

# virtme-ng of a pinned version, in a Python environment of its own.
need_vng() {
	need qemu-system-x86_64:qemu-system-x86 file:file depmod:kmod ip:iproute2 \
		:busybox-static :udev :procps
	need_venv "$top/vm/requirements.txt"
	# vng finds its own parts through PATH.
	PATH=$venv/bin:$PATH
}

# need_venv REQUIREMENTS: venv is a Python environment that has them.
need_venv() {
	local key
	need /usr/bin/python3:python3 :python3-venv
	key=$(cat "$1" <(/usr/bin/python3 --version) | sha256sum)
	venv=$cache/venv-${key:0:12}
	locked "$cache/venv.lock" make_venv "$1"
}

make_venv() {
	[[ ! -e $venv/complete ]] || return 0
	local log
	say "installing $(tr '\n' ' ' <"$1")into $venv"
	log=$(mktemp)
	if ! { /usr/bin/python3 -m venv --clear "$venv" &&
		"$venv/bin/pip" install --quiet -r "$1" &&
		touch "$venv/complete"; } >"$log" 2>&1; then
		cat "$log" >&2
		rm -f "$log"
		die "pip could not install what is in ${1#"$top/"}"
	fi
	rm -f "$log"
}

# need_unpacked PACKAGE...: their newest versions, without installing them, together
# in one directory of the cache; sets unpacked.
need_unpacked() {
	unpacked=$cache/unpacked-$(printf '%s\n' "$@" | sha256sum | cut -c -12)
	locked "$cache/unpacked.lock" unpack "$@"
}

unpack() {
	[[ ! -e $unpacked/complete ]] || return 0
	local deb
	say "downloading $*"
	rm -rf "$unpacked"
	mkdir -p "$unpacked/debs"
	(cd "$unpacked/debs" && apt_try apt_download "$@") ||
		die "apt-get could not download: $*"
	for deb in "$unpacked"/debs/*.deb; do
		dpkg -x "$deb" "$unpacked"
	done
	rm -r "$unpacked/debs"
	touch "$unpacked/complete"
}

# What tests and demos use, in the guest and here, besides what they build.
need_workloads() { need ip:iproute2 ab:apache2-utils strace:strace :procps; }

need_bats() {
	need bats:bats :bats-support :bats-assert bpftrace:bpftrace clang:clang \
		:libbpf-dev fish:fish mandoc:mandoc perf:linux-perf strace:strace \
		systemd-analyze:systemd tmux:tmux trace-cmd:trace-cmd valgrind:valgrind zsh:zsh
	need_workloads
}

# The programs that tests and demos use.
make_tools() { make_programs reader build/traffic build/ports; }

# make_arm64_tools KERNEL PROGRAM...: of vm/NAME.c, for its guests, in $build/arm64.
make_arm64_tools() {
	local kernel=$1 root program
	shift
	root=$("$top/vm/kernel" --root "$kernel")
	mkdir -p "$build/arm64"
	for program; do
		in_root "$root" aarch64-linux-gnu-gcc -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror \
			-static -pthread -o "$build/arm64/${program##*/}" "$program.c" >&2
	done
}

# Those of tests: the BPF programs that they compare the module with, too.
make_test_tools() { make_programs reader test-programs oracle; }

make_programs() {
	need_compiler
	locked "$build/.tools.lock" make -s -C "$top" "$@" >&2 ||
		die "could not build: $*"
}

# Sets sanitized to the reader with AddressSanitizer and UndefinedBehaviorSanitizer in it.
make_sanitized() {
	local dir=$build/sanitized flags=-fsanitize=address,undefined
	need_compiler
	sanitized=$dir/userspace/tcplat
	rm -rf "$dir"
	mkdir -p "$dir"
	cp -r "$top/userspace" "$top/dkms.conf" "$dir"
	make -s -C "$dir/userspace" O=../objects \
		CFLAGS="-O1 -g -fno-omit-frame-pointer $flags -fno-sanitize-recover=all -static-libasan -static-libubsan" >&2 ||
		die "could not build the reader with sanitizers"
}

# under_sanitizers BATS...: runs it with that reader, of which each complaint is a failure.
under_sanitizers() {
	local dir=$build/sanitized status=0
	rm -f "$dir"/report*
	BARE=1 CPU_MS=100 TCPLAT=$sanitized ASAN_OPTIONS=exitcode=99:log_path=$dir/report \
		UBSAN_OPTIONS=print_stacktrace=1:log_path=$dir/report "$@" || status=$?
	if compgen -G "$dir/report*" >/dev/null; then
		cat "$dir"/report* >&2
		status=1
	fi
	return "$status"
}

# tap_totals FILE: tests planned, passed, failed, skipped. A skipped test is
# none that passed; one that is planned and has no result is one that failed.
tap_totals() {
	awk '
	/^1\.\.[0-9]+/ { planned = substr($1, 4) }
	/^not ok( |$)/ { failed++ }
	/^ok( |$)/ { if (/ # skip/) skipped++; else passed++ }
	END {
		missing = planned - passed - failed - skipped
		if (missing > 0)
			failed += missing
		print planned + 0, passed + 0, failed + 0, skipped + 0
	}' "$1"
}

# tap_check NAME EXPECTED ACTUAL: the next test of tap_suite; count and failed say how many.
tap_suite='' count=0 failed=0
tap_check() {
	((++count))
	if [[ $2 == "$3" ]]; then
		echo "ok $count $tap_suite: $1"
	else
		((++failed))
		echo "not ok $count $tap_suite: $1"
		echo "# expected $2, got $3"
	fi
}

# tap_yes CONDITION: "yes", or that it is not so.
tap_yes() { if (($1)); then echo yes; else echo "no: $1"; fi; }

# What of a kernel log is a complaint. Stock kernels print nothing of it at
# boot. A starved emulator may cause stalls and lockups too: those count, for
# nothing tells them from the real ones.
splat='WARNING: |\bBUG\b: |kernel BUG at|Oops|Call Trace:|\[ cut here \]'
splat+='|[Gg]eneral protection fault|unable to handle|Kernel panic|double fault'
splat+='|divide error|invalid opcode|stack segment|[Bb]ad page (state|map)'
splat+='|possible (circular|recursive) locking|possible irq lock inversion'
splat+='|lock(ing)? (inversion )?dependency detected|invalid wait context|inconsistent lock state|suspicious RCU usage'
splat+='|held lock freed|scheduling while atomic|sleeping function called'
splat+='|soft lockup|hard LOCKUP|blocked for more than|rcu.* stall|kthread starved'
splat+='|KASAN|KCSAN|KFENCE: |UBSAN|ODEBUG|refcount_t: |list_(add|del) corruption'
splat+='|leaked|memory leaks|waiting for .* to become free|Objects remaining'

# splats LOG: the lines that complain, with their numbers. What virtme-ng's init says
# there itself ("WARNING: failed to run systemd-tmpfiles" on a bare system) is none of
# the kernel's, nor is what a guest of vm/bare prints.
splats() {
	sed 's/^\[[ 0-9.]*\] virtme-ng-init: .*//; s/^std\(out\|err\): .*//' "$1" | grep -nE "$splat"
}

# show_splat LOG: the first of them, and what is around it.
show_splat() {
	local line
	line=$(splats "$1" | sed -n '1s/:.*//p') || true
	[[ ! $line ]] || sed -n "$((line > 2 ? line - 2 : 1)),$((line + 40))p" "$1" >&2
}

# Taints of a complaint: machine check, bad page, oops, warning, soft lockup.
# They tell of a splat that the log has lost.
readonly TAINTS=$((1 << 4 | 1 << 5 | 1 << 7 | 1 << 9 | 1 << 14))
