/*
 * Patterns of names: * stands for any characters, also none; every other one
 * for itself.
 */
#ifndef CORVO_GLOB_H
#define CORVO_GLOB_H

#include "util/str.h"

/* Takes at most pattern times name steps, whatever they say. */
bool glob_matches(struct str pattern, struct str name);

#endif
