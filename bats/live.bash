# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For files that run commands of the reader which listen to events of the live module.

load ../loaded

# For setup(): a directory of its own, with a module that has nothing left to count.
live() {
	cd "$BATS_TEST_TMPDIR" || return
	loaded || load_module
	quiet
}

# killed PID COMMAND: what tcplat COMMAND leaves when it is killed keeps the module.
killed() {
	kill -KILL "$1"
	wait "$1" || :
	[[ $(instances) == *"tcplat-$2-"* ]] || fail "$2 left nothing behind, so nothing is tested"
	stays_loaded
}

instances() { ls "$TRACING/instances"; }
no_instances() { [[ ! $(instances) ]]; }
