#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The ABI document and the live tree must agree: paths, modes and groups. Only this compares the
# document with what the kernel shows.

load ../loaded

DOCUMENT=$BATS_TEST_DIRNAME/../../Documentation/ABI/testing/sysfs-kernel-tcplat

# Prints the groups of the tree, for which <group> stands.
groups() { find "$TREE" -name enabled -type f -printf '%h\n' | sed 's|.*/||'; }

# Prints the document, with one What per group in place of <group>.
document() {
	awk -v groups="$(groups | tr '\n' ' ')" '
		BEGIN { n = split(groups, group) }
		!/^What:.*<group>/ { print; next }
		{ for (i = 1; i <= n; i++) { line = $0; sub(/<group>/, group[i], line); print line } }' \
		"$DOCUMENT"
}

# Prints one line per path: a What and the fields of its entry, which may have several Whats.
entries() {
	document | awk -F ':[ \t]*' '
		function end(i) {
			for (i = 1; i <= n; i++)
				print what[i], fields
			n = 0
			fields = ""
		}
		/^What:/ { if (fields) end(); what[++n] = $2; next }
		/^[A-Z][A-Za-z]*:/ { fields = fields " " $1 }
		END { end() }'
}

documented() { entries | awk '{ print $1 }' | sort; }

@test "tests of all groups have all groups" {
	same groups "$(groups | sort)" "$(printf '%s\n' "${GROUPS_ALL[@]}" | sort)"
}

@test "every path of the tree is documented once, and every documented path is there" {
	run -0 diff <(documented) <(find "$TREE" -type f | sort)
}

@test "the description of <group> names every group, and no other" {
	run -0 diff <(awk '/^What:/ { ours = /<group>\/enabled/ } ours' "$DOCUMENT" | tr '\n\t' ' ' |
		sed 's/.*A <group> is//; s/\. Writing.*//' | grep -oE '[a-z]{3,}' | sort) <(groups | sort)
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
	run -0 diff <(document | awk '
		/^What:/ { what[++n] = $2 }
		/^Description:/ { for (i = 1; i <= n; i++) print $2, what[i]; n = 0 }' | sort -k 2) \
		<(find "$TREE" -type f -printf '(%m) %p\n' |
			sed 's/^(444)/(RO)/; s/^(644)/(RW)/; s/^(200)/(WO)/' | sort -k 2)
	finds_nothing . <(find "$TREE" "$DEBUG" -not -user root; find "$DEBUG" -type f -not -perm 444)
}
