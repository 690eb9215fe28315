# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Runs both ends of a connection in Python, for tests that need the programs' own clocks. Such a
# file's setup() makes the two namespaces.

load ../loaded

# Traffic is between the two, which are new for each test, so that the kernel's counts begin at 0.
# shellcheck disable=SC2034 # helpers.bash uses it
FIRST_NETNS=

PAIR=${BASH_SOURCE[0]%/*}

# python CODE: runs Python with the functions of pair.py and of the file's PRELUDE; sets said[...]
# from the lines NAME=VALUE that it prints.
declare -gA said=()
python() {
	local line out
	# A program that fails at one end leaves the other one waiting. Only the first one of a guest
	# compiles its modules, which takes 400 million instructions.
	out=$(PYTHONPATH=$PAIR PYTHONPYCACHEPREFIX=/tmp/pycache \
		timeout 600 python3 -Sc "from pair import *
${PRELUDE-}
$1") || fail "$out"
	for line in $out; do
		said[${line%%=*}]=${line#*=}
	done
	echo "# said: $(declare -p said)"
}
