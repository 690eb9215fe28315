// SPDX-License-Identifier: GPL-2.0
/* tcplat: read the counters of the tcplat module, and the events of its tracepoints. */
#include <getopt.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "tcplat.h"

/* The first is the default. */
static const struct cmd *const cmds[] = {
	&cmd_status, &cmd_doctor, &cmd_top, &cmd_trace, &cmd_record, &cmd_show,
};

static const char *root = "/sys";
static bool help, version;

static const struct opt common[] = {
#define TABLE_OPTIONS
#include "tables.inc"
};

/* The most options that a command has, with those of all commands. */
#define OPTS_MAX	32

static void print_opts(const struct opt *opts)
{
	for (const struct opt *o = opts; o && o->name; o++) {
		char *left __free = o->key < 256 ? xasprintf("  -%c, ", o->key) : xstrdup("      ");

		left = xappend(left, "--%s%s%s", o->name, o->arg ? "=" : "", o->arg ? o->arg : "");
		left = xappend(left, "%*s", strlen(left) < 24 ? (int)(24 - strlen(left)) : 0, "");
		print_wrapped(stdout, left, o->text, 25);
	}
}

static void print_help(const struct cmd *cmd)
{
	if (cmd) {
		printf("usage: tcplat %s [OPTION...]%s%s\n", cmd->name, cmd->args ? " " : "",
		       cmd->args ? cmd->args : "");
		print_wrapped(stdout, "", cmd->brief, 0);
		putchar('\n');
		print_opts(cmd->opts);
	} else {
		puts("usage: tcplat [COMMAND] [OPTION...] [ARGUMENT...]\n"
		     "Say where TCP on this host loses time.\n");
		for (size_t i = 0; i < ARRAY_SIZE(cmds); i++)
			printf("  %-8s %s\n", cmds[i]->name, cmds[i]->brief);
		putchar('\n');
	}
	print_opts(common);
	if (cmd && cmd->doc) {
		putchar('\n');
		print_wrapped(stdout, "", cmd->doc, 0);
	}
}

/* Parse @text, a decimal number from 0.1 to 86400. */
static bool parse_seconds(const char *text, double *seconds)
{
	char *end;

	if (!*text || text[strspn(text, "0123456789.")])
		return false;
	*seconds = strtod(text, &end);
	return !*end && *seconds >= 0.1 && *seconds <= 86400;
}

/* Return whether @arg is valid. An error has been reported. */
static bool set(const struct opt *o, const char *arg)
{
	const char *wrong = NULL;

	switch (o->type) {
	case OPT_FLAG:
		*(bool *)o->to = true;
		break;
	case OPT_CHOICE:
		wrong = has_word(o->arg, arg) ? NULL : o->arg;
		*(const char **)o->to = arg;
		break;
	case OPT_COUNT:
		if (!parse_number(arg, o->to) || !*(uint64_t *)o->to)
			wrong = "a number from 1 to 2^64-1";
		break;
	case OPT_SECONDS:
		if (!parse_seconds(arg, o->to))
			wrong = "a number of seconds from 0.1 to 86400";
		break;
	case OPT_TEXT:
		wrong = *arg ? NULL : "a name";
		*(const char **)o->to = arg;
		break;
	}
	if (wrong)
		report(STATUS_USAGE, "--%s '%s': not %s%s", o->name, arg,
		       o->type == OPT_CHOICE ? "one of " : "", wrong);
	return !wrong;
}

