#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# make modpkg packs the module for one kernel. The package is installed, loaded, upgraded,
# downgraded and removed beside the reader's package, without DKMS, and in both formats.

load helpers

NEWER=99.0.0

setup_file() {
	lay_over
	SECOND=$(cd "$COPY/lib/modules" && find . -mindepth 1 -maxdepth 1 ! -name "$KERNEL" \
		-printf '%f\n' -quit)
	export SECOND
	apt_install openssl rpm
	inside openssl req -new -x509 -nodes -days 3650 -subj /CN=fleet \
		-newkey rsa:2048 -keyout /srv/key.pem -outform DER -out /srv/cert.der
	project "$COPY/srv/project"
	project "$COPY/srv/newer"
	small_module "$COPY/srv/newer" "$NEWER"
	chown -R 1000:1000 "$COPY/srv"
}

# modpkg VARIABLE...: runs make modpkg for the layer's kernel, unless a VARIABLE names another, as a
# user whose files others cannot read.
modpkg() {
	# shellcheck disable=SC2016 # for the inner shell
	inside setpriv --reuid=1000 --regid=1000 --clear-groups env HOME=/srv PATH=/usr/bin:/bin \
		sh -c 'umask 077; exec make "$@"' make -C "/srv/${PROJECT:-project}" modpkg KVER="$KERNEL" "$@"
}

# deb VERSION [KERNEL], rpm VERSION: print the package's path in the layer.
deb() {
	local project=project
	[[ $1 != "$NEWER" ]] || project=newer
	echo "/srv/$project/build/modpkg/tcplat-modules-${2-$KERNEL}_$1_amd64.deb"
}
rpm() {
	deb "$1" | sed 's/tcplat-modules/kmod-tcplat/; s/_\([^_]*\)_amd64.deb$/-\1-1.x86_64.rpm/'
}

# finds_none [KERNEL]: neither a module nor its directory is left.
finds_none() {
	run -1 inside modinfo -k "${1-$KERNEL}" tcplat
	[[ ! -e $COPY/lib/modules/${1-$KERNEL}/updates ]]
}

# refused MESSAGE VARIABLE...: make modpkg prints this line and builds nothing.
refused() {
	run -2 modpkg "${@:2}"
	assert_equal "$(grep -v '^make' <<<"$output")" "$1"
	[[ ! -e $COPY/srv/project/build ]]
}

