// SPDX-License-Identifier: GPL-2.0
/*
 * tcplat show: the counters. One list of rows, from the files or from JSON; what they gained since
 * another reading; and several ways to print them.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "snap.h"

/* Exit statuses as in a shell. */
#define STATUS_NOT_RUN		126
#define STATUS_NOT_FOUND	127
#define STATUS_SIGNAL		128

static struct printing how;
static bool as_json, as_prometheus, no_buckets, new, keep;
static double interval;		/* 0: once */
static uint64_t rounds;		/* 0: no limit */
static const char *from, *to, *output;

static void print(const struct place *place, struct snap *snap, int argc, char **argv)
{
	snap_writer write = as_json ? snap_write_json : snap_write_prometheus;

	/* What the user named and what there is must agree. */
	if (!snap->why && !snap_keep(snap, argc, argv))
		return;
	how.named = argc;
	snap->no_buckets = no_buckets;
	if (output && report_status() && !snap->why)
		/* Do not publish an incomplete tree. */
		report(STATUS_FAULT, "%s: left unchanged", output);
	else if (output)
		replace_file(output, write, snap);
	else if (as_json || as_prometheus)
		write(stdout, snap);
	else
		snap_print(stdout, place, snap, &how);
}

static int run_command(char **argv)
{
	/* These signals reach the command too; tcplat must outlive it. */
	sighandler_t old_int = signal(SIGINT, SIG_IGN), old_quit = signal(SIGQUIT, SIG_IGN);
	int status = 0;
	pid_t pid;

	/* waitpid() needs the status even if the caller ignores this signal. */
	signal(SIGCHLD, SIG_DFL);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		int err;

		signal(SIGINT, old_int);
		signal(SIGQUIT, old_quit);
		execvp(argv[0], argv);
		err = errno;
		report(STATUS_FAULT, "%s: %s", argv[0], strerror(err));
		_exit(err == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_RUN);
	}
	if (pid < 0) {
		report(STATUS_FAULT, "cannot start %s: %s", argv[0], strerror(errno));
		status = STATUS_NOT_RUN;
	} else {
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			continue;
		status = WIFSIGNALED(status) ? STATUS_SIGNAL + WTERMSIG(status) :
			 WEXITSTATUS(status);
	}
	signal(SIGINT, old_int);
	signal(SIGQUIT, old_quit);
	return status;
}

static void print_since(const char *before, double seconds, const char *after)
{
	char *time __free = draw_time(seconds * 1e9L);

	if (!as_json)
		printf("%s%s%s\n", before, time, after);
}

static void print_between(const struct place *place, struct snap *now, const struct snap *before,
			  int argc, char **argv)
{
	if (!snap_between(now, before, from, to, ""))
		return;
	if (!output)
		print_since("counted in ", now->seconds, ", on the whole host:");
	print(place, now, argc, argv);
}

/* Print what was counted while @command ran, on standard error, which leaves it its output. */
static void show_cost(const struct place *place, int argc, char **argv, char **command)
{
	struct snap before __cleanup(snap_free) = { 0 }, now __cleanup(snap_free) = { 0 };
	int status;

	if (!snap_take(&before, place) || !snap_keep(&before, argc, argv))
		return;
	/* All of it tells whether the counters restarted. */
	snap_keep(&before, 0, NULL);
	status = run_command(command);
	if (!output)
		dup2(STDERR_FILENO, STDOUT_FILENO);
	if (snap_take(&now, place))
		print_between(place, &now, &before, argc, argv);
	if (status)
		report_final(status);
}

/* The file that keeps the last run, to be freed. NULL, which is reported: none. */
static char *history_path(void)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	bool own = state && *state == '/';
	char *path;

	if (!own && !(home && *home == '/')) {
		report(STATUS_USAGE, "--new needs HOME or XDG_STATE_HOME, where it keeps the last run");
		return NULL;
	}
	path = xasprintf("%s/%stcplat/new.json", own ? state : home, own ? "" : ".local/state/");
	for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		/* Errors show up when the file is written. */
		mkdir(path, 0700);
		*p = '/';
	}
	return path;
}

