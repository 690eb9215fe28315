// SPDX-License-Identifier: GPL-2.0
/*
 * libFuzzer entry point for the reader. The first byte of the input selects what reads the rest: a
 * command, for which each file in FUZZ_ROOT has the contents of the next record (records end with a
 * byte of 255; for an empty record, and after the last one, the file itself is read), the loader of
 * JSON, or the parsers of the kernel's histograms and events. Only this finds crashes on malformed
 * input.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../userspace/cmd_trace.c"
#include "../../userspace/rules.h"
#include "reader.h"

#define RECORD_END	0xff

static const uint8_t *next;
static size_t left;

/* Nothing waits. */
void __wrap_screen_wait(double seconds)
{
	(void)seconds;
}

/* Fulfils the contract of read_text(): no NUL, not empty, no final newline. */
int __wrap_read_text(int dir, const char *name, char **text)
{
	const uint8_t *end = left ? memchr(next, RECORD_END, left) : NULL;
	size_t len = end ? (size_t)(end - next) : left;
	const uint8_t *record = next;

	if (!left)
		return __real_read_text(dir, name, text);
	next += len + !!end;
	left -= len + !!end;
	if (!len)
		return __real_read_text(dir, name, text);
	if (*record >= 0xfd)
		return *record == 0xfe ? ENOENT : EACCES;
	if (memchr(record, '\0', len))
		return EBADMSG;
	*text = xasprintf("%.*s", (int)len, (const char *)record);
	return 0;
}

/* Apply the rules to what was counted between two readings of the same files. */
static void examine(const struct place *place, bool total)
{
	struct finding findings[RULES_MAX] = { { 0 } };
	const struct finding *order[RULES_MAX];
	struct snap before __cleanup(snap_free) = { 0 }, now __cleanup(snap_free) = { 0 };

	if (snap_take(&before, place) && snap_take(&now, place)) {
		struct exam exam = { .place = place, .snap = &now };
		struct printing printing = { .bars = true };

		if (total || snap_compare(&now, &before, false)) {
			exam_all(&exam, findings, order);
			findings_free(findings);
			snap_print(stdout, place, &now, &printing);
			snap_write_json(stdout, &now);
			snap_write_prometheus(stdout, &now);
		}
	}
}

static void load(const char *text)
{
	char path[] = "/tmp/fuzz.XXXXXX";
	int fd = mkstemp(path);
	struct snap snap;

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		abort();
	close(fd);
	if (snap_load(&snap, path)) {
		snap_write_json(stdout, &snap);
		snap_free(&snap);
	}
	unlink(path);
}

static void parse_hist(const struct place *place, char *text)
{
	static const struct trigger triggers[] = {
		{ "x", "comm,pid,peer", "time_ns", NULL },
		{ "x", "common_pid.execname", NULL, NULL },
	};
	struct rows rows = { 0 };
	char *copy = xstrdup(text);

	trigger_parse(text, &triggers[0], &rows, 0);
	trigger_parse(copy, &triggers[1], &rows, 1);
	for (size_t i = 0; i < rows.nr; i++) {
		struct json json = { .out = stdout };
		char *name = who_text(place, &rows.list[i].who, i & 1);

		/* Whatever the names are, they are safe on a terminal. */
		for (const char *p = name; *p; p++)
			if (*p < ' ' || *p > '~')
				abort();
		json_open(&json, NULL, '{');
		who_json(place, &json, &rows.list[i].who);
		json_close(&json, "}");
		free(name);
	}
	rows_free(&rows);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct place place;
	char *text, *line, *rest;

	if (!place.root) {
		int null = open("/dev/null", O_WRONLY);

		place.root = getenv("FUZZ_ROOT");
		place.top = "/nonexistent";
		if (!place.root || null < 0)
			abort();
		dup2(null, STDOUT_FILENO);
		stderr = fopen("/dev/null", "w");
	}
	if (!size)
		return 0;
	text = xasprintf("%.*s", (int)size - 1, (const char *)data + 1);
	rest = text;
	switch (data[0] % 9) {
	case 6:
		load(text);
		break;
	case 7:
		parse_hist(&place, text);
		break;
	case 8:
		as_json = data[0] & 0x80;
		while ((line = strsep(&rest, "\n")))
			handle_line(&place, line);
		break;
	default:
		next = data + 1;
		left = size - 1;
		examine(&place, data[0] & 1);
		left = 0;
	}
	free(text);
	return 0;
}
