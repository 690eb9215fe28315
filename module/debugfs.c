// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/kernel/debug/tcplat, for debugging. All files are read-only, so that a locked-down kernel
 * shows them, too. The module does not depend on debugfs.
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>

#include "tcplat.h"

static struct dentry *tcplat_dir;

static const char *probe_state(const struct tcplat_probe *probe)
{
	if (!probe->found)
		return "unavailable";
	if (!probe->armed)
		return "off";
	return tcplat_probe_is_live(probe) ? "armed" : "disarmed";
}

static void probe_show(struct seq_file *seq, const struct tcplat_group *group,
		       const struct tcplat_probe *probe)
{
	seq_printf(seq, "%s ", group->name);
	if (probe->armed)
		seq_printf(seq, "%pS", probe->by_ftrace ? probe->addr : probe->kp.addr);
	else
		seq_puts(seq, probe->found ? probe->found : probe->symbol);
	seq_printf(seq, " %s %s %s ", probe->ret ? "return" : "entry",
		   tcplat_probe_kind(probe), probe_state(probe));
	if (probe->hot || probe->hits == TCPLAT_NO_HITS)
		seq_putc(seq, '-');
	else
		seq_printf(seq, "%llu", tcplat_sum(group, probe->hits));
	seq_printf(seq, " %llu\n", tcplat_probe_missed(probe));
}

static int probes_show(struct seq_file *seq, void *unused)
{
	const struct tcplat_probe *probe;
	struct tcplat_group *group;
	unsigned int i;

	seq_puts(seq, "# group symbol+offset/size at kind state hits missed\n");
	mutex_lock(&tcplat_control);
	tcplat_for_each_group(group, i)
		tcplat_for_each_probe(group, probe)
			probe_show(seq, group, probe);
	mutex_unlock(&tcplat_control);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(probes);

static int group_show(struct seq_file *seq, void *unused)
{
	const struct tcplat_group *group = seq->private;

	group->debug_show(seq);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(group);

/**
 * tcplat_debugfs_create() - create the directory in debugfs and its files
 *
 * Errors are ignored: files that cannot be created are missing.
 *
 * Context: process, may sleep.
 */
void tcplat_debugfs_create(void)
{
	struct tcplat_group *group;
	unsigned int i;

	tcplat_dir = debugfs_create_dir("tcplat", NULL);
	/* NULL on kernels before 5.0, which take it for the root of debugfs. */
	if (IS_ERR_OR_NULL(tcplat_dir))
		return;
	debugfs_create_file("probes", 0444, tcplat_dir, NULL, &probes_fops);
	tcplat_for_each_group(group, i)
		if (group->debug && !group->missing_symbol)
			debugfs_create_file(group->debug, 0444, tcplat_dir, group, &group_fops);
}

/**
 * tcplat_debugfs_remove() - remove the directory in debugfs
 *
 * Context: process, may sleep.
 */
void tcplat_debugfs_remove(void)
{
	debugfs_remove_recursive(tcplat_dir);
}

#ifdef TCPLAT_KUNIT
#include "../kunit_tests/debugfs-kunit.h"
#endif
