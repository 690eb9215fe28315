/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of the delay histogram at each HZ, and of the handlers with times that are too long for
 * other tests.
 */
#include "tcplat-kunit.h"

static const u64 delay_bounds[] = {
	1000, 2000, 4000, 8000, 10000, 20000, 30000, 40000, 50000, 60000,
	80000, 100000, 120000, 160000, 200000,
};

/*
 * A delay is converted before its bucket is chosen. Rounding must not move it across a bound:
 * the bucket must be that of the exact delay.
 */
static void delack_every_delay_in_jiffies(struct kunit *test)
{
	const unsigned int n = ARRAY_SIZE(delay_le_us) + 1;
	u64 j;

	KUNIT_ASSERT_EQ(test, ARRAY_SIZE(delay_le_us), ARRAY_SIZE(delay_bounds));
	KUNIT_EXPECT_MEMEQ(test, delay_le_us, delay_bounds, sizeof(delay_bounds));
	for (j = 0; j <= 2 * HZ; j++) {
		unsigned int bucket = 0;

		while (bucket < ARRAY_SIZE(delay_bounds) &&
		       j * USEC_PER_SEC > delay_bounds[bucket] * HZ)
			bucket++;
		KUNIT_ASSERT_EQ_MSG(test, tcplat_bucket(delay_le_us, n, tcplat_jiffies_to_us(j)),
				    bucket, "%llu jiffies", j);
	}
}

/* debugfs has one line per jiffy up to the longest delay of an ACK, and one beyond. */
static void delack_per_jiffy_file(struct kunit *test)
{
	struct seq_file *seq = kunit_seq(test);
	unsigned int lines = 0;
	char text[16], *c;

	KUNIT_EXPECT_EQ(test, DELAY_JIFFY_BUCKETS, TCP_DELACK_MAX + 2);
	delay_jiffies_show(seq);
	KUNIT_ASSERT_FALSE(test, seq_has_overflowed(seq));
	for (c = strchr(seq->buf, '\n'); c && c[1]; c = strchr(c + 1, '\n'), lines++) {
		snprintf(text, sizeof(text), lines <= TCP_DELACK_MAX ? "\n%u " : "\n>%u ",
			 min_t(unsigned int, lines, TCP_DELACK_MAX));
		KUNIT_EXPECT_TRUE_MSG(test, strstarts(c, text), "line %u", lines);
	}
	KUNIT_EXPECT_EQ(test, lines, DELAY_JIFFY_BUCKETS);
}

/* Ages of the last data, from 0 to the largest that 32 bits can hold. */
static const u32 delack_ages[] = {
	0, 1, HZ / 25, HZ, 300 * HZ, 301 * HZ, 0x7ffffffe, 0x7fffffff, 0x80000000,
	0x80000001, U32_MAX - HZ,
};

/* A socket whose delayed-ACK timer is pending. */
static struct sock *delack_sock(struct kunit *test)
{
	struct sock *sk = kunit_sock(test);

	/* A free word is 0. */
	tcp_sk(sk)->rcv_wup = 0xabcd1234;
	tcp_sk(sk)->rcv_nxt = tcp_sk(sk)->rcv_wup;
	inet_csk(sk)->icsk_ack.pending = ICSK_ACK_SCHED | ICSK_ACK_TIMER;
	return sk;
}

/* The ACK is as late as @age, and as much more as has passed since @then. */
static void delack_expect_delay(struct kunit *test, const struct sock *sk, u32 age, u32 then)
{
	bool pieces;
	u32 delay = ack_delay(sk, jiffies, &pieces);

	KUNIT_EXPECT_LE_MSG(test, delay - age, tcp_jiffies32 - then, "%u instead of %u", delay,
			    age);
}

/* Sets the expiry, which the kernel keeps from the first data on. */
static void delack_set_expiry(struct sock *sk, unsigned long expiry)
{
#ifdef TCPLAT_HAVE_ICSK_DELACK_TIMEOUT
	inet_csk(sk)->icsk_delack_timer.expires = expiry;
#else
	inet_csk(sk)->icsk_ack.timeout = expiry;
#endif
}

/* Data is received at @first and at @last, with no ACK in between. */
static void delack_data(struct sock *sk, u32 first, u32 last)
{
	delack_set_expiry(sk, first + HZ / 25);
	inet_csk(sk)->icsk_ack.lrcvtime = first;
	keep_oldest(sk);
	inet_csk(sk)->icsk_ack.lrcvtime = last;
	tcp_sk(sk)->rcv_nxt += 100;
}

