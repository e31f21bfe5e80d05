/*
 * Shared by the config_*.c and config.c only.
 */
#ifndef CORVO_CONFIG_IMPL_H
#define CORVO_CONFIG_IMPL_H

#include "rt/config.h"

/* Starts a sentence: "flag --bind: ", "corvo.conf:3: bind: ", ... */
void setting_put_where(struct buf *why, const struct settings *s,
		       enum setting_id id, enum setting_source src);

/* The value of a setting that is no text and no bool. */
uint64_t setting_number(const struct settings *s, enum setting_id id);

/* "64MiB", "10s": as it would be written for a setting of that kind. */
void setting_put_value(struct buf *b, enum setting_kind kind, uint64_t v);

/* false: it is none of the kind. */
bool setting_parse_bool(struct str s, bool *ret);
bool setting_parse_size(struct str s, uint64_t *ret);
bool setting_parse_duration(struct str s, uint64_t *ret);

/* Stores text as the value of id; false when its kind cannot read it. */
bool setting_store(struct settings *s, enum setting_id id,
		   enum setting_source src, struct str text);

/* Finds the node's memory and gives shares to the budgets nobody has set. */
void settings_derive(struct settings *s);

/* "... "x" does not work; it takes ..."; -ERR_VALIDATION_ERROR. */
int setting_refuse(const struct settings *s, enum setting_id id,
		   const char *takes, struct buf *why);

/* The rules about other nodes: where they are, and the port for them. */
int settings_check_peers(const struct settings *s, struct buf *why);
int settings_check_peer_port(const struct settings *s, struct buf *why);

/* Every rule but settings_check_bind; 0 or -ERR_VALIDATION_ERROR. */
int settings_check(const struct settings *s, struct buf *why);

#endif
