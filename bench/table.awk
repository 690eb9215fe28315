# SPDX-License-Identifier: GPL-2.0
#
# Prints the measurements of bench/run, a table per part. With -v recorded=FILE, where each line
# is a workload and what tcplat added to it, prints TAP instead: whether that has changed by 15%.
#
# For connect() the lower quartile is shown: most other calls contain a timer interrupt, or one
# more, and for the very fastest some work was done elsewhere. For other workloads it is the
# median of the differences between repetition k and repetition k with nothing loaded.

BEGIN { FS = "\t" }

$1 == "value" {
	if (!($2 in seen)) {
		seen[$2]
		rows[++nrows] = $2
	}
	if (!(($2, $3) in count))
		count[$2, $3] = 0
	value[$2, $3, count[$2, $3]++] = $5
}

$1 == "fact" && !($2 in fact) {
	facts[++nfacts] = $2
	fact[$2] = $3
}

$1 ~ /^probe / { probes[++nprobes] = substr($1, 7) }

# Sorts sorted[0] to sorted[n - 1]. Returns the lower quartile for connect() and calls, else the
# median.
function typical(n, load,    i, j, t) {
	for (i = 1; i < n; i++) {
		t = sorted[i]
		for (j = i; j > 0 && sorted[j - 1] > t; j--)
			sorted[j] = sorted[j - 1]
		sorted[j] = t
	}
	return sorted[int(load ~ /^c(all|onnect)/ ? n / 4 : (n - 1) / 2)]
}

function measured(what, load,    k) {
	for (k = 0; k < count[what, load]; k++)
		sorted[k] = value[what, load, k]
	return typical(count[what, load], load)
}

function total(load) { return measured(NOTHING, load) }

function added(what, load,    k) {
	if (load ~ /^c(all|onnect)/)
		return measured(what, load) - total(load)
	for (k = 0; k < count[what, load]; k++)
		sorted[k] = value[what, load, k] - value[NOTHING, load, k]
	return typical(count[what, load], load)
}

function table(title, loads, heads,    n, i, j, all, load, head, line, any) {
	all = split(loads, load, " ")
	split(heads, head, "|")
	for (j = 1; j <= all; j++)
		if (has(NOTHING, load[j])) {
			load[++n] = load[j]
			head[n] = head[j]
		}
	if (!n)
		return
	printf "%s\n\n%-28s", title, ""
	for (j = 1; j <= n; j++)
		printf "%17s", head[j]
	printf "\n%-28s", NOTHING " (in all)"
	for (j = 1; j <= n; j++)
		printf "%9d        ", total(load[j])
	print ""
	for (i = 1; i <= nrows; i++) {
		if (rows[i] == NOTHING)
			continue
		line = sprintf("%-28s", rows[i])
		any = 0
		for (j = 1; j <= n; j++) {
			if (!has(rows[i], load[j])) {
				line = line sprintf("%17s", "-")
				continue
			}
			any = 1
			line = line sprintf("%9d %6.2f%%", added(rows[i], load[j]),
					    100 * added(rows[i], load[j]) / total(load[j]))
		}
		if (any)
			print line
	}
	print ""
}

# Each call, and what tcplat and each group alone add to it.
function calls(loads, texts,    n, i, k, load, text, line, group) {
	n = split(loads, load, " ")
	split(texts, text, "|")
	if (!has(NOTHING, "call-" load[1]))
		return
	printf "Instructions added to a call\n\n%-28s%9s%9s%15s\n", "", "in all", "tcplat", "attach=kprobe"
	for (i = 1; i <= n; i++) {
		line = ""
		for (k = 1; k <= nrows; k++) {
			group = rows[k]
			if (!sub(/^tcplat, /, "", group) || !sub(/ alone$/, "", group) ||
			    !has(rows[k], "call-" load[i]))
				continue
			if (added(rows[k], "call-" load[i]) > NOISE)
				line = line sprintf("  %s %d", group, added(rows[k], "call-" load[i]))
		}
		# The timer is not called by a program.
		printf "%-28s%9s%9d%15d%s\n", text[i], load[i] == "timer" ? "-" : total("call-" load[i]),
		       added("tcplat", "call-" load[i]), added("tcplat attach=kprobe", "call-" load[i]), line
	}
	print ""
}

function has(what, load) { return (what, load) in count }

function bar(text, got, limit, unit) {
	printf "%-52s %9.2f%s of %6.2f%s  %s\n", text, got, unit, limit, unit,
	       got <= limit ? "met" : "MISSED"
}

