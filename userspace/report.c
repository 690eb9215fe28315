// SPDX-License-Identifier: GPL-2.0
/* Errors: one line each on stderr, and the exit status they add up to. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

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

/* Say what is wrong and remember that tcplat must leave with @status. */
void report(int status, const char *fmt, ...)
{
	va_list ap;
	char *s;

	if (mute)
		return;
	va_start(ap, fmt);
	s = format(fmt, ap);
	va_end(ap);

	/* What is quoted from a tree must not steer the terminal. */
	for (unsigned char *p = (unsigned char *)s; *p; p++)
		if (*p < ' ' || *p == 0x7f)
			*p = '?';

	fprintf(stderr, "tcplat: %s\n", s);
	free(s);
	if (status > worst)
		worst = status;
}

/* For what is tried again and again: say nothing, and forget it. */
void report_mute(bool on)
{
	mute = on;
}

/* Leave with @status, whatever went wrong. */
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

void *xreallocarray(void *p, size_t n, size_t size)
{
	p = reallocarray(p, n, size);
	if (!p)
		out_of_memory();
	return p;
}
