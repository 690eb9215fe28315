#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Installs, uses and purges the Debian packages. They need dkms 3.0; bullseye's is older. Only
# this checks what the packages contain and what they leave behind.

load helpers

setup_file() {
	DEBS=$TOP/build/debs
	export DEBS
	lay_over
	# One kernel is enough to build for.
	find "$COPY"/lib/modules/*/build -not -path "*/$KERNEL/*" -delete
}

@test "$RELEASE: lintian finds no error in the packages" {
	run -0 lintian --allow-root --fail-on error "$DEBS"/tcplat_*.changes
	refute_output --regexp '^E:'
}

@test "$RELEASE: the packages install and build the module for the kernels that are there" {
	local dir=$COPY/packages/old debs deb
	# An older tcplat-dkms with the conffiles of 1.0.0, of which one is modified.
	mkdir -p "$dir"/{DEBIAN,etc/modprobe.d,etc/modules-load.d}
	printf '%s\n' 'Package: tcplat-dkms' 'Version: 0.0.1' 'Architecture: all' 'Maintainer: tcplat' \
		'Description: old' >"$dir/DEBIAN/control"
	echo '#options' >"$dir/etc/modprobe.d/tcplat.conf"
	echo '#tcplat' >"$dir/etc/modules-load.d/tcplat.conf"
	(cd "$dir" && printf '/%s\n' etc/*/* >DEBIAN/conffiles)
	dpkg-deb --root-owner-group --build "$dir" "$COPY/packages/old.deb"
	inside dpkg -i /packages/old.deb
	echo tcplat >"$COPY/etc/modules-load.d/tcplat.conf"
	rm -r "$COPY"/packages/old*
	cp "$DEBS"/tcplat{,-dkms}_*.deb "$COPY/packages/"
	debs=("$COPY"/packages/*.deb)
	run -0 apt_install "${debs[@]#"$COPY"}"
	installed_for "$KERNEL"
	# Nothing in /etc, except what the administrator has modified.
	run -0 find "$COPY/etc" -name 'tcplat*' -print -exec cat {} \;
	assert_output "$COPY/etc/modules-load.d/tcplat.conf
tcplat"
	for deb in "${debs[@]}"; do
		run -0 dpkg-deb -c "$deb"
		refute_output --partial ' ./etc/'
	done
}

@test "$RELEASE: the reader comes with the rules, the dashboard, the documents and a timer that is off" {
	local f
	for f in /lib/systemd/system/tcplat-{textfile.{service,timer},record.service} \
		/usr/share/tcplat/tcplat.{rules.yml,dashboard.json,schema.json} \
		/usr/share/doc/tcplat/README.md; do
		prints "tcplat: $f" inside dpkg-query -S "$f"
	done
	# Everything that the documents link to is present under the linked name. Taken from the
	# package, since the root file system leaves out documents.
	dpkg -x "$DEBS"/tcplat_*.deb "$BATS_TEST_TMPDIR"
	cd "$BATS_TEST_TMPDIR/usr/share/doc/tcplat"
	for f in *.md Documentation/*.md Documentation/*/*.md; do
		grep -oP '\]\(\K[^):#]+' "$f" | sed "s|^|${f%"${f##*/}"}|"
	done >links
	run -0 xargs ls -d <links
	assert_line Documentation/guide/install.rst
	assert_line Documentation/guide/fleet.md
	assert_line SECURITY.md
	prints '' find "$COPY"/etc/systemd -iname '*tcplat*'
}

@test "$RELEASE: modules-load.d loads it at boot, not with module_blacklist=tcplat on the kernel's command line" {
	inside sh -c 'echo options tcplat sockets=262144 > /etc/modprobe.d/tcplat.conf'
	run -0 apt_install systemd
	run inside systemctl is-enabled tcplat-textfile.timer
	assert_output disabled
	# An administrator may have enabled the timer before purging.
	run -0 inside systemctl enable tcplat-textfile.timer
	[[ -L $COPY/etc/systemd/system/timers.target.wants/tcplat-textfile.timer ]]
	# What the timer would have written.
	install -D /dev/null "$COPY$TEXTFILE"
	# shellcheck disable=SC2016 # for the guest
	run -0 --separate-stderr boot --append module_blacklist=tcplat -- bash -c '
		/usr/lib/systemd/systemd-modules-load
		[ ! -e /sys/module/tcplat ]'
	run -0 --separate-stderr boot -- bash -c '
		/usr/lib/systemd/systemd-modules-load; echo "at boot: $?"
		cat /sys/module/tcplat/parameters/sockets
		tcplat show --all delack
		rmmod tcplat'
	assert_line --partial "[armed]"
	assert_line --regexp '^ *timeouts '
	assert_line "at boot: 0"
	assert_line 262144
}

@test "$RELEASE: purging them leaves nothing" {
	rm -r "$COPY/packages" "$COPY/etc/modprobe.d/tcplat.conf"
	[[ -e $COPY$TEXTFILE ]]
	run -0 inside dpkg --purge tcplat tcplat-dkms
	[[ ! -e $COPY$TEXTFILE ]]
	prints '' left_behind
	prints '' inside dkms status
}
