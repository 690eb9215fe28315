# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For files whose tests begin without the module.

load ../helpers

setup() {
	untraced
	! loaded || unload_module
	# shellcheck disable=SC2034 # helpers.bash uses it
	before=$(traces)
}

teardown() {
	tidy
	! loaded || unload_module
}
