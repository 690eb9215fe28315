/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_JSON_H
#define TCPLAT_JSON_H

#include <stdbool.h>
#include <stdio.h>

struct json_object;

struct json_object *json_text(const char *text);
void json_write(FILE *out, struct json_object *object, bool pretty);
void json_print(struct json_object *object, bool pretty);

#endif
