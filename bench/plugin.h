/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The part of QEMU's plugin interface, version 1, that bench/count.c uses. Debian has no package
 * with this header.
 */
#ifndef BENCH_PLUGIN_H
#define BENCH_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info_t;

enum { INLINE_ADD_U64 };

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*cb)(uint64_t id,
								   struct qemu_plugin_tb *tb));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, int op,
						void *counter, uint64_t value);
void qemu_plugin_register_atexit_cb(uint64_t id, void (*cb)(uint64_t id, void *data),
				    void *data);
int qemu_plugin_install(uint64_t id, const struct qemu_info_t *info, int argc, char **argv);

extern int qemu_plugin_version;

#endif /* BENCH_PLUGIN_H */
