/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The module that the selftests drive, wq_test_helper: what its files share
 *
 * wqhelp_main.c	the files in debugfs, begin and end
 * wqhelp_input.c	the words that are written to them
 * wqhelp_queue.c	workqueues
 * wqhelp_count.c	counters, and the order in which items started
 * wqhelp_load.c	submitters, and where and when their items ran
 * wqhelp_single.c	single items, which run until they are released
 * wqhelp_rider.c	BH items that meet the end of their CPU
 * wqhelp_delay.c	delayed items
 * wqhelp_cancel.c	items that are cancelled before they run
 * wqhelp_relay.c	a slot that passes from item to item
 * wqhelp_misuse.c	what the workqueue warns of
 * wqhelp_map.c		which worker runs an item, and where
 * wqhelp_occupy.c	a thread that keeps a CPU busy
 * wqhelp_console.c	a console that queues an item
 */
#ifndef _LIB_WQHELP_H
#define _LIB_WQHELP_H

#include <linux/atomic.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/processor.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "wq_tally.h"

#define WQH_MAX_SERIES		1024
#define WQH_NAME_LEN		24
#define WQH_SETTLE		(30 * HZ)

enum wqh_counter {
	WQH_QUEUED,		/* items handed to the workqueue */
	WQH_RAN,		/* executions that began */
	WQH_LOST,		/* queued and never run */
	WQH_TWICE,		/* ran more often than queued */
	WQH_REENTERED,		/* began while the same item still ran */
	WQH_REFUSED,		/* an idle item that queueing refused */
	WQH_EARLY,		/* still ran after the cancel had returned */
	WQH_CAUGHT,		/* ran when it was about to be cancelled */
	WQH_PLACED,		/* executions whose place was checked */
	WQH_OUTSIDE,		/* ran outside the pod of the queueing CPU */
	WQH_WRONG_CPU,		/* per-CPU item that left its online CPU */
	WQH_MISORDERED,		/* item that has to keep its order, but overtook another */
	WQH_RESCUED,		/* run by a rescuer */
	WQH_PEAK,		/* most that ran at once; per CPU if bound */
	WQH_GAP_MS,		/* longest time in which nothing began */
	WQH_NR_COUNTERS,
};

/* Nops and hogs that ran one after the other and were queued on the same CPU. */
struct wqh_series {
	int			cpu;
	unsigned int		n;
};

struct wqh_queue {
	struct list_head	node;		/* in the list of all */
	struct workqueue_struct	*wq;
	struct dentry		*dir;
	unsigned int		flags;		/* constant */
	bool			ordered;	/* constant */
	bool			no_sysfs;	/* constant */
	bool			devm;		/* constant */
	bool			killed;		/* constant */
	struct device		*dev;		/* constant: owns @wq if @devm */
	char			name[WQH_NAME_LEN];

	/* Serialises load, pods and resets of the counters. */
	struct mutex		load_mutex;
	struct wqh_thread	*threads;	/* load_mutex */
	unsigned int		nr_threads;	/* load_mutex */
	unsigned int		spin_us;	/* constant while load runs */
	unsigned int		sleep_us;	/* constant while load runs */
	bool			local;		/* constant while load runs */
	unsigned int		from;		/* the same; nr_cpu_ids: any CPU */
	struct cpumask		*pods;		/* by CPU; constant while load runs */

	atomic64_t		counters[WQH_NR_COUNTERS];
	atomic64_t		last_start;	/* ns, 0 before the first */
	atomic_t		*inflight;	/* by CPU if bound, else [0] */
	wait_queue_head_t	ran_wait;

	spinlock_t		held_lock;	/* also taken by BH items */
	struct list_head	held;		/* held_lock */
	unsigned int		generation;	/* written under held_lock */
	wait_queue_head_t	release_wait;

	spinlock_t		order_lock;	/* also taken by BH items */
	unsigned int		nr_series;	/* order_lock */
	struct wqh_series	order[WQH_MAX_SERIES];	/* order_lock */
};

enum wqh_kind { WQH_NOP, WQH_BLOCK, WQH_HOG, WQH_RIDE, WQH_ROAM, WQH_LINGER, WQH_PIN };

