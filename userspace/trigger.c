// SPDX-License-Identifier: GPL-2.0
/* Hist triggers of the module's tracepoints, in this process's tracefs instance. */
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

/* Maximum number of keys. */
#define ENTRIES	"8192"

/**
 * trigger_set - set a hist trigger
 * @trigger: the trigger. Triggers of the same event must differ in keys or filter. The
 *	current thread is common_pid.execname; comm and pid are fields.
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

/* Parse the number after @name in @text. */
static bool number_after(const char *text, const char *name, uint64_t *value)
{
	const char *at = text ? strstr(text, name) : NULL;

	return at && sscanf(at + strlen(name), " %" SCNu64, value) == 1;
}

/* Convert "traffic   [  649]", of @len characters, to "traffic\t649". */
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
 * Extract the values between { and } without names and padding: for
 * { peer: 10.9.0.2   , sport:  80 } this is "10.9.0.2\t80". A thread has two values, its
 * name and number. Return the rest of the line, NULL if it has no key.
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
		/* A process name may contain the mark, so use its last occurrence. */
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
		/* Leave room for a tab. */
		if (used >= size - 1)
			break;
	}
	free(list);
	*end = '}';
	return used && used < size - 1 ? end : NULL;
}

/* Return whether @text starts the histogram of @trigger: an event may have several. */
static bool is_start_of(const char *text, const struct trigger *trigger)
{
	char *keys = xasprintf("hist:keys=%s:", trigger->keys);
	const char *filter = strstr(text, " if ");
	bool same = strstr(text, keys) && !filter == !trigger->filter &&
		    (!filter || strstr(filter, trigger->filter));

	free(keys);
	return same;
}

/**
 * trigger_read - read a histogram
 * @trigger: the trigger that was set
 * @fn: called for each entry with the values of the keys
 * @arg: passed to @fn
 *
 * Return: the number of events dropped because their keys did not fit
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
			ours = is_start_of(text, trigger);
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
