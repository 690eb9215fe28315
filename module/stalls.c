// SPDX-License-Identifier: GPL-2.0
/*
 * Stalls: a peer that sends data as soon as it has received a late ACK was waiting for that ACK.
 *
 * At the delayed-ACK timer, the late ACK is stored in a table of sockets. The next data of the
 * socket removes it. The kernel counts the segments that a socket sends: if the count says that
 * nothing was sent since the ACK, and the data comes a round trip after it, the ACK released the
 * data. The kernel sends no segment of its own in between: the ACK that DCTCP sends when the CE
 * mark changes needs a pending delayed-ACK timer, and so data since the late ACK.
 *
 * The table need not see sockets being destroyed: the sequence number of the data and the count
 * of segments sent tell a later socket at the same address from the earlier one.
 */
#include <linux/atomic.h>
#include <linux/kprobes.h>
#include <linux/timekeeping.h>

#include "stalls.h"
#include "tcplat.h"

/**
 * struct late - a late ACK
 * @since: when it was sent, in ns
 * @rcv_nxt: first byte of the data that it may release
 * @segs_out: number of segments that the socket has sent, including this ACK
 * @most: when the peer's data can no longer be due to the ACK, in us after @since
 * @delay: delay of the ACK, in jiffies
 * @echoed: data that the peer sends after receiving this ACK echoes the ACK's timestamp
 */
struct late {
	u64 since;
	u32 rcv_nxt;
	u32 segs_out;
	u32 most;
	u32 delay:31;
	u32 echoed:1;
};

/*
 * A key is the socket's address. It has BUSY set while its struct late is written, by the owner
 * of the socket's lock; nobody else reads or replaces it meanwhile.
 */
#define BUSY	1ULL

struct tcplat_late_set *tcplat_late_sets __read_mostly;
static struct late *lates __read_mostly;

static __always_inline struct late *late_of(const struct tcplat_late_set *set, unsigned int way)
{
	return &lates[(set - tcplat_late_sets) * TCPLAT_LATE_WAYS + way];
}

/**
 * tcplat_stalls_alloc() - allocate the table
 *
 * Context: process, may sleep.
 * Return: 0, or -ENOMEM with nothing allocated
 */
int tcplat_stalls_alloc(void)
{
	tcplat_late_sets = tcplat_table_alloc(1UL << TCPLAT_LATE_SETS_SHIFT,
					      sizeof(*tcplat_late_sets));
	lates = tcplat_table_alloc(TCPLAT_LATE_WAYS << TCPLAT_LATE_SETS_SHIFT, sizeof(*lates));
	if (tcplat_late_sets && lates)
		return 0;
	tcplat_stalls_free();
	return -ENOMEM;
}

/**
 * tcplat_stalls_free() - free the table
 *
 * Context: process, may sleep; no handler runs.
 */
void tcplat_stalls_free(void)
{
	vfree(lates);
	vfree(tcplat_late_sets);
	lates = NULL;
	tcplat_late_sets = NULL;
}

/**
 * tcplat_stall_begin() - note that a late ACK is about to be sent
 * @sk: the socket, locked, whose delayed-ACK timer is about to send the ACK
 * @delay: delay of the ACK, in jiffies
 *
 * The peer echoes the timestamp of an ACK only if it has acknowledged all data before the ACK.
 *
 * Context: any.
 * Return: false if another late ACK, whose data may still come, was forgotten, or this one
 */
bool __kprobes tcplat_stall_begin(const struct sock *sk, u32 delay)
{
	struct tcplat_late_set *set = tcplat_late_set_of(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	u64 now = ktime_get_mono_fast_ns();
	u64 own = tcplat_sock_key(sk);
	u64 key, replaced, since, age, max_age;
	unsigned int i, way;
	struct late *late;
	bool in_use;

	do {
		way = TCPLAT_LATE_WAYS;
		for (i = 0; i < TCPLAT_LATE_WAYS; i++) {
			key = READ_ONCE(set->keys[i]);
			if (key & BUSY)
				continue;
			since = READ_ONCE(late_of(set, i)->since);
			age = now > since ? now - since : 0;
			/* Replace this socket's own entry, else a free one, else the oldest. */
			if (key == own)
				age = U64_MAX;
			else if (!key)
				age = U64_MAX - 1;
			if (way < TCPLAT_LATE_WAYS && age <= max_age)
				continue;
			way = i;
			replaced = key;
			max_age = age;
		}
		if (way == TCPLAT_LATE_WAYS)
			return false;
	} while (cmpxchg(&set->keys[way], replaced, own | BUSY) != replaced);

	late = late_of(set, way);
	in_use = max_age < U64_MAX - 1 && max_age <= (u64)late->most * NSEC_PER_USEC;
	WRITE_ONCE(late->since, now);
	late->rcv_nxt = tp->rcv_nxt;
	late->segs_out = tp->segs_out + 1;
	late->delay = delay;
	late->echoed = tp->rx_opt.tstamp_ok && tp->snd_una == tp->snd_nxt;
	late->most = min_t(u64, U32_MAX, tcplat_stall_window(tcp_min_rtt(tp), tp->mdev_us,
							     late->echoed).most);
	/* The struct late is complete before another CPU may replace it. */
	smp_store_release(&set->keys[way], own);
	return !in_use;
}

/* Removes the socket's late ACK from the table, and copies it to @late. */
static bool __kprobes remove_late(const struct sock *sk, struct late *late)
{
	struct tcplat_late_set *set = tcplat_late_set_of(sk);
	u64 key = tcplat_sock_key(sk);
	unsigned int i;

	for (i = 0; i < TCPLAT_LATE_WAYS; i++) {
		if (READ_ONCE(set->keys[i]) != key)
			continue;
		*late = *late_of(set, i);
		/* If another socket has replaced the key, the copy may be of both. */
		return cmpxchg(&set->keys[i], key, 0) == key;
	}
	return false;
}

/**
 * tcplat_stall_end() - whether the data that was received was released by a late ACK
 * @sk: the socket, locked
 * @skb: the data
 * @delay: set to the delay of the ACK, in jiffies
 *
 * Context: any, at the entry of tcp_event_data_recv().
 * Return: true if the peer sent the data because it had received the ACK
 */
bool __kprobes tcplat_stall_end(const struct sock *sk, const struct sk_buff *skb, u32 *delay)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct late late;

	if (!remove_late(sk, &late))
		return false;
	*delay = late.delay;
	if (tp->segs_out != late.segs_out || after(TCP_SKB_CB(skb)->seq, late.rcv_nxt) ||
	    !after(TCP_SKB_CB(skb)->end_seq, late.rcv_nxt))
		return false;
	if (late.echoed && !tcplat_echoes(tp->rx_opt.rcv_tsecr, late.since, tcplat_usec_ts(tp)))
		return false;
	return tcplat_stalled(tcplat_ns_since(late.since),
			      tcplat_stall_window(tcp_min_rtt(tp), tp->mdev_us, late.echoed));
}

#ifdef TCPLAT_KUNIT
#include "../kunit_tests/stalls-kunit.h"
#endif