/* A single item; its function frees it, or its canceller if it is a lingerer. */
struct wqh_single {
	struct work_struct	work;
	struct wqh_queue	*queue;
	struct list_head	node;		/* queue->held_lock; rider: wqh_riders_lock */
	enum wqh_kind		kind;
	unsigned int		ms;
	unsigned int		generation;	/* released when the queue's differs */
	int			cpu;		/* where it was queued, runs, or rides */
	bool			arrived;	/* rider: its CPU is dead */
	bool			lingered;	/* lingerer: used by its function only */
	bool			running;	/* lingerer: written by its function */
	bool			cancelled;	/* lingerer: written by its canceller */
	struct task_struct	*task;		/* who runs it */
};

static inline void wqh_spin_us(unsigned int us)
{
	ktime_t end = ktime_add_us(ktime_get(), us);

	while (ktime_before(ktime_get(), end))
		cpu_relax();
}

struct seq_file;

/* wqhelp_input.c */
struct wqh_number {
	const char	*key;
	unsigned int	*val;
};

char *wqh_next_word(char **input);
int wqh_read_number(const char *word, const struct wqh_number *numbers);
int wqh_read_numbers(char *input, const struct wqh_number *numbers);
int wqh_read_kind(char **input, const char * const *kinds, size_t nr);

/* Words "key=number": wqh_numbers(input, { "key", &number }, ...). */
#define wqh_numbers(input, ...)	\
	wqh_read_numbers(input, (const struct wqh_number[]) { __VA_ARGS__, {} })

/* wqhelp_main.c */
void wqh_create_files(struct wqh_queue *q);

/* wqhelp_queue.c */
void wqh_init_work(const struct wqh_queue *q, struct work_struct *work, work_func_t func);
int wqh_create(char *input);
int wqh_destroy(char *input);
void wqh_destroy_all(void);

/* wqhelp_count.c */
void wqh_count(struct wqh_queue *q, enum wqh_counter which);
void wqh_record_max(struct wqh_queue *q, enum wqh_counter which, s64 val);
void wqh_account_start(struct wqh_queue *q);
void wqh_record_order(struct wqh_queue *q, int cpu);
int wqh_write_wait(struct wqh_queue *q, char *input);
int wqh_write_stats(struct wqh_queue *q, char *input);
int wqh_show_stats(struct seq_file *s, struct wqh_queue *q);
int wqh_show_order(struct seq_file *s, struct wqh_queue *q);

/* wqhelp_load.c */
int wqh_load_init(void);
void wqh_load_exit(void);
void wqh_load_stop(struct wqh_queue *q);
int wqh_write_load(struct wqh_queue *q, char *input);
int wqh_write_pods(struct wqh_queue *q, char *input);

/* wqhelp_single.c */
bool wqh_released(const struct wqh_single *single);
int wqh_write_queue(struct wqh_queue *q, char *input);
int wqh_write_release(struct wqh_queue *q, char *input);
int wqh_show_held(struct seq_file *s, struct wqh_queue *q);

/* wqhelp_rider.c */
int wqh_rider_init(void);
void wqh_rider_exit(void);
void wqh_ride_fn(struct work_struct *work);
void wqh_linger_fn(struct work_struct *work);
int wqh_add_rider(struct wqh_single *rider);
void wqh_drop_rider(struct wqh_single *rider);

/* wqhelp_delay.c, wqhelp_cancel.c, wqhelp_relay.c, wqhelp_misuse.c */
int wqh_write_delay(struct wqh_queue *q, char *input);
int wqh_write_cancel(struct wqh_queue *q, char *input);
int wqh_write_relay(struct wqh_queue *q, char *input);
int wqh_write_misuse(struct wqh_queue *q, char *input);

/* wqhelp_map.c */
int wqh_show_map(struct seq_file *s, struct wqh_queue *q);
#ifdef CONFIG_WORKQUEUE_CMWQ
int wqh_show_workqueues(struct seq_file *s, struct wqh_queue *q);
#endif

/* wqhelp_occupy.c */
int wqh_occupy(char *input);

/* wqhelp_console.c */
extern struct delayed_work wqh_console_work;
extern u32 wqh_console_lines;
int wqh_console(char *input);
void wqh_console_exit(void);

#endif /* _LIB_WQHELP_H */
