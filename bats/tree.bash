# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The model of /sys/kernel/tcplat from which trees of files are written, to test the reader without
# a module.

T=sys/kernel/tcplat

# set_to GROUP/FILE VALUE: writes VALUE to the file.
set_to() { echo "$2" >"$T/$1"; }

# make_tree [NAME]: writes a tree to ./sys, as fixtures/NAME.tree or standard input describes it:
#   module VERSION HZ      the files that belong to no group, with the clock of this HZ
#   group NAME [STATUS]    a group (armed), to which the next files belong
#   FILE VALUE             a file of this group, or GROUP/FILE of another
#   include NAME           what NAME describes; the next lines change it
make_tree() {
	local file text group='' from=/dev/stdin
	[[ ! ${1-} ]] || from=${BASH_SOURCE[0]%/*}/fixtures/$1.tree
	while read -r file text; do
		case $file in
		'' | '#') ;;
		include) make_tree "$text" ;;
		module) make_module "${text% *}" "${text#* }" ;;
		group)
			read -r group text <<<"$text"
			make_group "$group" "${text:-armed}"
			;;
		*/*) set_to "$file" "$text" ;;
		*) set_to "$group/$file" "$text" ;;
		esac
		[[ $group/$file != delack/delay_hist ]] || set_to "${group}/${file}_le_us" \
			'1000 2000 4000 8000 10000 20000 30000 40000 50000 60000 80000 100000 120000 160000 200000 +Inf'
	done <"$from"
}

make_module() {
	local hz=$2 constant name jiffies
	mkdir -p "$T/clock"
	set_to abi 2
	set_to version "$1"
	set_to reset ''
	set_to clock/hz "$hz"
	set_to clock/tick_ns $(((1000000000 + hz / 2) / hz))
	for constant in delack_min:$((hz / 25)) delack_max:$((hz / 5)) ato_min:$((hz / 25)) \
		rto_min:$((hz / 5)) timewait_len:$((60 * hz)); do
		name=${constant%:*} jiffies=${constant#*:}
		set_to "clock/$name" "$jiffies"
		set_to "clock/${name}_us" $((jiffies * 1000000 / hz))
	done
}

# make_group NAME STATUS: without counters.
make_group() {
	mkdir -p "$T/$1"
	set_to "$1/status" "$2"
	set_to "$1/enabled" "$([[ $2 != armed ]]; echo $?)"
	[[ $2 == unavailable* ]] || set_to "$1/missed" 0
}
