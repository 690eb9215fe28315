// SPDX-License-Identifier: GPL-2.0
/* Format numbers, times, bars and tables for a terminal. */
#include <inttypes.h>
#include <langinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "draw.h"
#include "report.h"
#include "tcplat.h"
#include "text.h"

/* Return whether the locale can print UTF-8. */
bool draw_utf8(void)
{
	return !strcmp(nl_langinfo(CODESET), "UTF-8");
}

/* Output width: COLUMNS, else that of the terminal, else 80. */
unsigned int draw_width(void)
{
	const char *columns = getenv("COLUMNS");
	struct winsize ws;
	uint64_t width = 0;

	if ((!columns || !parse_number(columns, &width) || !width) &&
	    !ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws))
		width = ws.ws_col;
	if (!width)
		width = 80;
	/* An absurd COLUMNS must not use up memory. */
	return width > 1000 ? 1000 : width;
}

/* A bar of @value, @width columns wide for @max. Never empty unless @value is 0. To be freed. */
char *draw_bar(uint64_t value, uint64_t max, unsigned int width)
{
	static const char *const eighths[] = {
		"", "▏", "▎", "▍", "▌", "▋", "▊", "▉",
	};
	unsigned int steps = draw_utf8() ? 8 : 1;
	const char *full = draw_utf8() ? "█" : "#";
	size_t len = strlen(full);
	unsigned int filled;
	char *bar, *p;

	if (!value || !max)
		return xstrdup("");

	filled = ((u128)value * width * steps + max / 2) / max;
	if (!filled)
		filled = 1;

	/* One more column for the partial block. */
	bar = xreallocarray(NULL, (filled / steps + 1) * strlen("█") + 1, 1);
	p = bar;
	for (unsigned int i = 0; i < filled / steps; i++, p += len)
		memcpy(p, full, len);
	strcpy(p, eighths[filled % steps]);
	return bar;
}

/* @part of @whole in percent, never rounded to 0% or 100%. To be freed. */
char *draw_percent(u128 part, u128 whole)
{
	unsigned int permille;

	if (!whole)
		return xstrdup("");
	permille = (part * 1000 + whole / 2) / whole;
	if (part && !permille)
		return xasprintf("<0.1%%");
	if (part < whole && permille == 1000)
		return xasprintf(">99.9%%");
	return xasprintf("%u.%u%%", permille / 10, permille % 10);
}

/* To be freed. */
char *draw_u128(u128 value)
{
	char buf[40];
	char *p = buf + sizeof(buf) - 1;

	*p = '\0';
	do {
		*--p = '0' + (unsigned int)(value % 10);
		value /= 10;
	} while (value);
	return xstrdup(p);
}

/* Four significant digits, all integer digits, no trailing zeros. To be freed. */
char *draw_number(long double value)
{
	/* %g would print an exponent. */
	if (value > 0 && value < 0.0001L)
		return xasprintf("%.8Lf", value);
	return value < 9999.5L ? xasprintf("%.4Lg", value) :
				 xasprintf("%.0Lf", value);
}

/* A time in the largest unit in which it is at least 1. To be freed. */
char *draw_time(long double ns)
{
	static const struct {
		long double ns;
		const char *utf8, *ascii;
	} units[] = {
		{ 86400e9L, "d", "d" },
		{ 3600e9L, "h", "h" },
		{ 60e9L, "min", "min" },
		{ 1e9L, "s", "s" },
		{ 1e6L, "ms", "ms" },
		{ 1e3L, "µs", "us" },
		{ 1, "ns", "ns" },
	};
	size_t i = 0;
	char *number, *time;

	if (!ns)
		return xasprintf("0 s");
	/* Use the next larger unit for what would be rounded to 1000. */
	while (i < ARRAY_SIZE(units) - 1 &&
	       ns < units[i].ns * 0.99995L)
		i++;
	number = draw_number(ns / units[i].ns);
	time = xasprintf("%s %s", number,
			 draw_utf8() ? units[i].utf8 : units[i].ascii);
	free(number);
	return time;
}