/* The same decision as in tcp_delack_timer_handler(), and whether data waits for an ACK. */
static void delack_sends_ack(struct kunit *test)
{
	struct sock *sk = delack_sock(test);
	struct inet_connection_sock *icsk = inet_csk(sk);
	int state;

	delack_set_expiry(sk, jiffies);
	icsk->icsk_ack.lrcvtime = tcp_jiffies32 - 5;
	for (state = TCP_ESTABLISHED; state < TCP_MAX_STATES; state++) {
		sk->sk_state = state;
		icsk->icsk_ack.pending = ICSK_ACK_SCHED | ICSK_ACK_TIMER;
		KUNIT_EXPECT_EQ_MSG(test, tcplat_delack_sends_ack(sk),
				    state != TCP_CLOSE && state != TCP_LISTEN, "state %d", state);
		KUNIT_EXPECT_TRUE(test, tcplat_delack_owes(sk));
		/* For example, data out of order, which does not set lrcvtime. */
		icsk->icsk_ack.pending = ICSK_ACK_SCHED;
		KUNIT_EXPECT_FALSE(test, tcplat_delack_sends_ack(sk));
		KUNIT_EXPECT_FALSE(test, tcplat_delack_owes(sk));
		icsk->icsk_ack.pending = ICSK_ACK_TIMER;
		KUNIT_EXPECT_FALSE(test, tcplat_delack_sends_ack(sk));
	}
	/* The timer was set to a later time. */
	sk->sk_state = TCP_ESTABLISHED;
	icsk->icsk_ack.pending = ICSK_ACK_SCHED | ICSK_ACK_TIMER;
	delack_set_expiry(sk, jiffies + HZ);
	KUNIT_EXPECT_FALSE(test, tcplat_delack_sends_ack(sk));
#ifdef TCPLAT_HAVE_TCP_SACK_COMPRESS_SEND_ACK
	/* The timer sends compressed SACKs and returns. */
	delack_set_expiry(sk, jiffies);
	tcp_sk(sk)->compressed_ack = 1;
	KUNIT_EXPECT_FALSE(test, tcplat_delack_sends_ack(sk));
#endif
}

/* For any age, and across the wrap of 16 and 32 bits. */
static void delack_delay_of_the_oldest(struct kunit *test)
{
	static const u32 rows[] = {
		1, HZ / 25, HZ, 0xfffe, 0xffff, 0x10000, 0x10001, 300 * HZ, 0x7fffffff,
	};
	struct sock *sk = delack_sock(test);
	u32 before;

	for_each_row() {
		tcp_sk(sk)->rcv_wup++;
		before = tcp_jiffies32;
		delack_data(sk, before - *row, before - *row / 2);
		/* Each later segment calls this, too. */
		keep_oldest(sk);
		delack_expect_delay(test, sk, *row, before);
	}

	/* An ACK of DCTCP left the timer, which has expired, for data that came later. */
	tcp_sk(sk)->rcv_wup++;
	before = tcp_jiffies32;
	delack_data(sk, before - 2, before - 1);
	delack_set_expiry(sk, before - 12);
	delack_expect_delay(test, sk, 2, before);

	/* Without memory for the ACK, the kernel sets the timer again, up to 120 s ahead. */
	tcp_sk(sk)->rcv_wup++;
	before = tcp_jiffies32;
	delack_data(sk, before - 119 * HZ, before - 118 * HZ);
	delack_set_expiry(sk, before + HZ);
	delack_expect_delay(test, sk, 119 * HZ, before);

#ifdef CONFIG_MPTCP
	tcp_sk(sk)->is_mptcp = true;
	tcp_sk(sk)->rcv_nxt = tcp_sk(sk)->rcv_wup + 1;
	delack_expect_delay(test, sk, 119 * HZ, before);
	tcp_sk(sk)->rcv_wup = tcp_sk(sk)->rcv_nxt;
	delack_expect_delay(test, sk, 0, tcp_jiffies32);
#endif
}

