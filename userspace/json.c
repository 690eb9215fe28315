// SPDX-License-Identifier: GPL-2.0
/* Helpers for commands that print JSON. */
#include <json-c/json.h>
#include <stdio.h>

#include "json.h"
#include "report.h"
#include "tcplat.h"

/* A JSON string, or null if @text is NULL. */
struct json_object *json_text(const char *text)
{
	return text ? json_object_new_string(text) : NULL;
}

void json_write(FILE *out, struct json_object *object, bool pretty)
{
	int how = pretty ? JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED :
			   JSON_C_TO_STRING_PLAIN;
	const char *text = json_object_to_json_string_ext(object,
				how | JSON_C_TO_STRING_NOSLASHESCAPE);

	if (text)
		fprintf(out, "%s\n", text);
	else
		report(STATUS_FAULT, "out of memory");
}

/* Print @object and release it. */
void json_print(struct json_object *object, bool pretty)
{
	json_write(stdout, object, pretty);
	json_object_put(object);
}
