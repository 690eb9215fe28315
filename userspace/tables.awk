# SPDX-License-Identifier: GPL-2.0
#
# awk -f tables.awk tables: print the tables in C, each between #ifdef TABLE_NAME and #endif.
# awk -f tables.awk tables PAGE.in: print the man page PAGE.in. Text in `` is a literal, and these
# lines are replaced:
#
# @synopsis@		the usage of every command
# @command NAME@	text and options of the command
# @options@		the options of all commands
# @rules@		the rules of doctor, and the times that none judges
# @groups@		the groups and their files

BEGIN { FS = "\t" }

function die(text) {
	print FILENAME ":" FNR ": " text >"/dev/stderr"
	exit failed = 1
}

# ---- reading ----

function value(text, name) {
	for (name in texts)
		gsub("@" name "@", texts[name], text)
	return text == "-" ? "" : text
}

FILENAME ~ /[.]in$/ { page = 1 }
page { lines[++nr_lines] = $0; next }
/^#/ || /^$/ { next }
/^\t/ {
	if (record == "rule")
		member[last, $2] = value($3) (NF > 3 ? FS $4 FS $5 FS $6 : "")
	else if (record == "command")
		doc[last] = $2
	else
		die("a line without a record")
	next
}
{
	record = $1
	last = $2
	for (i = 2; i <= NF; i++)
		rows[record] = rows[record] (i > 2 ? ", " : "{ ") c(value($i))
	rows[record] = rows[record] " },\n"
}
$1 == "text" && NF == 3 { gsub(/&/, "\\\\&", $3); texts[$2] = $3; next }
$1 == "group" && NF == 3 { groups[++nr_groups] = $2; about[$2] = $3; next }
$1 == "file" && NF == 4 { file_group[++nr_files] = $2; file_name[nr_files] = $3; file_text[nr_files] = $4; next }
$1 == "figure" && NF == 7 || $1 == "column" && NF == 9 { next }
$1 == "command" && NF == 4 { commands[++nr_commands] = $2; args[$2] = value($3); brief[$2] = $4; next }
$1 == "option" && NF == 8 { option[++nr_options] = $0; next }
$1 == "rule" && NF == 2 { rules[++nr_rules] = $2; next }
$1 == "unjudged" && NF == 3 { unjudged[++nr_unjudged] = $2; why[$2] = $3; next }
{ die("not a record of " NF " fields: " $1) }

# Set o to the fields of option @i. Return whether @command has it.
function has_option(command, i, o) {
	split(option[i], o, FS)
	return index("," o[2] ",", "," command ",")
}

# ---- C ----

# A string, NULL if it is empty, or a constant.
function c(text) {
	if (text ~ /^(true|false|OWNER_[A-Z]+)$/)
		return text
	gsub(/\\/, "\\\\", text)
	gsub(/"/, "\\\"", text)
	return text == "" ? "NULL" : "\"" text "\""
}

function print_table(name, body) {
	printf "#ifdef TABLE_%s\n#undef TABLE_%s\n%s#endif\n", name, name, body
}

function rule_c(name, i, n, part, text) {
	text = "{ .name = " c(name)
	n = split("cause group count time what remedy caveat", part, " ")
	for (i = 1; i <= n; i++)
		text = text ", ." part[i] " = " c(member[name, part[i]])
	split(member[name, "minima"], part, " ")
	text = text sprintf(", .events = %d, .mean_ns = %d * MS, .rate_ns = %d * MS", part[1], part[2], part[3])
	n = split(member[name, "sysctls"], part, " ")
	for (i = 1; i <= n; i++)
		text = text ", .sysctls[" i - 1 "] = " c(part[i])
	if (split(member[name, "whose"], part, FS) == 4)
		text = text sprintf(", .whose = { %s, %s, %s, %s }", c(part[1]), c(value(part[2])),
				    c(value(part[3])), c(value(part[4])))
	n = split(member[name, "flags"], part, " ")
	for (i = 1; i <= n; i++)
		text = text ", ." part[i] " = true"
	return text (member[name, "check"] ? ", .check = " member[name, "check"] : "") " },\n"
}

function options_c(command, i, o, text) {
	for (i = 1; i <= nr_options; i++)
		if (has_option(command, i, o))
			text = text sprintf("{ %s, %s, %s, %s, OPT_%s, &%s },\n",
					    o[3] == "-" ? i + 1000 : "'" o[3] "'", c(o[4]),
					    c(value(o[5])), c(o[8]), toupper(o[6]), o[7])
	return text "{ 0 },\n"
}

function print_c(i, name, all) {
	print_table("GROUPS", rows["group"])
	print_table("FILES", rows["file"])
	print_table("FIGURES", rows["figure"])
	print_table("COLUMNS", rows["column"])
	for (i = 1; i <= nr_rules; i++)
		all = all rule_c(rules[i])
	print_table("RULES", all)
	print_table("OPTIONS", options_c("common"))
	for (i = 1; i <= nr_commands; i++) {
		name = commands[i]
		print_table("COMMAND_" name, sprintf("static const struct opt opts[] = {\n%s};\n" \
			"const struct cmd cmd_%s = { .name = %s, .args = %s, .brief = %s, .doc = %s,\n" \
			".opts = opts, .max_args = %d, .command = %d, .run = run };\n", options_c(name), name,
			c(name), c(args[name]), c(brief[name]), c(doc[name]),
			args[name] ~ /^\[[A-Z]+\.\.\.\]/ ? -1 : 0, args[name] ~ /-- COMMAND/))
	}
}

# ---- man pages ----