# If memory for TCP gets scarce, the kernel sends more segments for the same data.
function segment(load) {
	return added("tcplat", load) / value[NOTHING, "segments" substr(load, 7), 0] * 100
}

# In percent of the total with nothing loaded.
function share(what, load, limit, text) {
	if (has(what, load))
		bar(text, 100 * added(what, load) / total(load), limit, "%")
}

function bars(    f, i) {
	for (f = 4; f <= 6; f += 2) {
		share("tcplat", "rr" f, 1.3, "all groups on, RR, IPv" f)
		share("tcplat", "stream" f, 0.5, "all groups on, STREAM, IPv" f)
		share("tcplat", "crr" f, 3.3, "all groups on, CRR, IPv" f)
		share("tcplat, ackmode off", "rr" f, 1.1, "without ackmode, RR, IPv" f)
		share("tcplat, ackmode off", "crr" f, 2.0, "without ackmode, CRR, IPv" f)
		share("tcplat, all groups off", "rr" f, 0.05, "all groups off, RR, IPv" f)
	}
	if (has("bpftrace", "rr4"))
		bar("against the bpftrace script, RR",
		    added("tcplat", "rr4") / added("bpftrace", "rr4"), 0.05, " ")
	if (has("tcplat", "connect1"))
		bar("20,001 ports tried against 1",
		    added("tcplat", "connect20001") / added("tcplat", "connect1"), 1.05, " ")
	if (has("tcplat", "others10"))
		bar("a segment beside 100,000 sockets against 20",
		    segment("others50000") / segment("others10"), 1.15, " ")
	for (i = 1; i <= nfacts; i++)
		if (facts[i] ~ /^us of rmmod/)
			bar(substr(facts[i], 7), fact[facts[i]] / 1000, 100, "ms")
		else if (facts[i] ~ /^us to read/)
			bar(substr(facts[i], 4), fact[facts[i]] / 1000, 5, "ms")
}

function check(    line, word, n, now) {
	while ((getline line <recorded) > 0) {
		if (line ~ /^#/)
			continue
		split(line, word, "\t")
		printf "# %s: %s instructions added, %d recorded\n", word[1],
		       has("tcplat", word[1]) ? added("tcplat", word[1]) : "no", word[2]
		# Much less means that a group does not count.
		if (!has("tcplat", word[1]) || added("tcplat", word[1]) > 1.15 * word[2] ||
		    added("tcplat", word[1]) < 0.85 * word[2]) {
			printf "not "
			failed = 1
		}
		printf "ok %d what tcplat adds to %s\n", ++n, word[1]
	}
	print "1.." n + 0
	exit failed || !n
}

END {
	NOTHING = "nothing loaded"
	# A group without a probe in a call shows less than this.
	NOISE = 50
	if (recorded)
		check()
	table("Instructions added to a transaction", "rr4 rr6 stream4 stream6 crr4 crr6",
	      "RR, IPv4|RR, IPv6|STREAM, IPv4|STREAM, IPv6|CRR, IPv4|CRR, IPv6")
	table("Instructions added to a transaction", "unheld4 unheld6 held4 held6",
	      "RR, IPv4|RR, IPv6|with a hold, 4|with a hold, 6")
	calls("nodelay quickack destroy send restart wait bind timer",
	      "setsockopt(TCP_NODELAY)|setsockopt(TCP_QUICKACK)|close(), nothing to send|send()|send() after a silence|send() that waits|bind(), any port|a delayed ACK by the timer")
	table("Instructions added to a connect()", "connect1 connect101 connect20001",
	      "1 port tried|101 ports|20,001 ports")
	table("Instructions added to RR beside other connections",
	      "others10 others1000 others50000 others100000", "10|1,000|50,000|100,000")
	if (has(NOTHING, "segments10"))
		printf "%-28s%9.2f%17.2f%17.2f%17.2f\n\n", "segments sent",
		       value[NOTHING, "segments10", 0] / 100, value[NOTHING, "segments1000", 0] / 100,
		       value[NOTHING, "segments50000", 0] / 100, value[NOTHING, "segments100000", 0] / 100
	for (i = 1; i <= nfacts; i++)
		printf "%12d %s\n", fact[facts[i]], facts[i]
	if (nfacts)
		print ""
	if (nprobes) {
		print "Probes, after the workloads"
		print ""
		for (i = 1; i <= nprobes; i++)
			print "  " probes[i]
		print ""
	}
	bars()
}
