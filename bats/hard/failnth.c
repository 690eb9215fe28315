// SPDX-License-Identifier: GPL-2.0
/*
 * failnth: makes the Nth allocation of a system call fail, with /proc/self/fail-nth.
 *
 * failnth N load MODULE		finit_module()
 * failnth N write FILE TEXT	write(), with a newline
 *
 * Prints "injected errno text": whether the call made that many allocations (1 or 0), and
 * its result. debugfs determines which kinds of allocations can fail.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int nth;

/* Makes this task's Nth allocation from now on fail; the kernel counts down to 0. */
static void set_nth(const char *n)
{
	if (pwrite(nth, n, strlen(n), 0) == -1)
		err(2, "/proc/self/fail-nth");
}

int main(int argc, char **argv)
{
	bool load = argc == 4 && !strcmp(argv[2], "load");
	char text[16] = "", left[16] = "";
	int fd, error;
	long result;

	if (!load) {
		if (argc != 5 || strcmp(argv[2], "write"))
			errx(2, "usage: failnth N load MODULE | failnth N write FILE TEXT");
		snprintf(text, sizeof(text), "%s\n", argv[4]);
	}
	nth = open("/proc/self/fail-nth", O_RDWR | O_CLOEXEC);
	fd = open(argv[3], (load ? O_RDONLY : O_WRONLY) | O_CLOEXEC);
	if (nth == -1 || fd == -1)
		err(2, "/proc/self/fail-nth or %s", argv[3]);
	set_nth(argv[1]);
	result = load ? syscall(SYS_finit_module, fd, text, 0) : write(fd, text, strlen(text));
	error = result == -1 ? errno : 0;
	if (pread(nth, left, sizeof(left) - 1, 0) == -1)
		err(2, "/proc/self/fail-nth");
	set_nth("0");
	printf("%d %d %s\n", !atoi(left), error, strerror(error));
	return 0;
}
