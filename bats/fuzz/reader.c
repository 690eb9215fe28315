// SPDX-License-Identifier: GPL-2.0
/*
 * libFuzzer entry point for the reader. Each file that the reader reads from the tree in
 * FUZZ_ROOT has the contents of the next record of the fuzzer's input. Records end with a
 * byte of 255; for an empty record, and after the last one, the file itself is read. The
 * first byte of the input selects the command. Only this finds crashes on malformed files.
 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../userspace/report.h"
#include "../../userspace/show.h"
#include "../../userspace/snap.h"
#include "../../userspace/tcplat.h"
#include "reader.h"

#define RECORD_END	0xff

static const uint8_t *next;
static size_t left;

/* watch does not wait. */
void __wrap_snap_sleep(double seconds)
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
	if (*record == 0xfe)
		return ENOENT;
	if (*record == 0xfd)
		return EACCES;
	if (memchr(record, '\0', len))
		return EBADMSG;
	*text = xasprintf("%.*s", (int)len, (const char *)record);
	return 0;
}

/* Does what delta and doctor do between two readings, without running a command or waiting. */
static void run_gains(const struct place *place, int argc, char **argv)
{
	struct snap before, now;

	(void)argc;
	(void)argv;
	if (!snap_take(&before, place, 0, NULL))
		return;
	if (snap_take(&now, place, 0, NULL)) {
		snap_restarted(&now, &before);
		snap_subtract(&now, &before);
		for (size_t i = 0; i < now.tree.nr_groups; i++)
			show_group(&now.tree.groups[i], now.tick_ns, true);
		snap_free(&now);
	}
	snap_free(&before);
}

static const struct cmd gains = { .run = run_gains };

/* A setting that @cmd has. */
static const struct setting *setting(const struct cmd *cmd, int key)
{
	const struct setting *s = cmd->settings;

	while (s->key != key)
		s++;
	return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct cmd *const cmds[] = {
		&cmd_show, &cmd_hist, &cmd_json, &cmd_openmetrics, &cmd_doctor,
		&cmd_probes, &cmd_watch, &gains,
	};
	static char portsearch[] = "portsearch";
	static char *names[] = { portsearch, NULL };
	static struct place place;
	const struct cmd *cmd;

	if (!place.root) {
		int null = open("/dev/null", O_WRONLY);

		place.root = getenv("FUZZ_ROOT");
		place.proc = place.root;
		if (!place.root || null < 0)
			abort();
		dup2(null, STDOUT_FILENO);
		stderr = fopen("/dev/null", "w");
		*setting(&cmd_watch, 'n')->count = 1;
	}
	if (!size)
		return 0;
	cmd = cmds[data[0] % (sizeof(cmds) / sizeof(cmds[0]))];
	/* 300 is --total of doctor and --prometheus of openmetrics. */
	if (cmd == &cmd_doctor || (cmd == &cmd_openmetrics && data[0] & 0x80))
		*setting(cmd, 300)->flag = true;
	next = data + 1;
	left = size - 1;
	cmd->run(&place, cmd == &cmd_hist ? 1 : 0, names);
	left = 0;
	return 0;
}
