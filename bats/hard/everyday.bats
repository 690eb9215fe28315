#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# Everyday traffic on two processors with all groups on: nginx under wrk and ab, with short
# connections, port searches, binds, senders that wait and idle restarts in parallel. No hit may be
# missed, and counts must equal the kernel's. No kprobe events are used: they are kprobes, and
# could make return probes miss hits that they see on a host without them. Only this has the
# traffic of a real web server.

load ../helpers
load ../ports

SECONDS_EACH=$(often 30 600)

PATH+=:$TCPLAT_WEB/usr/sbin:$TCPLAT_WEB/usr/bin

setup_file() {
	# A bare guest has no users or groups.
	[[ -e /etc/group ]] || echo 'root:x:0:' >/etc/group
	[[ -e /etc/passwd ]] || echo 'root:x:0:0::/:/bin/sh' >/etc/passwd
	! loaded || unload_module
	no_sockets
	load_module
}

teardown_file() {
	unload_module
}

setup() {
	local site=$BATS_TEST_TMPDIR
	untraced
	# Minutes of short connections would otherwise use up the ports.
	set_meanwhile /proc/sys/net/ipv4/tcp_tw_reuse 1
	mkdir -p "$site/www"
	head -c 300 /dev/zero >"$site/www/small"
	head -c 200000 /dev/zero >"$site/www/large"
	cat >"$site/nginx.conf" <<-END
		user root;
		daemon off;
		worker_processes 2;
		pid $site/nginx.pid;
		error_log $site/error.log;
		events { worker_connections 1024; }
		http {
			access_log off;
			client_body_temp_path $site/body;
			proxy_temp_path $site/proxy;
			fastcgi_temp_path $site/fastcgi;
			uwsgi_temp_path $site/uwsgi;
			scgi_temp_path $site/scgi;
			keepalive_requests 1000000;
			server {
				listen 127.0.0.1:8080;
				root $site/www;
				location /slow/ { alias $site/www/; limit_rate 100k; }
				location /proxy/ { proxy_pass http://127.0.0.1:8080/; }
			}
		}
	END
	nginx -p "$site" -c "$site/nginx.conf" 3>&- &
	nginx=$!
	# It writes this when it listens.
	soon test -s "$site/nginx.pid"
}

teardown() {
	kill "$nginx" 2>/dev/null || :
	wait "$nginx" || :
	tidy
}

# beside COMMAND...: runs COMMAND over and over in the background until the time is up.
beside() {
	{
		while ((SECONDS < until)); do
			"$@" >>"$BATS_TEST_TMPDIR/log" 2>&1 || exit 1
		done
	} 3>&- &
	background+=($!)
}

wrk_() { LD_LIBRARY_PATH=$TCPLAT_WEB/usr/lib/x86_64-linux-gnu wrk --timeout 60s "$@"; }

# Runs wrk and ab with kept and short connections and small and large files.
nginx_under() {
	local url=http://127.0.0.1:8080
	beside wrk_ -t 2 -c 20 -d 5s "$url/small"
	beside wrk_ -t 2 -c 10 -d 5s "$url/slow/large"
	beside wrk_ -t 2 -c 4 -d 5s "$url/large"
	beside ab -q -k -r -s 120 -c 10 -n 500 "$url/small"
	beside ab -q -r -s 120 -c 10 -n 200 "$url/proxy/small"
}

kernels() { echo "$(tcp_ext DelayedACKs DelayedACKLocked TCPLossProbes) $(tcp_mib ActiveOpens)"; }

# exact TRAFFIC...: runs traffic; then each count equals the kernel's, and nothing was missed, except
# that the return probe on tail loss probes, which a timer sends, misses those that interrupt another
# kprobe's handler.
exact() {
	local group pid until n missed tlp_missed timeouts deferred probes opens
	local -a earlier
	soon no_sockets_but_listeners
	quiet
	read -ra earlier <<<"$(kernels)"
	reset_counters
	until=$((SECONDS + SECONDS_EACH))
	for n; do
		"$n"
	done
	for pid in "${background[@]}"; do
		wait "$pid" || fail "failed: $(tail -n 20 "$BATS_TEST_TMPDIR/log")"
	done
	background=()
	stop_ports
	soon no_sockets_but_listeners
	quiet
	read -r timeouts deferred probes opens <<<"$(kernels)"
	((timeouts -= earlier[0], deferred -= earlier[1], probes -= earlier[2], opens -= earlier[3])) || :
	for group in "${GROUPS_ALL[@]}"; do
		counter_into missed "$group/missed"
		if [[ $group == loss ]]; then
			probes_agree "$(counter loss/tlp)" "$probes"
			tlp_missed=$missed missed=0
		fi
		same "$group: status, missed" "$(counter "$group/status") $missed" "armed 0"
	done
	assert_all_seen
	same timeouts "$(counter delack/timeouts)" "$timeouts"
	same deferred "$(counter delack/deferred)" "$deferred"
	same searches "$(counter portsearch/searches)" "$opens"
	echo "# in $SECONDS_EACH s $timeouts timeouts, $deferred deferred," \
		"$opens connects, $(counter bindsearch/searches) binds," \
		"$(counter sndwait/waits) waits, $(counter idlerestart/restarts) restarts;" \
		"$tlp_missed tail loss probes missed" >&3
	((timeouts > 10)) || fail "hardly any timeout"
}

# Connections of processes that have exited may still send.
no_sockets_but_listeners() {
	[[ ! $(ss -Htn state established state fin-wait-1 state fin-wait-2 state close-wait \
		state last-ack state closing state syn-sent) ]]
}

others() {
	beside "$TRAFFIC" crr -n 200
	beside "$TRAFFIC" parallel -c 20 -n 5
	beside "$TRAFFIC" owned -n 5 --hold 100
	beside "$TRAFFIC" full -n 2 --interval 100 --hold 500
	beside "$TRAFFIC" idle -n 3 --interval 1000
	start_ports
	binds() { ask bind0 50; }
	while ((SECONDS < until)); do
		binds
		sleep 1
	done
}

@test "nginx, and short connections, searches, waits and idle restarts beside it" {
	exact nginx_under others
	(($(counter portsearch/searches) > 200)) || fail "hardly any search"
	(($(counter bindsearch/searches) > 0)) || fail "no bind"
	(($(counter sndwait/waits) > 0)) || fail "no sender waited"
	(($(counter idlerestart/restarts) > 0)) || fail "no idle restart"
}
