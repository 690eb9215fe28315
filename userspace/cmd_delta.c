// SPDX-License-Identifier: GPL-2.0
/* tcplat delta: what the counters gained while a command ran. */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "draw.h"
#include "report.h"
#include "show.h"
#include "snap.h"

/* As a shell has them. */
#define STATUS_NOT_RUN		126
#define STATUS_NOT_FOUND	127
#define STATUS_SIGNAL		128

static const char *output;	/* NULL: standard error */

/* Run @argv and return how it left. */
static int run_command(char **argv)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct sigaction old_int, old_quit;
	int status = 0;
	pid_t pid;

	fflush(stdout);
	/* They are for the command, which they reach too; we outlive it. */
	sigaction(SIGINT, &ignore, &old_int);
	sigaction(SIGQUIT, &ignore, &old_quit);
	pid = fork();
	if (!pid) {
		int err;

		sigaction(SIGINT, &old_int, NULL);
		sigaction(SIGQUIT, &old_quit, NULL);
		execvp(argv[0], argv);
		err = errno;
		report(STATUS_FAULT, "%s: %s", argv[0], strerror(err));
		_exit(err == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_RUN);
	}
	if (pid < 0) {
		report(STATUS_FAULT, "cannot start %s: %s", argv[0],
		       strerror(errno));
		status = STATUS_NOT_RUN;
	} else {
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			continue;
		status = WIFSIGNALED(status) ?
			 STATUS_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
	}
	sigaction(SIGINT, &old_int, NULL);
	sigaction(SIGQUIT, &old_quit, NULL);
	return status;
}

static bool gained(struct group *group)
{
	for (size_t i = 0; i < group->nr_files; i++) {
		struct file *file = &group->files[i];
		uint64_t value;

		/* What could not be read has been reported; it is not nothing. */
		if (file->kind == KIND_COUNTER &&
		    (!group_value(group, file, &value) || value))
			return true;
	}
	return false;
}

static void print_gains(struct snap *snap, uint64_t ns)
{
	char *time = draw_time(ns);
	bool any = false;

	printf("counted in %s, system-wide:\n", time);
	free(time);
	for (size_t i = 0; i < snap->tree.nr_groups; i++) {
		struct group *group = &snap->tree.groups[i];

		if (!gained(group))
			continue;
		putchar('\n');
		show_group(group, snap->tick_ns, true);
		any = true;
	}
	if (!any)
		puts("  nothing");
}

static void compare(struct snap *before, const struct place *place)
{
	struct snap now;

	if (!snap_take(&now, place, 0, NULL))
		return;
	if (snap_restarted(&now, before)) {
		report(STATUS_FAULT,
		       "the counters began anew meanwhile (a reset, or another module): what they gained is not known");
	} else {
		uint64_t ns = now.time_ns - before->time_ns;

		snap_subtract(&now, before);
		print_gains(&now, ns);
	}
	snap_free(&now);
}

/*
 * Where the figures go, opened before the work and not after it: standard output is the
 * command's.
 */
static int open_output(void)
{
	int fd = output ? open(output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) :
			  fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);

	if (fd < 0)
		report(errno == EACCES ? STATUS_DENIED : STATUS_FAULT,
		       "%s: %s", output ? output : "standard error", strerror(errno));
	return fd;
}

static void run(const struct place *place, int argc, char **argv)
{
	struct snap before;
	int status, fd;

	(void)argc;
	if (!snap_take(&before, place, 0, NULL))
		return;
	fd = open_output();
	if (fd < 0)
		goto out;
	status = run_command(argv);
	dup2(fd, STDOUT_FILENO);
	close(fd);
	compare(&before, place);
	if (status)
		report_final(status);
out:
	snap_free(&before);
}

static const struct argp_option options[] = {
	{ "output", 'o', "FILE", 0, "Write what was counted there and not to standard error", 0 },
	{ 0 },
};

static const struct setting settings[] = {
	{ 'o', .text = &output },
	{ 0 },
};

const struct cmd cmd_delta = {
	.name = "delta",
	.args = "COMMAND [ARG...]",
	.brief = "Run COMMAND, print what was counted meanwhile",
	.doc = "Counts are of the whole system, not of COMMAND alone. The exit status is COMMAND's.",
	.min_args = 1,
	.max_args = -1,
	.rest = true,
	.options = options,
	.settings = settings,
	.run = run,
};
