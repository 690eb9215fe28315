/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_INSTANCE_H
#define TCPLAT_INSTANCE_H

#include <stdbool.h>

int instance_open(int root_fd, const char *user);
bool instance_need(int root_fd, const char *user);
void instance_close(void);
void instance_hold_signals(bool hold);
const char *instance_tracing(void);
const char *instance_name(void);
int instance_file(const char *name, int flags);
int instance_write(const char *name, const char *text);

#endif
