// SPDX-License-Identifier: GPL-2.0
/* The matrix of ACK mode transitions, from debugfs. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "draw.h"
#include "matrix.h"
#include "report.h"
#include "tcplat.h"
#include "text.h"

#define TRANSITIONS	"kernel/debug/tcplat/transitions"

static const char *const modes[] = { "delayed", "quickack", "pingpong", "route" };

#define NR_MODES	ARRAY_SIZE(modes)

struct matrix {
	u128 count[NR_MODES][NR_MODES];
	bool seen[NR_MODES][NR_MODES];
	u128 died[NR_MODES];
	struct table causes;
};

static int find_mode(const char *name)
{
	for (size_t i = 0; i < NR_MODES; i++)
		if (!strcmp(modes[i], name))
			return i;
	return -1;
}

static bool is_word(const char *s)
{
	return !s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_")];
}

/*
 * Lines are FROM TO CAUSE COUNT, or WHAT MODE COUNT, of which only "died" is used.
 * # starts a comment.
 */
static bool parse_line(struct matrix *m, char *line)
{
	char *word[5];
	size_t nr = 0;
	uint64_t count;
	char *save;
	int from, to;

	if (line[0] == '#')
		return true;
	for (char *w = strtok_r(line, " ", &save); w && nr < 5;
	     w = strtok_r(NULL, " ", &save))
		word[nr++] = w;

	if (nr == 3) {
		from = find_mode(word[1]);
		if (!is_word(word[0]) || from < 0 ||
		    !parse_number(word[2], &count))
			return false;
		if (!strcmp(word[0], "died"))
			m->died[from] += count;
		return true;
	}
	if (nr != 4)
		return false;

	from = find_mode(word[0]);
	to = find_mode(word[1]);
	if (from < 0 || to < 0 || !parse_number(word[3], &count))
		return false;
	/* The cause is printed unchanged. */
	if (!is_word(word[2]))
		return false;
	m->count[from][to] += count;
	m->seen[from][to] = true;
	if (count && strcmp(word[2], "none"))
		table_row(&m->causes, xstrdup(word[0]),
			  xasprintf("to %s", word[1]),
			  xasprintf("%" PRIu64, count),
			  xasprintf("by %s", word[2]));
	return true;
}

/* Print why @path cannot be read. Not an error: the counters are complete without it. */
static void print_reason(const struct tree *tree, const char *path, int err)
{
	if (err != ENOENT)
		printf("  no matrix: %s needs root\n", path);
	else if (faccessat(tree->root_fd, "kernel/debug/tcplat", F_OK, 0))
		printf("  no matrix: %s not found; debugfs is not mounted or not in this kernel\n",
		       path);
	else
		printf("  no matrix: the module has no %s\n", path);
}

static void print_matrix(struct matrix *m)
{
	struct table table = {
		.nr_columns = NR_MODES + 2,
		.align = { ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT,
			   ALIGN_RIGHT, ALIGN_RIGHT },
	};

	puts("  transitions from (row) to (column), and sockets closed in each mode:");
	table_row(&table, NULL, xstrdup(modes[0]),
		  xstrdup(modes[1]), xstrdup(modes[2]),
		  xstrdup(modes[3]), xasprintf("died"));
	for (size_t i = 0; i < NR_MODES; i++) {
		char *cell[NR_MODES];

		/* Staying in a mode is not a transition. */
		for (size_t j = 0; j < NR_MODES; j++)
			cell[j] = i == j && !m->seen[i][j] ?
				  xasprintf("-") : draw_u128(m->count[i][j]);
		table_row(&table, xstrdup(modes[i]), cell[0], cell[1],
			  cell[2], cell[3], draw_u128(m->died[i]));
	}
	table_print(&table);

	if (m->causes.nr_cells) {
		puts("  transitions with a known cause:");
		table_print(&m->causes);
	}
}

/* Print the matrix, or a line that tells why there is none. */
void matrix_show(const struct tree *tree)
{
	struct matrix m = {
		.causes = {
			.nr_columns = 4,
			.align = { ALIGN_LEFT, ALIGN_LEFT, ALIGN_RIGHT,
				   ALIGN_LEFT },
		},
	};
	bool good = true;
	char *text = NULL;
	char *save;
	char *path;
	int err;

	path = xasprintf("%s/" TRANSITIONS, tree->root);
	err = read_text(tree->root_fd, TRANSITIONS, &text);
	if (err == EACCES || err == EPERM || err == ENOENT) {
		print_reason(tree, path, err);
		goto out;
	}
	if (err) {
		report_read(path, err);
		good = false;
	}

	for (char *line = good ? strtok_r(text, "\n", &save) : NULL; line;
	     line = strtok_r(NULL, "\n", &save)) {
		char *copy = xstrdup(line);

		good = parse_line(&m, line);
		if (!good)
			report(STATUS_FAULT,
			       "%s: invalid line '%.40s%s'",
			       path, copy, strlen(copy) > 40 ? "..." : "");
		free(copy);
		if (!good)
			break;
	}

	if (good)
		print_matrix(&m);
	else
		puts("  no matrix: the data of the module is not usable");
out:
	table_free(&m.causes);
	free(text);
	free(path);
}
