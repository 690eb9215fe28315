#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# DKMS of the release builds the module, also for new kernels, and leaves nothing behind. Only
# this runs DKMS itself, in the versions of all supported releases.

load helpers

setup_file() {
	lay_over
	series=$(grep -oE '^[0-9]+[.][0-9]+' <<<"$KERNEL")
	# If the root already has this kernel, remove it, so that it is new later.
	inside apt-get -y -q purge 'linux-image-.*-cloud-amd64' 'linux-headers-.*-cloud-amd64' || :
	# The root's lists may be older than the mirror.
	retried apt-get -q update
	SECOND=$(second_kernel)
	export SECOND
	"$TOP/packaging/dkms" sources "$COPY/usr/src/tcplat-$VERSION"
}

# Prints the newest cloud kernel of the release's series, the smallest flavour. Its headers are in
# the archive some hours before its signed image.
second_kernel() {
	inside apt-cache search --names-only "^linux-image-${series//./[.]}[.].*-cloud-amd64\$" |
		sed 's/^linux-image-\([^ ]*\) .*/\1/' | sort -V | tail -n 1
}

# quiet_dkms COMMAND...: succeeds without printing any warning.
quiet_dkms() {
	run -0 inside dkms "$@"
	refute_output --regexp '[Ww]arn|WARN|[Dd]eprecat|[Ee]rror|[Ii]nvalid'
}

@test "$RELEASE: dkms adds, builds and installs it, and has nothing to say; modprobe loads it" {
	quiet_dkms add -m tcplat -v "$VERSION"
	quiet_dkms build -m tcplat -v "$VERSION" -k "$KERNEL"
	quiet_dkms install -m tcplat -v "$VERSION" -k "$KERNEL"
	installed_for "$KERNEL"
	# shellcheck disable=SC2016 # for the guest
	run -0 --separate-stderr boot -- bash -c '
		set -e
		dkms status -m tcplat | sed "s|^tcplat, |tcplat/|"
		modprobe tcplat
		cat /sys/kernel/tcplat/version
		grep -h . /sys/kernel/tcplat/*/status
		rmmod tcplat
		modprobe tcplat sockets=2048
		cat /sys/module/tcplat/parameters/sockets'
	assert_line --index 0 "tcplat/$VERSION, $KERNEL, x86_64: installed"
	assert_line --index 1 "$VERSION"
	assert_line --index 2 armed
	refute_line --partial unavailable
	assert_line --index -1 2048
}

@test "$RELEASE: a new kernel gets the module, and takes it along when it goes" {
	run -0 apt_install "linux-image-$SECOND" "linux-headers-$SECOND"
	installed_for "$SECOND"
	installed_for "$KERNEL"
	run -0 inside apt-get -y -q purge "linux-image-$SECOND" "linux-headers-$SECOND"
	[[ ! -e $COPY/lib/modules/$SECOND/updates ]]
	run inside dkms status -m tcplat
	refute_output --partial "$SECOND"
	installed_for "$KERNEL"
}

# left_alone KERNEL: the hook that a kernel package runs when it is installed succeeds, and builds
# nothing.
left_alone() {
	run -0 inside /etc/kernel/postinst.d/dkms "$1"
	refute_output --regexp 'tcplat|[Ee]rror|[Ff]ail'
	run inside dkms status -k "$1"
	refute_output --partial installed
	installed_for "$KERNEL"
}

@test "$RELEASE: a kernel without kprobes, or too new: DKMS leaves it alone" {
	local headers=$COPY/usr/src/linux-headers-$KERNEL
	# Kbuild and DKMS look at these files.
	cp -a "$headers" "$headers-none"
	sed -i '/^CONFIG_KPROBES=/d' "$headers-none"/{.config,include/config/auto.conf}
	mkdir "$COPY/lib/modules/$KERNEL-none"
	ln -s "/usr/src/linux-headers-$KERNEL-none" "$COPY/lib/modules/$KERNEL-none/build"
	run inside dkms build -m tcplat -v "$VERSION" -k "$KERNEL-none"
	case $RELEASE in
	# dkms 2.8 has no BUILD_EXCLUSIVE_CONFIG: it tries, and the build prints why it fails.
	bullseye) assert_failure 10 ;;
	*)
		assert_failure 77
		assert_output --partial BUILD_EXCLUSIVE
		;;
	esac
	left_alone "$KERNEL-none"
	mkdir "$COPY/lib/modules/99.0.0-none"
	ln -s "/usr/src/linux-headers-$KERNEL" "$COPY/lib/modules/99.0.0-none/build"
	left_alone 99.0.0-none
	rm -r "$COPY/lib/modules/99.0.0-none"
}

@test "$RELEASE: dkms remove --all leaves the sources alone" {
	quiet_dkms remove -m tcplat -v "$VERSION" --all
	prints '' inside dkms status
	run left_behind
	assert_line "/usr/src/tcplat-$VERSION"
	refute_line --regexp "^/(usr/)?lib|^/var"
}

@test "$RELEASE: make dkms-install takes the place of what is there, dkms-uninstall leaves nothing" {
	local old=$COPY/usr/src/tcplat-0.0.1 tree=$COPY/root/project
	rm -rf "$COPY/usr/src/tcplat-$VERSION" "$COPY"/*/*/linux-headers-*-none
	"$TOP/packaging/dkms" sources "$old"
	sed -i 's/^PACKAGE_VERSION=.*/PACKAGE_VERSION="0.0.1"/' "$old/dkms.conf"
	run -0 inside dkms add -m tcplat -v 0.0.1
	project "$tree"
	run -0 inside make -C /root/project dkms-install KVER="$KERNEL"
	installed_for "$KERNEL"
	[[ ! -e $old ]]
	run -0 inside make -C /root/project dkms-install KVER="$KERNEL"
	prints "tcplat/$VERSION, $KERNEL, x86_64: installed" dkms_status
	run -0 inside make -C /root/project dkms-uninstall
	rm -r "$tree"
	prints '' left_behind
	prints '' inside dkms status
}
