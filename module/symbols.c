// SPDX-License-Identifier: GPL-2.0
/*
 * Finds functions and variables of the kernel by name. The kernel exports no such search
 * to modules, but kprobes take names: an address is only ever taken from them.
 */
#include <linux/err.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "probe.h"

static char *hide[8];
static unsigned int nr_hidden;

module_param_array(hide, charp, &nr_hidden, 0444);
MODULE_PARM_DESC(hide, "For tests: symbols of the kernel to take for missing, up to 8, separated by commas");

static bool is_hidden(const char *symbol)
{
	unsigned int i;

	for (i = 0; i < nr_hidden; i++)
		if (!strcmp(symbol, hide[i]))
			return true;
	return false;
}

/*
 * Registers the probe's kprobe at @symbol, disabled: that tells whether the kernel can
 * probe the function, and where, and changes no code. The caller unregisters the kprobe.
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
 * @nr_probes: how many probes all groups have
 *
 * A group whose function is missing, or cannot be probed, gets its name in @missing_symbol.
 *
 * Context: process, may sleep.
 * Return: 0, or -ENOMEM, or -EOPNOTSUPP on a kernel whose kprobes are unusable
 */
int tcplat_symbols_find(unsigned int nr_probes)
{
	struct tcplat_group *group;
	unsigned int i, j, n = 0;
	/* Unregistered all at once, for the kernel waits for a grace period each time. */
	struct kprobe **kps;
	int err = 0;

	kps = kcalloc(nr_probes, sizeof(*kps), GFP_KERNEL);
	if (!kps)
		return -ENOMEM;
	tcplat_for_each_group(group, i) {
		for (j = 0; j < group->nr_probes; j++) {
			struct tcplat_probe *probe = &group->probes[j];

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
	kfree(kps);
	return err;
}

/**
 * tcplat_data_symbol() - where the kernel keeps a variable that it does not export
 * @name: the variable's name
 *
 * register_kprobe() looks the name up, leaves the address behind, and then refuses it
 * because it is not code. A function's address is not given away: calling what was
 * found this way would crash kernels that check the targets of indirect calls.
 *
 * The variable is only to be read, with copy_from_kernel_nofault(), and what is read
 * to be doubted: that the name means today what it meant yesterday is not certain.
 *
 * Context: process, may sleep.
 * Return: the address, or NULL if the kernel knows no such variable
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

	/* Kprobes may have moved the address, as they do for functions. */
	sprint_symbol(found, (unsigned long)kp.addr);
	if (strncmp(found, name, len) || strncmp(found + len, "+0x0/", 5))
		return NULL;
	return kp.addr;
}
