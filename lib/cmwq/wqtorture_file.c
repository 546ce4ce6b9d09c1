// SPDX-License-Identifier: GPL-2.0
/*
 * Small files below /sys and /proc. A module needs them where a function is not
 * exported. Kernel threads do not see the mounts of user space, so the two roots are
 * looked up when the module is loaded, by a task that sees them.
 */
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/namei.h>
#include <linux/path.h>
#include <linux/string.h>

#include "wqtorture.h"

static struct path sys_root, proc_root;

static int file_write(const struct path *root, const char *name, const char *text)
{
	struct file *file;
	loff_t pos = 0;
	ssize_t ret;

	if (!root->mnt)
		return -ENODEV;
	file = file_open_root(root, name, O_WRONLY, 0);
	if (IS_ERR(file))
		return PTR_ERR(file);
	ret = kernel_write(file, text, strlen(text), &pos);
	filp_close(file, NULL);
	return min_t(ssize_t, ret, 0);
}

static int file_read(const struct path *root, const char *name, char *buf, size_t size)
{
	struct file *file;
	loff_t pos = 0;
	ssize_t ret;

	if (!root->mnt)
		return -ENODEV;
	file = file_open_root(root, name, O_RDONLY, 0);
	if (IS_ERR(file))
		return PTR_ERR(file);
	ret = kernel_read(file, buf, size - 1, &pos);
	filp_close(file, NULL);
	if (ret < 0)
		return ret;
	buf[ret] = '\0';
	strim(buf);
	return 0;
}

int wqt_sys_write(const char *name, const char *text)
{
	return file_write(&sys_root, name, text);
}

int wqt_sys_read(const char *name, char *buf, size_t size)
{
	return file_read(&sys_root, name, buf, size);
}

int wqt_proc_write(const char *name, const char *text)
{
	return file_write(&proc_root, name, text);
}

int wqt_proc_read(const char *name, char *buf, size_t size)
{
	return file_read(&proc_root, name, buf, size);
}

/* If /sys or /proc is not there yet (built in), the log says so, and neither is used. */
int wqt_files_init(void)
{
	int ret = kern_path("/sys", LOOKUP_FOLLOW | LOOKUP_DIRECTORY, &sys_root);

	if (ret)
		return ret;
	ret = kern_path("/proc", LOOKUP_FOLLOW | LOOKUP_DIRECTORY, &proc_root);
	if (ret)
		wqt_files_exit();
	return ret;
}

void wqt_files_exit(void)
{
	path_put(&sys_root);
	path_put(&proc_root);
	memset(&sys_root, 0, sizeof(sys_root));
	memset(&proc_root, 0, sizeof(proc_root));
}
