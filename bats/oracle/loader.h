/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Code shared by the loaders of the BPF programs. A loader calls load(), then answer(), which
 * prints "ready" and answers the commands "show" and "reset" on stdin, each with lines of which
 * the last is a dot, until stdin ends.
 */
#ifndef ORACLE_LOADER_H
#define ORACLE_LOADER_H

#include <errno.h>
#include <linux/types.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

static struct bpf_object *object;
static int totals_fd;
static size_t reset_size;
static unsigned long long missed_before;

static _Noreturn void die(const char *what, int err)
{
	fprintf(stderr, "oracle: %s: %s\n", what, strerror(err));
	exit(1);
}

/*
 * Loads the file that is named on the command line. The counts are in its map totals; a reset
 * clears the first @reset of their bytes.
 */
static void load(int argc, char **argv, size_t reset)
{
	struct bpf_program *prog;
	struct btf *btf;

	if (argc != 2) {
		fprintf(stderr, "usage: %s PROGRAMS.bpf.o\n", argv[0]);
		exit(2);
	}
	btf = btf__load_vmlinux_btf();
	if (!btf)
		die("cannot read the kernel's BTF", errno);
	object = bpf_object__open_file(argv[1], NULL);
	if (!object)
		die(argv[1], errno);
	/* Programs named maybe_* are only loaded if the kernel has their function. */
	bpf_object__for_each_program(prog, object) {
		const char *function = strchr(bpf_program__section_name(prog), '/');

		if (!strncmp(bpf_program__name(prog), "maybe_", 6) && function &&
		    btf__find_by_name_kind(btf, function + 1, BTF_KIND_FUNC) < 0)
			bpf_program__set_autoload(prog, false);
	}
	btf__free(btf);
	if (bpf_object__load(object))
		die("the kernel does not take the programs", errno);
	bpf_object__for_each_program(prog, object)
		if (bpf_program__autoload(prog) && !bpf_program__attach(prog))
			die(bpf_program__name(prog), errno);
	totals_fd = bpf_object__find_map_fd_by_name(object, "totals");
	if (totals_fd < 0)
		die("totals", -totals_fd);
	reset_size = reset;
}

static void get(void *totals)
{
	__u32 zero = 0;

	if (bpf_map_lookup_elem(totals_fd, &zero, totals))
		die("cannot read the totals", errno);
}

static void reset(void)
{
	char totals[4096];
	__u32 zero = 0;

	get(totals);
	memset(totals, 0, reset_size);
	if (bpf_map_update_elem(totals_fd, &zero, totals, BPF_ANY))
		die("cannot write the totals", errno);
}

/*
 * How often the kernel skipped a program because the program was already running on that CPU and
 * was interrupted or preempted. Kernels before 5.12 do not report this.
 */
static unsigned long long missed(void)
{
	unsigned long long sum = 0;
	struct bpf_program *prog;

	bpf_object__for_each_program(prog, object) {
		struct bpf_prog_info info = { 0 };
		__u32 size = sizeof(info);

		if (!bpf_program__autoload(prog))
			continue;
		if (bpf_obj_get_info_by_fd(bpf_program__fd(prog), &info, &size))
			die(bpf_program__name(prog), errno);
		sum += info.recursion_misses;
	}
	return sum;
}

static int answer(void (*show)(void))
{
	char line[32];

	puts("ready");
	while (fflush(stdout), fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, "show\n")) {
			show();
			printf("missed %llu\n", missed() - missed_before);
		} else if (!strcmp(line, "reset\n")) {
			reset();
			missed_before = missed();
		} else {
			fprintf(stderr, "oracle: no command '%s'\n", line);
			return 2;
		}
		puts(".");
	}
	bpf_object__close(object);
	return 0;
}

#endif
