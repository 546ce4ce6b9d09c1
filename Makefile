# SPDX-License-Identifier: GPL-2.0
# `make help` lists the targets. The programs in scripts/ do the work. Output goes to build/.
#
# A target takes only the variables that its help names, from the command line and from the environment; see
# "refused" below.

help: ## list the targets
	@echo 'usage: make TARGET [NAME=VALUE...]'
	@sed -n 's/^\([a-z0-9-]*\):.*## /  make \1\t/p' Makefile | expand -t 19
	@echo 'values (the first is the default): ENGINE=qemu|uml|arm64 VARIANT=cmwq|base CONFIG=release|debug|kcsan|preempt|rt|up|workload'
	@echo 'TREE stands for:'
	@echo '  LINUX=7.3|7.2|6.12 (UML with 6.12: only CONFIG=up)'
	@echo '  the base tree, if not from Debian: KERNEL_SRC=DIR, or LINUX_TARBALL=FILE|URL LINUX_TARBALL_SHA256=SUM'

deps: ## install missing Debian packages (as root) and make build/venv: ENGINE= CONFIG=
	@scripts/deps.sh

tree: ## get the base tree and put the project's files and patches into a copy of it: TREE
	@scripts/lab tree

kernel: deps ## build one kernel: ENGINE= VARIANT= CONFIG= TREE
	@scripts/lab kernel

boot: deps ## boot the QEMU kernel and run a shell or CMD='...' in it: CPUS= TOPOLOGY= MEM= APPEND= VARIANT= CONFIG= TREE
	@scripts/lab boot $(call options,CPUS TOPOLOGY MEM APPEND) $${CMD:+"--command=$$CMD"}

dump: ## inspect the memory of a running guest with a drgn tool: ARGS='dump --stalls'
	@scripts/dump-guest.sh $(or $(ARGS),dump)

demo: deps ## record a terminal: boot, resize shards under load, find what is stuck; build/demo/demo.cast and demo.svg
	@CONFIG=demo scripts/deps.sh
	@scripts/demo.sh

bench: ## boot both variants in turn and compare their speed: ENGINE= MACHINE= CPUS= TOPOLOGY= MEM= VARIANT= TREE ARGS='--pairs 5 ...'
	@scripts/run-bench.sh $(call options,ENGINE MACHINE CPUS TOPOLOGY MEM VARIANT) $(ARGS)

advise: ## measure which affinity scope this machine, or a guest with ENGINE=, wants, and what it gains: ENGINE= CPUS= TOPOLOGY= MEM= VARIANT= TREE KDIR= ARGS='--minutes 5 ...'
	@scripts/advise.sh $(call options,ENGINE CPUS TOPOLOGY MEM VARIANT) $(ARGS)

workload: ## run dm-crypt, file systems, NFS and probes of latency on both variants in turn, verify data, compare: ONLY='dm-crypt' ENGINE= MACHINE= CPUS= TOPOLOGY= MEM= VARIANT= TREE ARGS='--quick ...'
	@scripts/run-workload.sh $(call options,ENGINE MACHINE CPUS TOPOLOGY MEM VARIANT) $(ARGS) $(ONLY)

torture: deps ## use the whole interface at random and look for violations: DURATION= ENGINE= VARIANT= CONFIG= SEED= CPUS= TOPOLOGY= MEM= PARAMS= APPEND= TREE
	@scripts/lab torture $(call options,ENGINE VARIANT CONFIG DURATION SEED CPUS TOPOLOGY MEM PARAMS APPEND)

matrix: deps ## run the torture test in every configuration and print a table: DURATION= ONLY='qemu-rt uml*' VARIANT= TREE ARGS='--again'
	@scripts/lab matrix $(call options,VARIANT DURATION) $(ARGS) -- $(foreach name,$(ONLY),'$(name)')

basebugs: deps ## run tests on both kernels that show bugs which only the base kernel has; FIXED=1: on the base kernel with our fixes: TREE FIXED= ONLY='flush leak'
	@scripts/lab basebugs $(ONLY)

test: deps ## run the tests, on the host and in guests; ends with "N passed, N failed": VARIANT= TREE ARGS='-k uml'
	@tests/run.sh $(ARGS)

