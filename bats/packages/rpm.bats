#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Builds, installs, upgrades and erases the RPM packages with Debian's rpm, with its database in
# the layer. That rpm does not know dkms and the libraries, which dpkg installed. Only this builds
# RPM packages.

load helpers

OLD=0.0.1
PRESET=tcplat-record.service

setup_file() {
	lay_over
	# One kernel is enough to build for.
	find "$COPY"/lib/modules/*/build -not -path "*/$KERNEL/*" -delete
	mount --bind -o ro "$TOP" "$COPY$TOP"
	apt_install rpm rpmlint systemd
	distribution
	build "$TOP" "$VERSION"
	old_version
	# Directories that any system with rpm has.
	mkdir -p "$COPY"/usr/share/{licenses,man/man4,man/man8}
	everything >"$LAYER/before"
}

# build TREE VERSION [OPTION...]: builds the packages of TREE in the layer's /packages/VERSION.
build() { inside "$1/packaging/rpm/build" "/packages/$2" --nodeps "${@:3}"; }

# Adds what Debian lacks: macros for units, a preset, and weak-modules, which nothing may call.
distribution() {
	cat >"$COPY/usr/lib/rpm/macros.d/macros.systemd" <<-'END'
		%_unitdir /usr/lib/systemd/system
		%systemd_post() if [ $1 = 1 ]; then systemctl preset %{?*} >/dev/null 2>&1 || :; fi
		%systemd_preun() if [ $1 = 0 ]; then systemctl disable --now %{?*} >/dev/null 2>&1 || :; fi
		%systemd_postun() %{nil}
	END
	install -D -m 644 <(printf '%s\n' "enable $PRESET" 'disable *') \
		"$COPY/etc/systemd/system-preset/50.preset"
	install <(printf '%s\n' '#!/bin/sh' 'echo failed') "$COPY/usr/sbin/weak-modules"
}

# Builds an older version from the source package, with the configuration files of 1.0.0.
old_version() {
	local tree=$COPY/packages/old
	mkdir "$tree"
	tar -xzf "$COPY/packages/$VERSION/SOURCES/tcplat-$VERSION.tar.gz" -C "$tree" \
		--strip-components=1
	small_module "$tree" "$OLD"
	sed -i 's|^packaging/dkms sources .*|&\nfor d in modprobe.d modules-load.d; do install -D COPYING %{buildroot}/etc/$d/tcplat.conf; done|
		s|^%files dkms|&\n%config(noreplace) /etc/*/tcplat.conf|' "$tree/packaging/rpm/tcplat.spec"
	build /packages/old "$OLD" --define 'optflags -O0'
	build /packages/old kmod --define "kernel $KERNEL" --define "kdir /lib/modules/$KERNEL/build"
}

# Prints every name in the layer, except rpm's and rpmlint's own files.
everything() {
	find "$COPY" -xdev -printf '/%P\n' | grep -vE '^/(var/lib/rpm|root/[.](rpmdb|config))' | sort
}

