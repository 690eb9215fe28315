// SPDX-License-Identifier: GPL-2.0
/* Errors: one line each on stderr, and the resulting exit status. */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

#include "report.h"
#include "tcplat.h"

static int worst = STATUS_OK;
static int final = -1;
static bool mute;

static void out_of_memory(void)
{
	fputs("tcplat: out of memory\n", stderr);
	exit(STATUS_FAULT);
}

static char *format(const char *fmt, va_list ap)
{
	char *s;

	if (vasprintf(&s, fmt, ap) < 0)
		out_of_memory();
	return s;
}

/*
 * Text from a tree or a command line must not control the terminal. Replace characters
 * that the locale cannot print.
 */
static void make_printable(char *s)
{
	mbstate_t state = { 0 };
	size_t left = strlen(s);

	while (left) {
		wchar_t c;
		size_t n = mbrtowc(&c, s, left, &state);

		if (n > left) {
			/* Not a valid character. */
			memset(&state, 0, sizeof(state));
			n = 1;
			*s = '?';
		} else if (!iswprint(c)) {
			memset(s, '?', n);
		}
		s += n;
		left -= n;
	}
}

/* Print an error. The exit status is the highest @status reported. */
void report(int status, const char *fmt, ...)
{
	va_list ap;
	char *s;

	if (mute)
		return;
	va_start(ap, fmt);
	s = format(fmt, ap);
	va_end(ap);

	make_printable(s);
	fprintf(stderr, "tcplat: %s\n", s);
	free(s);
	if (status > worst)
		worst = status;
}

/* Flush standard output. Return false on errors, which are reported once. */
bool flush_output(void)
{
	errno = 0;
	if (!fflush(stdout) && !ferror(stdout))
		return true;
	report(STATUS_FAULT, "cannot write the output: %s", strerror(errno ? errno : EIO));
	clearerr(stdout);
	return false;
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
	char *end, *all;
	va_list ap;

	va_start(ap, fmt);
	end = format(fmt, ap);
	va_end(ap);
	all = xasprintf("%s%s", s ? s : "", end);
	free(s);
	free(end);
	return all;
}

char *xstrdup(const char *s)
{
	char *copy = strdup(s);

	if (!copy)
		out_of_memory();
	return copy;
}

void *xreallocarray(void *p, size_t n, size_t size)
{
	p = reallocarray(p, n, size);
	if (!p)
		out_of_memory();
	return p;
}
