# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash

# For each setup(). Bats follows each command of a test with some twenty of its own.
# Inside functions these are most of the time that a test takes, and tell little:
# without them a failure is told of the line that called the function.
untraced() { set +T; }
setup() { untraced; }
