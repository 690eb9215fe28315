// SPDX-License-Identifier: GPL-2.0
/* Numbers, times, bars, tables and paragraphs as text. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tcplat.h"

/* The width to fill: COLUMNS, or that of the terminal, or 80. */
unsigned int draw_width(void)
{
	const char *columns = getenv("COLUMNS");
	struct winsize ws;
	uint64_t width = 0;

	if (columns && !parse_number(columns, &width))
		width = 0;
	if (!width && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws))
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
	unsigned int steps = utf8_locale() ? 8 : 1, filled;
	const char *full = utf8_locale() ? "█" : "#";
	char *bar = xstrdup("");

	if (!value || !max)
		return bar;
	filled = ((u128)value * width * steps + max / 2) / max;
	if (!filled)
		filled = 1;
	for (unsigned int i = 0; i < filled / steps; i++)
		bar = xappend(bar, "%s", full);
	return xappend(bar, "%s", eighths[filled % steps]);
}

/* A time in a format of strftime(3), of UTC if that ends in Z. To be freed. */
char *draw_clock(time_t seconds, const char *format)
{
	char clock[32] = "";
	struct tm tm;

	if (format[strlen(format) - 1] == 'Z')
		gmtime_r(&seconds, &tm);
	else
		localtime_r(&seconds, &tm);
	strftime(clock, sizeof(clock), format, &tm);
	return xstrdup(clock);
}

/* @part of @whole in percent, never rounded to 0% or 100%. To be freed. */
char *draw_percent(u128 part, u128 whole)
{
	unsigned int permille;

	if (!whole)
		return xstrdup("");
	permille = (part * 1000 + whole / 2) / whole;
	if (part && !permille)
		return xstrdup("<0.1%");
	if (part < whole && permille == 1000)
		return xstrdup(">99.9%");
	return xasprintf("%u.%u%%", permille / 10, permille % 10);
}

/* Four significant digits, all integer digits, no trailing zeros. To be freed. */
char *draw_number(long double value)
{
	/* %g would print an exponent. */
	if (value > 0 && value < 0.0001L)
		return xasprintf("%.8Lf", value);
	return value < 9999.5L ? xasprintf("%.4Lg", value) : xasprintf("%.0Lf", value);
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
	char *number __free = NULL;
	size_t i = 0;

	if (!ns)
		return xstrdup("0");
	/* Use the next larger unit for what would be rounded to 1000. */
	while (i < ARRAY_SIZE(units) - 1 && ns < units[i].ns * 0.99995L)
		i++;
	number = draw_number(ns / units[i].ns);
	return xasprintf("%s %s", number, utf8_locale() ? units[i].utf8 : units[i].ascii);
}

/* @value / 10^@digits, exactly, without zeros at the end of a fraction. To be freed. */
char *draw_decimal(u128 value, unsigned int digits)
{
	char buf[42], *p = buf + sizeof(buf) - 1;

	*p = '\0';
	for (unsigned int i = 0; i <= digits || value; i++, value /= 10) {
		if (i == digits && *p)
			*--p = '.';
		if (i >= digits || *p || value % 10)
			*--p = '0' + (unsigned int)(value % 10);
	}
	return xstrdup(p);
}

/* Add a cell, a malloc'ed string or NULL. Cells fill rows from left to right. */
void table_cell(struct table *table, char *text)
{
	table->cells = xreallocarray(table->cells, table->nr + 1, sizeof(*table->cells));
	table->cells[table->nr++] = text;
}

/* The width of @s, which is ASCII or UTF-8. Wide characters are counted as one column. */
unsigned int draw_columns(const char *s)
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
	unsigned int width[COLUMNS_MAX] = { 0 };

	for (size_t i = 0; i < table->nr; i++) {
		unsigned int n = draw_columns(table->cells[i]), column = i % table->columns;

		if (n > width[column])
			width[column] = n;
	}
	for (size_t i = 0; i < table->nr; i += table->columns) {
		/* Print blanks only before a cell, so that no line ends in blanks. */
		unsigned int blanks = 2;

		for (unsigned int c = 0; c < table->columns; c++) {
			const char *cell = table->cells[i + c];
			bool right = table->right ? table->right[c] == 'r' : c < table->columns - 1;
			unsigned int rest = width[c] - draw_columns(cell);

			if (!width[c])
				continue;
			if (cell && *cell) {
				if (right) {
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
	for (size_t i = 0; i < table->nr; i++)
		free(table->cells[i]);
	free(table->cells);
	table->cells = NULL;
	table->nr = 0;
}

/* Print @head and @text, broken at the width of the terminal, at most 100, after @indent blanks. */
void print_wrapped(FILE *out, const char *head, const char *text, unsigned int indent)
{
	unsigned int width = draw_width() < 100 ? draw_width() : 100, column = draw_columns(head);

	fputs(head, out);
	while (*text) {
		char *word __free = xasprintf("%.*s", (int)strcspn(text, " "), text);

		if (column > indent && column + 1 + draw_columns(word) > width) {
			fprintf(out, "\n%*s%s", (int)indent, "", word);
			column = indent + draw_columns(word);
		} else {
			fprintf(out, "%s%s", column ? " " : "", word);
			column += !!column + draw_columns(word);
		}
		text += strlen(word);
		text += strspn(text, " ");
	}
	fputc('\n', out);
}
