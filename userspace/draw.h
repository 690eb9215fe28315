/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_DRAW_H
#define TCPLAT_DRAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "words.h"

/* For sums of counters, which may exceed 64 bits. */
typedef unsigned __int128 u128;

bool draw_utf8(void);
unsigned int draw_width(void);
char *draw_bar(uint64_t value, uint64_t max, unsigned int width);
char *draw_percent(u128 part, u128 whole);
char *draw_u128(u128 value);
char *draw_time(long double ns);
uint64_t unit_ns(enum unit unit, uint64_t tick_ns);
char *draw_value(uint64_t value, enum unit unit, uint64_t tick_ns);
char *draw_decimal(u128 value, unsigned int digits);
char *draw_number(long double value);

/* A table: rows of cells, each column as wide as its widest cell. */
enum align { ALIGN_LEFT, ALIGN_RIGHT };

#define TABLE_COLUMNS_MAX	8

struct table {
	unsigned int nr_columns;
	FILE *out;		/* NULL: standard output */
	enum align align[TABLE_COLUMNS_MAX];
	char **cells;		/* NULL: blank */
	size_t nr_cells;
};

void table_cell(struct table *table, const char *text);
void table_row(struct table *table, ...);
void table_print(struct table *table);
void table_free(struct table *table);

#endif
