/*
 * Where a process that simulates keeps files: in memory, where the system has
 * enough for them there.
 */
#ifndef CORVO_SIM_FOLDER_H
#define CORVO_SIM_FOLDER_H

#include <sys/types.h>

/* Of this process. It need not be there. */
const char *folder_own(void);
/* It goes when nothing is in it. */
void folder_give_up(void);
/* What a process that is dead has left. */
void folder_remove(pid_t pid);

#endif
