# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For files that run commands of the reader which listen to events of the live module.

setup_file() {
	load_afresh
}

teardown_file() {
	! loaded || unload_module
}

# For setup(): a directory of its own, with a module that has nothing left to count.
live() {
	cd "$BATS_TEST_TMPDIR" || return
	loaded || load_module
	quiet
}

instances() { ls "$TRACING/instances"; }
no_instances() { [[ ! $(instances) ]]; }
