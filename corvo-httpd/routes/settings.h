/*
 * What routes that change settings have in common.
 */
#ifndef CORVO_ROUTES_SETTINGS_H
#define CORVO_ROUTES_SETTINGS_H

#include "req/req.h"

/*
 * Of a queue null takes a setting away; where each has a value, to take the
 * null for nothing would be to guess. False when an error has been answered.
 */
bool settings_refuse_null(struct req *r, const struct msg_desc *d,
			  struct json body);

#endif
