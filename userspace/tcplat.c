// SPDX-License-Identifier: GPL-2.0
/* tcplat: read the counters of the tcplat module. */
#include <argp.h>
#include <errno.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "tcplat.h"
#include "text.h"

static const struct cmd *const cmds[] = {
	&cmd_show,
	&cmd_watch,
	&cmd_hist,
	&cmd_delta,
	&cmd_new,
	&cmd_json,
	&cmd_openmetrics,
	&cmd_doctor,
	&cmd_top,
#ifdef HAVE_TRACEFS
	&cmd_trace,
#endif
	&cmd_probes,
	&cmd_reset,
	&cmd_enable,
	&cmd_disable,
};

#define NR_CMDS	ARRAY_SIZE(cmds)

/* The parsed command line, before or after the command's name. */
struct line {
	const struct cmd *cmd;	/* NULL: before the command name */
	struct place place;
	bool help;
	bool version;
	int first;		/* index of the first non-option argument */
	char **args;
	int nr_args;
};

/* Long options without a short one. */
#define KEY_ROOT	256
#define KEY_PROC	257

static const struct argp_option options[] = {
	{ "root", KEY_ROOT, "DIR", 0,
	  "Read DIR instead of /sys (or set SYSFS_PATH)", 0 },
	{ "proc", KEY_PROC, "DIR", 0,
	  "Read DIR instead of /proc (or set PROCFS_PATH); with --root, none by default", 0 },
	{ "help", 'h', NULL, 0, "Print this help", -1 },
	{ "version", 'V', NULL, 0, "Print the version", -1 },
	{ 0 },
};

static void push_arg(struct line *line, char *arg)
{
	/* NULL-terminated, for execvp(). */
	line->args = xreallocarray(line->args, line->nr_args + 2,
				   sizeof(*line->args));
	line->args[line->nr_args++] = arg;
	line->args[line->nr_args] = NULL;
}

static error_t set(const struct setting *setting, char *arg, struct argp_state *state)
{
	if (setting->flag)
		*setting->flag = true;
	if (setting->text)
		*setting->text = arg;
	if (setting->count && !parse_count(arg, setting->count)) {
		argp_error(state, "-%c " NO_COUNT, setting->key, arg);
		return EINVAL;
	}
	if (setting->seconds && !parse_seconds(arg, setting->seconds)) {
		argp_error(state, "-%c " NO_SECONDS, setting->key, arg);
		return EINVAL;
	}
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct line *line = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		if (state->child_inputs)
			state->child_inputs[0] = line;
		return 0;
	case KEY_ROOT:
		if (!*arg) {
			argp_error(state, "--root needs a directory");
			return EINVAL;
		}
		line->place.root = arg;
		return 0;
	case KEY_PROC:
		if (!*arg) {
			argp_error(state, "--proc needs a directory");
			return EINVAL;
		}
		line->place.proc = arg;
		return 0;
	case 'h':
		line->help = true;
		return 0;
	case 'V':
		line->version = true;
		return 0;
	case ARGP_KEY_ARG:
		if (!line->cmd) {
			/* The command parses the rest. */
			line->first = state->next - 1;
			state->next = state->argc;
			return 0;
		}
		push_arg(line, arg);
		while (line->cmd->rest && state->next < state->argc)
			push_arg(line, state->argv[state->next++]);
		return 0;
	default:
		if (!line->cmd)
			return ARGP_ERR_UNKNOWN;
		for (const struct setting *s = line->cmd->settings; s && s->key; s++)
			if (s->key == key)
				return set(s, arg, state);
		return line->cmd->option ? line->cmd->option(key, arg, state) : ARGP_ERR_UNKNOWN;
	}
}

/*
 * Capture the messages of argp and getopt, which have two lines, and print one.
 * Return whether the line could be parsed.
 */
static bool parse_line(const struct argp *argp, int argc, char **argv,
		       unsigned int flags, struct line *line)
{
	FILE *real = stderr;
	size_t len = 0;
	char *text = NULL;
	char *message;
	error_t err;

	stderr = open_memstream(&text, &len);
	if (!stderr) {
		stderr = real;
		report(STATUS_FAULT, "out of memory");
		return false;
	}
	err = argp_parse(argp, argc, argv, flags | ARGP_NO_HELP | ARGP_NO_EXIT,
			 NULL, line);
	fclose(stderr);
	stderr = real;

	if (err) {
		text[strcspn(text, "\n")] = '\0';
		message = strstr(text, ": ");
		report(STATUS_USAGE, "%s (see '%s --help')",
		       message ? message + 2 : strerror(err), argv[0]);
	}
	free(text);
	return !err;
}

