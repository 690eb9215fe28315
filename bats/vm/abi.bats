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

# One line a path: a What and the fields of its entry, which may have several.
entries() {
	awk -F ':[ \t]*' '
		function end(i) {
			for (i = 1; i <= n; i++)
				print what[i], fields
			n = 0
			fields = ""
		}
		/^What:/ { if (fields) end(); what[++n] = $2; next }
		/^[A-Z][A-Za-z]*:/ { fields = fields " " $1 }
		END { end() }' "$DOCUMENT"
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
		/^What:/ { what[++n] = $2 }
		/^Description:/ { for (i = 1; i <= n; i++) print $2, what[i]; n = 0 }' "$DOCUMENT" | sort -k 2) \
		<(find "$TREE" -type f -printf '(%m) %p\n' |
			sed 's/^(444)/(RO)/; s/^(644)/(RW)/; s/^(200)/(WO)/' | sort -k 2)
	assert_output ""
	assert_success
}
