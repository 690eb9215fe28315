# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Loads bats' assertions, and keeps bats itself from taking most of a test's time.

# The libraries call it for each of their files, for each test.
# shellcheck disable=SC2317
dirname() { echo "${1%/*}"; }
bats_load_library bats-support
bats_load_library bats-assert
unset -f dirname

# To be called first in each setup(): bats runs some twenty commands of its own for each command of
# a test. Inside functions they show little; without them a failure is reported for the line that
# called the function.
untraced() { set +T; }
setup() { untraced; }
