#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Installs from the sources with the commands of the README, in a minimal system: only this shows
# that the packages they install are sufficient.

load helpers

setup_file() {
	lay_over
	mkdir "$COPY/src"
	git -c "safe.directory=*" -C "$TOP" ls-files -z | tar -C "$TOP" --null -T - -cf - | tar -C "$COPY/src" -xf -
}

# in_source COMMANDS: runs them in the sources, for the layer's kernel.
in_source() { inside KVER="$KERNEL" sh -ec "cd /src; $1"; }

@test "$RELEASE: the README's lines install the module and the reader, and uninstall removes the reader" {
	local lines
	# The first commands below this heading.
	lines=$(awk '/^## / { here = $0 == "## Install it" }
		here && /^    / { print substr($0, 5); seen = 1; next }
		here && seen { exit }' "$TOP/README.md")
	[[ $lines == 'apt install '*$'\nmodprobe tcplat' ]] ||
		fail "unexpected lines in the README: $lines"
	retried apt-get -q update
	# Not interactive here, and for the layer's kernel, which modprobe would need to run.
	lines=${lines%$'\n'modprobe tcplat}
	run in_source "uname() { echo \"\$KVER\"; }
		apt() { apt-get -y -q -o APT::Sandbox::User=root --no-install-recommends \"\$@\"; }
		$lines"
	assert_success
	refute_output --partial 'is built without'
	finds "$VERSION"
	prints --partial "$VERSION" inside tcplat --version
	prints /usr/local/bin/tcplat inside sh -c 'command -v tcplat'
	run -0 in_source 'make uninstall'
	rm -rf "$COPY/src"
	prints "/usr/lib/modules/$KERNEL/updates/tcplat.ko" left_behind
}
