// SPDX-License-Identifier: GPL-2.0
/* tcplat probes: list where the module is attached to the kernel, from debugfs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "draw.h"
#include "report.h"
#include "tcplat.h"
#include "text.h"
#include "tree.h"

/* group symbol+offset/size [module] at kind state hits missed */
#define NR_WORDS	7

static const char *const heading[NR_WORDS] = {
	"group", "function", "at", "kind", "state", "hits", "missed",
};

static bool is_count(const char *word)
{
	uint64_t value;

	return parse_number(word, &value);
}

/* Split @line into words. Return whether it is a valid line of probes. */
static bool parse_line(char *line, char **word)
{
	size_t nr = 0;
	char *save;

	for (char *w = strtok_r(line, " ", &save); w;
	     w = strtok_r(NULL, " ", &save)) {
		/* The module of the function is in brackets and is not printed. */
		if (nr == 2 && *w == '[')
			continue;
		if (nr == NR_WORDS)
			return false;
		for (char *c = w; *c; c++)
			if (*c < ' ' || *c > '~')
				return false;
		word[nr++] = w;
	}
	return nr == NR_WORDS && is_count(word[6]) &&
	       (is_count(word[5]) || !strcmp(word[5], "-"));
}

static void print_probes(const char *path, char *text)
{
	struct table table = {
		.nr_columns = NR_WORDS,
		.align = { ALIGN_LEFT, ALIGN_LEFT, ALIGN_LEFT, ALIGN_LEFT,
			   ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT },
	};
	char *word[NR_WORDS];
	char *save;

	for (size_t i = 0; i < NR_WORDS; i++)
		table_cell(&table, heading[i]);
	for (char *line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		char *copy;

		if (*line == '#')
			continue;
		copy = xstrdup(line);
		if (parse_line(line, word)) {
			for (size_t i = 0; i < NR_WORDS; i++)
				table_cell(&table, word[i]);
		} else {
			report(STATUS_FAULT, "%s: invalid line '%.60s%s'",
			       path, copy, strlen(copy) > 60 ? "..." : "");
		}
		free(copy);
	}
	table_print(&table);
}

static void run(const struct place *place, int argc, char **argv)
{
	char *text = NULL;
	struct tree tree;
	char *path;
	int err;

	(void)argc;
	(void)argv;
	if (!tree_open(&tree, place->root))
		return;
	path = xasprintf("%s/" PROBES, tree.root);
	err = read_text(tree.root_fd, PROBES, &text);
	if (!err)
		print_probes(path, text);
	else if (err == EACCES || err == EPERM)
		report(STATUS_DENIED, "%s: permission denied; run 'tcplat probes' as root",
		       path);
	else if (err == ENOENT &&
		 faccessat(tree.root_fd, "kernel/debug/tcplat", F_OK, 0))
		report(STATUS_FAULT, "%s: not found; debugfs is not mounted or not in this kernel",
		       path);
	else
		report_read(path, err);
	free(text);
	free(path);
	tree_close(&tree);
}

const struct cmd cmd_probes = {
	.name = "probes",
	.brief = "List where the module is attached (as root)",
	.doc = "Reads debugfs, which tcplat does not mount.",
	.run = run,
};
