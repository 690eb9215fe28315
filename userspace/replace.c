// SPDX-License-Identifier: GPL-2.0
/* Files that are whole at any time: the old one, or the new one. */
#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replace.h"
#include "report.h"
#include "tcplat.h"

static void report_output(const char *what)
{
	report(errno == EACCES || errno == EPERM ? STATUS_DENIED : STATUS_FAULT,
	       "%s: %s", what, strerror(errno));
}

/**
 * replaceable - whether a file may be put there
 * @path: where
 *
 * A rename would put a file where a device, a directory or a link was.
 *
 * Return: whether it may; if not, why not has been reported
 */
bool replaceable(const char *path)
{
	struct stat st;

	if (lstat(path, &st) || S_ISREG(st.st_mode))
		return true;
	report(STATUS_FAULT, "%s: is not a regular file", path);
	return false;
}

/**
 * replace_file - write a file, and put it in place once it is whole
 * @path: where; replaceable()
 * @write: writes it
 * @arg: passed to @write
 *
 * Return: whether it is there; if not, why not has been reported, and the old one stays
 */
bool replace_file(const char *path, void (*write)(FILE *out, void *arg), void *arg)
{
	char *for_dir = xstrdup(path), *for_base = xstrdup(path);
	/*
	 * Beside the file, so that it can be renamed, and under a name that does not end as
	 * it does: collectors take what they find by that.
	 */
	char *temporary = xasprintf("%s/.%s.XXXXXX", dirname(for_dir), basename(for_base));
	mode_t mask = umask(0);
	int fd = mkstemp(temporary);
	bool bad, done = false;
	FILE *out = NULL;

	umask(mask);
	if (fd < 0) {
		/* The name that was tried is one that nobody knows. */
		report_output(path);
		goto free;
	}
	out = fdopen(fd, "w");
	if (!out) {
		report_output(temporary);
		close(fd);
		goto unlink;
	}
	write(out, arg);
	bad = fchmod(fd, 0666 & ~mask) || fflush(out) || fsync(fd);
	if (fclose(out) || bad)
		report_output(temporary);
	else if (report_status())
		/* Half a tree would look like a whole one. */
		report(STATUS_FAULT, "%s: left as it is", path);
	else if (rename(temporary, path))
		report_output(path);
	else
		done = true;
unlink:
	if (!done)
		unlink(temporary);
free:
	free(temporary);
	free(for_base);
	free(for_dir);
	return done;
}
