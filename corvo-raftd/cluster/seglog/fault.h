/*
 * A disk that takes its time, for tests and for measuring: only in builds with
 * CORVO_FAULTS. While the file named by CORVO_FAULT_FLUSH_DELAY holds a number,
 * every flush of the log takes so many milliseconds longer.
 */
#ifndef CORVO_SEGLOG_FAULT_H
#define CORVO_SEGLOG_FAULT_H

#ifdef CORVO_FAULTS
void seglog_fault_flush(void);
#else
static inline void seglog_fault_flush(void)
{
}
#endif

#endif
