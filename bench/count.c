// SPDX-License-Identifier: GPL-2.0
/*
 * A QEMU plugin that counts the guest's instructions by address. When the guest exits, it writes
 * "ADDRESS COUNT" lines for the upper half of the address space to the file named by the
 * environment variable COUNT_FILE.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "plugin.h"

int qemu_plugin_version = 1;

#define KERNEL	0xffff800000000000
#define SLOTS	0x100000

static struct {
	uint64_t address, count;
} counters[SLOTS];

static unsigned int used;

/* Open addressing; entries are never removed. */
static uint64_t *counter_of(uint64_t address)
{
	uint64_t i = address * 0x9e3779b97f4a7c15 >> 44;

	while (counters[i].address && counters[i].address != address)
		i = (i + 1) % SLOTS;
	if (!counters[i].address) {
		if (++used == SLOTS) {
			fputs("count: too much code\n", stderr);
			exit(1);
		}
		counters[i].address = address;
	}
	return &counters[i].count;
}

static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
	size_t i;

	(void)id;
	for (i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint64_t address = qemu_plugin_insn_vaddr(insn);

		if (address >= KERNEL)
			qemu_plugin_register_vcpu_insn_exec_inline(insn, INLINE_ADD_U64,
								   counter_of(address), 1);
	}
}

static void write_counts(uint64_t id, void *data)
{
	FILE *f = fopen(data, "w");
	unsigned int i;

	(void)id;
	if (!f) {
		perror(data);
		return;
	}
	for (i = 0; i < SLOTS; i++)
		if (counters[i].count)
			fprintf(f, "%016" PRIx64 " %" PRIu64 "\n", counters[i].address,
				counters[i].count);
	fclose(f);
}

int qemu_plugin_install(uint64_t id, const struct qemu_info_t *info, int argc, char **argv)
{
	char *file = getenv("COUNT_FILE");

	(void)info;
	(void)argc;
	(void)argv;
	if (!file) {
		fputs("count: COUNT_FILE names no file\n", stderr);
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, write_counts, file);
	return 0;
}
