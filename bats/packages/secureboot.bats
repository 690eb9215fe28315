#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Secure Boot as on current machines: firmware with Microsoft's keys; Debian's shim, GRUB and
# kernel; and the key made by DKMS, enrolled as a machine owner key. Only this has an enforcing
# kernel.

load helpers

setup_file() {
	lay_over
	FILES=$BATS_FILE_TMPDIR
	export FILES
	# Without openssl dkms silently does not sign.
	apt_install openssl
	KEY=/var/lib/dkms/mok.key
	[[ $RELEASE != bullseye ]] || sign_by_helper
	"$TOP/packaging/dkms" sources "$COPY/usr/src/tcplat-$VERSION"
	inside dkms install -m tcplat -v "$VERSION" -k "$KERNEL"
	project "$COPY/root/project"
	inside make -C /root/project modpkg KVER="$KERNEL" KEY="$KEY" CERT=/var/lib/dkms/mok.pub
	dpkg-deb -x "$COPY"/root/project/build/modpkg/*.deb "$FILES/deb"
	cp "$FILES/deb/lib/modules/$KERNEL/updates/tcplat.ko" "$FILES/packed.ko"
	# Newer releases compress modules.
	xz -dcf "$COPY$(inside modinfo -k "$KERNEL" -F filename tcplat)" >"$FILES/signed.ko"
	strip --strip-debug -o "$FILES/unsigned.ko" "$FILES/signed.ko"
	cp "$FILES/unsigned.ko" "$COPY/root/stranger.ko"
	inside openssl req -new -x509 -nodes -days 2 -subj /CN=stranger -newkey rsa:2048 \
		-keyout /root/key -outform DER -out /root/cert
	inside "/usr/src/linux-headers-$KERNEL/scripts/sign-file" sha256 /root/key /root/cert \
		/root/stranger.ko
	cp "$COPY/root/stranger.ko" "$FILES/"
}

setup() {
	untraced
	# dkms 2.8 signs with this hash, and these guests have no /lib/modules to load it from.
	HASH=()
	[[ $RELEASE != bullseye ]] ||
		HASH=("$COPY/lib/modules/$KERNEL/kernel/crypto/sha512_generic.ko")
}

# dkms 2.8 does not make a key, and signs with a script that must be configured.
sign_by_helper() {
	inside openssl req -new -x509 -nodes -days 36500 -subj "/CN=DKMS module signing key" \
		-newkey rsa:2048 -keyout /root/mok.priv -outform DER -out /root/mok.der
	echo 'sign_tool="/etc/dkms/sign_helper.sh"' >>"$COPY/etc/dkms/framework.conf"
	KEY=/root/mok.priv
	mkdir -p "$COPY/var/lib/dkms"
	cp "$COPY/root/mok.der" "$COPY/var/lib/dkms/mok.pub"
}

@test "$RELEASE: dkms signs the module with the key that it makes, and so does make modpkg" {
	[[ $(modinfo -F signer "$FILES/signed.ko") == "DKMS module signing key" ]]
	[[ $(modinfo -F signer "$FILES/packed.ko") == "DKMS module signing key" ]]
	[[ $(modinfo -F signer "$FILES/stranger.ko") == stranger ]]
	[[ -z $(modinfo -F signer "$FILES/unsigned.ko") ]]
}

# in_guest [OPTION...]: boots with these options and all modules, and runs the script on stdin.
in_guest() {
	{
		cat <<'END'
#!/bin/sh
mount -t securityfs securityfs /sys/kernel/security
echo "lockdown: $(cat /sys/kernel/security/lockdown)"
[ ! -e /sha512_generic.ko ] || insmod /sha512_generic.ko
refuses() {
	insmod /$1.ko 2>&1
	echo "$1: $? $(ls /sys/module | grep -c tcplat)"
}
END
		cat
	} >"$FILES/script"
	run -0 --separate-stderr "$TOP/vm/bare" --image "$COPY/boot/vmlinuz-$KERNEL" \
		--program "$TOP/userspace/tcplat" "$@" "$FILES/script" \
		"$FILES"/{unsigned,stranger,signed,packed}.ko "${HASH[@]}" "$TOP/build/traffic"
}

@test "$RELEASE: under Secure Boot only the module that the owner's key signed loads, and it works" {
	in_guest --mok "$COPY/var/lib/dkms/mok.pub" <<'END'
echo "enforced: $(cat /sys/module/module/parameters/sig_enforce)"
refuses unsigned
refuses stranger
for module in signed packed; do
	insmod /$module.ko
	echo "$module: $? $(cat /sys/module/tcplat/version) $(cat /sys/kernel/tcplat/*/status | sort | uniq -c)"
	echo 1 >/sys/kernel/tcplat/reset
	echo "reset: $?"
	rmmod tcplat
	echo "removed: $?"
