// SPDX-License-Identifier: GPL-2.0
/*
 * Input: words, "key=number" among them
 */
#include <linux/kstrtox.h>
#include <linux/string.h>

#include "wqhelp.h"

char *wqh_next_word(char **input)
{
	char *word;

	do {
		word = strsep(input, " \t\n");
	} while (word && !*word);
	return word;
}

/* The last of @numbers has no key. */
int wqh_read_number(const char *word, const struct wqh_number *numbers)
{
	for (; numbers->key; numbers++) {
		size_t len = str_has_prefix(word, numbers->key);

		if (len && word[len] == '=')
			return kstrtouint(word + len + 1, 0, numbers->val);
	}
	return -EINVAL;
}

int wqh_read_numbers(char *input, const struct wqh_number *numbers)
{
	char *word;
	int ret = 0;

	while (!ret && (word = wqh_next_word(&input)))
		ret = wqh_read_number(word, numbers);
	return ret;
}

/* The index of the first word, which names one of @kinds. */
int wqh_read_kind(char **input, const char * const *kinds, size_t nr)
{
	char *word = wqh_next_word(input);

	return word ? match_string(kinds, nr, word) : -EINVAL;
}
