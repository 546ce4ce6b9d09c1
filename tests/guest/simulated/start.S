/* SPDX-License-Identifier: GPL-2.0 */
/* Each CPU begins here, with its number in x0: cpu_on() passes it, and the first CPU has 0. */
	.globl	_start, toggle
_start:
	mrs	x0, mpidr_el1
	and	x0, x0, #0xff
	adrp	x1, stacks
	add	x2, x0, #1
	add	x1, x1, x2, lsl #12
	mov	sp, x1
	b	main

/* The plugin begins to simulate when this is called, and ends at the next call. */
toggle:
	ret
