/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TCPLAT_MATRIX_H
#define TCPLAT_MATRIX_H

#include "tree.h"

void matrix_show(const struct tree *tree);

#endif
