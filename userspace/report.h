/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_REPORT_H
#define TCPLAT_REPORT_H

#include <stdbool.h>
#include <stddef.h>

void report(int status, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
bool flush_output(void);
void report_mute(bool on);
void report_final(int status);
int report_status(void);

char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
char *xappend(char *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *xstrdup(const char *s);
void *xreallocarray(void *p, size_t n, size_t size);

#endif
