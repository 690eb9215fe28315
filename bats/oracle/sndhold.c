// SPDX-License-Identifier: GPL-2.0
/*
 * Loads sndhold.bpf.o and shows its counts, with times in nanoseconds, under the names of the
 * module's files. A reset keeps holds in progress.
 */
#include "sndhold.h"
#include "loader.h"

static void show(void)
{
	static const char * const causes[] = { "nagle", "cork" };
	struct totals t;

	get(&t);
	for (int c = 0; c < CAUSES; c++) {
		printf("%s %llu\n", causes[c], t.holds[c]);
		printf("%s_time_ns %llu\n", causes[c], t.time[c]);
		printf("%s_time_max_ns %llu\n", causes[c], t.longest[c]);
	}
	printf("cork_timeouts %llu\n", t.timeouts);
	printf("peer_delays %llu\n", t.peer_delays);
	printf("peer_delay_ns %llu\n", t.peer_delay);
	printf("purged %llu\n", t.purged);
	printf("left %llu\n", t.left);
	printf("errors %llu\n", t.errors);
}

int main(int argc, char **argv)
{
	load(argc, argv, sizeof(struct totals));
	return answer(show);
}
