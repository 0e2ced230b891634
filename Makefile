# SPDX-License-Identifier: GPL-2.0
#
# The front door. Everything needed (tools, kernels, guests) is prepared on first use, in a cache
# outside of this folder; see Documentation/building.rst.
#
# make            the modules for Debian's kernel: build/stock/rdma_sock.ko, rdma_soft.ko
# make KDIR=DIR   the modules for that kernel build folder: build/kdir/rdma_sock.ko, rdma_soft.ko
# make help       the other targets

.DEFAULT_GOAL := modules

# Selftest folders to run; all by default. KIND: the kernel they run on, lab or debug.
TARGETS ?=
KIND ?= lab

# Not 0: the short benchmark.
QUICK ?= 0

.PHONY: modules
modules: ## build the modules for the stock kernel, or for KDIR=DIR
ifdef KDIR
	@KDIR='$(KDIR)' scripts/module
else
	@scripts/module stock
endif

.PHONY: lab
lab: ## prepare the lab kernels and build the modules for them
	@scripts/module lab
	@scripts/module debug

.PHONY: tools
tools: ## build the user's tools: build/tools/
	@scripts/tools

.PHONY: deb
deb: ## the Debian packages rdma-sock and rdma-sock-dkms: build/deb/*.deb
	@scripts/deb

.PHONY: test-package
test-package: ## install, boot, use, upgrade and purge the packages in a stock Debian 13 in QEMU
	@scripts/test-package

.PHONY: demo
demo: ## two virtual machines, unmodified programs, RDMA: see it work (DEVICE=rsoft: by rdma_soft)
	@scripts/demo $(DEVICE)

.PHONY: test
test: ## all tests; ends with "N passed, N failed, N skipped"
	@scripts/test all

.PHONY: test-host
test-host: ## the protocol core's tests on this machine
	@scripts/test host

# For how long `make fuzz` runs, all targets together.
SECONDS ?= 60

.PHONY: fuzz
fuzz: ## fuzz the protocol core: SECONDS=60, all targets together
	@tools/fuzz/run '$(SECONDS)'

.PHONY: test-kunit
test-kunit: ## the same and kapi's tests inside the lab kernel
	@scripts/test kunit

.PHONY: selftests
selftests: ## socket tests in lab kernels: TARGETS="socket ..." KIND=lab|debug
	@TARGETS='$(TARGETS)' KIND='$(KIND)' scripts/test selftests

.PHONY: strict
strict: ## SMC-R and SDP on devices of rdma_soft that behave like each adapter: KIND=lab|debug
	@KIND='$(KIND)' scripts/test strict

# For how long `make soak` runs; SEED repeats another run.
MINUTES ?= 60
SEED ?=

.PHONY: soak
soak: ## random connections under random faults: MINUTES=60 KIND=lab|debug SEED=...
	@MINUTES='$(MINUTES)' KIND='$(KIND)' SEED='$(SEED)' scripts/soak

.PHONY: matrix
matrix: ## the stock tests on the kernel of each Debian suite: prints the table of README
	@scripts/matrix

.PHONY: bench
bench: ## compare with C net/smc, TCP, raw verbs, local sockets: QUICK=1 for 15 minutes; build/bench.json
	@QUICK='$(QUICK)' scripts/bench run

.PHONY: bench-check
bench-check: ## fail if a ratio of the last bench is worse than the committed one
	@scripts/bench check

.PHONY: check
check: ## what a reviewer would run: formatting, clippy, layers, licence lines, checkpatch, documents
	@scripts/check

.PHONY: conformance
conformance: ## each rule has a test or is known to be open: rewrite the pages, fail on a gap
	@scripts/conformance

.PHONY: doc
doc: ## the documents as HTML: build/doc/
	@scripts/doc

.PHONY: rust-analyzer
rust-analyzer: ## write rust-project.json for editors
	@scripts/module stock rust-analyzer

.PHONY: clean
clean: ## remove what was built here; the cache stays
	rm -rf build tools/host/target rust-project.json

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 16
