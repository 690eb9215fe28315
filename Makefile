# SPDX-License-Identifier: GPL-2.0
#
# Top-level targets; see 'make help'. Kbuild describes the module itself.

KVER	?= $(shell uname -r)
KDIR	?= /lib/modules/$(KVER)/build
# Kernels that `make check` tests on, as vm/kernel names them.
KERNELS	?= 6.1 hz1000
# Empty if the user did not set it.
users_kernels := $(if $(filter-out file,$(origin KERNELS)),$(KERNELS))
# Debian releases that `make check-packages` tests on.
RELEASES ?= $(if $(ALL),bookworm bullseye trixie,bookworm)
SCENARIO ?=

.PHONY: all module reader modules_install install uninstall load unload
.PHONY: dkms-install dkms-uninstall modpkg
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

modpkg: kdir
	@packaging/modpkg '$(KDIR)' '$(FORMAT)' '$(KEY)' '$(CERT)'

load: root
	@[ -e tcplat.ko ] || { echo "No tcplat.ko here: make it first" >&2; exit 1; }
	insmod tcplat.ko

unload: root
	rmmod tcplat

oracle:
	$(MAKE) -C bats/oracle

# Programs that tests run in the guest.
test_programs := $(addprefix build/,traffic ports failnth sockets)

test-programs: $(test_programs)

build/traffic build/ports: build/%: vm/%.c vm/program.h
build/failnth: bats/hard/failnth.c
build/sockets: bats/fuzz/sockets.c vm/program.h
build/calls: bench/calls.c vm/program.h
build/count.so: bench/count.c bench/plugin.h
	@mkdir -p build
	$(CC) -std=c11 -O2 -g -Wall -Wextra -Werror -fPIC -shared -o $@ bench/count.c
$(test_programs) build/calls:
	@mkdir -p build
	$(CC) -std=c11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Werror -static -pthread -o $@ $<

demo:
	@vm/demo $(SCENARIO)

# ONLY=PATTERN runs only suites with such a name.
check:
	@bats/check $(if $(ALL),--all) $(if $(ONLY),--only '$(ONLY)') $(users_kernels)

check-hard:
	@bats/check --hard $(if $(ONLY),--only '$(ONLY)') $(users_kernels)

# ALL=1 tests every kernel; KSRC=DIRECTORY tests the kernel built from that source tree.
check-kernels:
	@bats/check-kernels $(if $(ALL),--all) $(if $(KSRC),--source '$(KSRC)') $(if $(KCONFIG),--config '$(KCONFIG)') $(users_kernels)

check-packages:
	@for r in $(RELEASES); do bats/packages/run "$$r" || exit 1; done

lint:
	@vm/lint

bench:
	@for k in $(or $(users_kernels),6.1 7.2); do \
		bench/run --kernel "$$k" || exit 1; done

kernels:
	@for k in $(KERNELS); do echo "$$k:"; vm/kernel "$$k" || exit 1; done

# Not through Kbuild: clean must work without the kernel that the files were built for.
clean:
	$(MAKE) -C userspace clean
	rm -rf build
	rm -f *.ko *.o *.mod *.mod.c .*.cmd Module.symvers modules.order
	rm -f module/*.o module/*.o.d module/.*.cmd
	rm -f kunit_tests/*.o kunit_tests/*.o.d kunit_tests/.*.cmd

help:
	@echo 'make                  build tcplat.ko for the running kernel, and the reader userspace/tcplat'
	@echo 'make module, reader   build only one of them'
	@echo 'make KDIR=DIRECTORY   build both for another kernel: /lib/modules/VERSION/build'
	@echo 'make modules_install  install the module (INSTALL_MOD_PATH is honoured)'
	@echo 'make dkms-install     build and install it with DKMS, also for each new kernel (KVER=VERSION)'
	@echo 'make dkms-uninstall   remove it from DKMS, for all kernels'
	@echo 'make modpkg           pack the module for hosts with the kernel KVER=VERSION, but no compiler'
	@echo '                      KEY=FILE CERT=FILE: sign it; FORMAT=deb, rpm or "deb rpm"'
	@echo 'make install          install the reader and its files (DESTDIR and PREFIX are honoured)'
	@echo 'make uninstall        remove the reader and its files'
	@echo 'make load             load tcplat.ko into the running kernel'
	@echo 'make unload           unload it'
	@echo 'make clean            remove everything that was built here'
	@echo
	@echo 'These install what they need with apt and run kernels in a virtual machine:'
	@echo 'make demo             show how tcplat finds a 40 ms delay (SCENARIO=NAME for another demo)'
	@echo 'make check            run the linters and most tests on KERNELS="$(KERNELS)" (ONLY=lint: one suite)'
	@echo '                      ALL=1: more tests, as continuous integration does'
	@echo 'make check-hard       fault, abuse and load tests, on a debug kernel too: hours (KERNELS="debug 6.1")'
	@echo 'make check-kernels    test the oldest and newest kernels of other Debian releases (KERNELS="5.10 7.3", ALL=1)'
	@echo 'make check-kernels KSRC=DIRECTORY   test the kernel built from that source tree'
	@echo '                      KCONFIG=FILE: with HZ, preemption, ftrace and the like from that configuration'
	@echo 'make check-packages   test DKMS, Debian and RPM packages and Secure Boot on RELEASES="$(RELEASES)" (ALL=1 for more)'
	@echo 'make lint             run only the linters'
	@echo 'make bench            measure the overhead in instructions, on 6.1 and 7.2 (KERNELS="6.12")'
	@echo 'make kernels          download KERNELS, or build them (hz1000: some minutes each)'
	@echo 'Downloads are kept in ~/.cache/tcplat, which may be removed.'
