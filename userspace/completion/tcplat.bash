# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Completion of tcplat(8) for bash: $(bash-completion)/completions/tcplat

# The groups of the tree that the command line or the environment names.
_tcplat_groups() {
	local tree=$1/kernel/tcplat file
	for file in "$tree"/*/status; do
		[[ ! -e $file ]] || basename "${file%/status}"
	done
}

_tcplat() {
	local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
	local root=${SYSFS_PATH:-/sys} command='' words='' i
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
			command=${COMP_WORDS[i]}
			break
			;;
		esac
	done
	case $previous in
	--root | --proc)
		mapfile -t COMPREPLY < <(compgen -d -- "$word")
		return
		;;
	-o | --output | --from | --to)
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
		return
		;;
	-i | --interval | -n | --count | -t | --time | -m | --min-ms | -p | --peer | -P | --port) return ;;
	-k | --key)
		mapfile -t COMPREPLY < <(compgen -W 'peer port socket netns cgroup comm' -- "$word")
		return
		;;
	-N | --netns)
		mapfile -t COMPREPLY < <(compgen -W "$(ls /run/netns 2>/dev/null)" -- "$word")
		return
		;;
	esac
	if [[ $command == delta && $word != -* ]]; then
		mapfile -t COMPREPLY < <(compgen -c -- "$word")
		return
	fi
	words='--root --proc --help --version'
	if [[ $word == -* ]]; then
		case $command in
		watch) words+=' --interval --count --zeros' ;;
		delta) words+=' --output' ;;
		new) words+=' --keep --zeros' ;;
		json) words+=' --pretty' ;;
		openmetrics) words+=' --output --prometheus' ;;
		doctor) words+=' --interval --total --from --to --json' ;;
		top) words+=' --key --interval --count --batch --json' ;;
		trace) words+=' --peer --port --netns --min-ms --count --time --output --json' ;;
		esac
	else
		case $command in
		'') words='show watch hist delta new json openmetrics doctor top trace probes reset enable disable' ;;
		show) words="clock $(_tcplat_groups "$root")" ;;
		watch | hist | json | openmetrics | trace | enable | disable) words=$(_tcplat_groups "$root") ;;
		*) words='' ;;
		esac
	fi
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -F _tcplat tcplat
