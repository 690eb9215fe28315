/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_TEXT_H
#define TCPLAT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int read_text(int dir, const char *name, char **text);
int write_text(int dir, const char *name, const char *text);
void report_read(const char *path, int err);
void report_write(const char *path, int err, const char *what);
void report_not_number(const char *path, const char *text);
const char *parse_u64(const char *s, uint64_t *value);
bool parse_count(const char *text, uint64_t *count);
bool parse_seconds(const char *text, double *seconds);
size_t parse_list(const char *text, const char *last, uint64_t **list);
bool parse_number(const char *text, uint64_t *value);

#endif
