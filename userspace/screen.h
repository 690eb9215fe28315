/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_SCREEN_H
#define TCPLAT_SCREEN_H

#include <stdbool.h>
#include <stdio.h>

double now_seconds(void);
void stop_on_signals(void);
bool stopped(void);

bool screen_open(void);
void screen_close(void);
FILE *screen_page(void);
bool screen_show(void);
void screen_wait(double seconds);

#endif
