// SPDX-License-Identifier: GPL-2.0
/* Replace a file atomically: readers see the old or the new content. */
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
 * replaceable - check that a path is a regular file or does not exist
 * @path: the path
 *
 * A rename would replace a device or a link by a file.
 *
 * Return: whether replace_file() may be used. Errors have been reported.
 */
bool replaceable(const char *path)
{
	struct stat st;

	if (lstat(path, &st) || S_ISREG(st.st_mode))
		return true;
	report(STATUS_FAULT, "%s: not a regular file", path);
	return false;
}

/**
 * replace_file - write a file, and rename it once it is complete
 * @path: the file, which must be replaceable()
 * @write: writes the content
 * @arg: passed to @write
 *
 * Return: whether it was replaced. If not, errors have been reported and @path is unchanged.
 */
bool replace_file(const char *path, void (*write)(FILE *out, void *arg), void *arg)
{
	char *for_dir = xstrdup(path), *for_base = xstrdup(path);
	/*
	 * In the same directory, so that it can be renamed, and with another suffix, since
	 * collectors select files by suffix.
	 */
	char *temporary = xasprintf("%s/.%s.XXXXXX", dirname(for_dir), basename(for_base));
	mode_t mask = umask(0);
	int fd = mkstemp(temporary);
	bool bad, done = false;
	FILE *out = NULL;

	umask(mask);
	if (fd < 0) {
		/* The temporary name would mean nothing to the user. */
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
		/* Do not publish an incomplete tree. */
		report(STATUS_FAULT, "%s: left unchanged", path);
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
