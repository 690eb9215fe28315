#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# module/jiffies.h at each HZ, against a model. Only this converts at HZs that have no kernel here.

load ../libraries

@test "ticks in microseconds, and which waits may be late, at HZ=100, 250, 300 and 1000" {
	local hz header
	for header in jiffies math64 time64; do
		mkdir -p "$BATS_TEST_TMPDIR/linux"
		touch "$BATS_TEST_TMPDIR/linux/$header.h"
	done
	for hz in 100 250 300 1000; do
		gcc -std=gnu11 -O2 -Wall -Wextra -Werror -fsanitize=undefined -fno-sanitize-recover=all \
			-I "$BATS_TEST_TMPDIR" -DHZ=$hz -o "$BATS_TEST_TMPDIR/model" "$BATS_TEST_DIRNAME/jiffies_model.c"
		run -0 "$BATS_TEST_TMPDIR/model"
		((${output% checks} > 120000)) || fail "only $output"
	done
}
