// SPDX-License-Identifier: GPL-2.0
/* What an arm64 instruction does, if time depends on it */
#include <stddef.h>

#include "sim.h"

static const struct {
	uint32_t mask, value;
	enum kind kind;
} codes[] = {
	{ 0x3ffffc00, 0x38bfc000, ORDINARY },		/* LDAPR */
	{ 0x3f200c00, 0x38200000, LSE },		/* LDADD and the like, SWP */
	{ 0x3fa07c00, 0x08a07c00, LSE },		/* CAS */
	{ 0xbfa07c00, 0x08207c00, LSE },		/* CASP */
	{ 0x3fc00000, 0x08400000, LDXR },		/* LDAXR, LDXP, LDAXP */
	{ 0x3fe08000, 0x08800000, STLR },		/* STLLR */
	{ 0x3fe08000, 0x08808000, STLR },
	{ 0x3fc00000, 0x08000000, STXR },		/* STLXR, STXP, STLXP */
	{ 0xfffff0ff, 0xd503309f, BARRIER },		/* DSB */
	{ 0xfffff3ff, 0xd50333bf, BARRIER },		/* DMB of loads and stores */
	{ 0xffffffff, 0xd503203f, YIELD },
	{ 0xffffffff, 0xd503205f, WFE },
	{ 0xffffffff, 0xd503209f, SEVL },		/* SEV, of which others learn by the line */
	{ 0xffffffff, 0xd50320bf, SEVL },
	{ 0xffffffe0, 0xd518cba0, SEND_IPI },
	{ 0xffffffe0, 0xd538cc00, TAKE_IRQ },
	{ 0xffc00018, 0xf9800010, PREFETCH_TO_WRITE },	/* PRFM PST */
	{ 0xffe00c18, 0xf8800010, PREFETCH_TO_WRITE },
};

enum kind kind_of(uint32_t code)
{
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		if ((code & codes[i].mask) == codes[i].value)
			return codes[i].kind;
	}
	return ORDINARY;
}

/* What the memory access of an instruction means. An LDXR is one half of an atomic instruction. */
enum access access_of(enum kind kind, bool atomic)
{
	switch (kind) {
	case LSE:
	case STXR:
		return ATOMIC;
	case LDXR:
		return atomic ? ATOMIC : READ_AND_WATCH;
	case STLR:
		return RELEASE;
	default:
		return READ;	/* or WRITE: QEMU knows */
	}
}
