// SPDX-License-Identifier: GPL-2.0
/*
 * The object of test_workqueue.c.  It needs a name of its own, since Kbuild calls the linked
 * module test_workqueue.o.
 */
#include "test_workqueue.c"
