/*
 * What a member is as a field: for the two writers, and nobody else.
 */
#ifndef CORVO_PB_SHOW_H
#define CORVO_PB_SHOW_H

#include "rpc/pb/pb.h"

/* It has a member, which is there. A message that a request gives as JSON is
 * only read. */
static inline bool pb_is_shown(const struct pb_desc *d,
			       const struct pb_field *f, uint64_t has)
{
	return (f->flags & (PB_UNUSED | PB_FOUND)) == 0 &&
	       (has >> f->index & 1) != 0 &&
	       (f->type != PB_json || pb_member(d, f)->kind == K_raw);
}

/* p: the member in its struct. Of a signed one the same bits. */
uint64_t pb_number(const struct pb_field *f, const struct field_desc *member,
		   const void *p);
double pb_double(const struct field_desc *member, const void *p);
struct str pb_text(const struct pb_field *f, const struct field_desc *member,
		   const void *p);

#endif
