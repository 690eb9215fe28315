/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_H
#define TCPLAT_H

/* How tcplat leaves; when several things go wrong the highest one wins. */
enum {
	STATUS_OK = 0,
	STATUS_FAULT = 1,	/* not loaded, or the tree cannot be trusted */
	STATUS_USAGE = 2,
	STATUS_DENIED = 3,	/* a file needs other permissions */
};

/*
 * A subcommand: one file that defines it, and one line in tcplat.c's table.
 * run() gets the arguments after the command's name; it reports what goes
 * wrong through report().
 */
struct cmd {
	const char *name;
	const char *args;	/* as in --help */
	const char *brief;	/* one line for tcplat --help */
	const char *doc;	/* the rest, for tcplat NAME --help */
	int min_args;
	int max_args;		/* -1: any number */
	void (*run)(const char *root, int argc, char **argv);
};

extern const struct cmd cmd_show;
extern const struct cmd cmd_hist;
extern const struct cmd cmd_reset;

#endif
