// SPDX-License-Identifier: GPL-2.0
/*
 * JSON. Numbers have all of 64 bits, which the oldest libraries that are still in use round, and
 * text of any bytes becomes valid UTF-8.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tcplat.h"

/* Maximum depth, and length of the names that lead to a value. */
#define DEPTH	16
#define PATH	512

/* NULL is written as an empty string. */
void write_quoted(FILE *out, const char *text)
{
	char *safe __free = escaped(text ? text : "", true);

	fputc('"', out);
	for (const char *p = safe; *p; p++)
		fprintf(out, *p == '"' || *p == '\\' ? "\\%c" : "%c", *p);
	fputc('"', out);
}

static void begin(struct json *json, const char *name)
{
	if (json->more)
		fputc(',', json->out);
	json->more = true;
	if (!name)
		return;
	write_quoted(json->out, name);
	fputc(':', json->out);
}

void json_open(struct json *json, const char *name, char bracket)
{
	begin(json, name);
	fputc(bracket, json->out);
	json->depth++;
	json->more = false;
}

/* Close what is open, one bracket each. The outermost object ends its line. */
void json_close(struct json *json, const char *brackets)
{
	fputs(brackets, json->out);
	json->depth -= strlen(brackets);
	json->more = json->depth;
	if (!json->depth)
		fputc('\n', json->out);
}

void json_text(struct json *json, const char *name, const char *text)
{
	begin(json, name);
	if (text)
		write_quoted(json->out, text);
	else
		fputs("null", json->out);
}

void json_number(struct json *json, const char *name, const char *fmt, ...)
{
	va_list ap;

	begin(json, name);
	va_start(ap, fmt);
	vfprintf(json->out, fmt, ap);
	va_end(ap);
}

struct parser {
	char *at;
	json_fn fn;
	void *arg;
	char path[PATH];
	unsigned int depth;
};

static bool parse_value(struct parser *p);

static bool next_is(struct parser *p, char c)
{
	p->at += strspn(p->at, " \t\r\n");
	if (*p->at != c)
		return false;
	p->at++;
	return true;
}

/* The number of an escape \uXXXX at @text; or -1. */
static int parse_escape(const char *text)
{
	unsigned int number;

	return !strncmp(text, "\\u", 2) && strspn(text + 2, "0123456789abcdefABCDEF") >= 4 &&
	       sscanf(text + 2, "%4x", &number) == 1 ? (int)number : -1;
}

/* Write the character @c at *@to in UTF-8, '?' for what is none. Needs up to four bytes. */
static void put_character(char **to, unsigned int c)
{
	unsigned int more;

	c = !c || c >> 11 == 0xd800 >> 11 ? '?' : c;
	more = (c >= 0x80) + (c >= 0x800) + (c >= 0x10000);
	*(*to)++ = (char)((more ? 0xff00 >> (more + 1) : 0) | c >> 6 * more);
	while (more--)
		*(*to)++ = (char)(0x80 | (c >> 6 * more & 0x3f));
}

/* Return the string at the parser's position, decoded in place; NULL if there is none. */
static char *parse_string(struct parser *p)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	char *text, *end;

	if (!next_is(p, '"'))
		return NULL;
	text = p->at;
	end = text;
	for (; *p->at != '"'; p->at++) {
		const char *known;
		int c, low;

		if ((unsigned char)*p->at < ' ')
			return NULL;
		if (*p->at != '\\') {
			*end++ = *p->at;
			continue;
		}
		known = p->at[1] ? strchr(from, p->at[1]) : NULL;
		c = known ? to[known - from] : parse_escape(p->at);
		if (c < 0)
			return NULL;
		p->at += known ? 1 : 5;
		/* Two escapes for a character beyond 16 bits. */
		low = c >> 10 == 0xd800 >> 10 ? parse_escape(p->at + 1) : -1;
		if (low >> 10 == 0xdc00 >> 10) {
			c = 0x10000 + ((c & 0x3ff) << 10 | (low & 0x3ff));
			p->at += 6;
		}
		put_character(&end, (unsigned int)c);
	}
	p->at++;
	*end = '\0';
	return text;
}

static bool parse_list(struct parser *p, char end)
{
	size_t nr = 0, len = strlen(p->path);

	if (next_is(p, end))
		return true;
	do {
		char *index __free = end == '}' ? NULL : xasprintf("%zu", nr++);
		const char *name = index ? index : parse_string(p);

		if (!name || (end == '}' && !next_is(p, ':')) ||
		    len + strlen(name) + 2 > sizeof(p->path))
			return false;
		sprintf(p->path + len, "/%s", name);
		if (!parse_value(p))
			return false;
		p->path[len] = '\0';
	} while (next_is(p, ','));
	return next_is(p, end);
}

static bool parse_value(struct parser *p)
{
	bool object = next_is(p, '{'), ok = false;
	char word[32];
	size_t len;

	if (object || next_is(p, '[')) {
		if (++p->depth > DEPTH)
			return false;
		ok = parse_list(p, object ? '}' : ']');
		p->depth--;
		return ok;
	}
	if (*p->at == '"') {
		const char *text = parse_string(p);

		return text && p->fn(p->arg, p->path, text);
	}
	len = strspn(p->at, "+-.0123456789abcdefghijklmnopqrstuvwxyzE");
	if (!len || len >= sizeof(word))
		return false;
	memcpy(word, p->at, len);
	word[len] = '\0';
	p->at += len;
	return p->fn(p->arg, p->path, strcmp(word, "null") ? word : NULL);
}

/* Call @fn for each value in @text. Return whether it is JSON and no call returned false. */
bool json_parse(const char *text, json_fn fn, void *arg)
{
	char *copy __free = xstrdup(text);
	struct parser p = { .at = copy, .fn = fn, .arg = arg };

	return parse_value(&p) && next_is(&p, '\0');
}
