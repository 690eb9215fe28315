// SPDX-License-Identifier: GPL-2.0
/* Errors, memory, text that is safe to print, and small files. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tcplat.h"

/* Larger files are rejected. A sysfs file is at most one page. */
#define TEXT_MAX	(64 * 1024)

static int worst = STATUS_OK;
static int final = -1;
static bool mute;

/* @p, which is NULL if there is no memory. */
static void *need(void *p)
{
	if (p)
		return p;
	fputs("tcplat: out of memory\n", stderr);
	exit(STATUS_FAULT);
}

static char *format(const char *fmt, va_list ap)
{
	char *s;

	return need(vasprintf(&s, fmt, ap) < 0 ? NULL : s);
}

/* Print an error, one line. The exit status is the highest @status reported. */
void report(int status, const char *fmt, ...)
{
	char *s __free = NULL;
	va_list ap;

	if (mute)
		return;
	va_start(ap, fmt);
	s = shown(format(fmt, ap));
	va_end(ap);
	fprintf(stderr, "tcplat: %s\n", s);
	if (status > worst)
		worst = status;
}

/* Ignore reports while @on, for operations that are retried. */
void report_mute(bool on)
{
	mute = on;
}

/* Exit with @status, whatever was reported. */
void report_final(int status)
{
	final = status;
}

int report_status(void)
{
	return final < 0 ? worst : final;
}

/* Flush standard output. Return false on errors, which are reported once; see errno. */
bool flush_output(void)
{
	int err;

	errno = 0;
	if (!fflush(stdout) && !ferror(stdout))
		return true;
	err = errno ? errno : EIO;
	report(STATUS_FAULT, "cannot write the output: %s", strerror(err));
	clearerr(stdout);
	__fpurge(stdout);
	errno = err;
	return false;
}

char *xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *s;

	va_start(ap, fmt);
	s = format(fmt, ap);
	va_end(ap);
	return s;
}

/* Append to @s, which may be NULL and is freed. */
char *xappend(char *s, const char *fmt, ...)
{
	char *begin __free = s, *end __free = NULL;
	va_list ap;

	va_start(ap, fmt);
	end = format(fmt, ap);
	va_end(ap);
	return xasprintf("%s%s", s ? s : "", end);
}

char *xstrdup(const char *s)
{
	return need(strdup(s));
}

void *xreallocarray(void *p, size_t n, size_t size)
{
	return need(reallocarray(p, n ? n : 1, size));
}

/* errno stays that of what failed before. */
void text_free(char **text)
{
	int err = errno;

	free(*text);
	errno = err;
}

void fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

void file_close(FILE **file)
{
	if (*file)
		fclose(*file);
}

FILE *xmemstream(char **text, size_t *size)
{
	return need(open_memstream(text, size));
}

bool utf8_locale(void)
{
	return !strcmp(nl_langinfo(CODESET), "UTF-8");
}

/*
 * The length of the character at @s if it is valid UTF-8 and changes nothing around it; else 0:
 * control characters, and those that reverse, hide or break text.
 */
static size_t character(const unsigned char *s)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = *s < 0x80 ? 1 : *s < 0xc0 || *s >= 0xf8 ? 0 : *s < 0xe0 ? 2 : *s < 0xf0 ? 3 : 4;
	uint32_t c = n == 1 ? *s : n ? *s & (0x7f >> n) : 0;

	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if (!n || c < 0x20 || (c >= 0x7f && c < 0xa0) || c < least[n] || c > 0x10ffff ||
	    (c >= 0xd800 && c < 0xe000) || (c >= 0x200b && c < 0x2010) ||
	    (c >= 0x2028 && c < 0x202f) || (c >= 0x2060 && c < 0x2070) ||
	    c == 0xfeff || c == 0xad || c == 0x61c || (c >= 0xe0000 && c < 0xe0080))
		return 0;
	return n;
}

/*
 * A copy of @text that is safe on a terminal and in a line: other bytes become \xHH. Without @utf8
 * the copy is ASCII.
 */
char *escaped(const char *text, bool utf8)
{
	char *copy = xreallocarray(NULL, 4 * strlen(text) + 1, 1), *to = copy;

	while (*text) {
		size_t n = character((const unsigned char *)text);

		if (n == 1 || (n && utf8)) {
			memcpy(to, text, n);
			to += n;
			text += n;
		} else {
			to += sprintf(to, "\\x%02x", (unsigned char)*text++);
		}
	}
	*to = '\0';
	return copy;
}

/* @text, escaped for this locale. @text is freed. */
char *shown(char *text)
{
	char *raw __free = text;

	return raw ? escaped(raw, utf8_locale()) : NULL;
}

