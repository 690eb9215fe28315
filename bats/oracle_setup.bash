# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For files all of whose tests compare the module with a BPF program. Such files set ORACLE to its
# name (ackmode). A file that needs a different setup or teardown redefines a function after loading
# this.

setup_file() {
	load_afresh
	oracle_start "${ORACLE-ackmode}"
}

teardown_file() {
	oracle_stop
	! loaded || unload_module
}

setup() {
	untraced
	oracle_open
	loaded || load_module
}

teardown() {
	oracle_close
	tidy
}
