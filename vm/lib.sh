# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # used by those that source this
#
# Shared by the scripts in vm/ and bats/: paths, messages, and installing missing Debian
# packages.

# A normal user's PATH has no sbin, where depmod and ip are.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
# These scripts parse the output of apt, dmesg and grep: fix its language.
export LC_ALL=C.UTF-8
# C.UTF-8 heeds LANGUAGE. A make above has no jobs for the ones here, nor are its options theirs.
unset LANGUAGE CDPATH MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
# Other users, and a guest's, read what is made here.
umask 022

HOME=${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}
export HOME

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
build=$top/build
cache=$HOME/.cache/tcplat

# Kernel command line of every guest. norandmaps: QEMU translates code again for each address
# that it runs at; with fixed addresses a process starts in half the time.
readonly guest_words='panic=-1 norandmaps'
# For guests that need not be compared with earlier ones: the TSCs of all processors are QEMU's
# one clock. The kernel must neither doubt it nor fall back to the HPET, which costs a hundred
# times more to emulate.
# A test at boot that interrupts of a timer come in time fails on a busy machine, which may also
# leave a guest without a processor for longer than the 21 s after which RCU complains.
readonly clock_words='tsc=reliable no_timer_check rcupdate.rcu_cpu_stall_timeout=60'

# Progress goes to stderr; stdout has only the result.
say() { printf 'tcplat: %s\n' "$*" >&2; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
usage_die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 2; }
# die_with_log LOG MESSAGE: prints the end of LOG first.
die_with_log() { tail -n 20 "$1" >&2; die "$2"; }

# hold_results PROGRAM DIRECTORY: makes the directory, in which PROGRAM may run once at a time; the
# descriptor lock keeps others out until it is closed.
hold_results() {
	mkdir -p "$2"
	exec {lock}<"$2"
	flock --nonblock "$lock" || die "another run of $1 uses $2; wait for its end"
}

