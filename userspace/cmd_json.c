// SPDX-License-Identifier: GPL-2.0
/* tcplat json: print everything, for programs. */
#include <argp.h>

#include "json.h"
#include "saved.h"
#include "snap.h"

static bool pretty;

static void run(const struct place *place, int argc, char **argv)
{
	struct snap snap;

	if (!snap_take(&snap, place, argc, argv))
		return;
	json_print(saved_make(place, &snap), pretty);
	snap_free(&snap);
}

static const struct argp_option options[] = {
	{ "pretty", 'p', NULL, 0, "Indent the output", 0 },
	{ 0 },
};

static const struct setting settings[] = {
	{ 'p', .flag = &pretty },
	{ 0 },
};

const struct cmd cmd_json = {
	.name = "json",
	.args = "[GROUP...]",
	.brief = "Print everything as JSON",
	.doc = "The schema is tcplat.schema.json. null stands for a value that could not be read.",
	.max_args = -1,
	.options = options,
	.settings = settings,
	.run = run,
};
