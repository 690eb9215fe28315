// SPDX-License-Identifier: GPL-2.0
/*
 * A tracefs instance for this process. It does not disturb other users of tracefs, and
 * removing it removes its triggers and events, so that the module can be unloaded.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "instance.h"
#include "report.h"
#include "screen.h"
#include "tcplat.h"

static int root = -1;
static char path[96];		/* from root; "": no instance */
static const char *tracing;
/* An open file, so that another tcplat cannot remove the instance. */
static int keep = -1;
/*
 * An open file of the module, so that it cannot be unloaded: a trigger does not prevent that, and
 * 6.1 then prints a warning. -1 without debugfs.
 */
static int pin = -1;

static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE };

/**
 * instance_close - remove the instance and everything set in it
 *
 * The caller must have closed its files. Async-signal-safe.
 */
void instance_close(void)
{
	if (keep >= 0)
		close(keep);
	keep = -1;
	if (path[0])
		unlinkat(root, path, AT_REMOVEDIR);
	path[0] = '\0';
	if (pin >= 0)
		close(pin);
	pin = -1;
}

static void on_signal(int sig)
{
	instance_close();
	signal(sig, SIG_DFL);
	raise(sig);
}

/**
 * instance_hold_signals - block signals while a file of the instance is open
 * @hold: true to block, false to unblock
 */
void instance_hold_signals(bool hold)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaddset(&set, signals[i]);
	sigprocmask(hold ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

/* Remove the instances of killed processes. */
static void remove_stale(const char *dir)
{
	char *name = xasprintf("%s/instances", dir);
	int fd = openat(root, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	while (list && (entry = readdir(list))) {
		const char *pid = strrchr(entry->d_name, '-');

		if (strncmp(entry->d_name, "tcplat-", 7) || !pid || atoi(pid + 1) <= 0 ||
		    !kill(atoi(pid + 1), 0) || errno != ESRCH)
			continue;
		unlinkat(fd, entry->d_name, AT_REMOVEDIR);
	}
	if (list)
		closedir(list);
	free(name);
}

static int make(const char *dir, const char *user)
{
	int err;

	remove_stale(dir);
	snprintf(path, sizeof(path), "%s/instances/tcplat-%s-%d", dir, user, (int)getpid());
	if (mkdirat(root, path, 0700)) {
		err = errno;
		path[0] = '\0';
		return err;
	}
	tracing = dir;
	pin = openat(root, PROBES, O_RDONLY | O_CLOEXEC);
	keep = instance_file("tracing_on", O_RDONLY);
	if (keep < 0) {
		err = errno;
		instance_close();
		return err;
	}
	return 0;
}

/**
 * instance_open - make an instance
 * @root_fd: the sysfs root; must stay open until instance_close()
 * @user: the command, which becomes part of its name
 *
 * A signal removes the instance, unless the caller has installed its own handler. The module
 * cannot be unloaded meanwhile if debugfs is mounted.
 *
 * Return: 0 or an errno
 */
int instance_open(int root_fd, const char *user)
{
	static const char *const dirs[] = {
		"kernel/tracing", "kernel/debug/tracing",
	};
	int err = ENOENT;

	root = root_fd;
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		struct sigaction old, mine = { .sa_handler = on_signal };

		/* Ignored signals stay ignored. */
		if (!sigaction(signals[i], NULL, &old) && old.sa_handler == SIG_DFL)
			sigaction(signals[i], &mine, NULL);
	}
	instance_hold_signals(true);
	for (size_t i = 0; i < ARRAY_SIZE(dirs) && err == ENOENT; i++)
		err = make(dirs[i], user);
	instance_hold_signals(false);
	return err;
}

/**
 * instance_need - make an instance for a command that runs until a signal
 * @root_fd: as for instance_open()
 * @user: the command
 *
 * The command closes its files and the instance when it is stopped().
 *
 * Return: whether it could be made. Errors have been reported.
 */
bool instance_need(int root_fd, const char *user)
{
	int err;

	stop_on_signals();
	/* write() reports a closed pipe. */
	signal(SIGPIPE, SIG_IGN);
	err = instance_open(root_fd, user);
	if (err == EACCES || err == EPERM)
		report(STATUS_DENIED, "%s needs root for tracefs; run sudo tcplat %s", user, user);
	else if (err)
		report(STATUS_FAULT, "no usable tracefs: %s (mount -t tracefs nodev /sys/kernel/tracing)",
		       strerror(err));
	return !err;
}

/* The directory of tracefs, relative to the sysfs root. */
const char *instance_tracing(void)
{
	return tracing;
}

/* The name of the instance in tracefs. */
const char *instance_name(void)
{
	return strrchr(path, '/') + 1;
}

/* Open a file of the instance. Return -1 and set errno on failure. */
int instance_file(const char *name, int flags)
{
	char *file = xasprintf("%s/%s", path, name);
	int fd = openat(root, file, flags | O_CLOEXEC);
	int err = errno;

	free(file);
	errno = err;
	return fd;
}

/**
 * instance_write - write to a file of the instance
 * @name: the file
 * @text: what to write
 *
 * Return: 0 or an errno
 */
int instance_write(const char *name, const char *text)
{
	/* O_TRUNC would remove the other triggers of an event. */
	int fd = instance_file(name, O_WRONLY);
	ssize_t n;
	int err;

	if (fd < 0)
		return errno;
	n = write(fd, text, strlen(text));
	err = n == (ssize_t)strlen(text) ? 0 : n < 0 ? errno : EIO;
	close(fd);
	return err;
}
