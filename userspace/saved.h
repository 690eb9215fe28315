/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_SAVED_H
#define TCPLAT_SAVED_H

#include <stdbool.h>

#include "snap.h"

struct json_object;

struct json_object *saved_make(const struct place *place, struct snap *snap);
bool saved_load(struct snap *snap, const char *path);

#endif
