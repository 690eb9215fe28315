// SPDX-License-Identifier: GPL-2.0
/*
 * A tracefs instance for this process, and hist triggers in it. It does not disturb other users of
 * tracefs, and removing it removes its triggers and events, so that the module can be unloaded.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "events.h"

static const char *const tracing[] = { "kernel/tracing", "kernel/debug/tracing" };

static char *path;		/* NULL: no instance */
/* An open file, so that another tcplat cannot remove the instance. */
static int pin = -1;

/* Remove the instance and everything set in it. The caller must have closed its files. */
void instance_close(void)
{
	if (pin >= 0)
		close(pin);
	pin = -1;
	if (path)
		unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
	free(path);
	path = NULL;
}

/* Remove the instance @name if its process was killed. This process may have its PID again. */
static void remove_stale(int dir, const char *name, void *unused)
{
	const char *text = strrchr(name, '-');
	pid_t pid = text ? atoi(text + 1) : 0;

	(void)unused;
	if (!strncmp(name, "tcplat-", 7) && pid > 0 &&
	    (pid == getpid() || (kill(pid, 0) && errno == ESRCH)))
		unlinkat(dir, name, AT_REMOVEDIR);
}

/*
 * Make an instance for the command @user, which must close it when it is stopped(). Return 0 or an
 * errno.
 */
int instance_open(const struct place *place, const char *user)
{
	int err = ENOENT;

	for (size_t i = 0; i < ARRAY_SIZE(tracing) && (err == ENOENT || err == ENOTDIR); i++) {
		char *dir __free = xasprintf("%s/%s/instances", place->root, tracing[i]);

		each_entry(AT_FDCWD, dir, remove_stale, NULL);
		path = xasprintf("%s/tcplat-%s-%d", dir, user, (int)getpid());
		pin = mkdir(path, 0700) ? -1 : instance_file("tracing_on", O_RDONLY);
		err = pin < 0 ? errno : 0;
		if (err)
			instance_close();
	}
	return err;
}

/* The same for a command that cannot do without. Errors are reported. */
bool instance_need(const struct place *place, const char *user)
{
	int err;

	stop_on_signals();
	err = instance_open(place, user);
	if (err == EACCES || err == EPERM)
		report(STATUS_DENIED, geteuid() ?
		       "%s needs root for tracefs; run sudo tcplat %s" :
		       "%s may not use tracefs here: a container or a security policy forbids it",
		       user, user);
	else if (err)
		report(STATUS_FAULT, "no usable tracefs: %s%s", strerror(err), err != ENOENT ? "" :
		       " (mount -t tracefs nodev /sys/kernel/tracing)");
	return !err;
}

/* Open a file of the instance. Return -1 and set errno on failure. */
int instance_file(const char *name, int flags)
{
	char *file __free = xasprintf("%s/%s", path, name);

	return open(file, flags | O_CLOEXEC);
}

/* Write @text to a file of the instance. Return 0 or an errno. */
int instance_write(const char *name, const char *text)
{
	/* O_TRUNC would remove the other triggers of an event. */
	int fd __close = instance_file(name, O_WRONLY);
	ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));

	return n == (ssize_t)strlen(text) ? 0 : n < 0 ? errno : EIO;
}

bool instance_has(const char *event)
{
	char *name __free = xasprintf("%s/events/tcplat/%s/enable", path, event);

	return !access(name, F_OK);
}

/*
 * Set a hist trigger. Triggers of the same event must differ in keys or filter. Return 0 or an
 * errno.
 */
int trigger_set(const struct trigger *trigger)
{
	char *file __free = xasprintf("events/tcplat/%s/trigger", trigger->event);
	char *text __free = xasprintf("hist:keys=%s%s%s:size=%d%s%s", trigger->keys,
				      trigger->value ? ":vals=" : "",
				      trigger->value ? trigger->value : "", ENTRIES,
				      trigger->filter ? " if " : "",
				      trigger->filter ? trigger->filter : "");

	return instance_write(file, text);
}

void rows_free(struct rows *rows)
{
	for (size_t i = 0; i < rows->nr; i++)
		who_free(&rows->list[i].who);
	free(rows->list);
	*rows = (struct rows){ 0 };
}

struct loss *rows_add(struct rows *rows, struct who who)
{
	if (!(rows->nr & (rows->nr - 1)))
		rows->list = xreallocarray(rows->list, 2 * rows->nr + 1, sizeof(*rows->list));
	rows->list[rows->nr] = (struct loss){ .who = who };
	return &rows->list[rows->nr++];
}

/* Move *@at behind @text if that is there. */
static bool skip(char **at, const char *text)
{
	if (strncmp(*at, text, strlen(text)))
		return false;
	*at += strlen(text);
	return true;
}

static bool skip_number(char **at, uint64_t *value)
{
	char *end;

	*at += strspn(*at, " ");
	*value = strtoull(*at, &end, 10);
	if (end == *at)
		return false;
	*at = end;
	return true;
}

