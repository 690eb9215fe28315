# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For files whose tests have the module loaded, afresh for each file.

setup_file() { load_afresh; }
teardown_file() { ! loaded || unload_module; }
