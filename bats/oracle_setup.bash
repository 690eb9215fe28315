# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# setup_file(), teardown_file() and setup() for files all of whose tests compare the module with
# a BPF program. Such files set ORACLE to its name (ackmode) and define their own teardown(),
# which calls oracle_close. A file that needs a different setup redefines a function after loading
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