/* A word is invalid once an ACK was sent, which changes rcv_wup. */
static void delack_oldest_until_the_ack(struct kunit *test)
{
	struct sock *sk = delack_sock(test);
	struct tcp_sock *tp = tcp_sk(sk);
	u64 hash = tcplat_sock_hash(sk);
	const u64 *words = owed_set_of(hash)->words;
	unsigned int i, n = 0;
	u32 before = tcp_jiffies32;

	delack_data(sk, before - 20, before - 3);
	tp->rcv_wup = tp->rcv_nxt;
	delack_expect_delay(test, sk, 3, before);
	before = tcp_jiffies32;
	delack_data(sk, before - 10, before - 3);
	delack_expect_delay(test, sk, 10, before);

	/* The socket's old word was replaced. */
	for (i = 0; i < OWED_SET_WORDS; i++)
		n += words[i] && !((words[i] ^ owed_word(sk, hash)) >> OWED_TAG_SHIFT);
	KUNIT_EXPECT_EQ(test, n, 1);
	KUNIT_EXPECT_EQ(test, tcplat_sum(&tcplat_delack, DELAY_EVICTIONS), 0);
}

/* New data goes into word @n of the socket's set; @evictions were counted so far. */
static void delack_goes_into(struct kunit *test, struct sock *sk, unsigned int n, u64 evictions)
{
	u64 hash = tcplat_sock_hash(sk);
	const u64 *words = owed_set_of(hash)->words;

	delack_data(sk, tcp_jiffies32 - 2, tcp_jiffies32);
	KUNIT_EXPECT_EQ_MSG(test, words[n] >> OWED_WUP_SHIFT,
			    owed_word(sk, hash) >> OWED_WUP_SHIFT, "word %u", n);
	KUNIT_EXPECT_EQ_MSG(test, tcplat_sum(&tcplat_delack, DELAY_EVICTIONS), evictions,
			    "word %u", n);
}

/* A full set evicts its oldest word, and counts that if the word may be in use. */
static void delack_evictions(struct kunit *test)
{
	struct sock *sk = delack_sock(test);
	u64 hash = tcplat_sock_hash(sk);
	u64 *words = owed_set_of(hash)->words;
	u64 other = owed_word(sk, hash) ^ 1ULL << 60;
	u32 now = tcp_jiffies32;
	unsigned int i;

	for (i = 0; i < OWED_SET_WORDS; i++)
		words[i] = (other ^ (u64)i << OWED_TAG_SHIFT) | ((now - i) & OWED_JIFFY_MASK);
	words[3] = (other ^ 3ULL << OWED_TAG_SHIFT) |
		   ((now - OWED_MAX_AGE - 10) & OWED_JIFFY_MASK);
	delack_goes_into(test, sk, 3, 0);

	words[3] = (other ^ 3ULL << OWED_TAG_SHIFT) | (now & OWED_JIFFY_MASK);
	delack_goes_into(test, sk, OWED_SET_WORDS - 1, 1);

	words[2] = 0;
	tcp_sk(sk)->rcv_wup++;
	words[OWED_SET_WORDS - 1] = (other ^ (u64)i << OWED_TAG_SHIFT) | (now & OWED_JIFFY_MASK);
	delack_goes_into(test, sk, 2, 1);
	memset(words, 0, sizeof(*owed));
}

/*
 * Delays across the wrap of TCP's clock: since the last data, or, if only a FIN is to be
 * acknowledged, since the last segment, as the kernel does not store the time of the FIN.
 */
static void delack_delay_over_the_wrap(struct kunit *test)
{
	struct sock *sk = delack_sock(test);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 before;
	int i;

	/* Sequence numbers wrap, too. */
	tp->rcv_wup = U32_MAX;
	for (i = 0; i < ARRAY_SIZE(delack_ages); i++) {
		u32 age = delack_ages[i], other = age / 2 + 1;

		before = tcp_jiffies32;
		inet_csk(sk)->icsk_ack.lrcvtime = before - age;
		tp->rcv_tstamp = before - other;
		/* A byte of data is not a FIN. If a FIN follows data, the data is the oldest. */
		sock_reset_flag(sk, SOCK_DONE);
		tp->rcv_nxt = 0;
		delack_expect_delay(test, sk, age, before);
		sock_set_flag(sk, SOCK_DONE);
		tp->rcv_nxt = 1;
		delack_expect_delay(test, sk, age, before);

		tp->rcv_nxt = 0;
		inet_csk(sk)->icsk_ack.lrcvtime = before - other;
		tp->rcv_tstamp = before - age;
		delack_expect_delay(test, sk, age, before);
	}
}