/* Nanoseconds per @unit; 0 if it is not a time, or jiffies and @tick_ns is unknown (0). */
uint64_t unit_ns(enum unit unit, uint64_t tick_ns)
{
	switch (unit) {
	case UNIT_NS:
		return 1;
	case UNIT_US:
		return 1000;
	case UNIT_JIFFIES:
		return tick_ns;
	case UNIT_NONE:
	default:
		return 0;
	}
}

/* @value of @unit as a time; NULL if it is not a time. To be freed. */
char *draw_value(uint64_t value, enum unit unit, uint64_t tick_ns)
{
	uint64_t ns = unit_ns(unit, tick_ns);

	return ns ? draw_time((long double)value * ns) : NULL;
}

/* @value / 10^@digits, exactly. To be freed. */
char *draw_decimal(u128 value, unsigned int digits)
{
	char *whole, *s;
	u128 scale = 1;

	for (unsigned int i = 0; i < digits; i++)
		scale *= 10;
	whole = draw_u128(value / scale);
	if (!(value % scale))
		return whole;
	s = xasprintf("%s.%0*" PRIu64, whole, (int)digits,
		      (uint64_t)(value % scale));
	free(whole);
	for (size_t n = strlen(s); s[n - 1] == '0'; )
		s[--n] = '\0';
	return s;
}

/* Add a row: one malloc'ed string or NULL per column. */
void table_row(struct table *table, ...)
{
	va_list ap;

	table->cells = xreallocarray(table->cells,
				     table->nr_cells + table->nr_columns,
				     sizeof(*table->cells));
	va_start(ap, table);
	for (unsigned int i = 0; i < table->nr_columns; i++)
		table->cells[table->nr_cells++] = va_arg(ap, char *);
	va_end(ap);
}

/* Add a cell, a copy of @text. Cells fill rows from left to right. */
void table_cell(struct table *table, const char *text)
{
	table->cells = xreallocarray(table->cells, table->nr_cells + 1,
				     sizeof(*table->cells));
	table->cells[table->nr_cells++] = xstrdup(text);
}

/* The width of @s, which is ASCII or single-width UTF-8. */
static unsigned int columns(const char *s)
{
	unsigned int n = 0;

	for (; s && *s; s++)
		n += (*s & 0xc0) != 0x80;
	return n;
}

/* Print the rows, indented by two, and empty the table. */
void table_print(struct table *table)
{
	FILE *out = table->out ? table->out : stdout;
	unsigned int width[TABLE_COLUMNS_MAX] = { 0 };

	for (size_t i = 0; i < table->nr_cells; i++) {
		unsigned int n = columns(table->cells[i]);
		unsigned int column = i % table->nr_columns;

		if (n > width[column])
			width[column] = n;
	}

	for (size_t i = 0; i < table->nr_cells; i += table->nr_columns) {
		/* Print blanks only before a cell, so that no line ends in blanks. */
		unsigned int blanks = 2;

		for (unsigned int c = 0; c < table->nr_columns; c++) {
			const char *cell = table->cells[i + c];
			unsigned int rest = width[c] - columns(cell);

			if (!width[c])
				continue;
			if (cell && *cell) {
				if (table->align[c] == ALIGN_RIGHT) {
					blanks += rest;
					rest = 0;
				}
				fprintf(out, "%*s%s", (int)blanks, "", cell);
				blanks = 0;
			}
			blanks += rest + 2;
		}
		fputc('\n', out);
	}
	table_free(table);
}

/* Remove all rows. table_print() has done this. */
void table_free(struct table *table)
{
	for (size_t i = 0; i < table->nr_cells; i++)
		free(table->cells[i]);
	free(table->cells);
	table->cells = NULL;
	table->nr_cells = 0;
}
