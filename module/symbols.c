// SPDX-License-Identifier: GPL-2.0
/*
 * Finds functions and variables of the kernel by name. The kernel exports no symbol lookup to
 * modules, but register_kprobe() accepts names; all addresses come from it.
 */
#include <linux/err.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/string.h>

#include "prototypes.h"
#include "tcplat.h"

/*
 * Not called. The checksum of this symbol covers struct tcp_sock, which no other symbol that the
 * module imports does. So MODVERSIONS refuses to load the module on a kernel with another layout
 * of the structure, even if weak-modules has linked it there.
 */
static u32 (*const layout)(struct tcp_sock *tp, u32 acked) __used = tcp_slow_start;

#ifdef TCPLAT_TEST
static char *hide[16];
static unsigned int nr_hidden;

module_param_array(hide, charp, &nr_hidden, 0444);
MODULE_PARM_DESC(hide, "For tests: kernel symbols to treat as missing, up to 16, separated by commas");

static bool is_hidden(const char *symbol)
{
	unsigned int i;

	for (i = 0; i < nr_hidden; i++)
		if (!strcmp(symbol, hide[i]))
			return true;
	return false;
}
#else
static bool is_hidden(const char *symbol)
{
	return false;
}
#endif

/*
 * Registers the probe's kprobe at @symbol, disabled, which changes no code. This tells whether
 * the kernel can probe the function, and its address. The caller unregisters the kprobe.
 */
static int find_function(struct tcplat_probe *probe, const char *symbol)
{
	int err;

	if (is_hidden(symbol))
		return -ENOENT;
	memset(&probe->kp, 0, sizeof(probe->kp));
	probe->kp.symbol_name = symbol;
	probe->kp.flags = KPROBE_FLAG_DISABLED;
	err = register_kprobe(&probe->kp);
	if (err)
		return err;
	probe->found = symbol;
	probe->addr = probe->kp.addr;
	probe->on_ftrace = kprobe_ftrace(&probe->kp);
	return 0;
}

static int find_probe(struct tcplat_probe *probe)
{
	int err = find_function(probe, probe->symbol);

	if (err && err != -ENOMEM && probe->fallback)
		err = find_function(probe, probe->fallback);
	return err;
}

/**
 * tcplat_symbols_find() - find the functions that all groups' probes name
 * @kps: room for a pointer for each probe of all groups
 *
 * If a function is missing or cannot be probed, the group's @missing_symbol is set to its name.
 *
 * Context: process, may sleep.
 * Return: 0, or -ENOMEM, or -EOPNOTSUPP on a kernel whose kprobes are unusable
 */
int tcplat_symbols_find(struct kprobe **kps)
{
	struct tcplat_group *group;
	struct tcplat_probe *probe;
	unsigned int i, n = 0;
	int err = 0;

	tcplat_for_each_group(group, i) {
		tcplat_for_each_probe(group, probe) {
			err = find_probe(probe);
			if (err == -ENOMEM || err == -EOPNOTSUPP)
				goto unregister;
			if (!err)
				kps[n++] = &probe->kp;
			else if (!probe->optional && !group->missing_symbol)
				group->missing_symbol = probe->symbol;
		}
	}
	err = 0;

unregister:
	unregister_kprobes(kps, n);
	return err;
}

/**
 * tcplat_data_symbol() - find a variable that the kernel does not export
 * @name: the variable's name
 *
 * register_kprobe() looks the name up, stores the address, and then fails because the address
 * is not code. Addresses of functions are not returned: calling one would crash kernels that
 * check the targets of indirect calls.
 *
 * Callers must only read the variable, with copy_from_kernel_nofault(), and must check the
 * value: another kernel may use the name for something else.
 *
 * Context: process, may sleep.
 * Return: the address, or NULL if the kernel has no such variable
 */
const void *tcplat_data_symbol(const char *name)
{
	struct kprobe kp = {
		.symbol_name = name,
		.flags = KPROBE_FLAG_DISABLED,
	};
	char found[KSYM_SYMBOL_LEN];
	size_t len = strlen(name);
	int err;

	if (is_hidden(name))
		return NULL;
	err = register_kprobe(&kp);
	if (!err)
		unregister_kprobe(&kp);
	if (err != -EINVAL || IS_ERR_OR_NULL(kp.addr))
		return NULL;

	/* Kprobes may have adjusted the address, as they do for functions. */
	sprint_symbol(found, (unsigned long)kp.addr);
	if (strncmp(found, name, len) || strncmp(found + len, "+0x0/", 5))
		return NULL;
	return kp.addr;
}
