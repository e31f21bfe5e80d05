/*
 * Names with stars in them.
 */
#ifndef CORVO_PATTERN_H
#define CORVO_PATTERN_H

#include "util/str.h"

/* Each * of the pattern stands for any bytes, or none; all else for itself.
 * Takes as many steps as both are long, multiplied, at most. */
bool pattern_matches(struct str pattern, struct str text);

#endif