# packages VERSION [COUNT]: sets packages to their names in the layer.
packages() {
	packages=("$COPY/packages/$1"/RPMS/*/*.rpm)
	packages=("${packages[@]#"$COPY"}")
	assert_equal "${#packages[@]}" "${2-2}"
}

# quiet_rpm OPTION...: succeeds without printing any warning.
quiet_rpm() {
	run -0 inside rpm --force-debian --nodeps "$@"
	# What happens to configuration files is tested below.
	output=$(grep -v 'saved as .*rpmsave$' <<<"$output")
	refute_output --regexp '[Ww]arn|[Ee]rror|[Ff]ail'
}

# has_version VERSION: DKMS and the reader have this version, and no other exists.
has_version() {
	VERSION=$1 installed_for "$KERNEL"
	prints "tcplat/$1, $KERNEL, x86_64: installed" dkms_status
	run ls -d "$COPY"/usr/src/tcplat-* "$COPY"/var/lib/dkms/tcplat/[0-9]*
	assert_output "$COPY/usr/src/tcplat-$1
$COPY/var/lib/dkms/tcplat/$1"
	prints "tcplat $1" inside tcplat --version
}

# has_files PACKAGE TREE: the package has exactly the files below TREE. Programs are only listed,
# not compared.
has_files() {
	inside rpm -qp --qf '[%{filedigests} %{filenames}\n]' "/packages/$VERSION/RPMS/$1" |
		sed '/^ /d; s|.* /usr/bin/|program /usr/bin/|' | sort >"$BATS_TEST_TMPDIR/has"
	find "$2" -type f -exec sha256sum {} + |
		sed "s|  $2| |; s|.* /usr/bin/|program /usr/bin/|" | sort >"$BATS_TEST_TMPDIR/wants"
	run -0 diff "$BATS_TEST_TMPDIR"/{wants,has}
}

# only_known_errors: rpmlint printed no others. The publisher adds the signature and the packager.
# Fedora no longer uses groups. A changelog would have to repeat the version.
only_known_errors() {
	run grep -vE 'no-(signature|packager-tag|group-tag|changelogname-tag)$' \
		<<<"$(grep ': E: ' <<<"$output")"
	assert_output ""
}

@test "$RELEASE: the RPM packages have what is installed without them, no more, and no error" {
	local reader=$BATS_TEST_TMPDIR/reader module=$BATS_TEST_TMPDIR/module
	packages "$VERSION"
	run inside rpmlint "${packages[@]}" "/packages/$VERSION/SRPMS/tcplat-$VERSION-1.src.rpm"
	assert_line --partial '3 packages and 0 specfiles checked'
	only_known_errors
	make -s -C "$TOP" install DESTDIR="$reader" PREFIX=/usr
	cd "$TOP"
	install -D -t "$reader/usr/share/licenses/tcplat-$VERSION" COPYING
	mkdir -p "$reader/usr/share/doc/tcplat"
	cp -r README.md CHANGES CONTRIBUTING.md SECURITY.md Documentation "$reader/usr/share/doc/tcplat"
	has_files "x86_64/tcplat-$VERSION-1.x86_64.rpm" "$reader"

	install -D -t "$module/usr/share/licenses/tcplat-dkms-$VERSION" COPYING
	mkdir -p "$module/usr/src/tcplat-$VERSION"
	cp -r --parents Kbuild dkms.conf module/*.[ch] "$module/usr/src/tcplat-$VERSION"
	has_files "noarch/tcplat-dkms-$VERSION-1.noarch.rpm" "$module"
}

@test "$RELEASE: a kernel's RPM package has the module for it, and nothing else" {
	packages kmod 1
	assert_equal "${packages[0]}" "/packages/kmod/RPMS/x86_64/kmod-tcplat-$KERNEL-$OLD-1.x86_64.rpm"
	run inside rpmlint "${packages[@]}"
	assert_line --partial '1 packages and 0 specfiles checked'
	only_known_errors
	run -0 inside rpm -qp --provides "${packages[0]}"
	assert_line "tcplat-kmod = $OLD-1"
	quiet_rpm -i "${packages[@]}"
	finds "$OLD"
	quiet_rpm -e "kmod-tcplat-$KERNEL"
	run -0 diff "$LAYER/before" <(everything)
}

@test "$RELEASE: the RPM packages install and build the module, once more if asked to" {
	packages "$OLD"
	quiet_rpm -i "${packages[@]}"
	has_version "$OLD"
	quiet_rpm -U --replacepkgs "${packages[@]}"
	has_version "$OLD"
	# Units are enabled as the distribution's preset says.
	run find "$COPY"/etc/systemd -iname '*tcplat*' -printf '%P\n'
	assert_output "system/multi-user.target.wants/$PRESET"
}

@test "$RELEASE: RPM: an upgrade removes the old version, and no other; so does the way back" {
	run -0 inside systemctl enable tcplat-textfile.timer
	packages "$VERSION"
	echo tcplat >"$COPY/etc/modules-load.d/tcplat.conf"
	quiet_rpm -U "${packages[@]}"
	has_version "$VERSION"
	# Only a configuration file that was modified stays.
	run -0 grep -r --include='tcplat.conf*' '' "$COPY/etc"
	assert_output "$COPY/etc/modules-load.d/tcplat.conf:tcplat"
	rm "$COPY/etc/modules-load.d/tcplat.conf"
	[[ -L $COPY/etc/systemd/system/timers.target.wants/tcplat-textfile.timer ]]
	# Nor does make dkms-install remove it.
	prints -2 --partial 'the RPM package tcplat-dkms is installed: dnf remove tcplat-dkms' \
		inside make -C "$TOP" dkms-install KVER="$KERNEL"
	has_version "$VERSION"
	# What the timer would have written stays on the way back to the old packages.
	install -D /dev/null "$COPY$TEXTFILE"
	packages "$OLD"
	quiet_rpm -U --oldpackage "${packages[@]}"
	has_version "$OLD"
}

@test "$RELEASE: erasing the RPM packages leaves nothing" {
	[[ -e $COPY$TEXTFILE ]]
	quiet_rpm -e tcplat tcplat-dkms
	# The directory is node_exporter's.
	rmdir -p --ignore-fail-on-non-empty "$COPY${TEXTFILE%/*}"
	prints '' inside dkms status
	run -0 diff "$LAYER/before" <(everything)
}
