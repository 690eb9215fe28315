// SPDX-License-Identifier: GPL-2.0
/*
 * Small text files and the numbers in them, none of which is taken on trust.
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

/* A sysfs file is a page at most, so anything like this is not tcplat's. */
#define TEXT_MAX	(64 * 1024)

/**
 * read_text - read a whole small text file
 * @dir: directory that @name is relative to
 * @name: file name
 * @text: set to the text, without the final newline; to be freed
 *
 * Return: 0 or an errno; ENODATA for an empty file, EFBIG for one larger than
 * 64 KiB, EBADMSG for one that is not text.
 */
int read_text(int dir, const char *name, char **text)
{
	size_t len = 0;
	struct stat st;
	char *buf;
	int fd;
	int err = 0;

	/* O_NONBLOCK: a FIFO must not hang us before fstat() unmasks it. */
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

/* Say why @path could not be read, and what to do where that is known. */
void report_read(const char *path, int err)
{
	switch (err) {
	case EACCES:
	case EPERM:
		report(STATUS_DENIED, "%s: no permission to read it", path);
		break;
	case ENOENT:
	case ENODEV:
		report(STATUS_FAULT,
		       "%s: missing, or gone while being read (was the module unloaded?)",
		       path);
		break;
	case ENODATA:
		report(STATUS_FAULT, "%s: is empty", path);
		break;
	case EFBIG:
		report(STATUS_FAULT, "%s: is larger than %d KiB, no file of tcplat's",
		       path, TEXT_MAX / 1024);
		break;
	case EBADMSG:
		report(STATUS_FAULT, "%s: is not a text file", path);
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

/* Parse decimal digits; return what follows them, NULL if there is no u64. */
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

/* Whether all of @text is one u64. */
bool parse_number(const char *text, uint64_t *value)
{
	const char *end = parse_u64(text, value);

	return end && !*end;
}

bool parse_count(const char *text, uint64_t *count)
{
	return parse_number(text, count) && *count;
}

/* Whether @text is a decimal number, perhaps with a fraction, in bounds. */
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
 * Parse numbers with one blank between them, up to the end or up to @last.
 * Return how many, 0 if @text is anything else; @list is to be freed.
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
 * write_text - write a whole line into a small file that is there
 * @dir: directory that @name is relative to
 * @name: file name
 * @text: what to write, in one write()
 *
 * Return: 0 or an errno; EBADMSG for what is not a regular file.
 */
int write_text(int dir, const char *name, const char *text)
{
	struct stat st;
	int err = 0;
	int fd;

	/* O_TRUNC is nothing to sysfs and leaves a copied tree clean. */
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

/* Say why @path could not be written; @what is the command that wanted to. */
void report_write(const char *path, int err, const char *what)
{
	switch (err) {
	case EROFS:
		report(STATUS_DENIED, "%s: %s", path, strerror(err));
		break;
	case EPERM:
		report(STATUS_DENIED,
		       "%s: not permitted: 'tcplat %s' takes CAP_SYS_ADMIN, as the host's root has it",
		       path, what);
		break;
	case EACCES:
		report(STATUS_DENIED,
		       "%s: no permission to write it: run 'tcplat %s' as root",
		       path, what);
		break;
	case EBADMSG:
		report(STATUS_FAULT, "%s: is not a regular file", path);
		break;
	default:
		report(STATUS_FAULT, "%s: %s", path, strerror(err));
	}
}
