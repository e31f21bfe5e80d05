/*
 * A number from a file that a test writes while a node runs, of milliseconds
 * mostly. Only in builds with CORVO_FAULTS.
 */
#ifndef CORVO_FAULT_FILE_H
#define CORVO_FAULT_FILE_H

#include "util/base.h"

/* path NULL, no file, or no number in it: 0. */
uint64_t fault_file_number(const char *path);

#endif