# Text as mdoc: a line break after each sentence, no long lines, and no line that looks like a
# request.
function prose(text, n, i, word, line, page) {
	gsub(/\\/, "\\e", text)
	gsub(/--/, "\\-\\-", text)
	gsub(/~/, "\\(ti", text)
	gsub(/\^/, "\\(ha", text)
	n = split(text, word, " ")
	for (i = 1; i <= n; i++) {
		if (line && (line ~ /[.?!]$/ || word[i] ~ /[a-z]\(\)/ || length(line word[i]) > 74)) {
			page = page line "\n"
			line = ""
		}
		if (word[i] ~ /^[a-z]+\(\)[,.:;]?$/) {
			sub(/\(\)/, " ", word[i])
			sub(/ $/, "", word[i])
			page = page ".Fn " word[i] "\n"
			continue
		}
		line = line (line ? " " : word[i] ~ /^[.']/ ? "\\&" : "") word[i]
	}
	return page (line ? line "\n" : "")
}

# Names in capitals are placeholders; a|b is literal.
function argument(name) { return name ~ /[a-z]/ ? "Cm " name : "Ar " tolower(name) }

function print_entries(command, i, o, any) {
	for (i = 1; i <= nr_options; i++)
		if (has_option(command, i, o))
			printf "%s.It %sFl -%s%s\n%s", any++ ? "" : ".Bl -tag -width Ds\n",
				o[3] == "-" ? "" : "Fl " o[3] " , ", o[4],
				o[5] == "-" ? "" : " Ns = Ns " argument(o[5]), prose(o[8] ".")
	printf "%s", any ? ".El\n" : ""
}

function print_synopsis(i, j, o, n, word) {
	for (i = 1; i <= nr_commands; i++) {
		print ".Nm\n.Cm " commands[i]
		for (j = 1; j <= nr_options; j++)
			if (has_option(commands[i], j, o))
				print ".Op Fl " o[3] (o[5] == "-" ? "" : " " argument(o[5]))
		n = split(args[commands[i]], word, "] ")
		for (j = 1; j <= n; j++) {
			gsub(/[][]/, "", word[j])
			o[1] = word[j] ~ /^-- / ? "Cm -- Ar " tolower(substr(word[j], 4)) : "Ar " tolower(word[j])
			sub(/[.][.][.]/, " ...", o[1])
			print ".Op " o[1]
		}
	}
}

function minima(name, part, text) {
	if (member[name, "when"])
		return member[name, "when"]
	split(member[name, "minima"], part, " ")
	text = "at least " part[1] " event" (part[1] == 1 ? "" : "s")
	if (part[2] > 0)
		text = text " of " part[2] " ms or more on average"
	return member[name, "time"] ? text " that lost " part[3] " ms per second or more" : text
}

function print_rules(i, n, j, part) {
	print ".Bl -tag -width idlerestart"
	for (i = 1; i <= nr_rules; i++) {
		print ".It " rules[i] (member[rules[i], "flags"] ~ /note/ ? " Pq note" : "")
		n = split(member[rules[i], "count"], part, ",")
		for (j = 1; j <= n; j++)
			print ".Pa " (part[j] ~ /\// ? "" : member[rules[i], "group"] "/") part[j] (j < n ? " ," : " :")
		printf "%s", prose(minima(rules[i]) ".")
	}
	print ".El\n.Pp\nNo rule judges these times:\n.Bl -tag -width Ds"
	for (i = 1; i <= nr_unjudged; i++)
		printf ".It Pa %s\n%s", unjudged[i], prose(why[unjudged[i]] ".")
	print ".El"
}

function print_groups(i, j) {
	for (i = 1; i <= nr_groups; i++) {
		if (groups[i] == "clock")
			continue
		printf ".Ss %s: %s\n.Bl -tag -width unverified_iterations_lower -compact\n", groups[i], about[groups[i]]
		for (j = 1; j <= nr_files; j++)
			if (file_group[j] == groups[i])
				printf ".It Pa %s\n%s", file_name[j], prose(file_text[j])
		print ".El"
	}
}

# In a line of text `x` stands for the macro Ql.
function print_line(line, i, n, part, open, after) {
	n = split(line, part, "`")
	for (i = 1; i < n; i += 2) {
		open = sub(/\($/, "", part[i]) ? "( " : ""
		sub(/ $/, "", part[i])
		if (part[i] != "")
			print part[i]
		match(part[i + 2], /^[.,:;)]*/)
		after = substr(part[i + 2], 1, RLENGTH)
		gsub(/./, " &", after)
		print ".Ql " open part[i + 1] after
		part[i + 2] = substr(part[i + 2], RLENGTH + 1)
		sub(/^ /, "", part[i + 2])
	}
	if (part[n] != "")
		print part[n]
}

function print_page(i, name, missing) {
	for (i = 1; i <= nr_commands; i++)
		missing[commands[i]] = 1
	for (i = 1; i <= nr_lines; i++) {
		if (lines[i] == "@synopsis@") {
			print_synopsis()
		} else if (lines[i] == "@options@") {
			print_entries("common")
		} else if (lines[i] == "@rules@") {
			print_rules()
		} else if (lines[i] == "@groups@") {
			print_groups()
			delete missing
		} else if (lines[i] ~ /^@command [a-z]+@$/) {
			name = substr(lines[i], 10, length(lines[i]) - 10)
			if (!(name in brief))
				die("there is no command " name)
			printf ".Ss %s\n%s", name, prose(brief[name] ".")
			if (doc[name])
				printf ".Pp\n%s", prose(doc[name])
			print_entries(name)
			delete missing[name]
		} else {
			print_line(lines[i])
		}
	}
	for (name in missing)
		die("the command " name " is missing")
}

END {
	if (failed)
		exit 1
	if (page)
		print_page()
	else
		print_c()
}
