// SPDX-License-Identifier: GPL-2.0
/*
 * failnth: makes the Nth allocation of a system call fail, with /proc/self/fail-nth.
 *
 * failnth N load MODULE [PARAMETER]...	finit_module()
 * failnth N write FILE TEXT		write(), with a newline
 *
 * Prints "injected errno text": whether the call made that many allocations (1 or 0), and
 * its result. debugfs determines which kinds of allocations can fail.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void die(const char *what)
{
	fprintf(stderr, "failnth: %s: %s\n", what, strerror(errno));
	exit(2);
}

static int open_or_die(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC);

	if (fd == -1)
		die(path);
	return fd;
}

/* Makes this task's Nth allocation from now on fail; the kernel counts down to 0. */
static void set_nth(int fd, const char *n)
{
	if (pwrite(fd, n, strlen(n), 0) == -1)
		die("/proc/self/fail-nth");
}

int main(int argc, char **argv)
{
	char text[4096] = "";
	const char *what;
	char left[16];
	long result;
	ssize_t len;
	int nth, fd;
	int error;

	if (argc < 4) {
		fprintf(stderr, "usage: failnth N load|write WHAT [WORD]...\n");
		return 2;
	}
	what = argv[2];
	for (int i = 4; i < argc; i++) {
		strncat(text, argv[i], sizeof(text) - strlen(text) - 2);
		strcat(text, i < argc - 1 ? " " : "");
	}
	nth = open_or_die("/proc/self/fail-nth", O_RDWR);
	if (!strcmp(what, "load")) {
		fd = open_or_die(argv[3], O_RDONLY);
		set_nth(nth, argv[1]);
		result = syscall(SYS_finit_module, fd, text, 0);
	} else if (!strcmp(what, "write")) {
		fd = open_or_die(argv[3], O_WRONLY);
		strcat(text, "\n");
		set_nth(nth, argv[1]);
		result = write(fd, text, strlen(text));
	} else {
		errno = EINVAL;
		die(what);
	}
	error = result == -1 ? errno : 0;
	len = pread(nth, left, sizeof(left) - 1, 0);
	if (len == -1)
		die("/proc/self/fail-nth");
	left[len] = '\0';
	set_nth(nth, "0");
	printf("%d %d %s\n", !atoi(left), error, strerror(error));
	return 0;
}
