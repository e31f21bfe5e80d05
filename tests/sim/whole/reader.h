/*
 * Those who read from a machine: a view of its jobs, made of nothing but its
 * event feed, which has to become what its store says; and somebody who wants
 * to know of what was acknowledged before he asked.
 */
#ifndef CORVO_SIM_READER_H
#define CORVO_SIM_READER_H

#include "util/buf.h"

struct machine;
struct reader;

struct reader *reader_new(struct machine *m);
void reader_free(struct reader *r);
/* No new questions about the past. */
void reader_calm(struct reader *r);
/* The machine has an empty store now. */
void reader_forget(struct reader *r);
/* The view has all events there are, and nobody waits for an answer. */
bool reader_is_done(const struct reader *r);
/* Fails unless the view is what the store says. */
void reader_check(struct reader *r);

/* --- created.c --- */

/* The second record of a job, by the first one, when nothing has happened. */
void created_live(struct str doc, struct buf *ret);

#endif
