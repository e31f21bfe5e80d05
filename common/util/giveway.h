/*
 * Long work that nobody waits for lets others go first.
 *
 * A low priority is not enough for that: a thread that runs is left on its
 * processor for some milliseconds even when one that is in a hurry wakes up.
 * So the work says every so often, at most a fraction of a millisecond apart,
 * that this would be a good moment.
 */
#ifndef CORVO_GIVEWAY_H
#define CORVO_GIVEWAY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * This thread gives way from now on for so long; 0: it does not. After that
 * its priority alone decides: where another program is busy all the time,
 * whoever gives way for ever gets next to nothing.
 */
void give_way_for(uint64_t ns);

/* No lock is held that others need. True: others had the chance to go. */
bool give_way(void);

#endif
