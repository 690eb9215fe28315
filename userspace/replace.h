/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_REPLACE_H
#define TCPLAT_REPLACE_H

#include <stdbool.h>
#include <stdio.h>

bool replaceable(const char *path);
bool replace_file(const char *path, void (*write)(FILE *out, void *arg), void *arg);

#endif
