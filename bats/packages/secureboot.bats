#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Secure Boot as on a machine of today: firmware with Microsoft's keys, Debian's shim,
# GRUB and kernel, and the key that DKMS made enrolled as the machine owner's.

bats_require_minimum_version 1.5.0
load helpers

setup_file() {
	lay_over
	FILES=$BATS_FILE_TMPDIR
	export FILES
	{
		# dkms signs nothing, and is content, where this is missing.
		apt_install openssl
		[[ $RELEASE != bullseye ]] || sign_by_helper
		"$TOP/packaging/dkms" sources "$COPY/usr/src/tcplat-$VERSION"
		inside dkms install -m tcplat -v "$VERSION" -k "$KERNEL"
	} >"$FILES/log" 2>&1
	# Newer releases compress modules.
	xz -dcf "$COPY$(inside modinfo -k "$KERNEL" -F filename tcplat)" >"$FILES/signed.ko"
	strip --strip-debug -o "$FILES/unsigned.ko" "$FILES/signed.ko"
	cp "$FILES/unsigned.ko" "$COPY/root/stranger.ko"
	inside openssl req -new -x509 -nodes -days 2 -subj /CN=stranger -newkey rsa:2048 \
		-keyout /root/key -outform DER -out /root/cert 2>>"$FILES/log"
	inside "/usr/src/linux-headers-$KERNEL/scripts/sign-file" sha256 /root/key /root/cert \
		/root/stranger.ko
	cp "$COPY/root/stranger.ko" "$FILES/"
}

teardown_file() { lay_off; }

# dkms 2.8 makes no key, and signs by a script that has to be named.
sign_by_helper() {
	inside openssl req -new -x509 -nodes -days 36500 -subj "/CN=DKMS module signing key" \
		-newkey rsa:2048 -keyout /root/mok.priv -outform DER -out /root/mok.der
	echo 'sign_tool="/etc/dkms/sign_helper.sh"' >>"$COPY/etc/dkms/framework.conf"
	mkdir -p "$COPY/var/lib/dkms"
	cp "$COPY/root/mok.der" "$COPY/var/lib/dkms/mok.pub"
}

@test "$RELEASE: dkms signs the module with the key that it makes" {
	[[ $(modinfo -F signer "$FILES/signed.ko") == "DKMS module signing key" ]]
	[[ $(modinfo -F signer "$FILES/stranger.ko") == stranger ]]
	[[ -z $(modinfo -F signer "$FILES/unsigned.ko") ]]
}

@test "$RELEASE: under Secure Boot only the module that the owner's key signed loads, and it works" {
	cat >"$FILES/script" <<'END'
#!/bin/sh
mount -t securityfs securityfs /sys/kernel/security
echo "lockdown: $(cat /sys/kernel/security/lockdown)"
echo "enforced: $(cat /sys/module/module/parameters/sig_enforce)"
for module in unsigned stranger; do
	insmod /$module.ko 2>&1
	echo "$module: $? $(ls /sys/module | grep -c tcplat)"
done
[ ! -e /sha512_generic.ko ] || insmod /sha512_generic.ko
insmod /signed.ko
echo "signed: $?"
grep -h . /sys/kernel/tcplat/*/status | sort | uniq -c
grep -c armed /sys/kernel/debug/tcplat/probes
echo 1 >/sys/kernel/tcplat/reset
echo "reset: $?"
rmmod tcplat
echo "removed: $?"
END
	# What dkms 2.8 signs with, and this guest has no /lib/modules to load it from.
	local hash=()
	[[ $RELEASE != bullseye ]] ||
		hash=("$COPY/lib/modules/$KERNEL/kernel/crypto/sha512_generic.ko")
	run --separate-stderr "$TOP/vm/bare" --image "$COPY/boot/vmlinuz-$KERNEL" \
		--mok "$COPY/var/lib/dkms/mok.pub" "$FILES/script" \
		"$FILES"/{unsigned,stranger,signed}.ko "${hash[@]}"
	assert_success
	assert_line "lockdown: none [integrity] confidentiality"
	# In 5.10 it is the lockdown that asks for signatures.
	[[ $RELEASE == bullseye ]] || assert_line "enforced: Y"
	assert_line --regexp '^unsigned: [1-9][0-9]* 0$'
	assert_line --regexp '^stranger: [1-9][0-9]* 0$'
	assert_line "signed: 0"
	assert_line --regexp '^ *[1-9] armed$'
	refute_line --partial unavailable
	assert_line "reset: 0"
	assert_line "removed: 0"
}
