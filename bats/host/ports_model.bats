#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# The number of ports that a search has tried, as computed by module/ports.h, against a model
# of the kernel's loop that counts them. Only this covers all states of small ranges.

load ../libraries

setup_file() {
	gcc -std=c11 -O2 -g -Wall -Wextra -Werror -fsanitize=undefined \
		-fno-sanitize-recover=all -o "$BATS_FILE_TMPDIR/model" \
		"$BATS_TEST_DIRNAME/ports_model.c"
}

# model PART LEAST: this part of the model finds no error in at least LEAST checks.
model() {
	prints --regexp '^[0-9]+ checks$' "$BATS_FILE_TMPDIR/model" "$1"
	((${output% checks} >= $2)) || fail "only $output"
}

@test "every start, free port and jitter of every range of 1 to 40 ports" {
	model small 10000000
}

@test "every random stride of ranges of 1 to 25 ports" {
	model strides 10000000
}

@test "large ranges filled to the last port, with ports reserved and bound" {
	model large 100000
}

@test "a socket's own range, torn ranges, changed ranges" {
	model ranges 10000
}
