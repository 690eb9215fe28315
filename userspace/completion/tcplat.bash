# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Completion of tcplat(8) for bash. Install as bash-completion/completions/tcplat.
#
# Commands and options come from the output of --help.

_tcplat() {
	local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
	local root=/sys commands='' options='' arguments='' takes='' words='' line i command=()
	# compgen -W runs what is in $( ).
	local safe='[A-Za-z0-9_.-]*'
	COMPREPLY=()
	# --OPTION=WORD is three words.
	if [[ $word == = ]]; then
		word=''
	elif [[ $previous == = ]]; then
		previous=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	[[ ${COMP_WORDS[1]-} == -* || $COMP_CWORD -lt 2 ]] || command=("${COMP_WORDS[1]}")
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--root)
			[[ ${COMP_WORDS[i + 1]-} != = ]] || ((++i))
			root=${COMP_WORDS[++i]-}
			;;
		--)
			mapfile -t COMPREPLY < <(compgen -c -- "$word")
			return
			;;
		esac
	done
	while IFS= read -r line; do
		if [[ $line =~ ^\ +((-.),\ )?(--[a-z-]+)(=([^ ]+))? ]]; then
			options+=" ${BASH_REMATCH[3]}"
			[[ $previous != "${BASH_REMATCH[2]}" && $previous != "${BASH_REMATCH[3]}" ]] ||
				takes=${BASH_REMATCH[5]}
		elif [[ $line =~ ^\ \ ([a-z]+)\  ]]; then
			commands+=" ${BASH_REMATCH[1]}"
		elif [[ $line == usage:* ]]; then
			arguments=${line#*\[OPTION...\]}
		fi
	done < <("${COMP_WORDS[0]}" "${command[@]}" --help 2>/dev/null)

	case $takes in
	DIR) mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
	FILE) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
	NETNS) words=$(compgen -G '/run/netns/*' | sed -n "s|.*/\($safe\)$|\1|p") ;;
	*\|*) words=${takes//|/ } ;;
	'')
		((COMP_CWORD > 1)) || words=$commands
		[[ $arguments != *@(PATTERN|EVENT)* ]] ||
			words=$(compgen -G "$root/kernel/tcplat/*/status" |
				sed -n "s|.*/\($safe\)/status$|\1|p")
		[[ $word != -* ]] || words=$options
		;;
	esac
	[[ ! $words ]] || mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -F _tcplat tcplat
