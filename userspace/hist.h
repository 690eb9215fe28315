/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_HIST_H
#define TCPLAT_HIST_H

#include "draw.h"
#include "tree.h"

struct hist {
	size_t nr;
	const uint64_t *counts;
	const uint64_t *bounds;	/* nr - 1: the last bucket has none */
	enum unit unit;
	u128 total;
	uint64_t max;
	size_t max_at;
};

bool hist_read(struct group *group, struct file *file, struct hist *hist);
size_t hist_percentile(const struct hist *hist, unsigned int percent);
size_t hist_bucket_of(const struct hist *hist, uint64_t value, enum unit unit,
		      uint64_t tick_ns);
struct file *hist_max(struct group *group, const struct file *file);
struct file *hist_of_sum(struct group *group, const struct file *file);
char *hist_bound(const struct hist *hist, size_t i);
char *hist_bucket(const struct hist *hist, size_t i);
void hist_draw(const struct hist *hist);

#endif
