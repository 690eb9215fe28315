# SPDX-License-Identifier: GPL-2.0
#
# Completion of tcplat(8) for fish. Install in vendor_completions.d.
#
# Commands and options come from the output of --help.

function __tcplat_help
    COLUMNS=1000 command tcplat $argv --help 2>/dev/null
end

function __tcplat_groups
    set -l root /sys
    set -l words (commandline -opc)
    if set -l i (contains -i -- --root $words)
        set root $words[(math $i + 1)]
    end
    for status_file in $root/kernel/tcplat/*/status
        basename (dirname $status_file)
    end
end

# __tcplat_command [COMMAND]: test if the first word is COMMAND; without an argument, if there is none.
function __tcplat_command
    set -l words (commandline -opc)
    test "$words[2]" = "$argv[1]"
end

# Test if the command line has -- already.
function __tcplat_runs
    contains -- -- (commandline -opc)
end

# __tcplat_options CONDITION [COMMAND]: complete the options of COMMAND and their arguments.
function __tcplat_options
    for line in (__tcplat_help $argv[2..-1])
        set -l option (string match -r '^ +(?:-(?=., ))?(.?)(?:, )?--([a-z-]+)=?(\S*) +(.*)$' -- $line); or continue
        set -l more
        test -z "$option[2]"; or set more -s $option[2]
        switch "$option[4]"
            case ''
            case DIR
                set more $more -x -a '(__fish_complete_directories)'
            case FILE
                set more $more -r -F
            case NETNS
                set more $more -x -a '(ls /run/netns 2>/dev/null)'
            case '*|*'
                set more $more -x -a (string replace -a '|' ' ' -- $option[4])
            case '*'
                set more $more -x
        end
        complete -c tcplat -n "$argv[1]" -l $option[3] -d $option[5] $more
    end
end

# Complete the command after --.
function __tcplat_run
    set -l words (commandline -opc) (commandline -ct)
    complete -C (string join ' ' -- (string escape -- $words[(math (contains -i -- -- $words) + 1)..-1]))
end

complete -c tcplat -f
__tcplat_options __tcplat_command
for line in (__tcplat_help)
    set -l known (string match -r '^  ([a-z]+)(.*?)  +(\S.*)$' -- $line); or continue
    set -l when "__tcplat_command $known[2]"
    complete -c tcplat -n __tcplat_command -a $known[2] -d $known[4]
    __tcplat_options $when $known[2]
    if string match -q '*COMMAND*' -- (__tcplat_help $known[2])[1]
        complete -c tcplat -n "$when; and __tcplat_runs" -a '(__tcplat_run)'
    end
    if string match -qr 'PATTERN|EVENT' -- (__tcplat_help $known[2])[1]
        complete -c tcplat -n "$when; and not __tcplat_runs" -a '(__tcplat_groups)' -d Group
    end
end
