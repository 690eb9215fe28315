# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For files whose tests have the module loaded, afresh for each file.

load ../helpers

# The first search since boot takes 6 ms, since the kernel fills table_perturb, and is unverified.
setup_file() {
	load_afresh
	"${TRAFFIC%/*}/ports" "connect 1 reset" >/dev/null
}

teardown() { tidy; }
teardown_file() { ! loaded || unload_module; }
