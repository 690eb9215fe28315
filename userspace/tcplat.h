/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_H
#define TCPLAT_H

#include <stdbool.h>
#include <stdint.h>

/* Where to read from. */
struct place {
	char *root;		/* the sysfs root, usually /sys; without a slash at its end */
	char *top;		/* where it is: proc, run and var are beside it; "" for / */
};

enum opt_type {
	OPT_FLAG,		/* bool */
	OPT_TEXT,		/* const char * */
	OPT_CHOICE,		/* the same; one of the words in arg, separated by | */
	OPT_COUNT,		/* uint64_t, from 1 */
	OPT_SECONDS,		/* double, from 0.1 to 86400 */
};

struct opt {
	int key;		/* the letter; above 255: none */
	const char *name;
	const char *arg;	/* NULL: none */
	const char *text;	/* for --help and the man page */
	enum opt_type type;
	void *to;
};

/*
 * A command: a file that defines it, a record in the file tables, and an entry in tcplat.c. run()
 * gets the arguments after the command's name and reports errors through report().
 */
struct cmd {
	const char *name;
	const char *args;	/* as in --help */
	const char *brief;	/* one line */
	const char *doc;	/* the rest, for --help */
	const struct opt *opts;	/* ends with a zero entry */
	int max_args;		/* -1: any number */
	bool command;		/* takes -- COMMAND */
	void (*run)(const struct place *place, int argc, char **argv, char **command);
};

extern const struct cmd cmd_status, cmd_doctor, cmd_top, cmd_trace, cmd_record, cmd_show;

#endif