/* With the handler: sums have 64 bits, and delays longer than any bound have a bucket. */
static void delack_handler_counts_any_delay(struct kunit *test)
{
	const struct tcplat_group *group = &tcplat_delack;
	struct sock *sk = delack_sock(test);
	u64 least = 0, most = 0;
	u32 before;
	int i;

	for (i = 0; i < 3 * ARRAY_SIZE(delack_ages); i++) {
		u32 age = delack_ages[i / 3];

		before = tcp_jiffies32;
		inet_csk(sk)->icsk_ack.lrcvtime = before - age;
		KUNIT_HANDLE(expiry_entry(sk, 0, 0));
		least += age;
		most += age + tcplat_jiffies32_since(tcp_jiffies32, before);
	}
	KUNIT_EXPECT_GT(test, least, 3ULL << 32);
	KUNIT_EXPECT_GE(test, tcplat_sum(group, DELAY_JIFFIES), least);
	KUNIT_EXPECT_LE(test, tcplat_sum(group, DELAY_JIFFIES), most);
	KUNIT_EXPECT_GE(test, tcplat_max(group, DELAY_MAX_JIFFIES), U32_MAX - HZ);
	KUNIT_EXPECT_LE(test, tcplat_max(group, DELAY_MAX_JIFFIES), U32_MAX);
	/* All delays but those of 0, 1 and HZ/25 ticks. */
	KUNIT_EXPECT_SUMS(test, { TIMEOUTS, i },
			  { DELAY_HIST + ARRAY_SIZE(delay_bounds), i - 9 },
			  { DELAY_JIFFY + DELAY_JIFFY_BUCKETS - 1, i - 9 });
}

/* For any value of jiffies; for a timer that is not late; and never more than the delay. */
static void delack_lateness(struct kunit *test)
{
	static const unsigned long expiries[] = {
		0, 1, HZ, U32_MAX - 300UL * HZ, U32_MAX - 1, U32_MAX, 1UL << 32,
		LONG_MAX - 1, LONG_MAX, LONG_MAX + 1UL, ULONG_MAX - HZ, ULONG_MAX,
	};
	static const u32 lates[] = { 0, 1, 7, 8, HZ / 25, HZ };
	static const u32 asked[] = { 0, 1, HZ / 25, HZ / 5, 4 * HZ };
	int i, j;

	for (i = 0; i < ARRAY_SIZE(expiries); i++) {
		unsigned long at = expiries[i];

		for (j = 0; j < ARRAY_SIZE(lates) * ARRAY_SIZE(asked); j++) {
			u32 late = lates[j % ARRAY_SIZE(lates)];
			u32 delay = late + asked[j / ARRAY_SIZE(lates)];

			KUNIT_EXPECT_EQ_MSG(test, tcplat_delack_lateness(at + late, at, delay),
					    late, "%lx, %u of %u", at, late, delay);
		}
		/* The data was received after the expiry: all of its delay is late. */
		KUNIT_EXPECT_EQ(test, tcplat_delack_lateness(at + 50, at, 20), 20);
		KUNIT_EXPECT_EQ(test, tcplat_delack_lateness(at + 50, at, 0), 0);
		KUNIT_EXPECT_EQ(test, tcplat_delack_lateness(at + (1UL << 40), at, U32_MAX),
				U32_MAX);
		/* The timer has not expired yet. */
		KUNIT_EXPECT_EQ(test, tcplat_delack_lateness(at - 1, at, 20), 0);
		KUNIT_EXPECT_EQ(test, tcplat_delack_lateness(at - HZ, at, 20), 0);
	}
}