/*
 * Read a whole small text file into @text, without the final newline; to be freed. Return 0 or an
 * errno: ENODATA if it is empty, EFBIG if it is larger than 64 KiB, EBADMSG if it is not text.
 */
int read_text(int dir, const char *name, char **text)
{
	char *buf __free = NULL;
	/* O_NONBLOCK: do not block on a FIFO. */
	int fd __close = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	size_t len = 0;
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return errno;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return EBADMSG;
	buf = xreallocarray(NULL, TEXT_MAX + 1, 1);
	do {
		n = read(fd, buf + len, TEXT_MAX + 1 - len);
		if (n < 0 && errno != EINTR)
			return errno;
		len += n > 0 ? n : 0;
		if (len > TEXT_MAX)
			return EFBIG;
	} while (n);
	if (len && buf[len - 1] == '\n')
		len--;
	if (!len)
		return ENODATA;
	if (memchr(buf, '\0', len))
		return EBADMSG;
	buf[len] = '\0';
	*text = xstrdup(buf);
	return 0;
}

/* The value of sysctl @name, escaped; NULL if unknown. To be freed. */
char *place_sysctl(const struct place *place, const char *name)
{
	char *path __free = xasprintf("%s/proc/sys/%s", place->top, name), *text = NULL;

	for (char *p = path + strlen(path) - strlen(name); *p; p++)
		if (*p == '.')
			*p = '/';
	read_text(AT_FDCWD, path, &text);
	for (char *p = text; p && *p; p++)
		if (*p == '\t')
			*p = ' ';
	return shown(text);
}

/* Call @fn for each entry of the directory @path that is not hidden, in order of their names. */
void each_entry(int dir, const char *path, entry_fn fn, void *arg)
{
	int fd __close = openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent **list = NULL;
	int nr = fd < 0 ? 0 : scandirat(fd, ".", &list, NULL, alphasort);

	for (int i = 0; i < nr; i++) {
		if (list[i]->d_name[0] != '.')
			fn(fd, list[i]->d_name, arg);
		free(list[i]);
	}
	free(list);
}

/* Everything in @in, which may be a pipe, to be freed; NULL on errors, see errno. */
char *read_stream(FILE *in)
{
	char *text __free = NULL;
	size_t room = 0;
	ssize_t n = getdelim(&text, &room, '\0', in);

	return ferror(in) ? NULL : xstrdup(n < 0 ? "" : text);
}

/* Whether @word is one of @words, which are separated by |. */
bool has_word(const char *words, const char *word)
{
	size_t len = strcspn(word, "|");

	for (; !word[len] && words; words = strchr(words, '|') ? strchr(words, '|') + 1 : NULL)
		if (len && !strncmp(words, word, len) && (!words[len] || words[len] == '|'))
			return true;
	return false;
}

/* Parse @text, which must be a decimal u64. */
bool parse_number(const char *text, uint64_t *value)
{
	char *end;

	/* strtoull() takes blanks and signs, too. */
	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*value = strtoull(text, &end, 10);
	return !errno && !*end;
}

/*
 * Let @write write a file, and rename it to @path once it is complete. Return whether that is done;
 * if not, errors have been reported and @path is unchanged.
 */
bool replace_file(const char *path, snap_writer write, const struct snap *snap)
{
	char *for_dir __free = xstrdup(path), *for_base __free = xstrdup(path);
	/* In the same directory, and with another suffix, since collectors select by suffix. */
	char *temporary __free = xasprintf("%s/.%s.XXXXXX", dirname(for_dir), basename(for_base));
	bool done = false;
	struct stat st;
	mode_t mask;
	FILE *out;
	int fd;

	if (!lstat(path, &st) && !S_ISREG(st.st_mode)) {
		/* A rename would replace a device or a link by a file. */
		report(STATUS_FAULT, "%s: not a regular file", path);
		return false;
	}
	mask = umask(0);
	fd = mkstemp(temporary);
	umask(mask);
	out = fd < 0 ? NULL : fdopen(fd, "w");
	if (out) {
		write(out, snap);
		done = !fchmod(fd, 0666 & ~mask) && !fflush(out) && !ferror(out);
		done = !fclose(out) && done && !rename(temporary, path);
	}
	if (!done) {
		/* The temporary name would mean nothing to the user. */
		report(errno == EACCES || errno == EPERM ? STATUS_DENIED : STATUS_FAULT, "%s: %s",
		       path, strerror(errno));
		unlink(temporary);
	}
	return done;
}

uint64_t now_ns(int clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

double now_seconds(void)
{
	return now_ns(CLOCK_MONOTONIC) / 1e9;
}
