#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Kernels built from a source tree: which configuration they get, that changes are built and no
# older kernel is ever used, and that the tree is not modified. The trees here are not Linux but a
# Makefile with the same targets, whose "kernel" is the text of a C file. Only this finds kernels
# that are out of date and trees that are modified.

# shellcheck disable=SC2030,SC2031 # bats runs each test in its own subshell

# bats file_tags=all

load ../libraries

setup() {
	untraced
	SOURCE=$(cd "$BATS_TEST_DIRNAME/../.." && pwd -P)
	# A separate cache.
	export HOME=$BATS_TEST_TMPDIR
	cd "$BATS_TEST_TMPDIR" || return
	make_tree linux
}

# make_tree DIRECTORY: makes such a tree.
make_tree() {
	mkdir -p "$1"/{net/ipv4,drivers}
	touch "$1/Kconfig" "$1/drivers/gone.c"
	echo 'first text' >"$1/net/ipv4/tcp_input.c"
	printf '%s\n' '.*' '*.o' '!.gitignore' >"$1/.gitignore"
	cat >"$1/Makefile" <<-'END'
		VERSION = 9
		PATCHLEVEL = 9
		.RECIPEPREFIX = >
		DROP ?= ^$$
		image := $(O)/arch/x86/boot/bzImage

		olddefconfig:
		> sed 's/=m$$/=y/' $(NEEDED) >>$(KCONFIG_CONFIG)
		> sed -i '/$(DROP)/d' $(KCONFIG_CONFIG)
		bzImage: $(image)
		$(image): net/ipv4/tcp_input.c
		> @mkdir -p $(O)/include/config $(@D)
		> @echo 9.9.1 >$(O)/include/config/kernel.release
		> @! grep -n ': error: ' $<
		> cat $< >$@
		modules modules_install:
	END
	export NEEDED=$SOURCE/vm/config/needed
}

# with_config DIRECTORY: adds a .config with everything that is needed.
with_config() { echo 'CONFIG_MINE=y' | cat - "$NEEDED" | sed 's/=m$/=y/' >"$1/.config"; }

# build DIRECTORY [TEXT...]: builds it, with these messages, and sets image, kdir (the build
# directory) and name.
build() {
	local text
	run -0 "$SOURCE/vm/kernel" "$1"
	for text in "${@:2}"; do
		assert_output --partial "$text"
	done
	image=$(sed -n 's/^image=//p' <<<"$output")
	kdir=$(sed -n 's/^kdir=//p' <<<"$output")
	name=$(sed -n 's/^name=//p' <<<"$output")
	assert [ -n "$image" -a -n "$kdir" -a -n "$name" ]
}

@test "a directory that is no kernel tree: one line and exit status 2" {
	local tree words
	mkdir empty
	for tree in ./nowhere ./empty /etc/passwd; do
		for words in vm/kernel vm/kernel-build 'bats/check-kernels --source'; do
			# shellcheck disable=SC2086 # words
			run -2 "$SOURCE/"$words "$tree"
			assert_output --partial "'$tree' is not a Linux source tree"
			assert_equal "${#lines[@]}" 1
		done
	done
	run -2 "$SOURCE/bats/check-kernels" --source
	assert_equal "${#lines[@]}" 1
	run -2 make -s -C "$SOURCE" check-kernels KSRC=/nowhere
	assert_line "check-kernels: '/nowhere' is not a Linux source tree"
	prints -2 --partial 'there is no kernel' "$SOURCE/vm/kernel" src-linux-00000000
	assert [ ! -e .cache/tcplat/src ]
}

@test "a tree's own configuration is taken if it has all that is needed, or else the small one" {
	local line word
	build ./linux 'using vm/config, since the tree has no .config'
	grep -qx CONFIG_NET_9P_VIRTIO=y "$kdir/.config"
	grep -qx CONFIG_DEBUG_INFO_BTF=y "$kdir/.config"
	with_config linux
	build ./linux "using the tree's own .config"
	grep -qx CONFIG_MINE=y "$kdir/.config"
	run -1 grep NET_9P_VIRTIO "$kdir/.config"
	# Each missing option is noticed and named.
	for line in CONFIG_KPROBES=y CONFIG_VETH=m CONFIG_BPF_EVENTS=y; do
		word=${line%=*}
		with_config linux
		sed -i "s/^$word=y/# $word is not set/" linux/.config
		build ./linux "using vm/config, since the tree's .config lacks $line"$'\n'
		run -1 grep CONFIG_MINE "$kdir/.config"
	done
	with_config linux
	echo CONFIG_MODULE_SIG_FORCE=y >>linux/.config
	build ./linux 'lacks # CONFIG_MODULE_SIG_FORCE is not set'
	run -1 env DROP=CONFIG_KPROBES=y "$SOURCE/vm/kernel" ./linux
	assert_output --partial 'dropped options that tests need: CONFIG_KPROBES=y'
}

