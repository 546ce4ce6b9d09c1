// SPDX-License-Identifier: GPL-2.0
/* Calling a function in process context: on one CPU, on all of them, or wherever it may sleep. */
#include <linux/cpu.h>
#include <linux/export.h>
#include <linux/percpu.h>
#include <linux/workqueue.h>

#ifdef CONFIG_SMP
/* a function to call on a CPU */
struct work_for_cpu {
	struct work_struct work;
	long (*fn)(void *arg);
	void *arg;
	long ret;
};

static void work_for_cpu_fn(struct work_struct *work)
{
	struct work_for_cpu *call = container_of(work, struct work_for_cpu, work);

	call->ret = call->fn(call->arg);
}

/**
 * work_on_cpu_key - call a function in process context on a CPU
 * @cpu: the CPU; the caller keeps it online
 * @fn: the function
 * @arg: its argument
 * @key: lock class of the call
 *
 * Context: may sleep; the caller holds no lock that @fn takes.
 * Return: what @fn returns.
 */
long work_on_cpu_key(int cpu, long (*fn)(void *), void *arg, struct lock_class_key *key)
{
	struct work_for_cpu call = { .fn = fn, .arg = arg };

	INIT_WORK_ONSTACK_KEY(&call.work, work_for_cpu_fn, key);
	schedule_work_on(cpu, &call.work);
	flush_work(&call.work);
	destroy_work_on_stack(&call.work);
	return call.ret;
}
EXPORT_SYMBOL_GPL(work_on_cpu_key);
#endif /* CONFIG_SMP */

/**
 * schedule_on_each_cpu - call a work function on every online CPU and wait
 * @func: the function; it must ignore the item that it is given
 *
 * This is slow: it allocates and queues an item for each CPU and waits for the slowest.
 *
 * Context: may sleep; takes cpus_read_lock().
 * Return: 0 or -ENOMEM.
 */
int schedule_on_each_cpu(work_func_t func)
{
	struct work_struct __percpu *items = alloc_percpu(struct work_struct);
	int cpu;

	if (!items)
		return -ENOMEM;

	for_each_possible_cpu(cpu)
		INIT_WORK(per_cpu_ptr(items, cpu), func);

	scoped_guard(cpus_read_lock) {
		for_each_online_cpu(cpu)
			schedule_work_on(cpu, per_cpu_ptr(items, cpu));
		for_each_online_cpu(cpu)
			flush_work(per_cpu_ptr(items, cpu));
	}

	free_percpu(items);
	return 0;
}

/**
 * execute_in_process_context - call a work function where it may sleep
 * @fn: the function
 * @ew: storage that lives until @fn has run; used in interrupts only
 *
 * This calls @fn directly.  In an interrupt it queues an item that calls @fn.
 *
 * Context: any but NMI.
 * Return: 0 if @fn was called, 1 if it is queued.
 */
int execute_in_process_context(work_func_t fn, struct execute_work *ew)
{
	if (in_interrupt()) {
		INIT_WORK(&ew->work, fn);
		schedule_work(&ew->work);
		return 1;
	}

	fn(&ew->work);
	return 0;
}
EXPORT_SYMBOL_GPL(execute_in_process_context);
