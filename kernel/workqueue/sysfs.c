// SPDX-License-Identifier: GPL-2.0
/*
 * Workqueues in sysfs: a device for each WQ_SYSFS one, and the masks for all unbound ones.  The
 * files are listed in Documentation/core-api/workqueue-cmwq-admin.rst.
 *
 * A store does all or nothing.  If anything is wrong with a value, it returns -EINVAL.
 */
#include <linux/device.h>
#include <linux/kstrtox.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "attrs.h"
#include "pools.h"
#include "workqueue_struct.h"
#include "workqueues.h"

struct wq_device {
	struct workqueue_struct *wq;
	struct device dev;
};

static struct workqueue_struct *dev_wq(struct device *dev)
{
	return container_of(dev, struct wq_device, dev)->wq;
}

static int parse_int(const char *buf, int min, int max, int *val)
{
	int ret = kstrtoint(skip_spaces(buf), 10, val);

	return ret || *val < min || *val > max ? -EINVAL : 0;
}

/*
 * A mask, or a list, with at least one possible CPU.  "0,2" may be either, and is a mask.  No mask
 * has a hyphen, so what has one is a list.
 */
static int parse_cpus(const char *buf, struct cpumask *cpus)
{
	if (strchr(buf, '-') ? cpulist_parse(buf, cpus) : cpumask_parse(buf, cpus))
		return -EINVAL;
	return cpumask_intersects(cpus, cpu_possible_mask) ? 0 : -EINVAL;
}

/* what every workqueue has */

static ssize_t per_cpu_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", !(READ_ONCE(dev_wq(dev)->flags) & WQ_UNBOUND));
}
static DEVICE_ATTR_RO(per_cpu);

static ssize_t max_active_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct workqueue_struct *wq = dev_wq(dev);

	guard(mutex)(&wq->mutex);
	return sysfs_emit(buf, "%d\n", wq->saved_max_active);
}

static ssize_t max_active_store(struct device *dev, struct device_attribute *attr,
				const char *buf, size_t count)
{
	int max_active;

	if (parse_int(buf, 1, INT_MAX, &max_active))
		return -EINVAL;
	workqueue_set_max_active(dev_wq(dev), max_active);
	return count;
}
static DEVICE_ATTR_RW(max_active);

/* what an unbound workqueue has */

/* a file that shows one of the attributes; @set changes it in a copy of them */
struct unbound_attr {
	struct device_attribute attr;
	int (*set)(struct workqueue_attrs *attrs, const char *buf);
};

/* the copy takes effect.  The mutex covers both, so that two writers cannot undo each other. */
static ssize_t store_attr(struct device *dev, struct device_attribute *attr,
			  const char *buf, size_t count)
{
	struct workqueue_struct *wq = dev_wq(dev);
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();
	int ret;

	if (!attrs)
		return -ENOMEM;

	scoped_guard(mutex, &wq_pool_mutex) {
		copy_workqueue_attrs(attrs, wq->unbound_attrs);
		ret = container_of(attr, struct unbound_attr, attr)->set(attrs, buf);
		if (!ret)
			ret = apply_workqueue_attrs_locked(wq, attrs);
	}

	free_workqueue_attrs(attrs);
	return ret ?: count;
}

#define UNBOUND_ATTR(_name)						\
static struct unbound_attr unbound_attr_##_name =			\
	{ __ATTR(_name, 0644, _name##_show, store_attr), set_##_name }

static ssize_t nice_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	guard(mutex)(&wq_pool_mutex);
	return sysfs_emit(buf, "%d\n", dev_wq(dev)->unbound_attrs->nice);
}

static int set_nice(struct workqueue_attrs *attrs, const char *buf)
{
	return parse_int(buf, MIN_NICE, MAX_NICE, &attrs->nice);
}
UNBOUND_ATTR(nice);

static ssize_t cpumask_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	guard(mutex)(&wq_pool_mutex);
	return sysfs_emit(buf, "%*pb\n", cpumask_pr_args(dev_wq(dev)->unbound_attrs->cpumask));
}

static int set_cpumask(struct workqueue_attrs *attrs, const char *buf)
{
	return parse_cpus(buf, attrs->cpumask);
}
UNBOUND_ATTR(cpumask);

/*
 * The online CPUs that the workers may use.  These are in its own mask and in the global
 * one, or only in the latter if the two have no CPU in common.  If none of them is online, the
 * scheduler lets the workers run on any CPU.  The default pool, unlike those of pods, always has
 * all CPUs of the workqueue.
 */
static ssize_t cpumask_effective_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	static struct cpumask cpus;		/* P */

	guard(mutex)(&wq_pool_mutex);
	if (!cpumask_and(&cpus, wq_pwq(dev_wq(dev), -1)->pool->attrs->__pod_cpumask,
			 wq_online_cpumask))
		cpumask_copy(&cpus, wq_online_cpumask);
	return sysfs_emit(buf, "%*pb\n", cpumask_pr_args(&cpus));
}
static DEVICE_ATTR_RO(cpumask_effective);

static ssize_t affinity_scope_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	enum wq_affn_scope scope;

	guard(mutex)(&wq_pool_mutex);

	scope = dev_wq(dev)->unbound_attrs->affn_scope;
	if (scope != WQ_AFFN_DFL)
		return sysfs_emit(buf, "%s\n", wq_affn_names[scope]);
	return sysfs_emit(buf, "%s (%s)\n", wq_affn_names[scope], wq_affn_names[wq_affn_dfl]);
}