/* Set @text to the first @width bytes at *@at, without the padding. */
static bool skip_padded(char **at, size_t width, char **text)
{
	size_t len = width;

	if (*text || strnlen(*at, width) < width)
		return false;
	while (len && (*at)[len - 1] == ' ')
		len--;
	*text = xasprintf("%.*s", (int)len, *at);
	*at += width;
	return true;
}

static bool skip_address(char **at, char **text)
{
	/* Sockets of other families than IP have no address: (einval). */
	size_t width = **at == '(' ? strcspn(*at, ")") + 1 : strspn(*at, "0123456789abcdef.:%");

	/* IPv6 and IPv4 sockets may have the same peer: ::ffff:10.0.0.1. */
	if (memchr(*at, '.', width) && skip(at, "::ffff:"))
		width -= strlen("::ffff:");
	return skip_padded(at, width, text);
}

/*
 * Parse an entry: { KEY: VALUE, KEY: VALUE } hitcount: N VALUE: N
 * Names have the width that the kernel pads them to: a process chooses its name, which may look
 * like the rest of a line, or be several.
 */
static bool parse_entry(char **at, const struct trigger *trigger, struct loss *row, size_t column)
{
	struct who *who = &row->who;
	uint64_t *ns = &row->total_ns[column];
	const struct {
		const char *label;
		uint64_t *to;
	} numbers[] = {
		{ "pid: ", &who->pid }, { "sport: ", &who->sport }, { "dport: ", &who->dport },
		{ "netns: ", &who->netns }, { "cgroup: ", &who->cgroup },
	};
	bool ok;

	do {
		ok = false;
		if (skip(at, "common_pid: "))
			ok = skip_padded(at, 16, &who->comm) && skip(at, "[") &&
			     skip_number(at, &who->pid) && skip(at, "]");
		else if (skip(at, "comm: "))
			ok = skip_padded(at, 35, &who->comm);
		else if (skip(at, "peer: "))
			ok = skip_address(at, &who->peer);
		for (size_t i = 0; i < ARRAY_SIZE(numbers) && !ok; i++)
			ok = skip(at, numbers[i].label) && skip_number(at, numbers[i].to);
		*at += strspn(*at, " ");
	} while (ok && skip(at, ", "));
	ok = ok && skip(at, "} hitcount:") && skip_number(at, &row->total[column]);
	*at += strspn(*at, " ");
	if (ok && trigger->value)
		ok = skip(at, trigger->value) && skip(at, ":") && skip_number(at, ns);
	*ns *= trigger->value && strstr(trigger->value, "_us") ? 1000 : 1;
	return ok;
}

/* Return whether the line @text starts the histogram of @trigger: an event may have several. */
static bool is_start_of(const char *text, const struct trigger *trigger)
{
	char *keys __free = xasprintf("hist:keys=%s:", trigger->keys);
	const char *filter = strstr(text, " if ");
	size_t len = trigger->filter ? strlen(trigger->filter) : 0;

	return strstr(text, keys) && !filter == !trigger->filter &&
	       (!filter || (!strncmp(filter + 4, trigger->filter, len) &&
			    !strncmp(filter + 4 + len, " [", 2)));
}

/* Add a row for each entry of the histogram of @trigger in @text, the file hist of its event. */
void trigger_parse(char *text, const struct trigger *trigger, struct rows *rows, size_t column)
{
	size_t old = rows->nr;
	bool ours = false;

	for (char *at = text, *end; at && *at; at = end ? end + 1 : NULL) {
		uint64_t dropped;

		if (skip(&at, "# trigger info: ")) {
			char *line __free = xasprintf("%.*s", (int)strcspn(at, "\n"), at);

			ours = is_start_of(line, trigger);
		} else if (ours && skip(&at, "{ ")) {
			if (!parse_entry(&at, trigger, rows_add(rows, (struct who){ 0 }), column))
				who_free(&rows->list[--rows->nr].who);
		} else if (ours && skip(&at, "    Dropped:") && skip_number(&at, &dropped)) {
			rows->dropped += dropped;
			rows->crowded |= dropped;
		}
		end = strchr(at, '\n');
	}
	rows->crowded |= rows->nr - old > ENTRIES / 2;
}

/* The same for the event's file in the instance. Return whether it could be read; or report it. */
bool trigger_read(const struct trigger *trigger, struct rows *rows, size_t column)
{
	char *name __free = xasprintf("%s/events/tcplat/%s/hist", path, trigger->event);
	FILE *in __cleanup(file_close) = fopen(name, "re");
	char *text __free = in ? read_stream(in) : NULL;

	if (text)
		trigger_parse(text, trigger, rows, column);
	else
		report(STATUS_FAULT, "%s: %s", name, strerror(errno));
	return text;
}
