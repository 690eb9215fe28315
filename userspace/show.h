/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_SHOW_H
#define TCPLAT_SHOW_H

#include <stdbool.h>
#include <stdint.h>

#include "tree.h"

char *show_cell(bool good, uint64_t value);
void show_group(struct group *group, uint64_t tick_ns, bool gains);

#endif
