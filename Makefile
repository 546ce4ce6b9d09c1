# SPDX-License-Identifier: GPL-2.0
# The front door: `make help`. The work is done by scripts/, output goes to build/.

LINUX   ?= 7.3
ENGINE  ?= qemu
VARIANT ?= cmwq
CONFIG  ?= release
KDIR    ?= /lib/modules/$(shell uname -r)/build
export LINUX ENGINE VARIANT CONFIG KDIR KERNEL_SRC

BOOT_KERNEL = build/qemu-$(VARIANT)-$(CONFIG)-$(LINUX)

help: ## this list
	@echo 'usage: make TARGET [NAME=VALUE...]'
	@sed -n 's/^\([a-z0-9]*\):.*## /  make \1\t/p' Makefile | expand -t 18
	@echo 'values (first: default): ENGINE=qemu|uml|arm64 VARIANT=cmwq|base'
	@echo '  CONFIG=release|debug|kcsan|preempt|rt|up LINUX=7.3|6.12 (only VARIANT=base) KERNEL_SRC=DIR (a base tree of yours)'

deps: ## install what is missing: Debian packages (as root), build/venv
	@scripts/deps.sh

tree: ## get the base tree, lay the project over it: build/tree-7.3
	@scripts/tree.sh

kernel: deps ## build one kernel: ENGINE= VARIANT= CONFIG=
	@scripts/kernel.sh

# CMD and APPEND go through the environment, so that any quoting in them survives.
boot: override export CMD := $(value CMD)
boot: override export APPEND := $(value APPEND)
boot: deps ## a shell in the kernel, or CMD='...': CPUS= TOPOLOGY= MEM= APPEND= VARIANT=
	@ENGINE=qemu scripts/kernel.sh
	@scripts/lab boot --kernel $(BOOT_KERNEL) $(if $(CPUS),--cpus '$(CPUS)') \
		$(if $(TOPOLOGY),--topology '$(TOPOLOGY)') $(if $(MEM),--mem '$(MEM)') \
		$${APPEND:+"--append=$$APPEND"} $${CMD:+--command "$$CMD"}

dump: ## look into a running guest from outside: ARGS='dump --stalls'
	@scripts/dump-guest.sh $(or $(ARGS),dump)

bench: ## both variants booted in turn, side by side: ARGS='--pairs 5 ...'
	@scripts/run-bench.sh $(ARGS)

torture: override export APPEND := $(value APPEND)
torture: deps ## break the workqueues, or fail to: DURATION= ENGINE= CONFIG= SEED= CPUS= TOPOLOGY= APPEND= TIMEOUT=
	@scripts/lab torture --engine '$(if $(filter file,$(origin ENGINE)),uml,$(ENGINE))' \
		--variant '$(VARIANT)' --config '$(CONFIG)' $${DURATION:+"--duration=$$DURATION"} \
		$${SEED:+"--seed=$$SEED"} $${CPUS:+"--cpus=$$CPUS"} $${MEM:+"--mem=$$MEM"} \
		$${TOPOLOGY:+"--topology=$$TOPOLOGY"} $${PARAMS:+"--params=$$PARAMS"} \
		$${APPEND:+"--append=$$APPEND"} $${TIMEOUT:+"--timeout=$$TIMEOUT"}

matrix: deps ## torture in every configuration, and a table: DURATION= ONLY='qemu-rt uml*' VARIANT= ARGS='--again'
	@scripts/lab matrix --variant '$(VARIANT)' $${DURATION:+"--duration=$$DURATION"} $(ARGS) \
		-- $(foreach name,$(ONLY),'$(name)')

test: deps ## every test; closes with "N passed, N failed"
	@tests/run.sh $(ARGS)

mutants: deps ## known bugs, put in one at a time: does a test catch each?: ARGS='NAME... --list'
	@PYTHONPATH=scripts:tests build/venv/bin/python3 -m byhand.mutants $(ARGS)

arm64: override export ENGINE := arm64
arm64: deps ## the tests of ENGINE=arm64, which `test` leaves out
	@tests/run.sh tests/guest/test_arm64.py $(ARGS)

check: deps ## checkpatch, sparse, W=1 on our files, and the originality check
	@scripts/check.sh

module: ## the benchmark module against another kernel, 6.5 or later: KDIR=
	@scripts/module.sh

series: ## patches for `git am` on the base tree: build/series-7.3
	@scripts/series.sh

clean: ## remove what was built; the base tree, downloads and build/venv stay
	@scripts/clean.sh

.PHONY: help deps tree kernel boot dump bench torture matrix test mutants arm64 check module series clean
