# SPDX-License-Identifier: GPL-2.0
#
# attempts.pl WHAT DIRECTORY...: as the current user, tries to change everything below each
# DIRECTORY, and prints the result of each attempt: "ok", or the error. It is a single process,
# since an emulated machine starts few per second.
#
# The first line shows its user ID, the user ID mapping of its namespace, and its effective
# capabilities there. WHAT is "write" (attempts to change contents and names) or "mode"
# (attempts to change permissions and owners).

# Fcntl's values; guests of vm/bare do not have that module.
my ($O_WRONLY, $O_RDWR, $O_CREAT, $O_TRUNC, $O_APPEND) = (01, 02, 0100, 01000, 02000);
my ($what, @directories) = @ARGV;
my $done = 0;

# came_of ATTEMPT, OK: prints the result of an attempt.
sub came_of {
	my ($attempt, $ok) = @_;
	my $error = "$!";
	print "$attempt: ", $ok ? "ok" : $error, "\n";
	$done++;
}

# Tries each way to open the file for writing; writes 0 and 1 where that succeeds.
sub try_write {
	my ($file) = @_;
	my %ways = ('O_WRONLY' => $O_WRONLY, 'O_RDWR' => $O_RDWR,
		'O_WRONLY|O_TRUNC' => $O_WRONLY | $O_TRUNC,
		'O_WRONLY|O_APPEND' => $O_WRONLY | $O_APPEND);
	for my $way (sort keys %ways) {
		my $handle;
		if (!sysopen($handle, $file, $ways{$way})) {
			came_of("open $way $file", 0);
			next;
		}
		print "open $way $file: opened\n";
		came_of("write $way $file", defined(syswrite($handle, "$_\n"))) for 0, 1;
	}
	came_of("unlink $file", unlink($file));
	came_of("rename $file", rename($file, "$file.old"));
}

sub try_mode {
	my ($file, $mode) = @_;
	came_of("chmod $file", chmod($mode, $file));
	came_of("chown $file", chown($<, -1, $file)) if $<;
}

sub walk {
	my ($directory) = @_;
	opendir(my $handle, $directory) or return came_of("opendir $directory", 0);
	my @names = sort grep { !/^\.\.?$/ } readdir($handle);
	if ($what eq 'write') {
		came_of("mkdir $directory", mkdir("$directory/new"));
		came_of("create $directory", sysopen(my $new, "$directory/new", $O_WRONLY | $O_CREAT));
	}
	for my $name (@names) {
		my $path = "$directory/$name";
		next if -l $path;
		if (-d $path) {
			walk($path);
		} elsif ($what eq 'write') {
			try_write($path);
		} else {
			try_mode($path, 0666);
		}
	}
	try_mode($directory, 0777) if $what eq 'mode';
}

sub first_of {
	my ($file, $pattern) = @_;
	open(my $handle, '<', $file) or die "$file: $!\n";
	$_ =~ $pattern and return $1 while <$handle>;
	die "$file makes no sense\n";
}

printf("user %d of %s, capabilities %s\n", $>,
	join(' ', split(' ', first_of('/proc/self/uid_map', qr/(.*)/))),
	first_of('/proc/self/status', qr/^CapEff:\s*0*([0-9a-f]+)/));
walk($_) for @directories;
print "attempts: $done\n";