/* With the handler, exact to the jiffy: on time, a tick late, and deferred by a user. */
static void delack_handler_counts_late(struct kunit *test)
{
	static const struct {
		/* Jiffies since the first of two pieces of data, the last one, and the expiry. */
		u32 first, last, late;
		u32 counted;
	} rows[] = {
		{ 0, HZ / 25 + 1, 1, 1 },
		{ 0, HZ / 25, 0, 0 },
		{ 0, 0, 0, 0 },
		{ 0, HZ / 10, HZ / 10 - HZ / 25, HZ / 10 - HZ / 25 },
		/* Set again because there was no memory for the ACK: longer than one ATO. */
		{ 0, 3 * HZ, 2, 2 },
		/* A user held the socket at the expiry, and the data was processed after it. */
		{ 0, 3, 60, 3 },
		{ 0, 0, 60, 0 },
		/* The time from the first piece to the expiry was asked for. */
		{ HZ / 25 + HZ / 50 + 2, 1, HZ / 50 + 2, HZ / 50 + 2 },
	};
	struct sock *sk = delack_sock(test);
	unsigned long now;

	for_each_row() {
		preempt_disable();
		do {
			tcplat_counters_reset(&tcplat_delack);
			tcp_sk(sk)->rcv_wup++;
			now = jiffies;
			inet_csk(sk)->icsk_ack.lrcvtime = (u32)now - row->last;
			if (row->first)
				delack_data(sk, now - row->first, now - row->last);
			delack_set_expiry(sk, now - row->late);
			expiry_entry(sk, 0, 0);
		} while (time_after(jiffies, now));
		preempt_enable();
		KUNIT_EXPECT_SUMS(test, { TIMEOUTS, 1 }, { LATE_JIFFIES, row->counted },
				  { DELAY_JIFFIES, row->first ?: row->last });
		KUNIT_EXPECT_ROW(test, tcplat_max(&tcplat_delack, LATE_MAX_JIFFIES), row->counted);
	}
}

/*
 * Only late ACKs that the peer may have waited for are kept. Unread data counts, unless the
 * program wants to be woken up for more than there is.
 */
static void delack_late_acks(struct kunit *test)
{
	static const struct {
		bool pieces;
		u32 unread, lowat;
		bool late, counted;
	} rows[] = {
		{ false, 0, 1, true, false },
		{ true, 0, 1, false, false },
		{ false, 1, 1, false, true },
		{ true, 1, 1, false, true },
		{ false, 99, 100, true, false },
		{ false, 100, 100, false, true },
	};
	struct sock *sk = delack_sock(test);
	struct tcplat_late_set *set = tcplat_late_set_of(sk), saved = *set;
	struct tcp_sock *tp = tcp_sk(sk);
	struct sk_buff *skb = kunit_new(test, sizeof(*skb));
	unsigned int way;
	u32 delay;

	for_each_row() {
		tcplat_counters_reset(&tcplat_delack);
		tp->copied_seq = tp->rcv_nxt - row->unread;
		sk->sk_rcvlowat = row->lowat;
		KUNIT_HANDLE(note_late_ack(sk, 3, row->pieces, tcplat_delack_unread(sk)));
		KUNIT_EXPECT_ROW(test, tcplat_is_late(sk), row->late);
		KUNIT_EXPECT_ROW(test, tcplat_sum(&tcplat_delack, TIMEOUTS_UNREAD), row->counted);
		tcplat_stall_end(sk, skb, &delay);
		KUNIT_EXPECT_FALSE(test, tcplat_is_late(sk));
	}
	/* Others are written in all places where it could be kept. */
	KUNIT_EXPECT_EQ(test, tcplat_sum(&tcplat_delack, STALL_EVICTIONS), 0);
	for (way = 0; way < TCPLAT_LATE_WAYS; way++)
		set->keys[way] = 0xffff000000001001 + 64 * way;
	KUNIT_HANDLE(note_late_ack(sk, 3, false, false));
	KUNIT_EXPECT_EQ(test, tcplat_sum(&tcplat_delack, STALL_EVICTIONS), 1);
	*set = saved;
	/* The sequence number of a FIN is not unread data. */
	tp->copied_seq = tp->rcv_nxt - 1;
	sk->sk_rcvlowat = 1;
	KUNIT_EXPECT_TRUE(test, tcplat_delack_unread(sk));
	sock_set_flag(sk, SOCK_DONE);
	KUNIT_EXPECT_FALSE(test, tcplat_delack_unread(sk));
}

TCPLAT_GROUP_SUITE(delack,
		   KUNIT_CASE(delack_every_delay_in_jiffies),
		   KUNIT_CASE(delack_per_jiffy_file),
		   KUNIT_CASE(delack_delay_over_the_wrap),
		   KUNIT_CASE(delack_handler_counts_any_delay),
		   KUNIT_CASE(delack_sends_ack),
		   KUNIT_CASE(delack_delay_of_the_oldest),
		   KUNIT_CASE(delack_oldest_until_the_ack),
		   KUNIT_CASE(delack_evictions),
		   KUNIT_CASE(delack_lateness),
		   KUNIT_CASE(delack_handler_counts_late),
		   KUNIT_CASE(delack_late_acks));
