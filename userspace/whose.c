// SPDX-License-Identifier: GPL-2.0
/* Find out who caused the events of an interval, with hist triggers. */
#include <stdlib.h>
#include <string.h>

#include "instance.h"
#include "report.h"
#include "text.h"
#include "whose.h"

static bool watching;

/**
 * whose_watch - start to watch
 * @root_fd: the sysfs root; must stay open until whose_end()
 * @user: the command
 * @list: the triggers to set
 * @nr: the number of triggers
 *
 * Without permission to use tracefs, or without the tracepoints, nothing is found.
 */
void whose_watch(int root_fd, const char *user, struct whose *list, size_t nr)
{
	if (instance_open(root_fd, user))
		return;
	instance_hold_signals(true);
	for (size_t i = 0; i < nr; i++) {
		list[i].looked = !trigger_set(list[i].trigger);
		watching |= list[i].looked;
	}
	if (!watching)
		instance_close();
	instance_hold_signals(false);
}

static void add_share(const struct trigger *trigger, const char *key, uint64_t count,
		      uint64_t ns, void *arg)
{
	struct whose *whose = arg;
	struct share *share;
	char *cookie = NULL;

	whose->shares = xreallocarray(whose->shares, whose->nr + 1, sizeof(*whose->shares));
	share = &whose->shares[whose->nr++];
	*share = (struct share){ .key = xstrdup(key), .count = count, .ns = ns };
	if (strstr(trigger->keys, ",cookie"))
		cookie = strrchr(share->key, '\t');
	if (!cookie)
		return;
	*cookie = '\0';
	share->cookies = xreallocarray(NULL, 1, sizeof(*share->cookies));
	share->nr_cookies = parse_number(cookie + 1, share->cookies);
}

static int compare_keys(const void *a, const void *b)
{
	const struct share *x = a, *y = b;

	return strcmp(x->key, y->key);
}

static int compare_losses(const void *a, const void *b)
{
	const struct share *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? 1 : -1;
	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return strcmp(x->key, y->key);
}

static void share_free(struct share *share)
{
	free(share->key);
	free(share->cookies);
}

/* Add @b, which has the same key, to @a. */
static void merge(struct share *a, struct share *b)
{
	a->count += b->count;
	a->ns += b->ns;
	if (b->nr_cookies) {
		a->cookies = xreallocarray(a->cookies, a->nr_cookies + 1, sizeof(*a->cookies));
		a->cookies[a->nr_cookies++] = b->cookies[0];
	}
	share_free(b);
}

/* Merge shares with the same key, and sort by time lost. */
static void sort(struct whose *whose)
{
	size_t kept = 0;

	if (!whose->nr)
		return;
	qsort(whose->shares, whose->nr, sizeof(*whose->shares), compare_keys);
	for (size_t i = 1; i < whose->nr; i++) {
		if (strcmp(whose->shares[kept].key, whose->shares[i].key))
			whose->shares[++kept] = whose->shares[i];
		else
			merge(&whose->shares[kept], &whose->shares[i]);
	}
	whose->nr = kept + 1;
	qsort(whose->shares, whose->nr, sizeof(*whose->shares), compare_losses);
}

/**
 * whose_end - read the triggers and remove the instance
 * @list: the triggers of whose_watch(); call whose_free() afterwards
 * @nr: the number of triggers
 */
void whose_end(struct whose *list, size_t nr)
{
	if (!watching)
		return;
	instance_hold_signals(true);
	for (size_t i = 0; i < nr; i++)
		if (list[i].looked)
			list[i].dropped = trigger_read(list[i].trigger, add_share, &list[i]);
	instance_close();
	instance_hold_signals(false);
	watching = false;
	for (size_t i = 0; i < nr; i++)
		sort(&list[i]);
}

void whose_free(struct whose *list, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		for (size_t j = 0; j < list[i].nr; j++)
			share_free(&list[i].shares[j]);
		free(list[i].shares);
	}
}
