# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash

# Called by each setup(). bats runs some twenty commands of its own for each command of a test.
# Inside functions they take most of a test's time and show little; without them a failure is
# reported for the line that called the function.
untraced() { set +T; }
setup() { untraced; }
