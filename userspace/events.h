/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_EVENTS_H
#define TCPLAT_EVENTS_H

#include "tcplat.h"

/* ---- the tracepoints: events.c ---- */

/* Who an event belongs to. */
enum owner {
	OWNER_UNKNOWN,		/* it runs in whatever context the CPU was in */
	OWNER_CALLER,		/* the current thread */
	OWNER_FIELDS,		/* its fields comm and pid */
};

/* A column of the file tables: a tracepoint, or those of its events that a filter selects. */
struct source {
	const char *name;	/* in JSON */
	const char *title;	/* of a column */
	const char *group;
	const char *event;
	const char *time;	/* field with the duration, which ends in its unit; NULL: none */
	const char *filter;	/* NULL: all events */
	enum owner owner;
	bool apart;		/* not part of the sum */
};

extern const struct source sources[];
extern const size_t nr_sources;

struct selection {
	const char *peer, *netns, *cgroup, *comm;
	uint64_t port, pid, least_ms;
	char *cgroup_ids;	/* the condition on the event's cgroup: selection_check() sets it */
};

bool selection_check(const struct place *place, struct selection *selection);
char *selection_filter(const struct place *place, const struct selection *selection,
		       const struct source *source, bool *possible);

/* ---- this process's instance of tracefs, and histograms in it: instance.c ---- */

int instance_open(const struct place *place, const char *user);
bool instance_need(const struct place *place, const char *user);
void instance_close(void);
int instance_file(const char *name, int flags);
int instance_write(const char *name, const char *text);
bool instance_has(const char *event);

/* Maximum number of keys. */
#define ENTRIES	8192

/* A hist trigger of a tracepoint. */
struct trigger {
	const char *event;
	const char *keys;	/* up to three fields, comma-separated */
	const char *value;	/* field to sum up, a time in us or ns; NULL: none */
	const char *filter;	/* NULL: all events */
};

/* Whose an event is. Numbers are 0, and texts NULL, if unknown. All texts are to be escaped. */
struct who {
	char *comm;
	uint64_t pid;
	char *peer;
	uint64_t sport, dport;
	uint64_t netns;
	uint64_t cgroup;
	char *label;		/* from a record: all of it */
};

#define COLUMNS	16

/* What was counted for one owner, from all columns. */
struct loss {
	struct who who;
	uint64_t total[COLUMNS], total_ns[COLUMNS];
	uint64_t count[COLUMNS], ns[COLUMNS];	/* in this interval */
	uint64_t sum_ns, apart_ns;
};

struct rows {
	struct loss *list;
	size_t nr;
	uint64_t dropped;	/* events of keys that did not fit */
	bool crowded;		/* there will soon be more */
};

struct loss *rows_add(struct rows *rows, struct who who);
void rows_free(struct rows *rows);
int trigger_set(const struct trigger *trigger);
void trigger_parse(char *text, const struct trigger *trigger, struct rows *rows, size_t column);
bool trigger_read(const struct trigger *trigger, struct rows *rows, size_t column);

/* ---- lost time by owner and cause: losses.c ---- */

/* A wait of both ends of a connection over loopback: count it twice, once, or as @now does. */
enum fold { FOLD_NOT, FOLD_ALL, FOLD_DONE };

/* The keys by which to count the events; NULL: do not. */
typedef const char *(*keys_fn)(const struct source *source);

bool columns_set(const struct place *place, const struct snap *snap,
		 const struct selection *selection, keys_fn keys_of);
void columns_free(void);
void rows_merge(struct rows *rows);
bool rows_read(struct rows *rows);
bool losses_by(const char *name);
struct loss **losses(struct rows *now, const struct rows *before, enum fold how, size_t *nr);
void loss_json(struct json *json, const struct loss *loss, bool all);

/* ---- names of what the kernel reports as numbers: names.c ---- */

extern const char *const cgroup_mounts[];

unsigned int who_loopback(const struct who *who);
int who_compare(const struct who *a, const struct who *b);
void who_find_owner(const struct place *place, struct who *who);
void who_free(struct who *who);
char *who_text(const struct place *place, const struct who *who, bool brief);
void who_json(const struct place *place, struct json *json, const struct who *who);
char *name_netns(const struct place *place, uint64_t inode);
const char *name_cgroup(const struct place *place, uint64_t id, const char **pod);
char *name_comm(const struct place *place, uint64_t pid);
bool netns_inode(const struct place *place, const char *name, uint64_t *inode);
char *netns_sysctl(const struct place *place, uint64_t inode, const char *name);
void names_forget(void);

#endif