@test "a tree that an import into git has damaged is repaired in the copy" {
	build ./linux
	refute_output --partial 'Documentation/Kconfig'
	refute_output --partial 'not executable'
	echo 'source "Documentation/Kconfig"' >linux/Kconfig
	mkdir linux/scripts linux/tools
	echo '#!/bin/sh' | tee linux/tools/tool.sh >linux/scripts/setlocalversion
	build ./linux 'the tree has no Documentation/Kconfig: using an empty one' \
		"the tree's scripts are not executable: making them so"
	[[ -x .cache/tcplat/src/$name/scripts/setlocalversion && ! -x linux/scripts/setlocalversion ]]
	[[ -e .cache/tcplat/src/$name/Documentation/Kconfig && ! -e linux/Documentation ]]
	# Ubuntu 22.04's: only those that a patch has added.
	chmod a+x linux/scripts/setlocalversion
	echo '#!/bin/sh' >linux/scripts/pahole-version.sh
	build ./linux 'not executable'
	[[ -x .cache/tcplat/src/$name/scripts/pahole-version.sh ]]
	# Enterprise Linux 9.0's: a module is built from another directory, with the same pahole.
	sed -i -e '1i include Makefile.rhelver' -e '1i PAHOLE = pahole' linux/Makefile
	touch linux/Makefile.rhelver
	mkdir -p linux/include/uapi/linux
	echo '#define BTF_KIND_FLOAT 16' >linux/include/uapi/linux/btf.h
	build ./linux 'Makefile.rhelver from where make runs' 'no enumerations of 64 bits in BTF'
	run -0 make -p -n -C / -f "$PWD/.cache/tcplat/src/$name/Makefile" modules
	assert_line 'PAHOLE = pahole --skip_encoding_btf_enum64'
}

# switched CONFIG...: the run said one line about each, and they are in the configuration.
switched() {
	local line
	for line; do
		assert_equal "$(grep -cF "$name: $line: " <<<"$output")" 1
		grep -qxF "$line" "$kdir/.config"
	done
}

@test "what does not compile or boot here is switched off, with a line for each" {
	build ./linux
	switched '# CONFIG_WERROR is not set'
	refute_output --partial NET_9P
	printf '%s\n' 'RHEL_MAJOR = 9' 'RHEL_MINOR = 6' >linux/Makefile.rhelver
	build ./linux
	switched '# CONFIG_'{NET_9P,X86_KERNEL_IBT}' is not set' \
		CONFIG_{UNWINDER_FRAME_POINTER,HYPERVISOR_GUEST,RHEL_DIFFERENCES}=y
	refute_output --partial WERROR=0
	mkdir -p linux/tools/lib/subcmd
	echo 'ret = realloc(ptr, 1);' >linux/tools/lib/subcmd/subcmd-util.h
	build ./linux "$name: WERROR=0: "
	sed -i 's/9/8/' linux/Makefile.rhelver
	build ./linux
	switched '# CONFIG_NET_9P is not set' CONFIG_AMD_MEM_ENCRYPT=y
	assert_output --partial "$name: no objtool for thunk_64.o: "
	sed -i 's/8/10/' linux/Makefile.rhelver
	with_config linux
	echo CONFIG_DRM_AMDGPU=m >>linux/.config
	build ./linux
	switched '# CONFIG_DRM_AMDGPU is not set'
	refute_output --partial NET_9P
	mkdir -p linux/drivers/gpu/drm/amd/include/asic_reg
	touch linux/drivers/gpu/drm/amd/include/asic_reg/some.h
	build ./linux
	refute_output --partial AMDGPU
}