done
END
	assert_line "lockdown: none [integrity] confidentiality"
	# In 5.10 lockdown requires signatures, not sig_enforce.
	[[ $RELEASE == bullseye ]] || assert_line "enforced: Y"
	assert_line --regexp '^unsigned: [1-9][0-9]* 0$'
	assert_line --regexp '^stranger: [1-9][0-9]* 0$'
	assert_line --regexp "^signed: 0 $VERSION +[1-9][0-9]? armed\$"
	assert_line --regexp "^packed: 0 $VERSION +[1-9][0-9]? armed\$"
	refute_line --partial unavailable
	assert_equal "$(grep -c '^reset: 0$' <<<"$output") $(grep -c '^removed: 0$' <<<"$output")" "2 2"
}

@test "$RELEASE: under lockdown=confidentiality it counts right, and shows all but events" {
	in_guest --append lockdown=confidentiality --mok "$COPY/var/lib/dkms/mok.pub" <<END
PATH=\$PATH:$TOP/userspace
delayed() { awk '\$1 == "TcpExt:" { if (n) for (i in name) if (name[i] == "DelayedACKs") print \$i; n = split(\$0, name) }' /proc/net/netstat; }
insmod /signed.ko
echo "signed: \$?"
grep -h . /sys/kernel/tcplat/*/status | sort | uniq -c
before=\$(delayed)
/traffic wwr -n 20 --settle >/dev/null
echo "traffic: \$?"
sleep 1
echo "timeouts: \$(cat /sys/kernel/tcplat/delack/timeouts) of \$((\$(delayed) - before))"
tcplat show --all delack | grep -w timeouts
grep -c armed /sys/kernel/debug/tcplat/probes
echo "tracefs: \$(ls /sys/kernel/tracing | wc -l) files"
echo 0 >/sys/kernel/tcplat/delack/enabled
echo "disabled: \$? \$(cat /sys/kernel/tcplat/delack/status)"
echo 1 >/sys/kernel/tcplat/reset
echo "reset: \$? \$(cat /sys/kernel/tcplat/delack/timeouts)"
rmmod tcplat
echo "removed: \$?"
END
	local timeouts
	assert_line "lockdown: none integrity [confidentiality]"
	assert_line "signed: 0"
	assert_line --regexp '^ *11 armed$'
	assert_line "traffic: 0"
	timeouts=$(sed -n 's/^timeouts: \([0-9]*\) of .*/\1/p' <<<"$output")
	((timeouts >= 10))
	assert_line "timeouts: $timeouts of $timeouts"
	assert_line --regexp "^ *timeouts +$timeouts( |\$)"
	assert_line --regexp '^3[0-9]$'
	# Under this level the kernel hides all of tracefs from everybody.
	assert_line "tracefs: 0 files"
	assert_output --partial $'\ndisabled: 0 off\nreset: 0 0\nremoved: 0'
}

@test "$RELEASE: under lockdown without Secure Boot it is refused, and why is in the kernel's log" {
	in_guest --append lockdown=integrity <<'END'
refuses unsigned
refuses signed
dmesg | grep -o 'Lockdown: insmod: .*'
END
	assert_line "lockdown: none [integrity] confidentiality"
	assert_line --regexp '^unsigned: [1-9][0-9]* 0$'
	assert_line --regexp "^insmod: .*unsigned\.ko.*Operation not permitted"
	assert_line --regexp '^signed: [1-9][0-9]* 0$'
	assert_line --partial 'unsigned module loading is restricted'
	grep -qF 'unsigned module loading is restricted' "$TOP/Documentation/guide/install.rst"
}
