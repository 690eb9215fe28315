#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# vm/kernels, the list of kernels that tcplat is tested on, and what states it elsewhere: only this
# compares them. And which kernels DKMS leaves alone, with dkms.conf as each version of DKMS reads it.

load ../libraries

setup() {
	untraced
	SOURCE=$(cd "$BATS_TEST_DIRNAME/../.." && pwd -P)
	cd "$SOURCE" || return
	. vm/lib.sh
	mapfile -t all < <(kernels 1)
}

@test "the list: names are unique, in order, and have three known fields" {
	((${#all[@]} > 15))
	assert_equal "$(printf '%s\n' "${all[@]}" | sort -Vu)" "$(printf '%s\n' "${all[@]}")"
	run -1 grep -vE '^(#.*|[4-9][.][0-9.]+[0-9a-z_.-]* +(source +source|[a-z0-9-]+ +(check|all)))$' vm/kernels
	assert_equal "$(kernels 'tests == "check"' | wc -l)" 2
}

# series NAME: prints the first two numbers.
series() { grep -oE '^[0-9]+[.][0-9]+' <<<"$1"; }

@test "kernels.md has exactly the kernels of the list, the documents the oldest and the newest" {
	local debian oldest newest
	sed -nE '/^## /q; s/^\| ([4-9][.][^ ]+) \| ([^ |,]+)[^|]*\| .*/\1 \2/p' Documentation/proof/kernels.md |
		sort >"$BATS_TEST_TMPDIR/table"
	awk '!/^#/ { print $1, $2 }' vm/kernels | sort >"$BATS_TEST_TMPDIR/list"
	run -0 diff "$BATS_TEST_TMPDIR/list" "$BATS_TEST_TMPDIR/table"
	mapfile -t debian < <(kernels 'from != "source"')
	oldest=$(series "${debian[0]}") newest=$(series "${debian[-1]}")
	grep -q "Linux $oldest to $newest" Documentation/proof/kernels.md
	grep -q "Tested kernels, $oldest to $newest" README.md
	grep -q "$oldest is the oldest and $newest is the newest" CONTRIBUTING.md
	assert_equal "$(kernels 'tests == "check"' | paste -sd ' ')" "$oldest $newest"
}

@test "dkms.conf builds for the series of the list, and for none beyond them" {
	local name newest=${all[-1]}
	. ./dkms.conf
	for name in "${all[@]}"; do
		[[ $(series "$name").0-1-amd64 =~ $BUILD_EXCLUSIVE_KERNEL ]] || fail "not for $name"
		[[ $name =~ $BUILD_EXCLUSIVE_KERNEL ]] || fail "not for $name"
	done
	newest=$(series "$newest")
	for name in 4.17.0 4.19.0 5.4.0 5.9.16 "${newest%.*}.$((${newest#*.} + 1)).0" \
		"${newest}0.1" "$((${newest%.*} + 1)).0.0" 10.0.0 3.10.0-1160.el7; do
		[[ ! $name =~ $BUILD_EXCLUSIVE_KERNEL ]] || fail "for $name"
	done
}

# modules KERNEL: makes a directory of modules for the kernel, with what Kbuild needs from its headers.
# shellcheck disable=SC2016 # Kbuild's $
modules() {
	local dir=$BATS_TEST_TMPDIR/modules/$1/build file words
	mkdir -p "$dir"
	echo CONFIG_KPROBES=y >"$dir/.config"
	while IFS=, read -r file words; do
		mkdir -p "$dir/include/${file%/*}"
		echo "$words" >>"$dir/include/$file"
	done < <(sed -n 's/^$(call tcplat-need,\(.*\))$/\1/p' "$SOURCE/Kbuild")
}

# autoinstall KERNEL YES: AUTOINSTALL is YES, read as DKMS reads it when KERNEL is installed.
autoinstall() {
	local source=$BATS_TEST_TMPDIR/source
	mkdir -p "$source"
	cp "$SOURCE/Kbuild" "$source"
	sed "s|/lib/modules|$BATS_TEST_TMPDIR/modules|" "$SOURCE/dkms.conf" >"$source/dkms.conf"
	# shellcheck disable=SC2016 # for the inner shell
	run -0 bash -c '
		kernelver=$1 conf=$2
		read_conf() { . "$conf"; echo "autoinstall=$AUTOINSTALL"; }
		each_module() { local kernelver=other; read_conf; }
		each_module
	' autoinstall "$1" "$source/dkms.conf"
	assert_output "autoinstall=$2"
}

@test "DKMS leaves a kernel alone that the module cannot be built for" {
	local kernel=6.1.0-1-amd64 word
	autoinstall "$kernel" yes
	modules "$kernel"
	cd "$BATS_TEST_TMPDIR/modules/$kernel"
	autoinstall "$kernel" yes
	# Words that Kbuild needs.
	for word in ftrace_set_filter_ip copy_from_kernel_nofault sysfs_emit lrcvtime LINUX_MIB_DELAYEDACKLOCKED; do
		grep -rl "\<$word\>" build/include | xargs sed -i "s/\<$word\>/without/"
		autoinstall "$kernel" ''
		grep -rl '\<without\>' build/include | xargs sed -i "s/\<without\>/$word/"
	done
	# Debian's headers are split.
	mkdir source
	mv build/include source
	mkdir build/include
	autoinstall "$kernel" yes
	echo '# CONFIG_KPROBES is not set' >build/.config
	autoinstall "$kernel" ''
	for kernel in 5.4.0-1-generic 99.0.0; do
		modules "$kernel"
		autoinstall "$kernel" ''
	done
}
