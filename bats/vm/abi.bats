#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The ABI document and the live tree say the same, both ways.

load ../helpers

DOCUMENT=$BATS_TEST_DIRNAME/../../Documentation/ABI/testing/sysfs-kernel-tcplat

setup_file() {
	load_afresh
}

teardown_file() {
	unload_module
}

# One line an entry: its What and the fields that follow it.
entries() {
	awk -F ':[ \t]*' '
		/^What:/ { if (what) print what, fields; what = $2; fields = ""; next }
		/^[A-Z][A-Za-z]*:/ { fields = fields " " $1 }
		END { print what, fields }' "$DOCUMENT"
}

documented() { entries | awk '{ print $1 }' | sort; }

@test "every path of the tree is documented, and every documented path is there" {
	run diff <(documented) <(find "$TREE" -type f | sort)
	assert_output ""
	assert_success
}

@test "no path is documented twice" {
	run bash -c 'uniq -d' <<<"$(documented)"
	assert_output ""
}

@test "every entry has the fields of the kernel's format, in its order" {
	run entries
	assert_success
	refute_output ""
	local line
	for line in "${lines[@]}"; do
		assert_regex "$line" '^/sys/kernel/tcplat/[^ ]+  Date KernelVersion Contact Description$'
	done
}

@test "the descriptions begin with the mode that the file has" {
	run diff <(awk '
		/^What:/ { what = $2 }
		/^Description:/ { print $2, what }' "$DOCUMENT" | sort -k 2) \
		<(find "$TREE" -type f -printf '(%m) %p\n' |
			sed 's/^(444)/(RO)/; s/^(644)/(RW)/; s/^(200)/(WO)/' | sort -k 2)
	assert_output ""
	assert_success
}