static int set_affinity_scope(struct workqueue_attrs *attrs, const char *buf)
{
	int scope = sysfs_match_string(wq_affn_names, buf);

	if (scope < 0)
		return scope;
	attrs->affn_scope = scope;
	return 0;
}
UNBOUND_ATTR(affinity_scope);

static ssize_t affinity_strict_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	guard(mutex)(&wq_pool_mutex);
	return sysfs_emit(buf, "%d\n", dev_wq(dev)->unbound_attrs->affn_strict);
}

static int set_affinity_strict(struct workqueue_attrs *attrs, const char *buf)
{
	int strict, ret = parse_int(buf, 0, 1, &strict);

	if (!ret)
		attrs->affn_strict = strict;
	return ret;
}
UNBOUND_ATTR(affinity_strict);

static struct attribute *wq_sysfs_attrs[] = {
	&dev_attr_per_cpu.attr,
	&dev_attr_max_active.attr,
	&unbound_attr_nice.attr.attr,
	&unbound_attr_cpumask.attr.attr,
	&dev_attr_cpumask_effective.attr,
	&unbound_attr_affinity_scope.attr.attr,
	&unbound_attr_affinity_strict.attr.attr,
	NULL
};

static umode_t wq_attr_mode(struct kobject *kobj, struct attribute *attr, int n)
{
	unsigned int flags = READ_ONCE(dev_wq(kobj_to_dev(kobj))->flags);

	if (attr == &dev_attr_per_cpu.attr)
		return attr->mode;
	if (attr == &dev_attr_max_active.attr)
		return flags & (__WQ_ORDERED | WQ_BH) ? 0444 : attr->mode;
	return flags & WQ_UNBOUND ? attr->mode : 0;
}

/*
 * The group makes all files before the device is announced, so udev rules find
 * them.
 */
static const struct attribute_group wq_sysfs_group = {
	.attrs = wq_sysfs_attrs,
	.is_visible = wq_attr_mode,
};
__ATTRIBUTE_GROUPS(wq_sysfs);

/* the masks for all unbound workqueues */

static ssize_t mask_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	cpumask_var_t *mask = container_of(attr, struct dev_ext_attribute, attr)->var;

	guard(mutex)(&wq_pool_mutex);
	return sysfs_emit(buf, "%*pb\n", cpumask_pr_args(*mask));
}

static ssize_t cpumask_store(struct device *dev, struct device_attribute *attr,
			     const char *buf, size_t count)
{
	cpumask_var_t cpus __free(free_cpumask_var) = CPUMASK_VAR_NULL;
	int ret;

	if (!alloc_cpumask_var(&cpus, GFP_KERNEL))
		return -ENOMEM;
	/* the user may include isolated CPUs */
	ret = parse_cpus(buf, cpus) ?: workqueue_set_unbound_cpumask(cpus);
	return ret ?: count;
}

static struct dev_ext_attribute mask_attr_cpumask = {
	__ATTR(cpumask, 0644, mask_show, cpumask_store), &wq_unbound_cpumask
};

static struct dev_ext_attribute mask_attr_requested = {
	__ATTR(cpumask_requested, 0444, mask_show, NULL), &wq_requested_unbound_cpumask
};

static struct dev_ext_attribute mask_attr_isolated = {
	__ATTR(cpumask_isolated, 0444, mask_show, NULL), &wq_isolated_cpumask
};

static struct attribute *wq_sysfs_cpumask_attrs[] = {
	&mask_attr_cpumask.attr.attr,
	&mask_attr_requested.attr.attr,
	&mask_attr_isolated.attr.attr,
	NULL
};
ATTRIBUTE_GROUPS(wq_sysfs_cpumask);

static const struct bus_type wq_subsys = {
	.name = "workqueue",
	.dev_groups = wq_sysfs_groups,
};

static int __init wq_sysfs_init(void)
{
	return subsys_virtual_register(&wq_subsys, wq_sysfs_cpumask_groups);
}
core_initcall(wq_sysfs_init);

static void wq_device_release(struct device *dev)
{
	kfree(container_of(dev, struct wq_device, dev));
}

/**
 * workqueue_sysfs_register - show a workqueue in sysfs
 * @wq: workqueue that is not there yet
 *
 * With %WQ_SYSFS, alloc_workqueue() does this.  A caller that wants to set attributes
 * before users can see them leaves the flag out and calls this afterwards.
 *
 * Context: may sleep.
 * Return: 0 or a negative error.
 */
int workqueue_sysfs_register(struct workqueue_struct *wq)
{
	struct wq_device *wq_dev = kzalloc_obj(*wq_dev);
	int ret;

	if (!wq_dev)
		return -ENOMEM;

	wq_dev->wq = wq;
	wq_dev->dev.release = wq_device_release;
	wq_dev->dev.bus = &wq_subsys;
	wq_dev->dev.init_name = wq->name;
	ret = device_register(&wq_dev->dev);
	if (ret) {
		put_device(&wq_dev->dev);
		return ret;
	}

	wq->wq_dev = wq_dev;
	return 0;
}

/* take a workqueue out of sysfs, if it is there; nobody uses its files any more on return */
void workqueue_sysfs_unregister(struct workqueue_struct *wq)
{
	struct wq_device *wq_dev = wq->wq_dev;

	if (!wq_dev)
		return;
	wq->wq_dev = NULL;
	device_unregister(&wq_dev->dev);
}
