# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# shellcheck disable=SC2034 # used by those that load this
#
# What the bats files here share. They run as root on the machine itself, in a mount
# namespace of bats/packages/run, which sets RELEASE, ROOT (its root file system, for
# reading), TOP (the repository) and CACHE.

bats_load_library bats-support
bats_load_library bats-assert

export LC_ALL=C.UTF-8

VERSION=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"$/\1/p' "$TOP/dkms.conf")

# lay_over: LAYER/root is ROOT with a layer in memory over it, LAYER/upper, for a file
# of tests to change.
lay_over() {
	LAYER=$BATS_FILE_TMPDIR/layer
	COPY=$LAYER/root UPPER=$LAYER/upper
	mkdir "$LAYER"
	mount -t tmpfs -o size=4G,mode=755 tcplat "$LAYER"
	mkdir "$COPY" "$UPPER" "$LAYER/work"
	mount -t overlay -o "lowerdir=$ROOT,upperdir=$UPPER,workdir=$LAYER/work" tcplat "$COPY"
	# The middle two are what vm/run mounts.
	mkdir -p "$COPY/packages" "$COPY$TOP" "$COPY$CACHE" "$CACHE/apt/$RELEASE"/{lists,archives}/partial
	# The kernel that the release has by default: no word before the architecture.
	KERNEL=$(find "$COPY/boot" -name 'vmlinuz-*' -printf '%f\n' | sed 's/^vmlinuz-//' |
		grep -vE -- '-(rt|cloud)' | sort -V | tail -n 1)
	export LAYER COPY UPPER KERNEL
	named_so >"$LAYER/before"
}

lay_off() {
	umount "$COPY"
	umount "$LAYER"
}

# inside COMMAND...: in the layer, with what programs expect of a running system, and
# the packages of the tests before in apt's cache.
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

# apt_install PACKAGE...: in the layer, downloading what the cache lacks.
apt_install() {
	local apt=(apt-get -y -q -o APT::Sandbox::User=root -o APT::Keep-Downloaded-Packages=true
		--no-install-recommends)
	inside "${apt[@]}" install "$@" || {
		inside "${apt[@]}" update && inside "${apt[@]}" install "$@"
	}
}

# boot COMMAND...: a guest over the layer, with the release's kernel; options of vm/run
# before --, which has to be there.
boot() {
	"$TOP/vm/run" --root "$COPY" --kernel "${BOOT_KERNEL:-$KERNEL}" --timeout 300 "$@"
}

# Everything of this name that the layer has had since lay_over, whiteouts of what was
# removed aside.
left_behind() { named_so | comm -13 "$LAYER/before" -; }

named_so() { find "$UPPER" -iname '*tcplat*' -not -type c -printf '/%P\n' | sort; }

# dkms 2.8 writes a comma where later ones have a slash.
dkms_status() { inside dkms status "$@" | sed 's|^tcplat, |tcplat/|'; }

# installed_for KERNEL: DKMS says so, and modprobe would find it.
installed_for() {
	run dkms_status -m tcplat -v "$VERSION" -k "$1"
	assert_success
	assert_output "tcplat/$VERSION, $1, x86_64: installed"
	run inside modinfo -k "$1" -F version tcplat
	assert_output "$VERSION"
	run inside modinfo -k "$1" -F filename tcplat
	assert_output --partial "/lib/modules/$1/updates/dkms/tcplat.ko"
	run inside modinfo -k "$1" -F vermagic tcplat
	assert_output --partial "$1 "
}
