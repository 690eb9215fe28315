/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_H
#define TCPLAT_H

#include <stdbool.h>
#include <stdint.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* Exit statuses. If several errors occur, the highest one is used. */
enum {
	STATUS_OK = 0,
	STATUS_FAULT = 1,	/* not loaded, or an unreadable or invalid tree */
	STATUS_USAGE = 2,
	STATUS_DENIED = 3,	/* permission denied */
};

/* Reported when the module is unloaded while a command runs. */
#define UNLOADED	"the module is no longer loaded"

/* Where the module is attached to the kernel, below the sysfs root. */
#define PROBES	"kernel/debug/tcplat/probes"

/* Where to read from. */
struct place {
	const char *root;	/* the sysfs root, usually /sys; without a slash at its end */
	const char *proc;	/* usually /proc; NULL: not available */
};

struct argp_option;
struct argp_state;

/* An option that only sets a variable: one of these. */
struct setting {
	int key;
	bool *flag;
	const char **text;
	uint64_t *count;	/* from 1 */
	double *seconds;	/* from 0.1 to 86400 */
};

#define NO_COUNT	"'%s' is not a number from 1 to 2^64-1"
#define NO_SECONDS	"'%s' is not a number of seconds from 0.1 to 86400"

/*
 * A command: a file that defines it, and an entry in the table in tcplat.c.
 * run() gets the arguments after the command's name and reports errors through
 * report().
 */
struct cmd {
	const char *name;
	const char *args;	/* as in --help */
	const char *brief;	/* one line for tcplat --help */
	const char *doc;	/* the rest, for tcplat NAME --help */
	int min_args;
	int max_args;		/* -1: any number */
	bool rest;		/* options after the first argument belong to it */
	const struct argp_option *options;	/* NULL: none */
	const struct setting *settings;	/* NULL: none */
	int (*option)(int key, char *arg, struct argp_state *state);
	void (*run)(const struct place *place, int argc, char **argv);
};

extern const struct cmd cmd_show;
extern const struct cmd cmd_watch;
extern const struct cmd cmd_hist;
extern const struct cmd cmd_delta;
extern const struct cmd cmd_new;
extern const struct cmd cmd_json;
extern const struct cmd cmd_openmetrics;
extern const struct cmd cmd_doctor;
extern const struct cmd cmd_probes;
extern const struct cmd cmd_top;
extern const struct cmd cmd_trace;
extern const struct cmd cmd_reset;
extern const struct cmd cmd_enable;
extern const struct cmd cmd_disable;

#endif
