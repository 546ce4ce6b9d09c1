/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Files in debugfs with a second pointer, which lib/wq_test_helper.c uses and
 * Linux 6.12 does not have.  The helper always gives the same pointer to files
 * of the same name, so this keeps one pointer for each name.
 */
#ifndef WQ_TEST_HELPER_6_12_H
#define WQ_TEST_HELPER_6_12_H

/* The helper defines this too, but only after the headers included below. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/sizes.h>
#include <linux/string.h>

#define WQT_MAX_AUX	32

static struct {
	const char	*name;
	void		*aux;
} wqt_aux[WQT_MAX_AUX];

static inline struct dentry *
debugfs_create_file_aux(const char *name, umode_t mode, struct dentry *parent,
			void *data, const void *aux,
			const struct file_operations *fops)
{
	unsigned int i = 0;

	while (i < WQT_MAX_AUX && wqt_aux[i].name && strcmp(wqt_aux[i].name, name))
		i++;
	if (i == WQT_MAX_AUX)
		return ERR_PTR(-ENOSPC);
	wqt_aux[i].name = name;
	wqt_aux[i].aux = (void *)aux;
	return debugfs_create_file(name, mode, parent, data, fops);
}

static inline void *debugfs_get_aux(const struct file *file)
{
	unsigned int i = 0;

	/* Open files were made by the function above. */
	while (strcmp(wqt_aux[i].name, file->f_path.dentry->d_name.name))
		i++;
	return wqt_aux[i].aux;
}

#endif