@test "what matters to tcplat is taken from a distribution's configuration" {
	local line
	printf '%s\n' '# a comment' CONFIG_HZ_1000=y CONFIG_HZ=1000 '# CONFIG_HZ_250 is not set' \
		CONFIG_MODVERSIONS=y CONFIG_KALLSYMS_ALL=y CONFIG_DYNAMIC_FTRACE_WITH_REGS=y \
		CONFIG_PREEMPT_DYNAMIC=y CONFIG_EXT4_FS=m CONFIG_MACHZ_WDT=m >distribution
	run -0 "$SOURCE/vm/kernel-build" --kdir --config distribution ./linux
	kdir=${lines[-1]}
	for line in CONFIG_HZ_1000=y CONFIG_MODVERSIONS=y '# CONFIG_HZ_250 is not set' \
		CONFIG_DYNAMIC_FTRACE_WITH_REGS=y CONFIG_PREEMPT_DYNAMIC=y; do
		grep -qxF "$line" "$kdir/.config" || fail "without $line"
	done
	run -1 grep -E 'EXT4|MACHZ|comment' "$kdir/.config"
	run -2 "$SOURCE/vm/kernel-build" --config linux/Makefile ./linux
	prints -2 --partial "no file 'nowhere'" "$SOURCE/vm/kernel-build" --config nowhere ./linux
	prints -2 --partial 'needs --source' "$SOURCE/bats/check-kernels" --config distribution
}

@test "what changed is built, however old it is; what did not change is not" {
	local before
	build ./linux
	same() { assert_equal "$(<"$image")" "$1"; }
	same 'first text'
	before=$(stat -c %y "$kdir/arch/x86/boot/bzImage")
	touch linux/net/ipv4/tcp_input.c
	build ./linux
	assert_equal "$(stat -c %y "$kdir/arch/x86/boot/bzImage")" "$before"
	# A file may be replaced by an older one.
	echo 'other text' >linux/net/ipv4/tcp_input.c
	touch -d '2001-01-01' linux/net/ipv4/tcp_input.c
	build ./linux
	same 'other text'
	prints "$image" "$SOURCE/vm/kernel" --image "$name"
	# Files that the tree does not have any more, and files that were never sources.
	assert [ -e .cache/tcplat/src/"$name"/drivers/gone.c ]
	rm linux/drivers/gone.c
	touch linux/drivers/built.o linux/.config.old
	build ./linux
	prints '' find .cache/tcplat/src/"$name" -name 'gone.c' -o -name built.o -o -name '.config*'
}

@test "a file that git knows as deleted, and one that it does not know yet" {
	git init -q linux
	git -C linux add -A
	rm linux/drivers/gone.c
	echo new >linux/drivers/new.c
	build ./linux
	prints new.c ls .cache/tcplat/src/"$name"/drivers
}

@test "a tree that does not compile: the compiler's error, exit status 1, and no earlier kernel" {
	build ./linux
	echo "tcp_input.c:1: error: expected ';'" >linux/net/ipv4/tcp_input.c
	prints -1 --partial "error: expected ';'" "$SOURCE/vm/kernel" ./linux
	assert_output --partial "kernel $name does not build with gcc"
	run -2 "$SOURCE/vm/kernel" --image "$name"
	prints -1 --partial "error: expected ';'" "$SOURCE/bats/check-kernels" --source linux
}

@test "nothing is written into the tree, and two trees of one name are two kernels" {
	local before other
	listing() { find linux -printf '%p %y %m %s %T@ %C@\n' | sort; }
	with_config linux
	before=$(listing)
	build linux/
	other=$image
	make_tree elsewhere/linux
	echo 'elsewhere' >elsewhere/linux/net/ipv4/tcp_input.c
	build elsewhere/linux
	assert_equal "$(listing)" "$before"
	assert [ "$image" != "$other" ]
	assert_equal "$(<"$image") $(<"$other")" 'elsewhere first text'
}

@test "a built tree without .git and .gitignore is refused" {
	rm linux/.gitignore
	touch linux/.config
	build ./linux
	# Linux refuses to be built elsewhere if the source has a .config.
	assert [ ! -e .cache/tcplat/src/"$name"/.config ]
	mkdir -p linux/include/config
	prints -1 --partial 'run make distclean there' "$SOURCE/vm/kernel" ./linux
}
