/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_H
#define TCPLAT_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define NSEC_PER_SEC	1000000000ULL

/* Free or close a variable when it goes out of scope. checkpatch wants these declared first. */
#define __cleanup(fn)	__attribute__((cleanup(fn)))
#define __free		__cleanup(text_free)
#define __close		__cleanup(fd_close)

/* Exit statuses. If several errors occur, the highest one is used. */
enum {
	STATUS_OK = 0,
	STATUS_FAULT = 1,	/* not loaded, or an unreadable or invalid file */
	STATUS_USAGE = 2,
	STATUS_DENIED = 3,	/* permission denied */
	STATUS_HURTS = 4,	/* doctor --exit-code found something that hurts */
};

/* Where to read from. */
struct place {
	char *root;		/* the sysfs root, usually /sys; without a slash at its end */
	char *top;		/* where it is: proc, run and var are beside it; "" for / */
};

/* ---- util.c: errors, memory, text that is safe to print, small files ---- */

void report(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void report_mute(bool on);
void report_final(int status);
int report_status(void);
bool flush_output(void);

char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2), returns_nonnull));
char *xappend(char *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *xstrdup(const char *s);
void *xreallocarray(void *p, size_t n, size_t size);
void text_free(char **text);
void fd_close(int *fd);
void file_close(FILE **file);
FILE *xmemstream(char **text, size_t *size);

bool utf8_locale(void);
char *escaped(const char *text, bool utf8);
char *shown(char *text);

int read_text(int dir, const char *name, char **text);
char *place_sysctl(const struct place *place, const char *name);
char *read_stream(FILE *in);
typedef void (*entry_fn)(int dir, const char *name, void *arg);
void each_entry(int dir, const char *path, entry_fn fn, void *arg);
bool has_word(const char *words, const char *word);
bool parse_number(const char *text, uint64_t *value);
struct snap;
typedef void (*snap_writer)(FILE *out, const struct snap *snap);
bool replace_file(const char *path, snap_writer write, const struct snap *snap);

static inline int compare_u64(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

uint64_t now_ns(int clock);
double now_seconds(void);

/* ---- draw.c: numbers, times, bars, tables and paragraphs ---- */

#define COLUMNS_MAX	24

__extension__ typedef unsigned __int128 u128;

/* Cells are added row by row. Columns that have no text are left out. */
struct table {
	unsigned int columns;
	const char *right;	/* r: aligned to the right; NULL: all but the last are */
	FILE *out;		/* NULL: standard output */
	char **cells;
	size_t nr;
};

unsigned int draw_width(void);
unsigned int draw_columns(const char *s);
char *draw_bar(uint64_t value, uint64_t max, unsigned int width);
char *draw_percent(u128 part, u128 whole);
char *draw_number(long double value);
char *draw_time(long double ns);
char *draw_clock(time_t seconds, const char *format);
char *draw_decimal(u128 value, unsigned int digits);
void table_cell(struct table *table, char *text);
void table_print(struct table *table);
void print_wrapped(FILE *out, const char *head, const char *text, unsigned int indent);

/* ---- json.c ---- */

/* Writes JSON as it comes. @name is NULL in arrays and at the top. */
struct json {
	FILE *out;
	unsigned int depth;
	bool more;		/* the next value needs a comma */
};

void write_quoted(FILE *out, const char *text);
void json_open(struct json *json, const char *name, char bracket);
void json_close(struct json *json, const char *brackets);
void json_text(struct json *json, const char *name, const char *text);
void json_number(struct json *json, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
#define json_u64(json, name, value) json_number(json, name, "%" PRIu64, (uint64_t)(value))

/*
 * A value that json_parse() found. @path has the names of its members, each with a slash before it;
 * elements of an array are numbered from 0. @text is NULL for null.
 */
typedef bool (*json_fn)(void *arg, const char *path, const char *text);

bool json_parse(const char *text, json_fn fn, void *arg);

/* ---- screen.c: commands that run until stopped ---- */

void stop_on_signals(void);
bool stopped(void);
bool screen_open(void);
void screen_close(void);
FILE *screen_page(void);
bool screen_show(void);
void screen_wait(double seconds);

/* ---- commands ---- */

enum opt_type {
	OPT_FLAG,		/* bool */
	OPT_TEXT,		/* const char * */
	OPT_CHOICE,		/* the same; one of the words in arg, separated by | */
	OPT_COUNT,		/* uint64_t, from 1 */
	OPT_SECONDS,		/* double, from 0.1 to 86400 */
};

struct opt {
	int key;		/* the letter; above 255: none */
	const char *name;
	const char *arg;	/* NULL: none */
	const char *text;	/* for --help and the man page */
	enum opt_type type;
	void *to;
};

/*
 * A command: a file that defines it, a record in the file tables, and an entry in tcplat.c. run()
 * gets the arguments after the command's name and reports errors through report().
 */
struct cmd {
	const char *name;
	const char *args;	/* as in --help */
	const char *brief;	/* one line */
	const char *doc;	/* the rest, for --help */
	const struct opt *opts;	/* ends with a zero entry */
	int max_args;		/* -1: any number */
	bool command;		/* takes -- COMMAND */
	void (*run)(const struct place *place, int argc, char **argv, char **command);
};

extern const struct cmd cmd_status, cmd_doctor, cmd_top, cmd_trace, cmd_record, cmd_show;

#endif
