# SPDX-License-Identifier: GPL-2.0
#
# awk -f man.awk words.c tcplat.c cmd_*.c PAGE.in: print the man page PAGE.in. These lines
# are replaced by text from the tables in the C files:
#
# @synopsis@		the usage of every command
# @command NAME@	summary, options and help text of the command
# @options@		the options of all commands
# @groups@		the groups and their files
#
# The tables are read as text: a page does not depend on the libraries that the reader is
# built with, and a cross build does not have to run the reader.

function die(text) {
	print FILENAME ":" FNR ": " text >"/dev/stderr"
	exit failed = 1
}

# The string literals at the start of s, joined. Sets rest to what follows the next comma.
function literal(s, text) {
	while (match(s, /^[ \t]*"([^"\\]|\\.)*"/)) {
		text = text substr(s, 1, RLENGTH)
		s = substr(s, RLENGTH + 1)
	}
	if (!text && s !~ /^ *NULL/)
		die("not a string: " s)
	rest = substr(s, index(s, ",") + 1)
	gsub(/^[ \t]*"|"$/, "", text)
	gsub(/"[ \t]*"/, "", text)
	gsub(/\\"/, "\"", text)
	return text
}

# The string in the designated initializer of the member name.
function member(s, name) {
	return match(s, "[.]" name " = ?") ? literal(substr(s, RSTART + RLENGTH)) : ""
}

# Text as mdoc: a line break after each sentence, no long lines, and no line that looks like
# a request.
function prose(text, n, i, word, line, page) {
	gsub(/--/, "\\-\\-", text)
	gsub(/~/, "\\(ti", text)
	gsub(/\^/, "\\(ha", text)
	n = split(text, word, " ")
	for (i = 1; i <= n; i++) {
		if (line && (line ~ /[.?!]$/ || word[i] ~ /\(\)/ || length(line word[i]) > 76)) {
			page = page line "\n"
			line = ""
		}
		if (sub(/\(\)$/, "", word[i]) || sub(/\(\)/, " ", word[i])) {
			page = page ".Fn " word[i] "\n"
			continue
		}
		line = line (line ? " " : word[i] ~ /^[.']/ ? "\\&" : "") word[i]
	}
	return page (line ? line "\n" : "")
}

# Names in capitals are placeholders; clock and a|b are literal.
function argument(name) {
	return name ~ /[a-z]/ ? "Cm " name : "Ar " tolower(name)
}

# "[GROUP...] [SECS [N]]" as mdoc. Op ends at the end of its line.
function arguments(args, n, i, word, name, page) {
	n = split(args, word, " ")
	for (i = 1; i <= n; i++) {
		name = word[i]
		gsub(/\[|\]|\./, "", name)
		page = page (i == 1 || word[i - 1] ~ /\]$/ ? "\n." : " ") \
			(word[i] ~ /^\[/ ? "Op " : "") argument(name) \
			(word[i] ~ /[.][.][.]/ ? " ..." : "")
	}
	return page
}

# An entry of an argp_option table.
function add_option(entry, word, key, arg) {
	word = literal(entry)
	key = rest ~ /^ *'/ ? substr(rest, index(rest, "'") + 1, 1) : ""
	sub(/[^,]*,/, "", rest)
	arg = literal(rest)
	sub(/[^,]*,/, "", rest)
	options[FILENAME] = options[FILENAME] ".It " (key ? "Fl " key " , " : "") "Fl -" word \
		(arg ? " Ns = Ns " argument(arg) : "") "\n" prose(literal(rest) ".")
	if (key && !arg)
		letters[FILENAME] = letters[FILENAME] key
	else
		usage[FILENAME] = usage[FILENAME] "\n.Op Fl " (key ? key : "-" word) \
			(arg ? " " argument(arg) : "")
}

function add_word(entry, name, text) {
	name = literal(entry)
	text = literal(rest)
	if (table == "groups[]") {
		groups[++nr_groups] = name
		about[name] = text
	} else {
		files[name] = files[name] ".It Pa " text "\n" prose(literal(rest))
	}
}

function add_command(entry, name) {
	name = member(entry, "name")
	source[name] = FILENAME
	args[name] = member(entry, "args")
	texts[name] = prose(member(entry, "brief") ".")
	doc[name] = member(entry, "doc")
}

/(argp_option options|struct cmd cmd_[a-z]+|\} groups|\} files)(\[\])? = \{$/ {
	table = $(NF - 2)
	entry = ""
	next
}

/^};/ {
	if (table ~ /^cmd_/)
		add_command(entry)
	table = ""
}

table && !/^\t\/?\*/ {
	entry = entry $0
	if (table ~ /^cmd_/ || !/\},$/)
		next
	sub(/^[^{]*\{ */, "", entry)
	if (entry ~ /^0 /)
		table = ""
	else if (table == "options[]")
		add_option(entry)
	else
		add_word(entry)
	entry = ""
}

/^\t&cmd_[a-z]+,$/ { order[++nr_commands] = substr($1, 6, length($1) - 6) }

function list(file) {
	return options[file] ? ".Bl -tag -width Ds\n" options[file] ".El\n" : ""
}

function synopsis(i, name, file) {
	for (i = 1; i <= nr_commands; i++) {
		name = order[i]
		file = source[name]
		printf ".Nm\n.Op Ar option ...\n.Cm %s%s%s%s\n", name,
			(letters[file] ? "\n.Op Fl " letters[file] : ""), usage[file],
			arguments(args[name])
		missing[name] = 1
	}
}

function command(name) {
	if (!(name in source))
		die("there is no command " name)
	printf ".Ss %s\n%s%s%s", name, texts[name], list(source[name]),
		(doc[name] ? ".Pp\n" prose(doc[name]) : "")
	delete missing[name]
}

function counters(i, name) {
	for (i = 1; i <= nr_groups; i++) {
		name = groups[i]
		printf ".Ss %s: %s\n.Bl -tag -width unverified_iterations_lower -compact\n%s.El\n",
			name, about[name], files[name]
	}
}

FILENAME !~ /[.]in$/ { next }
/^@synopsis@$/ { synopsis(); next }
/^@command [a-z]+@$/ { command(substr($2, 1, length($2) - 1)); next }
/^@options@$/ { printf "%s", list("tcplat.c"); next }
/^@groups@$/ { counters(); next }
{ print }

END {
	if (failed)
		exit 1
	for (name in missing)
		die("the command " name " is missing")
}