# options NAME... -- ARGUMENT...: sets a variable for each option: --NAME sets NAME to 1, or, for
# NAME=, to the argument that follows, or to VALUE of --NAME=VALUE; for NAME+ it adds that to the
# array NAMEs. Sets rest to the arguments after the options, and ended if -- ended them.
options() {
	local known=' ' option hint
	hint="see $(realpath --relative-to="$top" "$0") --help"
	while [[ $1 != -- ]]; do
		known+="$1 "
		shift
	done
	shift
	ended=''
	while [[ ${1-} == -* ]]; do
		[[ $1 != --*=* ]] || set -- "${1%%=*}" "${1#*=}" "${@:2}"
		option=${1#--}
		if [[ $1 == -- ]]; then
			ended=1
		elif [[ $1 == @(-h|--help) ]]; then
			usage
			exit
		elif [[ $known == *" $option "* ]]; then
			declare -g "${option//-/_}=1"
		elif [[ $known != *" $option"[=+]" "* ]]; then
			usage_die "unknown option '$1'; $hint"
		elif (($# < 2)); then
			usage_die "$1 needs a value; $hint"
		elif [[ $known == *" $option= "* ]]; then
			declare -g "$option=$2"
			shift
		else
			local -n values=${option}s
			values+=("$2")
			shift
		fi
		shift
		[[ ! $ended ]] || break
	done
	rest=("$@")
}

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
	# On a fresh machine apt's own timer may hold the lock for minutes.
	as_root env DEBIAN_FRONTEND=noninteractive \
		apt-get -y -q -o DPkg::Lock::Timeout=600 "$@" </dev/null
}

# apt waits for dpkg's lock, but not for that of its lists.
refresh_lists() {
	say "refreshing apt's lists"
	locked "$cache/lists.lock" apt_get update >/dev/null 2>&1 || true
}

# downloads COMMAND...: runs COMMAND up to three times: a mirror may be changing, or busy. Prints the
# end of its output if it never succeeds.
downloads() {
	local log pause
	log=$(mktemp)
	for pause in 5 20 0; do
		if "$@" >"$log" 2>&1; then
			rm -f "$log"
			return 0
		fi
		sleep "$pause"
	done
	tail -n 30 "$log" >&2
	rm -f "$log"
	return 1
}

# apt_try COMMAND...: runs COMMAND; if it fails, again after `apt-get update`. apt's lists may be
# missing, or name versions that the mirror no longer has.
apt_try() {
	"$@" >/dev/null 2>&1 || downloads with_lists "$@"
}
with_lists() { refresh_lists && "$@"; }

# As root, apt downloads as its own user, which cannot write here.
apt_download() { apt-get -q -o APT::Sandbox::User=root download "$@"; }

installed() {
	[[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# need CMD:PACKAGE...: installs each PACKAGE whose command CMD is missing; with an empty
# CMD, if the package is not installed.
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
		die "missing Debian packages: ${packages[*]}; install them and try again"
	say "installing ${packages[*]}"
	apt_try apt_get install --no-install-recommends "${packages[@]}" ||
		die "apt-get could not install: ${packages[*]}"
}

# Installs what is needed to compile, and makes gcc and clang in this process and its children
# use ccache. A file is found in the cache whatever directory the repository is in.
need_compiler() {
	need make:make gcc:gcc ccache:ccache :libc6-dev
	# Depend mode: ccache uses the compiler's list of headers and does not run the preprocessor.
	export CCACHE_DIR=$cache/ccache CCACHE_MAXSIZE=2G CCACHE_DEPEND=1
	export CCACHE_BASEDIR=$top CCACHE_NOHASHDIR=1
	[[ :$PATH: == *:/usr/lib/ccache:* ]] || export PATH=/usr/lib/ccache:$PATH
}

# locked FILE COMMAND...: runs COMMAND while it holds a lock on FILE.
locked() {
	local lock=$1
	shift
	mkdir -p "${lock%/*}"
	(
		flock 9
		"$@" 9>&-
	) 9>"$lock"
}

# kernels CONDITION: prints the names of the kernels of vm/kernels that fulfil an awk condition on
# from and tests.
kernels() { awk '!/^#/ { from = $2; tests = $3; if ('"$1"') print $1 }' "$top/vm/kernels"; }

# source_name DIRECTORY: prints the name that vm/kernel gives to the kernel of a source tree.
# It depends only on the tree's path.
source_name() {
	local tree
	if ! tree=$(realpath -e -- "$1" 2>/dev/null) || ! grep -qs '^PATCHLEVEL = ' "$tree/Makefile" ||
		[[ ! -e $tree/net/ipv4/tcp_input.c ]]; then
		usage_die "'$1' is not a Linux source tree"
	fi
	echo "src-$(basename "$tree" | tr -c '[:alnum:]._\n-' _)-$(sha256sum <<<"$tree" | cut -c -8)"
}

# copy_sources DIRECTORY KDIR: copies the module's sources into DIRECTORY, to build them for
# the kernel of KDIR. Only files that differ are written, so that make rebuilds only those.
copy_sources() {
	local dir=$1 kdir=$2 file built
	# A kernel that was built again has other checksums of symbols.
	built="$kdir $(stat -c %Y "$kdir/Module.symvers" 2>/dev/null || :)"
	[[ $(cat "$dir/kdir" 2>/dev/null) == "$built" ]] || rm -rf "$dir"
	mkdir -p "$dir/module" "$dir/kunit_tests"
	echo "$built" >"$dir/kdir"
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

# in_root ROOT COMMAND...: runs COMMAND in ROOT, a root file system of vm/root, with the
# repository mounted at its own path. The mounts end with the command.
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

# build_modules KERNEL DIRECTORY [WORD...]: builds the modules in DIRECTORY, which lies in the
# repository, with the kernel's build system and the compiler of its release. WORDs go to make.
build_modules() {
	local kernel=$1 dir=$2 kdir root cross=()
	shift 2
	kdir=$("$top/vm/kernel" --kdir "$kernel")
	root=$("$top/vm/kernel" --root "$kernel")
	[[ $root != / ]] || need_compiler
	[[ $kernel != *-arm64 ]] || cross=(ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-)
	in_root "$root" make -s -C "${kdir#"${root%/}"}" M="$dir" "${cross[@]}" "$@" modules >&2
}

# decompressed IMAGE: prints the kernel image to boot for IMAGE. An emulated machine decompresses
# one of Debian's kernels in as much time as it takes to boot, so this is a decompressed copy if
# the kernel can start that way (PVH) and IMAGE is in the cache, where the copy is kept.
decompressed() {
	local config=${1/vmlinuz-/config-} vmlinux=${1/vmlinuz-/vmlinux-} program='' sectors offset size
	if [[ $1 == "$cache"/* ]] && grep -qs '^CONFIG_PVH=y' "$config"; then
		case $(grep -E '^CONFIG_KERNEL_[A-Z0-9]+=y' "$config") in
		*_XZ=y) program=xz ;;
		*_ZSTD=y) program=zstd ;;
		esac
	fi
	if [[ ! $program || (! -e $vmlinux && ! -w ${1%/*}) ]]; then
		echo "$1"
		return
	fi
	if [[ ! -e $vmlinux ]]; then
		need xz:xz-utils zstd:zstd
		# Documentation/arch/x86/boot.rst in the kernel's source: setup_sects, payload_offset and
		# payload_length. The last four bytes are the size of the kernel.
		sectors=$(od -An -tu1 -j 0x1f1 -N 1 "$1")
		read -r offset size < <(od -An -tu4 -j 0x248 -N 8 "$1")
		dd if="$1" bs=1M iflag=skip_bytes,count_bytes status=none \
			skip=$(((sectors + 1) * 512 + offset)) count=$((size - 4)) |
			"$program" -dc >"$vmlinux.$$" || die "could not decompress $1"
		mv "$vmlinux.$$" "$vmlinux"
	fi
	echo "$vmlinux"
}

# Installs a pinned version of virtme-ng in its own Python environment.
need_vng() {
	need qemu-system-x86_64:qemu-system-x86 file:file depmod:kmod ip:iproute2 \
		:busybox-static :udev :procps
	need_venv "$top/vm/requirements.txt"
	# vng finds its own helpers through PATH.
	PATH=$venv/bin:$PATH
}

# need_venv REQUIREMENTS: sets venv to a Python environment with these packages.
need_venv() {
	local key
	need /usr/bin/python3:python3 :python3-venv
	key=$(cat "$1" <(/usr/bin/python3 --version) | sha256sum)
	venv=$cache/venv-${key:0:12}
	locked "$cache/venv.lock" make_venv "$1"
}

make_venv() {
	[[ ! -e $venv/complete ]] || return 0
	say "installing $(tr '\n' ' ' <"$1")into $venv"
	/usr/bin/python3 -m venv --clear "$venv" || die "python3 could not make $venv"
	downloads "$venv/bin/pip" install --quiet -r "$1" ||
		die "pip could not install the packages of ${1#"$top/"}"
	touch "$venv/complete"
}

# need_unpacked PACKAGE...: downloads and unpacks the newest versions into one directory of
# the cache, without installing them; sets unpacked.
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

# Programs of tests that need not be installed on this machine; each sets unpacked.
need_prometheus() { need_unpacked prometheus prometheus-node-exporter; }
need_web() { need_unpacked nginx wrk libluajit-5.1-2 libluajit-5.1-common; }
need_shim() { need_unpacked shim-signed grub-efi-amd64-signed; }

# Programs for tests and demos, in the guest and on the host, besides those built here.
need_workloads() { need ip:iproute2 ab:apache2-utils strace:strace :procps; }

need_bats() {
	need bats:bats :bats-support :bats-assert bpftrace:bpftrace clang:clang dpkg-parsechangelog:dpkg-dev \
		:libbpf-dev fish:fish mandoc:mandoc perf:linux-perf strace:strace \
		systemd-analyze:systemd tmux:tmux trace-cmd:trace-cmd valgrind:valgrind zsh:zsh
	need_workloads
}

# boot_again N STATUS CONSOLE: whether to boot a guest again whose Nth boot ended, with timeout's
# STATUS, before any code of ours ran: QEMU 7.2 occasionally emulates a booting kernel wrongly (a double
# fault), which says nothing about that code. Once it has begun, every failure counts.
boot_again() {
	(($1 < 3 && $2 != 124 && $2 != 137)) && grep -q 'Linux version' "$3" || return 1
	say "the guest died while it booted; booting again"
}

# Builds the programs that tests and demos use.
make_tools() { make_programs reader build/traffic build/ports; }

# make_arm64_tools KERNEL PROGRAM...: builds each PROGRAM.c for KERNEL's guests in $build/arm64.
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

# Builds the programs that tests use, with the BPF programs that the module is compared with.
make_test_tools() { make_programs reader test-programs oracle; }

make_programs() {
	need_compiler
	locked "$build/.tools.lock" make -s -C "$top" "$@" >&2 ||
		die "could not build: $*"
}

# Builds the reader with AddressSanitizer and UndefinedBehaviorSanitizer; sets sanitized to it.
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

# under_sanitizers BATS...: runs tests with that reader. Any sanitizer report is a failure.
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

# tap_totals FILE: prints the numbers of tests planned, passed, failed and skipped. Skipped
# tests do not count as passed; planned tests without a result count as failed.
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

# tap_check NAME EXPECTED ACTUAL: prints the next result of tap_suite; updates count and failed.
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

# tap_yes CONDITION: prints "yes", or "no:" and the condition if it is false.
tap_yes() { if (($1)); then echo yes; else echo "no: $1"; fi; }

# Complaints in a kernel log. Stock kernels print none of these at boot. A starved emulator
# may cause stalls and lockups too; they count as complaints, since they look like real ones.
splat='WARNING: |\bBUG\b: |kernel BUG at|Oops|Call Trace:|\[ cut here \]'
splat+='|[Gg]eneral protection fault|unable to handle|Kernel panic|double fault'
splat+='|divide error|invalid opcode|stack segment|[Bb]ad page (state|map)'
splat+='|possible (circular|recursive) locking|possible irq lock inversion'
splat+='|lock(ing)? (inversion )?dependency detected|invalid wait context|inconsistent lock state|suspicious RCU usage'
splat+='|held lock freed|scheduling while atomic|sleeping function called'
splat+='|soft lockup|hard LOCKUP|blocked for more than|rcu.* stall|kthread starved'
splat+='|KASAN|KCSAN|KFENCE: |UBSAN|ODEBUG|refcount_t: |list_(add|del) corruption'
splat+='|leaked|memory leaks|leak detector disabled|waiting for .* to become free|Objects remaining'

# splats LOG: prints the lines that are complaints, with line numbers. Messages of virtme-ng's
# init ("WARNING: failed to run systemd-tmpfiles" on a minimal system) and output of scripts in
# guests of vm/bare are not the kernel's and are ignored.
splats() {
	sed 's/^\[[ 0-9.]*\] virtme-ng-init: .*//; s/^std\(out\|err\): .*//' "$1" | grep -nE "$splat"
}

# show_splat LOG: prints the first complaint and the lines around it.
show_splat() {
	local line
	line=$(splats "$1" | sed -n '1s/:.*//p') || true
	[[ ! $line ]] || sed -n "$((line > 2 ? line - 2 : 1)),$((line + 40))p" "$1" >&2
}

# Taint flags that a complaint sets: machine check, bad page, oops, warning, soft lockup. They
# reveal a splat that the log has lost.
readonly TAINTS=$((1 << 4 | 1 << 5 | 1 << 7 | 1 << 9 | 1 << 14))
