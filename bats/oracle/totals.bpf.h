/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Code shared by the BPF programs: the map that their loader (loader.h) reads, and the macro that
 * counts. Include it after the header that defines struct totals.
 */
#ifndef ORACLE_TOTALS_BPF_H
#define ORACLE_TOTALS_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct totals);
} totals SEC(".maps");

char _license[] SEC("license") = "GPL";

static const __u32 zero;

#define add(what, n) __sync_fetch_and_add(&(what), n)

#endif