static void show_new(const struct place *place, int argc, char **argv)
{
	struct snap last __cleanup(snap_free) = { 0 }, now __cleanup(snap_free) = { 0 };
	char *path __free = history_path();
	bool first = path && access(path, F_OK) && errno == ENOENT;

	if (path && !first && !snap_load(&last, path)) {
		report(STATUS_USAGE, "to start again: rm %s", path);
		return;
	}
	if (!path || !snap_take(&now, place))
		return;
	if (!first && snap_compare(&now, &last, false))
		print_since("since the last run, ", now.seconds, " ago:");
	else if (!as_json)
		printf("since the counters %sstarted:\n", first ? "" : "re");
	print(place, &now, argc, argv);
	if (keep || !flush_output() || report_status())
		return;
	/* Totals of all, of the same reading. */
	snap_keep(&now, 0, NULL);
	now.seconds = 0;
	replace_file(path, snap_write_json, &now);
}

static void print_page(const struct place *place, const struct snap *now, const char *what)
{
	char *clock __free = draw_clock(time(NULL), "%F %T");
	FILE *page = screen_page();

	fprintf(page, "tcplat show: %s, %s%s\n", clock, what, page == stdout ? "" : "; q quits");
	fputs("counted since the start, and per second in the last interval\n", page);
	if (now)
		snap_print(page, place, now, &how);
}

static void watch(const struct place *place, int argc, char **argv)
{
	struct snap start __cleanup(snap_free) = { 0 }, last __cleanup(snap_free) = { 0 }, now;
	bool there = true, same = true;

	if (!snap_take(&start, place) || !snap_keep(&start, argc, argv))
		return;
	/* All of it tells whether the counters restarted. */
	snap_keep(&start, 0, NULL);
	if (!as_json && screen_open()) {
		print_page(place, NULL, "waiting for the first interval");
		screen_show();
	}
	for (uint64_t i = 0; !rounds || i < rounds; i++) {
		screen_wait(interval);
		if (stopped())
			break;
		/* Errors have been reported at the start. */
		report_mute(true);
		there = snap_take(&now, place);
		if (there) {
			const struct snap *before = last.nr_rows ? &last : &start;

			same = snap_compare(&now, as_json ? before : &start, false) &&
			       snap_compare(&now, before, true);
			snap_keep(&now, argc, argv);
		}
		report_mute(false);
		if (!as_json)
			print_page(place, there && same ? &now : NULL,
				   !there ? "the module is not loaded" :
				   same ? "what changed" : "the counters restarted");
		else if (there && same)
			snap_write_json(stdout, &now);
		if (there)
			snap_keep(&now, 0, NULL);
		else
			snap_free(&now);
		if (there && !same) {
			snap_free(&start);
			snap_free(&last);
			start = now;
		} else if (there) {
			snap_free(&last);
			last = now;
		}
		if (!screen_show())
			break;
	}
	screen_close();
	if (!there)
		report(STATUS_FAULT, "the module is no longer loaded");
}

static void show_once(const struct place *place, int argc, char **argv)
{
	struct snap before __cleanup(snap_free) = { 0 }, now __cleanup(snap_free) = { 0 };

	if (as_prometheus && !to)
		snap_try(&now, place);
	else if (to ? !snap_load(&now, to) : !snap_take(&now, place))
		return;
	if (!from)
		print(to ? NULL : place, &now, argc, argv);
	else if (snap_load(&before, from))
		print_between(place, &now, &before, argc, argv);
}

static void run(const struct place *place, int argc, char **argv, char **command)
{
	const char *wrong =
		!!command + new + !!interval + (from || to) > 1 ?
		"only one of --new, --interval, --from and --to, and -- COMMAND can be used" :
		as_json && as_prometheus ? "only one of --json and --prometheus can be used" :
		as_prometheus && (command || new || interval || from) ?
		"--prometheus prints totals: it takes no interval and no COMMAND" :
		output && (interval || !(as_json || as_prometheus)) ?
		"--output needs --json or --prometheus, and takes no interval" :
		no_buckets && !as_prometheus ? "--no-buckets needs --prometheus" :
		keep && !new ? "--keep needs --new" :
		(how.zeros || how.bars) && (as_json || as_prometheus) ?
		"--all and --bars cannot be used with --json or --prometheus" :
		rounds && !interval ? "--count needs --interval" : NULL;

	if (wrong)
		report(STATUS_USAGE, "%s", wrong);
	else if (command)
		show_cost(place, argc, argv, command);
	else if (new)
		show_new(place, argc, argv);
	else if (interval)
		watch(place, argc, argv);
	else
		show_once(place, argc, argv);
}

#define TABLE_COMMAND_show
#include "tables.inc"