test-quick: deps ## run the tests that take 3 to 4 minutes, before each commit: VARIANT= TREE ARGS=
	@tests/run.sh --tier quick $(ARGS)

test-more: deps ## run what .ci/run runs after `make test`: debug and arm64 kernels, more machines, models, the series: VARIANT= TREE ARGS=
	@ENGINE=arm64 scripts/deps.sh
	@tests/run.sh --tier more --after test $(ARGS)

test-all: deps ## run all tests; takes hours; adds arm64, Linux 6.12 and 7.2, the base kernel, torture everywhere, known bugs: VARIANT= TREE ARGS=
	@ENGINE=arm64 CONFIG=workload scripts/deps.sh
	@CONFIG=packages scripts/deps.sh
	@tests/run.sh --tier all $(ARGS)

mutants: deps ## put known bugs into the workqueue, one at a time, and show which test catches each: ARGS='--list'
	@PYTHONPATH=scripts:tests build/venv/bin/python3 -m byhand.mutants $(ARGS)

arm64: override export ENGINE := arm64
arm64: deps ## run the tests on arm64 guests, which `test` leaves out: VARIANT= ARGS=
	@tests/run.sh --tier all tests/guest/test_arm64.py $(ARGS)

check: deps ## run checkpatch, sparse, more warnings, ruff, mypy, shellcheck and codespell on our files: ENGINE= CONFIG= TREE ARGS='--no-kernel'
	@scripts/lab check $(ARGS)

module: ## build the benchmark and the torture test as modules for another kernel, 6.5 or later: KDIR=
	@scripts/lab module

dkms: ## make a Debian package of these modules, which DKMS builds for each kernel of a machine
	@scripts/lab dkms

deb: ## make Debian packages of a kernel with our workqueue and the configuration of Debian's kernel for clouds: VARIANT= TREE ARGS='--modules FILE ...'
	@CONFIG=packages scripts/deps.sh
	@scripts/lab deb $(ARGS)

series: ## write patches for `git am` on the base tree, with a cover letter; FOR=base: only fixes of its own workqueue, FOR=tests: only tests and tools for that one: TREE FOR= VERSION= ARGS='--changes FILE'
	@scripts/lab series $(call options,FOR) $${VERSION:+"-v$$VERSION"} $(ARGS)

clean: ## remove what was built, but not the base tree, downloads, benchmark results and build/venv
	@scripts/lab clean

.PHONY: help deps tree kernel boot dump demo bench advise workload torture matrix basebugs test test-quick test-more test-all mutants arm64 check module dkms deb series clean

TREE = LINUX KERNEL_SRC LINUX_TARBALL LINUX_TARBALL_SHA256
VALUES = ENGINE MACHINE VARIANT CONFIG $(TREE) KDIR CPUS TOPOLOGY MEM APPEND CMD DURATION SEED PARAMS VERSION FOR FIXED

# Refuse a variable that no requested target names in its help, since it would have no effect. Of the environment, look
# only at the variables that some target takes.
from = $(strip $(foreach name,$(2),$(if $(findstring $(1),$(origin $(name))),$(if $(value $(name)),$(name)))))
given := $(call from,command,$(.VARIABLES))
around := $(call from,environment,$(VALUES) ARGS ONLY)
named = $(shell sed -n 's/^$(1):.*## //p' Makefile | grep -o '[A-Z0-9_]*=\|TREE' | sed 's/=//; s/^TREE$$/$(TREE)/')
goals := $(or $(MAKECMDGOALS),help)
taken := $(foreach goal,$(goals),$(call named,$(goal)))
refused := $(filter-out $(taken),$(given) $(if $(filter-out help,$(goals)),$(around)))
ifneq ($(refused),)
$(error make $(goals) does not take $(refused:%=%=)$(if $(filter $(around),$(refused)), (unset $(filter $(around),$(refused)) in the environment)): see make help)
endif

# Values are passed in the environment, so that quotes in them survive.
$(foreach name,$(VALUES),$(if $(findstring command,$(origin $(name))),$(eval override export $(name) := $$(value $(name)))))

# Expands to --name="value" for each variable that is set.
lower = $(shell echo $(1) | tr A-Z a-z)
options = $(foreach name,$(1),$${$(name):+"--$(call lower,$(name))=$$$(name)"})
