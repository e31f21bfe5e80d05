/*
 * What the readers of requests share: msg_json.c reads objects and lists,
 * msg_json_value.c single values, corvo-httpd/rpc/pb the same from protobuf.
 */
#ifndef CORVO_MSG_READ_H
#define CORVO_MSG_READ_H

#include "proto/msg_json.h"
#include "proto/msg_place.h"

/* Beside 0 and -ERR_*: the value is as good as none. */
#define MSG_READ_ABSENT 1

/* Kinds that are neither lists nor messages; p: the member of the struct. */
int msg_read_scalar(const struct msg_reader *rd, const struct place *at,
		    struct json v, void *p);
int msg_read_duration(const struct msg_reader *rd, const struct place *at,
		      struct json v, uint64_t *ret);

/* False: it is no number, too large a one, or is written with too many digits:
 * whoever sends them must not hold up others. */
bool msg_read_number(struct json v, double *ret);

/* The text of the field's enum. */
int msg_read_word(const struct msg_reader *rd, const struct place *at,
		  struct str text, uint32_t *ret);

int msg_refuse_type(const struct msg_reader *rd, const struct place *at,
		    const char *want, struct json v);

#endif