/* Parse the options of @cmd. Return the index of the first argument; 0: an error was reported. */
static int parse(const struct cmd *cmd, int argc, char **argv)
{
	const struct opt *all[OPTS_MAX];
	struct option longs[OPTS_MAX + 1] = { 0 };
	char letters[2 * OPTS_MAX + 2] = ":";
	int nr = 0, key, at = -1;

	for (const struct opt *o = cmd->opts; o && o->name; o++)
		all[nr++] = o;
	for (const struct opt *o = common; o->name; o++)
		all[nr++] = o;
	for (int i = 0; i < nr; i++) {
		longs[i] = (struct option){ all[i]->name, !!all[i]->arg, NULL, all[i]->key };
		if (all[i]->key < 256)
			sprintf(letters + strlen(letters), "%c%s", all[i]->key,
				all[i]->arg ? ":" : "");
	}
	opterr = 0;
	while ((key = getopt_long(argc, argv, letters, longs, &at)) != -1) {
		if (key == ':' || key == '?') {
			/* Of a long option that takes no argument, optopt is the letter. */
			bool letter = key == '?' && optopt && optopt < 256 &&
				      !strchr(letters, optopt);
			char *word __free = letter ? xasprintf("-%c", optopt) :
					    xstrdup(argv[optind - 1]);

			report(STATUS_USAGE,
			       key == ':' ? "%s: missing argument (see 'tcplat %s --help')" :
			       letter ? "%s: invalid option (see 'tcplat %s --help')" :
			       "%s: no such option, an ambiguous one, or one without an argument (see 'tcplat %s --help')",
			       word, cmd->name);
			return 0;
		}
		for (int i = 0; i < nr; i++)
			if (all[i]->key == key && !set(all[i], optarg))
				return 0;
	}
	return optind;
}

static void run_in_place(const struct cmd *cmd, int argc, char **argv, char **command)
{
	struct place place = { .root = xstrdup(root), .top = NULL };
	char *slash;

	/* Shell completion appends a slash. */
	for (size_t n = strlen(place.root); n > 1 && place.root[n - 1] == '/'; )
		place.root[--n] = '\0';
	place.top = xstrdup(strcmp(place.root, ".") ? place.root : "../.");
	slash = strrchr(place.top, '/');
	if (slash)
		*slash = '\0';
	else
		strcpy(place.top, ".");
	cmd->run(&place, argc, argv, command);
	free(place.root);
	free(place.top);
}

static void run(int argc, char **argv)
{
	bool named = argc > 1 && argv[1][0] != '-';
	const struct cmd *cmd = named ? NULL : cmds[0];
	char **command = NULL;
	int first;

	for (size_t i = 0; i < ARRAY_SIZE(cmds) && !cmd; i++)
		cmd = strcmp(cmds[i]->name, argv[1]) ? NULL : cmds[i];
	if (!cmd) {
		report(STATUS_USAGE, "unknown command '%s' (see 'tcplat --help')", argv[1]);
		return;
	}
	argc -= named;
	argv += named;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--"))
			continue;
		command = &argv[i + 1];
		argv[i] = NULL;
		argc = i;
	}
	first = parse(cmd, argc, argv);
	if (!first)
		return;
	if (help)
		print_help(named ? cmd : NULL);
	else if (version)
		puts("tcplat " TCPLAT_VERSION);
	else if (command && !(cmd->command && *command))
		report(STATUS_USAGE, "%s: %s (see 'tcplat %s --help')", cmd->name,
		       cmd->command ? "missing command after --" : "unexpected argument '--'",
		       cmd->name);
	else if (!named && argc > first)
		report(STATUS_USAGE, "'%s': a command comes first, before options (see 'tcplat --help')",
		       argv[first]);
	else if (cmd->max_args >= 0 && argc - first > cmd->max_args)
		report(STATUS_USAGE, "%s: unexpected argument '%s' (see 'tcplat %s --help')",
		       cmd->name, argv[first + cmd->max_args], cmd->name);
	else
		run_in_place(cmd, argc - first, argv + first, command);
}

int main(int argc, char **argv)
{
	/* Only the character set: numbers have the same format in all locales. */
	setlocale(LC_CTYPE, "");
	run(argc, argv);
	/* Incomplete output, as on a full disk, is an error. */
	flush_output();
	return report_status();
}
