// SPDX-License-Identifier: GPL-2.0
/*
 * Changes the scope of the workqueue through its files in sysfs
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/err.h>
#include <linux/fs.h>
#include <linux/string.h>

#include "wqbench.h"

/*
 * Reading and writing small files
 */

int bench_read_text(const char *path, char *buf, size_t size)
{
	struct file *file = filp_open(path, O_RDONLY, 0);
	loff_t pos = 0;
	ssize_t len;

	if (IS_ERR(file))
		return PTR_ERR(file);

	len = kernel_read(file, buf, size - 1, &pos);
	filp_close(file, NULL);
	if (len < 0)
		return len;

	buf[len] = '\0';
	return 0;
}

/* The first line. */
int bench_read_file(const char *path, char *buf, size_t size)
{
	int ret = bench_read_text(path, buf, size);

	if (!ret)
		buf[strcspn(buf, "\n")] = '\0';
	return ret;
}

int bench_write_file(const char *path, const char *text)
{
	struct file *file = filp_open(path, O_WRONLY, 0);
	size_t size = strlen(text);
	loff_t pos = 0;
	ssize_t len;

	if (IS_ERR(file))
		return PTR_ERR(file);

	len = kernel_write(file, text, size, &pos);
	filp_close(file, NULL);
	if (len < 0)
		return len;
	return len == size ? 0 : -EIO;
}

/*
 * Switching the scope
 */

/* Returns the scope in force, NAME for "default (NAME)", or an error. */
static int bench_read_scope(bool *is_default)
{
	char buf[64], *name = buf;
	int ret;

	ret = bench_read_file(BENCH_WQ_DIR "affinity_scope", buf, sizeof(buf));
	if (ret)
		return ret;

	*is_default = str_has_prefix(buf, "default");
	if (*is_default) {
		name = strchr(buf, '(');
		if (!name)
			return BENCH_SCOPE_DEFAULT;
		name++;
		name[strcspn(name, ")")] = '\0';
	}
	return bench_scope_by_name(name);
}

/*
 * Returns 1 when the scope is in force, 0 when this kernel lacks it, an error
 * otherwise. Some kernels compare only the beginning and take "cache_shard" for
 * "cache", so the file is read back. Kernels before 6.6 have no scopes: the
 * workqueue is measured as it is, as "default".
 */
int bench_enter_scope(enum bench_scope scope, enum bench_scope *actual)
{
	bool is_default;
	int ret;

	ret = bench_write_file(BENCH_WQ_DIR "affinity_scope", bench_scope_names[scope]);
	if (ret == -ENOENT && scope == BENCH_SCOPE_DEFAULT) {
		*actual = BENCH_SCOPE_DEFAULT;
		return 1;
	}
	if (ret == -EINVAL || ret == -ENOENT)
		return 0;
	if (ret) {
		pr_err("%s: cannot write affinity_scope: %pe\n",
		       bench_scope_names[scope], ERR_PTR(ret));
		return ret;
	}

	ret = bench_read_scope(&is_default);
	if (ret < 0) {
		pr_err("%s: cannot make sense of affinity_scope: %pe\n",
		       bench_scope_names[scope], ERR_PTR(ret));
		return ret;
	}
	if ((is_default ? BENCH_SCOPE_DEFAULT : ret) != scope)
		return 0;
	*actual = ret;
	return 1;
}

int bench_set_strict(bool on)
{
	int ret = bench_write_file(BENCH_WQ_DIR "affinity_strict", on ? "1" : "0");

	if (ret == -ENOENT && !on)
		return 0;
	if (ret == -ENOENT) {
		pr_err("strict=1: this kernel has no affinity_strict\n");
		return -EOPNOTSUPP;
	}
	if (ret)
		pr_err("strict=%d: cannot write affinity_strict: %pe\n", on, ERR_PTR(ret));
	return ret;
}
