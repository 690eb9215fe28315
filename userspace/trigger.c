// SPDX-License-Identifier: GPL-2.0
/* Histograms that the kernel makes of tracepoints, in this process's instance of tracefs. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "instance.h"
#include "report.h"
#include "trigger.h"
#include "words.h"

/* Different keys that the kernel has room for. */
#define ENTRIES	"8192"

/**
 * trigger_set - have the kernel make a histogram
 * @trigger: of what; no other of the same event has the same keys and filter. A thread that
 *	runs while an event happens is common_pid.execname; comm and pid are fields.
 *
 * Return: 0 or an errno
 */
int trigger_set(const struct trigger *trigger)
{
	char *file = xasprintf("events/tcplat/%s/trigger", trigger->event);
	char *text = xasprintf("hist:keys=%s%s%s:size=" ENTRIES "%s%s", trigger->keys,
			       trigger->value ? ":vals=" : "",
			       trigger->value ? trigger->value : "",
			       trigger->filter ? " if " : "",
			       trigger->filter ? trigger->filter : "");
	int err = instance_write(file, text);

	free(text);
	free(file);
	return err;
}

/* The number behind @name in @text. */
static bool number_after(const char *text, const char *name, uint64_t *value)
{
	const char *at = text ? strstr(text, name) : NULL;

	return at && sscanf(at + strlen(name), " %" SCNu64, value) == 1;
}

/* "traffic   [  649]", of @len characters, is "traffic\t649". */
static int parse_execname(char *name, size_t size, const char *text, int len)
{
	int open = len;
	uint64_t pid;

	while (open && text[open - 1] != '[')
		open--;
	if (!open || sscanf(text + open, " %" SCNu64, &pid) != 1)
		return snprintf(name, size, "%.*s", len, text);
	open--;
	while (open && text[open - 1] == ' ')
		open--;
	return snprintf(name, size, "%.*s\t%" PRIu64, open, text, pid);
}

/*
 * What a line says between { and }, without the names of the fields and without the blanks
 * that fill it up: { peer: 10.9.0.2   , sport:  80 } is "10.9.0.2\t80". A thread
 * is its name and its number. Returns what follows.
 */
static const char *parse_key(char *line, const char *fields, char *name, size_t size)
{
	char *end = strstr(line, "} hitcount:"), *at = strchr(line, '{');
	char *list, *field, *save = NULL, *next;
	size_t used = 0;

	if (!end || !at || at > end)
		return NULL;
	*end = '\0';
	list = xstrdup(fields);
	at++;
	for (field = strtok_r(list, ",", &save); field; field = next) {
		bool execname = strstr(field, ".execname");
		char *mark, *value, *stop_at = end;

		next = strtok_r(NULL, ",", &save);
		field[strcspn(field, ".")] = '\0';
		value = strstr(at, field);
		if (!value)
			break;
		value += strlen(field) + 1;
		/* A process's name may hold anything: the last one is the mark. */
		mark = next ? xasprintf(", %.*s:", (int)strcspn(next, "."), next) : NULL;
		for (char *p = value; mark && (p = strstr(p, mark)); p++)
			stop_at = p;
		free(mark);
		at = stop_at;
		value += strspn(value, " ");
		while (stop_at > value && stop_at[-1] == ' ')
			stop_at--;
		if (used)
			name[used++] = '\t';
		used += execname ? parse_execname(name + used, size - used, value,
						  (int)(stop_at - value)) :
				   snprintf(name + used, size - used, "%.*s",
					    (int)(stop_at - value), value);
		/* With room for a tab. */
		if (used >= size - 1)
			break;
	}
	free(list);
	*end = '}';
	return used && used < size - 1 ? end : NULL;
}

/* Whether @text begins the histogram of @trigger: an event may have several. */
static bool begins(const char *text, const struct trigger *trigger)
{
	char *keys = xasprintf("hist:keys=%s:", trigger->keys);
	const char *filter = strstr(text, " if ");
	bool same = strstr(text, keys) && !filter == !trigger->filter &&
		    (!filter || strstr(filter, trigger->filter));

	free(keys);
	return same;
}

/**
 * trigger_read - go through a histogram
 * @trigger: what was set
 * @fn: called for each entry, with the values of the keys; of a thread its name and number
 * @arg: passed to @fn
 *
 * Return: how many events found no room for their key
 */
uint64_t trigger_read(const struct trigger *trigger, trigger_fn fn, void *arg)
{
	char *file = xasprintf("events/tcplat/%s/hist", trigger->event);
	int fd = instance_file(file, O_RDONLY);
	FILE *in = fd < 0 ? NULL : fdopen(fd, "r");
	char *text = NULL;
	bool ours = false;
	size_t room = 0;
	uint64_t dropped = 0, ns = trigger->value ? unit_ns(words_unit(trigger->value), 0) : 0;

	while (in && getline(&text, &room, in) > 0) {
		uint64_t count = 0, value = 0;
		char name[256];
		const char *rest;

		if (strstr(text, "# trigger info:")) {
			ours = begins(text, trigger);
			continue;
		}
		if (!ours)
			continue;
		if (!strncmp(text, "    Dropped:", 12) && number_after(text, "Dropped:", &value))
			dropped += value;
		rest = parse_key(text, trigger->keys, name, sizeof(name));
		if (!rest)
			continue;
		number_after(rest, "hitcount:", &count);
		if (trigger->value)
			number_after(strstr(rest, trigger->value), ":", &value);
		fn(trigger, name, count, value * ns, arg);
	}
	free(text);
	if (in)
		fclose(in);
	free(file);
	return dropped;
}
