# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Completion of tcplat(8) for bash. Install as bash-completion/completions/tcplat.
#
# Commands and options come from the output of --help.

# _tcplat_groups ROOT: list the groups in the tree below ROOT.
_tcplat_groups() {
	local tree=$1/kernel/tcplat file
	for file in "$tree"/*/status; do
		[[ ! -e $file ]] || basename "${file%/status}"
	done
}

_tcplat() {
	local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
	local root=${SYSFS_PATH:-/sys} commands='' options='' arguments='' takes='' words='' line i
	local command=()
	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--root | --proc)
			[[ ${COMP_WORDS[i + 1]-} != = ]] || ((++i))
			((++i))
			[[ ${COMP_WORDS[i - 1]} != --root && ${COMP_WORDS[i - 2]} != --root ]] ||
				root=${COMP_WORDS[i]-}
			;;
		-*) ;;
		*)
			command=("${COMP_WORDS[i]}")
			break
			;;
		esac
	done
	while IFS= read -r line; do
		if [[ $line =~ ^\ +((-.),\ )?(--[a-z-]+)(=([^ ]+))?\  ]]; then
			options+=" ${BASH_REMATCH[3]}"
			[[ $previous != "${BASH_REMATCH[2]}" && $previous != "${BASH_REMATCH[3]}" ]] ||
				takes=${BASH_REMATCH[5]}
		elif [[ $line =~ ^\ \ ([a-z]+)\  ]]; then
			commands+=" ${BASH_REMATCH[1]}"
		elif [[ $line == Usage:* ]]; then
			arguments=${line#*\[OPTION...\]}
		fi
	done < <(ARGP_HELP_FMT=rmargin=999,opt-doc-col=70 "${COMP_WORDS[0]}" "${command[@]}" --help 2>/dev/null)

	case $takes in
	DIR) mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
	FILE) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
	NETNS) mapfile -t COMPREPLY < <(compgen -W "$(ls /run/netns 2>/dev/null)" -- "$word") ;;
	*\|*) mapfile -t COMPREPLY < <(compgen -W "${takes//|/ }" -- "$word") ;;
	esac
	[[ ! $takes ]] || return

	if [[ ! ${command[*]} ]]; then
		words=$commands
	elif [[ $arguments == *COMMAND* && $word != -* ]]; then
		mapfile -t COMPREPLY < <(compgen -c -- "$word")
		return
	else
		[[ $arguments != *clock* ]] || words=clock
		[[ $arguments != *@(GROUP|NAME|PATTERN)* ]] || words+=" $(_tcplat_groups "$root")"
	fi
	[[ $word != -* ]] || words=$options
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -F _tcplat tcplat
