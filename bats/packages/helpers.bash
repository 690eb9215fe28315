# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# shellcheck disable=SC2034 # used by files that load this
#
# Shared by the bats files in this directory. They run as root on the machine itself, in a mount
# namespace of bats/packages/run, which sets RELEASE, ROOT (its root file system, not to be
# modified), TOP (the repository) and CACHE.

load ../libraries

export LC_ALL=C.UTF-8

VERSION=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"$/\1/p' "$TOP/dkms.conf")
# What tcplat-textfile.timer writes.
TEXTFILE=/var/lib/prometheus/node-exporter/tcplat.prom

# lay_over: mounts LAYER/root, an overlay of ROOT and a layer in memory, LAYER/upper, which the
# tests of a file may modify.
lay_over() {
	LAYER=$BATS_FILE_TMPDIR/layer
	COPY=$LAYER/root UPPER=$LAYER/upper
	mkdir "$LAYER"
	mount -t tmpfs -o size=4G,mode=755 tcplat "$LAYER"
	mkdir "$COPY" "$UPPER" "$LAYER/work"
	mount -t overlay -o "lowerdir=$ROOT,upperdir=$UPPER,workdir=$LAYER/work" tcplat "$COPY"
	# vm/run mounts the repository and the cache there.
	mkdir -p "$COPY/packages" "$COPY$TOP" "$COPY$CACHE" "$CACHE/apt/$RELEASE"/{lists,archives}/partial
	# The release's default kernel: no flavour before the architecture, nor a newer series.
	KERNEL=$(find "$COPY/boot" -name 'vmlinuz-*' -printf '%f\n' | sed 's/^vmlinuz-//' |
		grep -vE -- '-(rt|cloud)' | sort -V | head -n 1)
	export LAYER COPY UPPER KERNEL
	named_so >"$LAYER/before"
}

# Each file has a layer of its own.
teardown_file() { umount -R "$LAYER"; }

# Prints the last lines if a test fails: "run -0" shows only the status.
teardown() { [[ ! ${output-} ]] || tail -n 30 <<<"$output"; }

# inside COMMAND...: runs COMMAND in the layer, with the mounts of a running system, and with the
# packages that earlier tests downloaded in apt's cache.
inside() {
	# shellcheck disable=SC2016 # for the inner shell
	unshare --mount --propagation private sh -ec '
		copy=$1 apt=$2
		shift 2
		mount -t proc proc "$copy/proc"
		mount -t sysfs -o ro sysfs "$copy/sys"
		mount --rbind /dev "$copy/dev"
		mount --bind "$apt/lists" "$copy/var/lib/apt/lists"
		mount --bind "$apt/archives" "$copy/var/cache/apt/archives"
		exec chroot "$copy" /usr/bin/env -i HOME=/root LC_ALL=C.UTF-8 \
			DEBIAN_FRONTEND=noninteractive \
			PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
	' sh "$COPY" "$CACHE/apt/$RELEASE" "$@" 3>&- </dev/null
}

# retried COMMAND...: runs it in the layer, up to four times: a mirror may be changing.
retried() {
	local pause
	for pause in 5 20 60 0; do
		! inside "$@" || return 0
		sleep "$pause"
	done
	return 1
}

# apt_install PACKAGE...: installs in the layer and downloads what the cache lacks; updates apt's
# lists and retries, since the lists may be too old.
apt_install() {
	local apt=(apt-get -y -q -o APT::Sandbox::User=root -o APT::Keep-Downloaded-Packages=true
		--no-install-recommends)
	inside "${apt[@]}" install "$@" || {
		retried "${apt[@]}" update && retried "${apt[@]}" install "$@"
	}
}

# project DIRECTORY: copies what is needed to build and install the module there.
project() {
	mkdir "$1"
	cp -r "$TOP"/{COPYING,Kbuild,Makefile,dkms.conf,module,packaging,debian} "$1"
}

# small_module DIRECTORY VERSION: makes the project there one of this version, with a module that
# compiles fast.
small_module() {
	sed -i "s/^PACKAGE_VERSION=.*/PACKAGE_VERSION=\"$2\"/" "$1/dkms.conf"
	printf 'obj-m := tcplat.o\ntcplat-y := module/main.o\n' >"$1/Kbuild"
	rm "$1"/module/*
	printf '#include <linux/module.h>\nMODULE_LICENSE("GPL");\nMODULE_VERSION("%s");\n' \
		"$2" >"$1/module/main.c"
}

# boot [OPTION...] -- COMMAND...: runs COMMAND in a guest on the layer, with the release's kernel
# and these options of vm/run.
boot() {
	"$TOP/vm/run" --root "$COPY" --kernel "${BOOT_KERNEL:-$KERNEL}" --timeout 900 "$@"
}

# Prints files with tcplat in their names that were added since lay_over, except whiteouts of
# removed files.
left_behind() { named_so | comm -13 "$LAYER/before" -; }

named_so() { find "$UPPER" -iname '*tcplat*' -not -type c -printf '/%P\n' | sort; }

# dkms 2.8 prints a comma where later versions print a slash.
dkms_status() { inside dkms status "$@" | sed 's|^tcplat, |tcplat/|'; }

# finds VERSION [KERNEL [DIRECTORY/]]: modprobe would load this version from the updates.
finds() {
	run -0 inside modinfo -k "${2-$KERNEL}" tcplat
	assert_line --regexp "^filename: +/lib/modules/${2-$KERNEL}/updates/${3-}tcplat.ko(.xz)?\$"
	assert_line --regexp "^version: +$1\$"
	assert_line --regexp "^vermagic: +${2-$KERNEL} "
}

# installed_for KERNEL: DKMS shows the module as installed, and modprobe would find it.
installed_for() {
	prints "tcplat/$VERSION, $1, x86_64: installed" dkms_status -m tcplat -v "$VERSION" -k "$1"
	finds "$VERSION" "$1" dkms/
}
