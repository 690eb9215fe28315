/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_FUZZ_READER_H
#define TCPLAT_FUZZ_READER_H

#include <stddef.h>
#include <stdint.h>

/* Names required by libFuzzer and the linker's --wrap. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int __real_read_text(int dir, const char *name, char **text);
int __wrap_read_text(int dir, const char *name, char **text);
void __wrap_screen_wait(double seconds);

#endif
