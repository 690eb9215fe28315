# SPDX-License-Identifier: GPL-2.0
#
# What a person types. The module itself is described in Kbuild.

KVER	?= $(shell uname -r)
KDIR	?= /lib/modules/$(KVER)/build
# Kernels that `make check` tests on, by the names that vm/kernel knows.
KERNELS	?= 6.1 6.12 hz1000 hz100 hz300
# Debian releases that `make check-packages` installs it on.
RELEASES ?= $(if $(ALL),bookworm bullseye trixie,bookworm)
SCENARIO ?=

.PHONY: all module reader modules_install install uninstall load unload
.PHONY: dkms-install dkms-uninstall
.PHONY: check check-hard check-kernels check-packages lint demo bench kernels clean help kdir root oracle test-programs

all: module reader

kdir:
	@[ -e '$(KDIR)/Makefile' ] || { echo "No kernel to build for in $(KDIR): install linux-headers-$(KVER), or name another with KDIR=/lib/modules/VERSION/build" >&2; exit 1; }

module: kdir
	$(MAKE) -C '$(KDIR)' M='$(CURDIR)' modules

reader:
	$(MAKE) -C userspace

modules_install: kdir
	$(MAKE) -C '$(KDIR)' M='$(CURDIR)' INSTALL_MOD_DIR=updates modules_install
	[ -n '$(INSTALL_MOD_PATH)' ] || depmod "$$(modinfo -F vermagic ./tcplat.ko | cut -d ' ' -f 1)"

install uninstall:
	$(MAKE) -C userspace $@

root:
	@[ "$$(id -u)" = 0 ] || { echo "This needs root: sudo make $(MAKECMDGOALS)" >&2; exit 1; }

dkms-install: root
	packaging/dkms install '$(KVER)'

dkms-uninstall: root
	packaging/dkms uninstall

load: root
	@[ -e tcplat.ko ] || { echo "No tcplat.ko here: make it first" >&2; exit 1; }
	insmod tcplat.ko

unload: root
	rmmod tcplat

oracle:
	$(MAKE) -C bats/oracle

# What tests use in the guest.
test_programs := $(addprefix build/,traffic ports failnth sockets stores)

test-programs: $(test_programs)

build/traffic build/ports: build/%: vm/%.c
build/failnth: bats/hard/failnth.c
build/sockets build/stores: build/%: bats/fuzz/%.c bats/fuzz/random.h
build/calls: bench/calls.c
build/count.so: bench/count.c bench/plugin.h
	@mkdir -p build
	$(CC) -std=c11 -O2 -g -Wall -Wextra -Werror -fPIC -shared -o $@ bench/count.c
$(test_programs) build/calls:
	@mkdir -p build
	$(CC) -std=c11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Werror -static -pthread -o $@ $<

demo:
	@vm/demo $(SCENARIO)

check:
	@bats/check $(KERNELS)

# KERNELS, where somebody gives them.
check-hard:
	@bats/check --hard $(if $(filter-out file,$(origin KERNELS)),$(KERNELS))

# KERNELS, where somebody gives them; ALL=1 for each that there is; KSRC=DIRECTORY for the
# kernel built from a source tree.
check-kernels:
	@bats/check-kernels $(if $(ALL),--all) $(if $(KSRC),--source '$(KSRC)') $(if $(filter-out file,$(origin KERNELS)),$(KERNELS))

check-packages:
	@for r in $(RELEASES); do bats/packages/run "$$r" || exit 1; done

lint:
	@vm/lint

# KERNELS, where somebody gives them.
bench:
	@for k in $(if $(filter-out file,$(origin KERNELS)),$(KERNELS),6.1 7.2); do \
		bench/run --kernel "$$k" || exit 1; done

kernels:
	@for k in $(KERNELS); do echo "$$k:"; vm/kernel "$$k" || exit 1; done

# By hand, so that it works without the kernel that the files were built for.
clean:
	$(MAKE) -C userspace clean
	rm -rf build
	rm -f *.ko *.o *.mod *.mod.c .*.cmd Module.symvers modules.order
	rm -f module/*.o module/*.o.d module/.*.cmd
	rm -f kunit_tests/*.o kunit_tests/*.o.d kunit_tests/.*.cmd

help:
	@echo 'make                  build tcplat.ko for the running kernel, and the reader userspace/tcplat'
	@echo 'make module, reader   one of the two'
	@echo 'make KDIR=DIRECTORY   the same for another kernel: /lib/modules/VERSION/build'
	@echo 'make modules_install  install the module (INSTALL_MOD_PATH is honoured)'
	@echo 'make dkms-install     have DKMS build and install it, for each new kernel too (KVER=VERSION)'
	@echo 'make dkms-uninstall   remove that from all kernels'
	@echo 'make install          install the reader and what comes with it (DESTDIR and PREFIX are honoured)'
	@echo 'make uninstall        remove them'
	@echo 'make load             load tcplat.ko into the running kernel'
	@echo 'make unload           take it out again'
	@echo 'make clean            remove everything that was built here'
	@echo
	@echo 'These install what they need with apt, and run kernels in a virtual machine:'
	@echo 'make demo             see it find 40 ms (SCENARIO=NAME for another story)'
	@echo 'make check            lint and all tests, on each of KERNELS="$(KERNELS)"'
	@echo 'make check-hard       all on a kernel that complains, abuse and faults at length: hours (KERNELS="debug 6.1")'
	@echo 'make check-kernels    the oldest and the newest kernel, of other Debian releases (KERNELS="5.10 7.2", ALL=1)'
	@echo 'make check-kernels KSRC=DIRECTORY   the kernel built from the source tree there, to try a patch'
	@echo 'make check-packages   DKMS, Debian and RPM packages, Secure Boot on RELEASES="$(RELEASES)" (ALL=1 for more)'
	@echo 'make lint             the linters alone'
	@echo 'make bench            what it costs, in instructions, on 6.1 and 7.2 (KERNELS="6.12")'
	@echo 'make kernels          download KERNELS, or build them (hz100: some minutes each)'
	@echo 'What was downloaded is kept in ~/.cache/tcplat, which may be removed.'
