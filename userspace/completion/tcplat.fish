# SPDX-License-Identifier: GPL-2.0
#
# Completion of tcplat(8) for fish: vendor_completions.d

function __tcplat_groups
    set -l root /sys
    set -q SYSFS_PATH; and set root $SYSFS_PATH
    set -l words (commandline -opc)
    if set -l i (contains -i -- --root $words)
        set root $words[(math $i + 1)]
    end
    for status_file in $root/kernel/tcplat/*/status
        basename (dirname $status_file)
    end
end

# Whether the command is one of these; without any: whether it is still to come. What
# delta runs may have arguments of the same names.
function __tcplat_command
    set -l words (commandline -opc)
    while set -q words[2]
        set -e words[1]
        switch $words[1]
            case --root --proc
                set -e words[1]
            case '-*'
            case '*'
                contains -- $words[1] $argv
                return
        end
    end
    not set -q argv[1]
end

complete -c tcplat -f
complete -c tcplat -l root -x -a '(__fish_complete_directories)' -d 'Read a directory instead of /sys'
complete -c tcplat -l proc -x -a '(__fish_complete_directories)' -d 'Read a directory instead of /proc'
complete -c tcplat -s h -l help -d 'Print a help text'
complete -c tcplat -s V -l version -d 'Print the version'

complete -c tcplat -n __tcplat_command -a show -d 'Print the clock and the groups'
complete -c tcplat -n __tcplat_command -a watch -d 'Show what changes, per second'
complete -c tcplat -n __tcplat_command -a hist -d 'Draw the histograms of a group'
complete -c tcplat -n __tcplat_command -a delta -d 'Run a command, print what was counted'
complete -c tcplat -n __tcplat_command -a new -d 'Print what was counted since the last time'
complete -c tcplat -n __tcplat_command -a json -d 'Print everything as JSON'
complete -c tcplat -n __tcplat_command -a openmetrics -d 'Print OpenMetrics'
complete -c tcplat -n __tcplat_command -a doctor -d 'Say what hurts and what helps'
complete -c tcplat -n __tcplat_command -a top -d 'Show who loses time by what'
complete -c tcplat -n __tcplat_command -a trace -d 'Print events as they happen'
complete -c tcplat -n __tcplat_command -a probes -d 'List where the module is attached'
complete -c tcplat -n __tcplat_command -a reset -d 'Zero every counter'
complete -c tcplat -n __tcplat_command -a enable -d 'Let groups count'
complete -c tcplat -n __tcplat_command -a disable -d 'Let groups count no longer'

complete -c tcplat -n '__tcplat_command show watch hist json openmetrics trace enable disable' -a '(__tcplat_groups)' -d Group
complete -c tcplat -n '__tcplat_command show' -a clock -d 'The clock of this kernel'
complete -c tcplat -n '__tcplat_command watch doctor top' -s i -l interval -x -d Seconds
complete -c tcplat -n '__tcplat_command watch top trace' -s n -l count -x -d Lines
complete -c tcplat -n '__tcplat_command watch' -s z -l zeros -d All
complete -c tcplat -n '__tcplat_command delta openmetrics trace' -s o -l output -r -F -d File
complete -c tcplat -n '__tcplat_command delta' -a '(__fish_complete_subcommand --fcs-skip=2 -o --output --root --proc)'
complete -c tcplat -n '__tcplat_command json' -s p -l pretty -d Indent
complete -c tcplat -n '__tcplat_command openmetrics' -l prometheus -d 'Text format'
complete -c tcplat -n '__tcplat_command new' -s s -l keep -d 'Keep the last run'
complete -c tcplat -n '__tcplat_command new' -s z -l zeros -d 'Zeros, too'
complete -c tcplat -n '__tcplat_command doctor' -l from -r -F -d 'Since that file'
complete -c tcplat -n '__tcplat_command doctor' -l to -r -F -d 'Up to that file'
complete -c tcplat -n '__tcplat_command doctor' -l total -d 'All so far'
complete -c tcplat -n '__tcplat_command doctor' -l json -d 'Print JSON'
complete -c tcplat -n '__tcplat_command trace' -s p -l peer -x -d 'Only this peer'
complete -c tcplat -n '__tcplat_command trace' -s P -l port -x -d 'Only this port'
complete -c tcplat -n '__tcplat_command trace' -s N -l netns -x -d 'Only this network namespace'
complete -c tcplat -n '__tcplat_command trace' -s m -l min-ms -x -d 'Only what took so many milliseconds'
complete -c tcplat -n '__tcplat_command trace' -s t -l time -x -d Seconds
complete -c tcplat -n '__tcplat_command top trace' -s j -l json -d 'Print JSON'
complete -c tcplat -n '__tcplat_command top' -s k -l key -x -a 'peer port socket netns cgroup comm' -d Whose
complete -c tcplat -n '__tcplat_command top' -s b -l batch -d 'No screen'
