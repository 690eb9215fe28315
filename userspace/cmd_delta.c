// SPDX-License-Identifier: GPL-2.0
/* tcplat delta: print what was counted while a command ran. */
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

/* Exit statuses as in a shell. */
#define STATUS_NOT_RUN		126
#define STATUS_NOT_FOUND	127
#define STATUS_SIGNAL		128

static const char *output;	/* NULL: standard error */

/* Run @argv and return its exit status. */
static int run_command(char **argv)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct sigaction old_int, old_quit;
	int status = 0;
	pid_t pid;

	fflush(stdout);
	/* These signals reach the command too; tcplat must outlive it. */
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

static bool has_counted(struct group *group)
{
	for (size_t i = 0; i < group->nr_files; i++) {
		struct file *file = &group->files[i];
		uint64_t value;

		/* An unreadable counter is shown. The error has been reported. */
		if (file->kind == KIND_COUNTER &&
		    (!group_value(group, file, &value) || value))
			return true;
	}
	return false;
}

static void print_difference(struct snap *snap, uint64_t ns)
{
	char *time = draw_time(ns);
	bool any = false;

	printf("counted in %s, system-wide:\n", time);
	free(time);
	for (size_t i = 0; i < snap->tree.nr_groups; i++) {
		struct group *group = &snap->tree.groups[i];

		if (!has_counted(group))
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
		       "the counters restarted between the two readings (reset or module reload); the difference is unknown");
	} else {
		uint64_t ns = now.time_ns - before->time_ns;

		snap_subtract(&now, before);
		print_difference(&now, ns);
	}
	snap_free(&now);
}

/* Open the output before the command runs, so that the command does not run on errors. */
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
	{ "output", 'o', "FILE", 0, "Write the result to FILE instead of standard error", 0 },
	{ 0 },
};

static const struct setting settings[] = {
	{ 'o', .text = &output },
	{ 0 },
};

const struct cmd cmd_delta = {
	.name = "delta",
	.args = "COMMAND [ARG...]",
	.brief = "Run COMMAND and print what was counted",
	.doc = "Counts are system-wide, not only those caused by COMMAND. The exit status is that of COMMAND.",
	.min_args = 1,
	.max_args = -1,
	.rest = true,
	.options = options,
	.settings = settings,
	.run = run,
};
