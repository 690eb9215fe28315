// SPDX-License-Identifier: GPL-2.0
/*
 * Loads ackmode.bpf.o, says "ready", and then answers commands on stdin:
 *
 *	show	the counts, in the words of the module's `transitions`
 *	reset	makes them zero; what is known of the sockets stays
 *
 * Each answer ends with a line that is a dot. It ends at the end of stdin.
 */
#include <errno.h>
#include <linux/types.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "ackmode.h"

static const char * const modes[] = { "delayed", "quickack", "pingpong", "route" };
static const char * const causes[] = { "none", "timeout", "setsockopt" };
static const char * const events[] = {
	"birth", "transmit", "receive", "timer", "set", "death"
};

static struct bpf_object *object;
static int totals_fd;
static unsigned long long missed_before;

static _Noreturn void die(const char *what, int err)
{
	fprintf(stderr, "oracle: %s: %s\n", what, strerror(err));
	exit(1);
}

static void load(const char *path)
{
	struct bpf_program *prog;

	object = bpf_object__open_file(path, NULL);
	if (!object)
		die(path, errno);
	if (bpf_object__load(object))
		die("the kernel does not take the programs", errno);
	bpf_object__for_each_program(prog, object)
		if (!bpf_program__attach(prog))
			die(bpf_program__name(prog), errno);
	totals_fd = bpf_object__find_map_fd_by_name(object, "totals");
	if (totals_fd < 0)
		die("totals", -totals_fd);
}

static void get(struct totals *t)
{
	__u32 zero = 0;

	if (bpf_map_lookup_elem(totals_fd, &zero, t))
		die("cannot read the totals", errno);
}

/*
 * How often the kernel has not run a program, since it was running on that CPU: an
 * interrupt came, or another task. Kernels before 5.12 do not tell.
 */
static unsigned long long missed(void)
{
	unsigned long long sum = 0;
	struct bpf_program *prog;

	bpf_object__for_each_program(prog, object) {
		struct bpf_prog_info info = { 0 };
		__u32 size = sizeof(info);

		if (bpf_obj_get_info_by_fd(bpf_program__fd(prog), &info, &size))
			die(bpf_program__name(prog), errno);
		sum += info.recursion_misses;
	}
	return sum;
}

static void show(void)
{
	struct totals t;

	get(&t);
	for (int from = 0; from < MODES; from++)
		for (int to = 0; to < MODES; to++)
			for (int c = 0; from != to && c < CAUSES; c++)
				printf("%s %s %s %llu\n", modes[from], modes[to],
				       causes[c], t.changes[from][to][c]);
	printf("born delayed %llu\n", t.born);
	for (int m = 0; m < MODES; m++)
		printf("adopted %s %llu\n", modes[m], t.adopted[m]);
	for (int m = 0; m < MODES; m++)
		printf("died %s %llu\n", modes[m], t.died[m]);
	for (int m = 0; m < MODES; m++)
		printf("live %s %lld\n", modes[m], t.live[m]);
	printf("setsockopt %llu\n", t.set);
	for (int e = 0; e < EVENTS; e++)
		printf("events %s %llu\n", events[e], t.events[e]);
	printf("raced %llu\n", t.raced);
	printf("errors %llu\n", t.errors);
	printf("missed %llu\n", missed() - missed_before);
}

static void reset(void)
{
	struct totals t;
	__u32 zero = 0;

	get(&t);
	memset(&t, 0, offsetof(struct totals, live));
	if (bpf_map_update_elem(totals_fd, &zero, &t, BPF_ANY))
		die("cannot write the totals", errno);
	missed_before = missed();
}

int main(int argc, char **argv)
{
	char line[32];

	if (argc != 2) {
		fprintf(stderr, "usage: %s ackmode.bpf.o\n", argv[0]);
		return 2;
	}
	load(argv[1]);
	puts("ready");
	while (fflush(stdout), fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, "show\n")) {
			show();
		} else if (!strcmp(line, "reset\n")) {
			reset();
		} else {
			fprintf(stderr, "oracle: no command '%s'\n", line);
			return 2;
		}
		puts(".");
	}
	bpf_object__close(object);
	return 0;
}
