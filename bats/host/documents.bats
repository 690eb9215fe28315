#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Facts in the documents: paths, links, the version, and the group that CONTRIBUTING.md adds, which
# is built and compared with the kernel's counters in a guest. Only this finds documents that no
# longer match the tree.
#
# shellcheck disable=SC2016 # backquotes of Markdown

load ../libraries

setup() {
	untraced
	SOURCE=$(cd "$BATS_TEST_DIRNAME/../.." && pwd -P)
	cd "$SOURCE" || return
	READER=${TCPLAT:-$SOURCE/userspace/tcplat}
	mapfile -t documents < <(find ./*.md Documentation -type f ! -name '*.svg')
	version=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"$/\1/p' dkms.conf)
}

@test "the version of dkms.conf is that of CHANGES and of the Debian changelog" {
	[[ $version ]]
	assert_equal "$(grep -m 1 -oE '^[0-9]+(\.[0-9]+)+' CHANGES)" "$version"
	assert_equal "$(dpkg-parsechangelog -S Version)" "$version"
	# The changelog's date, in RFC 2822's format, must be the same day.
	run -0 date -u +%F -d "$(dpkg-parsechangelog -S Date)"
	assert_equal "$(sed -n "s/^$version (\(.*\))$/\1/p" CHANGES)" "$output"
}

# Prints documents without CONTRIBUTING.md's patch, whose paths are not in the tree.
prose() { sed '/^```diff$/,/^```$/d' "$@"; }

@test "every file that a document names or links to is there" {
	local names=() name document link links=0
	mapfile -t names < <(prose "${documents[@]}" |
		grep -ohP '(?<![\w./])(bats|bench|debian|Documentation|kunit_tests|module|packaging|userspace|vm)/[\w./-]*[\w/-]' |
		grep -v '/FILE$' | sort -u)
	((${#names[@]} > 60))
	for name in "${names[@]}"; do
		[[ -e $name ]] || fail "$name does not exist"
	done
	for document in "${documents[@]}"; do
		while read -r link; do
			((++links))
			[[ -e ${document%/*}/$link ]] || fail "$document: $link does not exist"
		done < <(prose "$document" |
			grep -oP '\]\(\K(?!https?:)[^):#]+|`[^`<]+<\K(?!https?:)[^>#]+(?=>`_)')
	done
	((links > 50))
}

@test "every document is in the index, and says for whom it is; every file of module/ is in one" {
	local document file
	for document in Documentation/{guide,design,proof}/*.{md,rst}; do
		[[ -e $document ]] || continue
		grep -qF "(${document#*/})" Documentation/README.md || fail "$document is not in the index"
		head -n 9 "$document" | grep -q '^For ' || fail "$document does not say for whom it is"
	done
	for file in module/*.c; do
		grep -q "${file##*/}" Documentation/design/architecture.md || fail "$file is missing"
	done
}

@test "mutations.md names files, functions and tests that are there" {
	local row file what tests name names rows=0
	while IFS='|' read -r _ file what tests _; do
		((++rows))
		row="$file: $what"
		file=${file//[\` ]/}
		[[ $what =~ ^\ \`([a-z0-9_]+)\(\)\` ]] && name=${BASH_REMATCH[1]} || name=
		grep -qw -- "$name" "$file" || fail "$row: $file has no $name"
		[[ $tests =~ ^\ \`([^\`]+)\`:\ (.*) ]] || fail "$row: which test?"
		file=${BASH_REMATCH[1]##*/} names=${BASH_REMATCH[2]}
		if [[ $file == *-kunit.h ]]; then
			names=$(grep -oP '`\K\w+(?=`)' <<<"$names")
		else
			names=$(sed -E 's/(;|, IPv[46]|, and [0-9]+ more| \*| \((the kernel|on )).*//' <<<"$names")
		fi
		while read -r name; do
			grep -qwF -- "$name" kunit_tests/*.h bats/*/"$file" 2>/dev/null ||
				fail "$row: $file has no test '$name'"
		done <<<"$names"
	done < <(grep '^| `' Documentation/proof/mutations.md)
	((rows > 200))
}

# bats test_tags=all
@test "the group that CONTRIBUTING.md adds counts what the kernel counts" {
	local copy=$BATS_TEST_TMPDIR/copy patch=$BATS_TEST_TMPDIR/patch ko family
	sed -n '/^```diff$/,/^```$/p' CONTRIBUTING.md | sed '1d;$d' >"$patch"
	run -0 git apply --numstat --summary "$patch"
	assert_output --regexp $'^1\t0\tmodule/groups.h
[1-9][0-9]\t0\tmodule/recovery.c
 create mode 100644 module/recovery.c$'

	mkdir "$copy"
	cp -r Kbuild dkms.conf module vm "$copy"
	cd "$copy"
	prints '' git apply "$patch"
	ko=$(vm/build --kernel 6.1 --strict)
	cat >"$BATS_TEST_TMPDIR/guest" <<SCRIPT
#!/bin/sh
tcplat=/sys/kernel/tcplat
kernel() {
	awk '/^TcpExt:/ && !n++ { split(\$0, name); next }
		/^TcpExt:/ { for (i = 2; i <= split(\$0, value); i++)
			if (name[i] ~ /^TCP(Sack|Reno)Recovery\$/) { sum += value[i]; found++ } }
		END { if (found != 2) exit 1; print sum }' /proc/net/netstat
}
insmod tcplat.ko || exit
cat \$tcplat/recovery/status
modprobe sch_netem
/usr/sbin/tc qdisc add dev lo root netem loss 5% || exit
for family in 4 6; do
	before=\$(kernel)
	echo 1 >\$tcplat/reset
	/traffic bulk -\$family -n 256 --settle >/dev/null || exit
	echo "IPv\$family: tcplat \$(cat \$tcplat/recovery/enters) kernel \$((\$(kernel) - before))"
done
echo 0 >\$tcplat/recovery/enabled
/traffic bulk -n 64 --settle >/dev/null || exit
echo "off: tcplat \$(cat \$tcplat/recovery/enters)"
echo "missed: \$(cat \$tcplat/recovery/missed)"
$READER show recovery
rmmod tcplat
SCRIPT
	run -0 "$SOURCE/vm/bare" --kernel 6.1 --live --timeout 900 --program tc --module sch_netem \
		--program "$READER" \
		"$BATS_TEST_TMPDIR/guest" "$ko" "${TRAFFIC:-$SOURCE/build/traffic}"
	assert_line --index 0 armed
	for family in 4 6; do
		assert_line --regexp "^IPv$family: tcplat ([1-9][0-9]*) kernel [1-9]"
		[[ $output =~ IPv$family:\ tcplat\ ([0-9]+)\ kernel\ ([0-9]+) ]]
		assert_equal "IPv$family ${BASH_REMATCH[1]}" "IPv$family ${BASH_REMATCH[2]}"
	done
	# Counts stay when the group is disabled.
	assert_line "off: tcplat ${BASH_REMATCH[1]}"
	assert_line 'missed: 0'
	assert_line 'recovery [off]'
	assert_line --regexp "^  enters +${BASH_REMATCH[1]} *$"
}
