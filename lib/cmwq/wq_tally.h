/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whether each queueing of an item makes it run, once and alone
 *
 * Each successful queueing owes one run.  Runs that are still owed in the end are lost, and a
 * run that nobody owes is one too many.  A run overlaps another if that has begun and not ended.
 *
 * This needs to know what each call did.  In the torture test others cancel the item meanwhile,
 * so it has bounds for what is owed: see wqtorture_item.c.
 */
#ifndef _LIB_WQ_TALLY_H
#define _LIB_WQ_TALLY_H

#include <linux/atomic.h>
#include <linux/minmax.h>

/* Returns false if the run is one too many. */
static inline bool wq_tally_ran(atomic_t *owed)
{
	return atomic_dec_return(owed) >= 0;
}

static inline unsigned int wq_tally_lost(const atomic_t *owed)
{
	return max(atomic_read(owed), 0);
}

static inline unsigned int wq_tally_excess(const atomic_t *owed)
{
	return max(-atomic_read(owed), 0);
}

/* Returns false if the run overlaps another. */
static inline bool wq_tally_begins(atomic_t *inside)
{
	return atomic_inc_return(inside) == 1;
}

static inline void wq_tally_ends(atomic_t *inside)
{
	atomic_dec(inside);
}

#endif /* _LIB_WQ_TALLY_H */
