/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A log-linear histogram of durations in nanoseconds
 *
 * Buckets are 1 ns wide below 2^9. Above, 256 buckets divide each range from 2^n to 2^(n+1). So
 * quantiles are exact below 512 ns, and within 1/256 above. The maximum is exact.
 */
#ifndef _LIB_WQ_HIST_H
#define _LIB_WQ_HIST_H

#include <linux/bitops.h>
#include <linux/bits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>

#define WQ_HIST_SUB_BITS	8
#define WQ_HIST_MAX_BITS	40
#define WQ_HIST_BUCKETS	((WQ_HIST_MAX_BITS - WQ_HIST_SUB_BITS + 1) << WQ_HIST_SUB_BITS)

struct wq_hist {
	u64	total;
	u64	sum;
	u64	max;
	u32	count[WQ_HIST_BUCKETS];
};

static inline unsigned int wq_hist_bucket(u64 ns)
{
	unsigned int shift;

	ns = min_t(u64, ns, BIT_ULL(WQ_HIST_MAX_BITS) - 1);
	shift = max_t(int, fls64(ns) - WQ_HIST_SUB_BITS - 1, 0);
	return (shift << WQ_HIST_SUB_BITS) + (unsigned int)(ns >> shift);
}

/* The highest value that the bucket stands for. */
static inline u64 wq_hist_value(unsigned int bucket)
{
	unsigned int shift = bucket >> WQ_HIST_SUB_BITS;

	shift = shift ? shift - 1 : 0;
	return (((u64)bucket - (shift << WQ_HIST_SUB_BITS) + 1) << shift) - 1;
}

static inline void wq_hist_add(struct wq_hist *hist, u64 ns)
{
	hist->count[wq_hist_bucket(ns)]++;
	hist->total++;
	hist->sum += ns;
	hist->max = max(hist->max, ns);
}

/*
 * Adds a wait of @ns during which nothing was queued, although an item was due in each @period.
 * Those items would have waited as well.
 */
static inline void wq_hist_add_missed(struct wq_hist *hist, u64 ns, u64 period)
{
	wq_hist_add(hist, ns);
	while (ns > period) {
		ns -= period;
		wq_hist_add(hist, ns);
	}
}

static inline void wq_hist_merge(struct wq_hist *sum, const struct wq_hist *hist)
{
	for (unsigned int i = 0; i < WQ_HIST_BUCKETS; i++)
		sum->count[i] += hist->count[i];
	sum->total += hist->total;
	sum->sum += hist->sum;
	sum->max = max(sum->max, hist->max);
}

/* The smallest value that @per_mille of all samples do not exceed. */
static inline u64 wq_hist_quantile(const struct wq_hist *hist, unsigned int per_mille)
{
	u64 rank = div_u64(hist->total * per_mille + 999, 1000);
	u64 below = 0;

	for (unsigned int i = 0; i < WQ_HIST_BUCKETS; i++) {
		below += hist->count[i];
		if (below && below >= rank)
			return min(wq_hist_value(i), hist->max);
	}
	return hist->max;
}

#endif /* _LIB_WQ_HIST_H */
