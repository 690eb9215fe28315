# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Processes that read all of the module's files over and over and check the format of each
# value.

readers=()

# start_readers N [comes-and-goes]: starts N readers, until stop_readers. With the second argument
# files may vanish before or after they are opened.
start_readers() {
	local i
	readers=()
	rm -f "$BATS_TEST_TMPDIR"/{stop,reader.*}
	for ((i = 0; i < $1; i++)); do
		perl -e '
			($stop, $vanish, @tops) = @ARGV;
			$| = 1;
			%gone = (2 => 1, 6 => 1, 19 => 1);	# ENOENT, ENXIO, ENODEV
			sub wrong { print "wrong $_[0]: $_[1]\n"; exit 1 }
			# Not a number, or so large that it must be a negative one.
			sub number {
				my ($file, $n) = @_;
				wrong($file, "\"$n\"") if $n !~ /^[0-9]+$/ || $n >= 2 ** 52;
				return $n;
			}
			sub look {
				my ($file) = @_;
				my ($text, $part, $got, $sum) = ("", "", 1, 0);
				my $in;
				if (!open($in, "<:raw", $file)) {
					wrong($file, "open: $!") if !$vanish || !$gone{$! + 0};
					$vanished++;
					return;
				}
				while ($got) {
					$got = sysread($in, $part, 7000);
					if (!defined($got)) {
						wrong($file, "read: $!") if !$vanish || !$gone{$! + 0};
						$vanished++;
						return;
					}
					$text .= $part;
				}
				close($in);
				$reads++;
				wrong($file, "\"$text\" has no end") if $text !~ /\n$/;
				if ($file =~ m{/debug/}) {
					# The last word of each line that is no comment and no bar.
					for my $line (split(/\n/, $text)) {
						number($file, $1) if $line !~ /^#|#$/ && $line =~ / (-?[0-9]+)$/;
					}
					return;
				}
				wrong($file, "\"$text\" is not one line") if $text !~ /^[^\n]+\n$/;
				chop($text);
				if ($file =~ /_hist$/) {
					$sum += number($file, $_) for split(/ /, $text, -1);
				} elsif ($file =~ /_le(_[a-z]+)?$/) {
					wrong($file, $text) if $text !~ /^([0-9]+ )+\+Inf$/;
				} elsif ($file =~ m{/status$}) {
					wrong($file, $text) if $text !~ /^(armed|off)$/;
				} elsif ($file !~ m{/version$}) {
					$sum = number($file, $text);
				}
				$max{$file} = $sum if $sum >= ($max{$file} || 0);
			}
			sub walk {
				my ($dir) = @_;
				my $d;
				opendir($d, $dir) or return;
				my @names = grep { !/^\./ && $_ ne "reset" } readdir($d);
				closedir($d);
				for (@names) {
					-d "$dir/$_" ? walk("$dir/$_") : look("$dir/$_");
				}
			}
			do {
				walk($_) for @tops;
			} until (-e $stop);
			print "reads " . ($reads + 0) . "\nvanished " . ($vanished + 0) . "\n";
			print "$_ $max{$_}\n" for sort(keys(%max));
		' "$BATS_TEST_TMPDIR/stop" "${2-}" "$TREE" "$DEBUG" >"$BATS_TEST_TMPDIR/reader.$i" 2>&1 3>&- &
		readers+=("$!")
	done
}

# Fails if a reader found something wrong. Sets reads and vanished.
stop_readers() {
	local i n
	touch "$BATS_TEST_TMPDIR/stop"
	reads=0 vanished=0
	for i in "${!readers[@]}"; do
		wait "${readers[i]}" || fail "$(<"$BATS_TEST_TMPDIR/reader.$i")"
		n=$(sed -n 's/^reads //p' "$BATS_TEST_TMPDIR/reader.$i")
		((n > 0)) || fail "a reader has read nothing: $(<"$BATS_TEST_TMPDIR/reader.$i")"
		((reads += n))
		n=$(sed -n 's/^vanished //p' "$BATS_TEST_TMPDIR/reader.$i")
		((vanished += n)) || :
	done
	readers=()
}

# most GROUP/FILE: prints the largest value that a reader saw.
most() {
	awk -v file="$TREE/$1" '$1 == file && $2 >= most { most = $2 }
		END { print most + 0 }' "$BATS_TEST_TMPDIR"/reader.*
}

kill_readers() {
	[[ ! ${readers[*]-} ]] || kill "${readers[@]}" 2>/dev/null || :
}