@test "$RELEASE: modpkg: an error is one line, before anything is built" {
	refused "No kernel to build for in /lib/modules/1.2.3/build: install linux-headers-1.2.3, or name another with KDIR=/lib/modules/VERSION/build" \
		KVER=1.2.3
	refused "modpkg: KEY needs CERT, its certificate" KEY=/srv/key.pem
	refused "modpkg: CERT needs KEY, its private key" CERT=/srv/cert.der
	refused "modpkg: cannot read /srv/none" KEY=/srv/none CERT=/srv/cert.der
	refused "modpkg: FORMAT is deb, rpm or ko, not 'tar'" FORMAT='deb tar'
	mkdir "$COPY/srv/headers"
	touch "$COPY/srv/headers/Makefile"
	refused "modpkg: the kernel's headers have no /srv/headers/scripts/sign-file, so the module cannot be signed" \
		KDIR=/srv/headers KEY=/srv/key.pem CERT=/srv/cert.der
	local format tool
	for format in deb:dpkg-deb rpm:rpmbuild; do
		tool=${format#*:} format=${format%:*}
		mv "$COPY/usr/bin/$tool" "$COPY/root"
		refused "modpkg: $tool is not installed: FORMAT=$format needs it" FORMAT="$format"
		mv "$COPY/root/$tool" "$COPY/usr/bin"
	done
}

@test "$RELEASE: modpkg: both packages have the same signed module, and nothing else" {
	local dir=$BATS_TEST_TMPDIR ko=/lib/modules/$KERNEL/updates/tcplat.ko
	run -0 modpkg KEY=/srv/key.pem CERT=/srv/cert.der FORMAT='deb rpm'
	dpkg-deb -x "$COPY$(deb "$VERSION")" "$dir/deb"
	run -0 modinfo "$dir/deb$ko"
	assert_line --regexp "^version: +$VERSION\$"
	assert_line --regexp "^signer: +fleet\$"
	run -0 modinfo -F sig_hashalgo "$dir/deb$ko"
	grep -qx "CONFIG_MODULE_SIG_HASH=\"$output\"" "$COPY/boot/config-$KERNEL"
	run -0 readelf -SW "$dir/deb$ko"
	refute_output --partial .debug_info
	run -0 find "$dir/deb" ! -type d -printf '/%P\n'
	assert_equal "$(sort <<<"$output")" "$ko
/usr/share/doc/tcplat-modules-$KERNEL/copyright"
	run -0 inside rpm -qlp "$(rpm "$VERSION")"
	assert_output "${ko%/*}
$ko
/usr/share/licenses/kmod-tcplat-$KERNEL-$VERSION
/usr/share/licenses/kmod-tcplat-$KERNEL-$VERSION/COPYING"
	run -0 inside rpm -qp --qf '[%{filedigests} %{filenames}\n]' "$(rpm "$VERSION")"
	assert_line "$(sha256sum <"$dir/deb$ko" | cut -d ' ' -f 1) $ko"
	run -0 inside rpm -qp --conflicts "$(rpm "$VERSION")"
	assert_output tcplat-dkms
	run -0 dpkg-deb -f "$COPY$(deb "$VERSION")" Version Depends Conflicts Provides
	assert_output "Version: $VERSION
Depends: linux-image-$KERNEL
Conflicts: tcplat-dkms
Provides: tcplat-modules"
}

@test "$RELEASE: modpkg: the RPM package requires a kernel with Fedora's names" {
	local fedora=6.1.0-56.el9_6.x86_64 headers=$COPY/srv/fedora
	cp -a "$COPY/usr/src/linux-headers-$KERNEL" "$headers"
	sed -i "s/$KERNEL/$fedora/" "$headers"/include/{config/kernel.release,generated/utsrelease.h}
	PROJECT=newer run -0 modpkg KDIR=/srv/fedora FORMAT=rpm
	run -0 inside rpm -qp --requires "/srv/newer/build/modpkg/kmod-tcplat-$fedora-$NEWER-1.x86_64.rpm"
	assert_equal "$(grep -vE '^(rpmlib\(|/bin/sh$|kmod$)' <<<"$output")" "kernel-uname-r = $fedora"
}

@test "$RELEASE: modpkg: not beside DKMS, and DKMS not beside it" {
	mkdir -p "$COPY/var/lib/dkms/tcplat"
	run -1 inside dpkg -i "$(deb "$VERSION")"
	assert_output --partial 'DKMS has tcplat, too: make dkms-uninstall'
	rmdir "$COPY/var/lib/dkms/tcplat"
	cp "$TOP"/build/debs/tcplat{,-dkms}_*.deb "$COPY/root"
	run -0 apt_install "$(deb "$VERSION")" "$(inside sh -c 'ls /root/tcplat_*.deb')"
	finds "$VERSION"
	run -0 inside apt-get -s install "$(inside sh -c 'ls /root/tcplat-dkms_*.deb')"
	assert_line --partial "Remv tcplat-modules-$KERNEL"
	run -2 inside make -C /srv/project dkms-install KVER="$KERNEL"
	assert_output --partial "package tcplat-modules-$KERNEL is installed: apt remove tcplat-modules-$KERNEL"
	finds "$VERSION"
}

@test "$RELEASE: modpkg: modprobe loads it, what holds it is seen, and metrics prove each step" {
	# shellcheck disable=SC2016 # for the guest
	run -0 --separate-stderr boot -- bash -c '
		metrics() { tcplat show -p | grep -E "^tcplat_(up|down|info)"; }
		metrics
		modprobe tcplat
		metrics
		tcplat top -i 100 >/dev/null &
		for ((i = 0; i < 600; i++)); do
			[ "$(cat /sys/module/tcplat/refcnt)" = 0 ] || break
			sleep 0.1
		done
		rmmod tcplat 2>&1
		ls /sys/kernel/tracing/instances
		kill -9 $!
		wait
		rmdir /sys/kernel/tracing/instances/tcplat-top-$!
		rmmod tcplat; echo "removed: $?"
		mount --bind /dev/null /lib/modules/$(uname -r)/modules.dep
		metrics'
	local reader="reader=\"$VERSION\",hz=\"[0-9]*\",kernel=\"$KERNEL\""
	assert_line --index 0 'tcplat_up 0'
	assert_line --index 1 'tcplat_down_reason{reason="not loaded"} 1'
	assert_line --index 3 'tcplat_up 1'
	assert_line --index 4 --regexp "^tcplat_info\{version=\"$VERSION\",$reader"
	assert_line --index 5 'rmmod: ERROR: Module tcplat is in use'
	assert_line --index 6 --regexp '^tcplat-top-[0-9]+$'
	assert_line --index 7 'removed: 0'
	assert_line --index 8 'tcplat_up 0'
	assert_line --index 9 'tcplat_down_reason{reason="no module for this kernel"} 1'
}

@test "$RELEASE: modpkg: a second kernel's package beside the first, which goes with its kernel" {
	PROJECT=newer run -0 modpkg KVER="$SECOND"
	run -0 apt_install "$(deb "$NEWER" "$SECOND")"
	finds "$NEWER" "$SECOND"
	finds "$VERSION"
	run -0 inside apt-get -y -q purge "linux-image-$SECOND"
	assert_output --partial "Removing tcplat-modules-$SECOND"
	finds_none "$SECOND"
	finds "$VERSION"
}

@test "$RELEASE: modpkg: upgrade, downgrade and purge; nothing is left" {
	PROJECT=newer run -0 modpkg FORMAT='deb rpm'
	run -0 apt_install "$(deb "$NEWER")"
	finds "$NEWER"
	run -0 apt_install --allow-downgrades "$(deb "$VERSION")"
	finds "$VERSION"
	run -0 inside apt-get -y -q purge tcplat 'tcplat-modules-*'
	finds_none
	run left_behind
	refute_line --regexp '^/(boot|etc|lib|usr|var)/'
}

@test "$RELEASE: modpkg: the RPM package is installed, upgraded, downgraded and erased; nothing is left" {
	local rpm=(inside rpm --force-debian --nodeps)
	run -0 "${rpm[@]}" -i "$(rpm "$VERSION")"
	finds "$VERSION"
	run -0 "${rpm[@]}" -U "$(rpm "$NEWER")"
	finds "$NEWER"
	run -0 "${rpm[@]}" -U --oldpackage "$(rpm "$VERSION")"
	finds "$VERSION"
	prints '' "${rpm[@]}" -e "kmod-tcplat-$KERNEL"
	finds_none
	run left_behind
	refute_line --regexp '^/(boot|etc|lib|usr|var)/'
}
