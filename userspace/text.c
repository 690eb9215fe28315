// SPDX-License-Identifier: GPL-2.0
/*
 * Read and write small text files, and parse the numbers in them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report.h"
#include "tcplat.h"
#include "text.h"

/* Larger files are rejected. A sysfs file is at most one page. */
#define TEXT_MAX	(64 * 1024)

/**
 * read_text - read a whole small text file
 * @dir: directory that @name is relative to
 * @name: file name
 * @text: set to the text, without the final newline; to be freed
 *
 * Return: 0 or an errno; ENODATA if the file is empty, EFBIG if it is larger than
 * 64 KiB, EBADMSG if it is not text.
 */
int read_text(int dir, const char *name, char **text)
{
	size_t len = 0;
	struct stat st;
	char *buf;
	int fd;
	int err = 0;

	/* O_NONBLOCK: do not block on a FIFO, which only fstat() detects. */
	fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return errno;
	if (fstat(fd, &st)) {
		err = errno;
		close(fd);
		return err;
	}
	if (!S_ISREG(st.st_mode)) {
		close(fd);
		return S_ISDIR(st.st_mode) ? EISDIR : EBADMSG;
	}

	buf = xreallocarray(NULL, TEXT_MAX + 1, 1);
	for (;;) {
		ssize_t n = read(fd, buf + len, TEXT_MAX + 1 - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			err = errno;
		if (n <= 0)
			break;
		len += n;
		if (len > TEXT_MAX) {
			err = EFBIG;
			break;
		}
	}
	close(fd);

	if (!err && len && buf[len - 1] == '\n')
		len--;
	if (!err && !len)
		err = ENODATA;
	if (!err && memchr(buf, '\0', len))
		err = EBADMSG;
	if (err) {
		free(buf);
		return err;
	}
	buf[len] = '\0';
	*text = xreallocarray(buf, len + 1, 1);
	return 0;
}

/* Report why @path could not be read. */
void report_read(const char *path, int err)
{
	switch (err) {
	case EACCES:
	case EPERM:
		report(STATUS_DENIED, "%s: permission denied", path);
		break;
	case ENOENT:
	case ENODEV:
		report(STATUS_FAULT,
		       "%s: missing, or removed while being read (was the module unloaded?)",
		       path);
		break;
	case ENODATA:
		report(STATUS_FAULT, "%s: empty file", path);
		break;
	case EFBIG:
		report(STATUS_FAULT, "%s: larger than %d KiB, not a tcplat file",
		       path, TEXT_MAX / 1024);
		break;
	case EBADMSG:
		report(STATUS_FAULT, "%s: not a text file", path);
		break;
	default:
		report(STATUS_FAULT, "%s: %s", path, strerror(err));
	}
}

void report_not_number(const char *path, const char *text)
{
	report(STATUS_FAULT, "%s: '%.40s%s' is not a number from 0 to 2^64-1",
	       path, text, strlen(text) > 40 ? "..." : "");
}

/* Parse a decimal u64. Return the end of it, NULL if there is none. */
const char *parse_u64(const char *s, uint64_t *value)
{
	unsigned long long v;
	char *end;

	/* strtoull() takes blanks and signs, too. */
	if (*s < '0' || *s > '9')
		return NULL;
	errno = 0;
	v = strtoull(s, &end, 10);
	if (errno)
		return NULL;
	*value = v;
	return end;
}

/* Parse @text, which must be one u64. */
bool parse_number(const char *text, uint64_t *value)
{
	const char *end = parse_u64(text, value);

	return end && !*end;
}

bool parse_count(const char *text, uint64_t *count)
{
	return parse_number(text, count) && *count;
}

/* Parse @text, a decimal number from 0.1 to 86400. */
bool parse_seconds(const char *text, double *seconds)
{
	char *end;
	double value;

	if (!*text || text[strspn(text, "0123456789.")])
		return false;
	value = strtod(text, &end);
	if (*end || !(value >= 0.1 && value <= 86400))
		return false;
	*seconds = value;
	return true;
}

/*
 * Parse numbers separated by one blank, up to the end, or up to @last unless NULL.
 * Return how many, 0 if @text is not such a list. @list is to be freed.
 */
size_t parse_list(const char *text, const char *last, uint64_t **list)
{
	size_t nr = 0;

	*list = NULL;
	for (;;) {
		if (last && !strcmp(text, last))
			return nr;
		*list = xreallocarray(*list, nr + 1, sizeof(**list));
		text = parse_u64(text, &(*list)[nr]);
		if (!text)
			break;
		nr++;
		if (!*text && !last)
			return nr;
		if (*text++ != ' ')
			break;
	}
	free(*list);
	*list = NULL;
	return 0;
}

/**
 * write_text - write a line into an existing file
 * @dir: directory that @name is relative to
 * @name: file name
 * @text: what to write, in one write()
 *
 * Return: 0 or an errno; EBADMSG if it is not a regular file.
 */
int write_text(int dir, const char *name, const char *text)
{
	struct stat st;
	int err = 0;
	int fd;

	/* O_TRUNC has no effect in sysfs, and is needed in a copy of a tree. */
	fd = openat(dir, name,
		    O_WRONLY | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return errno;
	if (fstat(fd, &st))
		err = errno;
	else if (!S_ISREG(st.st_mode))
		err = EBADMSG;
	else if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		err = errno;
	if (close(fd) && !err)
		err = errno;
	return err;
}

/* Report why @path could not be written by the command @what. */
void report_write(const char *path, int err, const char *what)
{
	switch (err) {
	case EROFS:
		report(STATUS_DENIED, "%s: %s", path, strerror(err));
		break;
	case EPERM:
		report(STATUS_DENIED,
		       "%s: not permitted; 'tcplat %s' needs CAP_SYS_ADMIN on the host",
		       path, what);
		break;
	case EACCES:
		report(STATUS_DENIED,
		       "%s: permission denied; run 'tcplat %s' as root",
		       path, what);
		break;
	case EBADMSG:
		report(STATUS_FAULT, "%s: not a regular file", path);
		break;
	default:
		report(STATUS_FAULT, "%s: %s", path, strerror(err));
	}
}
