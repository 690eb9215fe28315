# SPDX-License-Identifier: GPL-2.0
#
# What bench/run shows of what was measured: a table for each of its parts.
#
# A connect() is short, and the least of many has no timer's interrupt in it; of the
# rest it is the middle of what repetition k takes more than repetition k of nothing.

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

# middle N: of sorted[0] to sorted[N - 1], which it sorts.
function middle(n,    i, j, t) {
	for (i = 1; i < n; i++) {
		t = sorted[i]
		for (j = i; j > 0 && sorted[j - 1] > t; j--)
			sorted[j] = sorted[j - 1]
		sorted[j] = t
	}
	return sorted[int((n - 1) / 2)]
}

function least(what, load,    k, m) {
	m = value[what, load, 0]
	for (k = 1; k < count[what, load]; k++)
		if (value[what, load, k] < m)
			m = value[what, load, k]
	return m
}

# In all, of nothing loaded.
function total(load,    k) {
	if (load ~ /^connect/)
		return least(NOTHING, load)
	for (k = 0; k < count[NOTHING, load]; k++)
		sorted[k] = value[NOTHING, load, k]
	return middle(count[NOTHING, load])
}

function added(what, load,    k) {
	if (load ~ /^connect/)
		return least(what, load) - least(NOTHING, load)
	for (k = 0; k < count[what, load]; k++)
		sorted[k] = value[what, load, k] - value[NOTHING, load, k]
	return middle(count[what, load])
}

function table(title, loads, heads,    n, i, j, load, head, line, any) {
	n = split(loads, load, " ")
	split(heads, head, "|")
	if (!((NOTHING, load[1]) in count))
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
			if (!((rows[i], load[j]) in count)) {
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

function has(what, load) { return (what, load) in count }

function bar(text, got, limit, unit) {
	printf "%-52s %9.2f%s of %6.2f%s  %s\n", text, got, unit, limit, unit,
	       got <= limit ? "met" : "MISSED"
}

# In percent of what nothing takes.
function share(what, load, limit, text) {
	if (has(what, load))
		bar(text, 100 * added(what, load) / total(load), limit, "%")
}

function against(what, limit, text) {
	if (has(what, "rr4"))
		bar(text, added("tcplat", "rr4") / added(what, "rr4"), limit, " ")
}

function bars(    f, i) {
	for (f = 4; f <= 6; f += 2) {
		share("tcplat", "rr" f, 1.5, "all groups on, RR, IPv" f)
		share("tcplat", "stream" f, 0.5, "all groups on, STREAM, IPv" f)
		share("tcplat", "crr" f, 1, "all groups on, CRR, IPv" f)
		share("tcplat, all groups off", "rr" f, 0.05, "all groups off, RR, IPv" f)
	}
	against("BPF", 0.5, "against the BPF program, RR")
	against("bpftrace", 0.05, "against the bpftrace script, RR")
	if (has("tcplat", "connect1"))
		bar("20,001 ports tried against 1",
		    added("tcplat", "connect20001") / added("tcplat", "connect1"), 1.05, " ")
	if (has("tcplat", "others10"))
		bar("beside 100,000 connections against 10",
		    added("tcplat", "others100000") / added("tcplat", "others10"), 1.15, " ")
	for (i = 1; i <= nfacts; i++)
		if (facts[i] ~ /^us of rmmod/)
			bar(substr(facts[i], 7), fact[facts[i]] / 1000, 100, "ms")
		else if (facts[i] ~ /^us to read/)
			bar(substr(facts[i], 4), fact[facts[i]] / 1000, 5, "ms")
}

END {
	NOTHING = "nothing loaded"
	table("Instructions added to a transaction", "rr4 rr6 stream4 stream6 crr4 crr6",
	      "RR, IPv4|RR, IPv6|STREAM, IPv4|STREAM, IPv6|CRR, IPv4|CRR, IPv6")
	table("Instructions added to a connect()", "connect1 connect101 connect20001",
	      "1 port tried|101 ports|20,001 ports")
	table("Instructions added to RR beside other connections",
	      "others10 others1000 others20000 others100000", "10|1,000|20,000|100,000")
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
