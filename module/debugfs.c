// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/kernel/debug/tcplat, for debugging. All files are read-only, so that a locked-down kernel
 * shows them, too. The module does not depend on debugfs.
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>

#include "tcplat.h"

#define BAR_WIDTH	50

static struct dentry *tcplat_dir;

static const char *probe_state(const struct tcplat_group *group,
			       const struct tcplat_probe *probe)
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
		   tcplat_probe_kind(probe), probe_state(group, probe));
	if (probe->hits == TCPLAT_NO_HITS)
		seq_putc(seq, '-');
	else
		seq_printf(seq, "%llu", tcplat_sum(group, probe->hits));
	seq_printf(seq, " %llu\n", tcplat_probe_missed(probe));
}

static int probes_show(struct seq_file *seq, void *unused)
{
	struct tcplat_group *group;
	unsigned int i, j;

	seq_puts(seq, "# group symbol+offset/size at kind state hits missed\n");
	mutex_lock(&tcplat_control);
	tcplat_for_each_group(group, i)
		for (j = 0; j < group->nr_probes; j++)
			probe_show(seq, group, &group->probes[j]);
	mutex_unlock(&tcplat_control);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(probes);

static void print_bar(struct seq_file *seq, u64 count, u64 peak)
{
	unsigned int width = peak ? div64_u64(count * BAR_WIDTH + peak - 1, peak) : 0;

	while (width--)
		seq_putc(seq, '#');
}

static void hist_show(struct seq_file *seq, const struct tcplat_group *group,
		      const struct tcplat_hist *hist)
{
	u64 peak = 0;
	unsigned int i;

	for (i = 0; i < hist->buckets; i++)
		peak = max(peak, tcplat_sum(group, hist->first + i));

	seq_printf(seq, "%s/%s (le%s)\n", group->name, hist->name, hist->unit);
	for (i = 0; i < hist->buckets; i++) {
		u64 count = tcplat_sum(group, hist->first + i);

		if (i < hist->buckets - 1)
			seq_printf(seq, "%12llu %12llu ", hist->le[i], count);
		else
			seq_printf(seq, "%12s %12llu ", "+Inf", count);
		print_bar(seq, count, max(peak, count));
		seq_putc(seq, '\n');
	}
}

/* Whether the file in sysfs that shows the histogram is available. */
static bool hist_is_available(const struct tcplat_group *group, const struct tcplat_hist *hist)
{
	unsigned int i;

	for (i = 0; i < group->nr_files; i++)
		if (group->files[i].hist == hist)
			return tcplat_file_is_available(&group->files[i]);
	return true;
}

static int histograms_show(struct seq_file *seq, void *unused)
{
	struct tcplat_group *group;
	unsigned int i, j;

	tcplat_for_each_group(group, i)
		for (j = 0; !group->missing_symbol && j < group->nr_hists; j++)
			if (hist_is_available(group, group->hists[j]))
				hist_show(seq, group, group->hists[j]);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(histograms);

static int percpu_show(struct seq_file *seq, void *unused)
{
	struct tcplat_group *group;
	unsigned int i, j;
	int cpu;

	seq_puts(seq, "# group/counter count on each CPU\n#");
	for_each_possible_cpu(cpu)
		seq_printf(seq, " cpu%d", cpu);
	seq_putc(seq, '\n');

	tcplat_for_each_group(group, i) {
		for (j = 0; !group->missing_symbol && j < group->nr_files; j++) {
			const struct tcplat_file *file = &group->files[j];

			if (file->show != tcplat_show_sum || !tcplat_file_is_available(file))
				continue;
			tcplat_file_refresh(file);
			seq_printf(seq, "%s/%s", group->name, file->name);
			for_each_possible_cpu(cpu)
				seq_printf(seq, " %llu",
					   tcplat_counter_cpu(group, file->index, cpu));
			seq_putc(seq, '\n');
		}
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(percpu);

static void create_group_files(const struct tcplat_group *group)
{
	unsigned int i;

	for (i = 0; !group->missing_symbol && i < group->nr_debug; i++)
		debugfs_create_file(group->debug[i].name, 0444, tcplat_dir, NULL,
				    group->debug[i].fops);
}

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
	debugfs_create_file("probes", 0444, tcplat_dir, NULL, &probes_fops);
	debugfs_create_file("histograms", 0444, tcplat_dir, NULL, &histograms_fops);
	debugfs_create_file("percpu", 0444, tcplat_dir, NULL, &percpu_fops);
	tcplat_for_each_group(group, i)
		create_group_files(group);
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
