/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_WHO_H
#define TCPLAT_WHO_H

#include <stdbool.h>
#include <stdint.h>

#include "tcplat.h"

char *who_netns(const char *proc, uint64_t inode);
bool who_netns_inode(const char *proc, const char *name, uint64_t *inode);
char *who_cgroup(const char *root, uint64_t id);
char *who_key(const struct place *place, const char *fields, const char *key);
char *who_task(const char *proc, uint64_t pid);

#endif
