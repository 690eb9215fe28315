// SPDX-License-Identifier: GPL-2.0
/*
 * Lost time by owner and cause. The kernel sums up the events in hist triggers of the tracepoints;
 * each interval is the difference of two readings. To clear the histograms instead would lose what
 * happens between reading and clearing.
 */
#include <stdlib.h>
#include <string.h>

#include "events.h"
#include "snap.h"

/* The first columns in the file tables. */
#define STALL	0
#define NAGLE	2

static struct trigger triggers[COLUMNS];	/* of columns that count; others have no event */
static size_t sorted = COLUMNS;			/* a column; COLUMNS: the sum */

/*
 * Set triggers for all events that the module has and the user wants. Return whether there are any.
 * columns_free() must follow.
 */
bool columns_set(const struct place *place, const struct snap *snap,
		 const struct selection *selection, keys_fn keys_of)
{
	bool any = false;

	for (size_t i = 0; i < nr_sources; i++) {
		const struct source *s = &sources[i];
		const struct group *group = snap_group(snap, s->group);
		struct trigger trigger = { .keys = keys_of(s), .value = s->time };
		bool possible;
		int err;

		trigger.filter = selection_filter(place, selection, s, &possible);
		triggers[i] = trigger;
		if (!possible || !group || !instance_has(s->event) || !strcmp(s->name, "mode") ||
		    !trigger.keys)
			continue;
		if (group->state != STATE_ARMED) {
			report(STATUS_OK, "%s is not armed: %s stays empty", s->group, s->title);
			continue;
		}
		trigger.event = s->event;
		err = trigger_set(&trigger);
		if (err)
			report(STATUS_FAULT, "cannot set up a histogram of tracepoint tcplat:%s: %s",
			       s->event, strerror(err));
		else
			triggers[i] = trigger;
		any |= !err;
	}
	if (!any)
		report(STATUS_FAULT, "no events to read");
	return any;
}

/* The triggers themselves are removed with the instance. */
void columns_free(void)
{
	for (size_t i = 0; i < nr_sources; i++) {
		free((char *)triggers[i].filter);
		triggers[i] = (struct trigger){ 0 };
	}
}

static int compare_ids(const void *a, const void *b)
{
	const struct loss *x = a, *y = b;

	return who_compare(&x->who, &y->who);
}

/* Sort the rows, and make one of those of the same owner. */
void rows_merge(struct rows *rows)
{
	size_t kept = 0;

	if (!rows->nr)
		return;
	qsort(rows->list, rows->nr, sizeof(*rows->list), compare_ids);
	for (size_t i = 1; i < rows->nr; i++) {
		struct loss *row = &rows->list[kept], *next = &rows->list[i];

		if (who_compare(&row->who, &next->who)) {
			rows->list[++kept] = *next;
			continue;
		}
		for (size_t c = 0; c < nr_sources; c++) {
			row->total[c] += next->total[c];
			row->total_ns[c] += next->total_ns[c];
		}
		row->sum_ns += next->sum_ns;
		who_free(&next->who);
	}
	rows->nr = kept + 1;
}

/* Return whether all could be read. If not, it was reported, and @rows is not to be compared. */
bool rows_read(struct rows *rows)
{
	bool all = true;

	*rows = (struct rows){ 0 };
	for (size_t i = 0; i < nr_sources; i++)
		if (triggers[i].event)
			all &= trigger_read(&triggers[i], rows, i);
	rows_merge(rows);
	return all;
}

/*
 * A stall and a hold of Nagle's algorithm on the same connection over loopback are one wait, seen
 * from either end, which counts once: as a hold.
 */
static void fold(struct loss **list, size_t nr)
{
	uint64_t holds[3] = { 0 };

	for (size_t i = 0; i < nr; i++)
		holds[who_loopback(&list[i]->who)] += list[i]->ns[NAGLE];
	holds[0] = 0;
	for (size_t i = 0; i < nr; i++) {
		uint64_t *left = &holds[who_loopback(&list[i]->who)];
		uint64_t both = list[i]->ns[STALL] < *left ? list[i]->ns[STALL] : *left;

		list[i]->sum_ns -= both;
		*left -= both;
	}
}

/* Sort losses() by the column @name. Return whether there is one: modes are not losses. */
bool losses_by(const char *name)
{
	for (size_t i = 0; i < nr_sources; i++)
		if (!strcmp(sources[i].name, name) && strcmp(name, "mode"))
			sorted = i;
	return sorted < COLUMNS;
}

static int compare_losses(const void *a, const void *b)
{
	const struct loss *x = *(struct loss *const *)a, *y = *(struct loss *const *)b;
	uint64_t nx = sorted < COLUMNS ? x->ns[sorted] + x->count[sorted] : x->sum_ns;
	uint64_t ny = sorted < COLUMNS ? y->ns[sorted] + y->count[sorted] : y->sum_ns;

	return compare_u64(ny, nx) ?: compare_u64(y->apart_ns, x->apart_ns) ?:
	       who_compare(&x->who, &y->who);
}

/* The rows of @now with what they gained since @before, the worst first. To be freed. */
struct loss **losses(struct rows *now, const struct rows *before, enum fold how, size_t *nr)
{
	struct loss **list = xreallocarray(NULL, now->nr, sizeof(struct loss *));

	*nr = 0;
	for (size_t i = 0; i < now->nr; i++) {
		struct loss *row = &now->list[i];
		const struct loss *old = !before->nr ? NULL :
			bsearch(row, before->list, before->nr, sizeof(*row), compare_ids);
		uint64_t sums[2] = { 0 };
		bool any = false;

		for (size_t c = 0; c < nr_sources; c++) {
			row->count[c] = row->total[c] - (old ? old->total[c] : 0);
			row->ns[c] = row->total_ns[c] - (old ? old->total_ns[c] : 0);
			sums[sources[c].apart] += row->ns[c];
			any |= row->count[c];
		}
		row->apart_ns = sums[1];
		if (how != FOLD_DONE)
			row->sum_ns = sums[0];
		if (any)
			list[(*nr)++] = row;
	}
	if (how == FOLD_ALL)
		fold(list, *nr);
	if (*nr)
		qsort(list, *nr, sizeof(struct loss *), compare_losses);
	return list;
}

/* The times and counts as members of an object, also those that are 0 if @all. */
void loss_json(struct json *json, const struct loss *loss, bool all)
{
	json_u64(json, "time_ns", loss->sum_ns);
	for (size_t c = 0; c < nr_sources; c++) {
		if (!loss->count[c] && !(all && triggers[c].event))
			continue;
		json_open(json, sources[c].name, '{');
		json_u64(json, "count", loss->count[c]);
		if (sources[c].time)
			json_u64(json, "time_ns", loss->ns[c]);
		json_close(json, "}");
	}
}