static void print_help(const struct argp *argp, char *name)
{
	/* Suppress the note about arguments of short options. */
	setenv("ARGP_HELP_FMT", "no-dup-args-note", 0);
	argp_help(argp, stdout, ARGP_HELP_SHORT_USAGE | ARGP_HELP_LONG |
		  ARGP_HELP_DOC, name);
}

static void help_all(const struct argp *argp)
{
	char *doc = xasprintf("Read the counters of the tcplat kernel module.\n\nCommands:\n");
	struct argp copy = *argp;

	for (size_t i = 0; i < NR_CMDS; i++) {
		const char *args = cmds[i]->args ? cmds[i]->args : "";

		doc = xappend(doc, "  %s %-*s %s\n", cmds[i]->name,
			      (int)(27 - strlen(cmds[i]->name)), args, cmds[i]->brief);
	}
	copy.doc = doc;
	print_help(&copy, "tcplat");
	free(doc);
}

static void print_version(void)
{
	puts("tcplat " TCPLAT_VERSION);
}

static const struct cmd *find_cmd(const char *name)
{
	for (size_t i = 0; i < NR_CMDS; i++)
		if (!strcmp(cmds[i]->name, name))
			return cmds[i];
	return NULL;
}

static void run_in_place(const struct cmd *cmd, struct line *line)
{
	struct place *place = &line->place;
	char *root = xstrdup(place->root ? place->root : "/sys");

	/* Shell completion appends a slash. */
	for (size_t n = strlen(root); n > 1 && root[n - 1] == '/'; )
		root[--n] = '\0';
	place->root = root;
	/* With a copy of another machine's /sys, this machine's /proc does not apply. */
	if (!place->proc && !strcmp(root, "/sys"))
		place->proc = "/proc";
	cmd->run(place, line->nr_args, line->args);
	free(root);
}

/* Parse and run the command's part of the line. argv[0] is its name. */
static void run_cmd(const struct cmd *cmd, int argc, char **argv,
		    const struct place *place)
{
	char *doc = xasprintf("%s%s%s", cmd->brief, cmd->doc ? "\v" : "",
			      cmd->doc ? cmd->doc : "");
	static const struct argp common = { .options = options, .parser = parse };
	static const struct argp_child children[] = { { .argp = &common }, { 0 } };
	const struct argp argp = {
		.options = cmd->options,
		.parser = parse,
		.args_doc = cmd->args,
		.doc = doc,
		.children = children,
	};
	struct line line = { .cmd = cmd, .place = *place };
	char *name = xasprintf("tcplat %s", cmd->name);

	argv[0] = name;
	if (!parse_line(&argp, argc, argv, cmd->rest ? ARGP_IN_ORDER : 0,
			&line))
		goto out;
	if (line.help)
		print_help(&argp, name);
	else if (line.version)
		print_version();
	else if (line.nr_args < cmd->min_args)
		report(STATUS_USAGE, "%s: missing argument %s (see '%s --help')", cmd->name,
		       cmd->args, name);
	else if (cmd->max_args >= 0 && line.nr_args > cmd->max_args)
		report(STATUS_USAGE, "%s: unexpected argument '%s' (see '%s --help')",
		       cmd->name, line.args[cmd->max_args], name);
	else
		run_in_place(cmd, &line);
out:
	free(line.args);
	free(name);
	free(doc);
}

static const char *environment(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

static void run(int argc, char **argv)
{
	const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "[COMMAND [ARGUMENT...]]",
	};
	struct line line = {
		.place = {
			.root = environment("SYSFS_PATH"),
			.proc = environment("PROCFS_PATH"),
		},
	};
	static char self[] = "tcplat";
	static char show[] = "show";
	char *alone[] = { show, NULL };
	const struct cmd *cmd;

	argv[0] = self;
	if (!parse_line(&argp, argc, argv, ARGP_IN_ORDER, &line))
		return;
	if (line.help) {
		help_all(&argp);
		return;
	}
	if (line.version) {
		print_version();
		return;
	}
	if (!line.first) {
		run_cmd(&cmd_show, 1, alone, &line.place);
		return;
	}

	cmd = find_cmd(argv[line.first]);
	if (cmd)
		run_cmd(cmd, argc - line.first, argv + line.first,
			&line.place);
	else
		report(STATUS_USAGE, "unknown command '%s' (see 'tcplat --help')",
		       argv[line.first]);
}

int main(int argc, char **argv)
{
	if (argc < 1)
		return STATUS_USAGE;
	/* Only the character set: numbers have the same format in all locales. */
	setlocale(LC_CTYPE, "");
	run(argc, argv);
	/* Incomplete output, as on a full disk, is an error. */
	flush_output();
	return report_status();
}
