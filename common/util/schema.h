/*
 * A subset of JSON Schema: what a document must look like. A schema is made
 * ready once; then looking at a document costs little more than reading it, as
 * names and values of a schema are found by halves.
 *
 * Known: type, enum, const, properties, required, additionalProperties, items,
 * minItems, maxItems, minLength, maxLength, minimum, maximum, exclusiveMinimum,
 * exclusiveMaximum; true and false as schemas; title, description, default,
 * examples, $schema, $id and $comment say nothing. Numbers are compared as
 * doubles. Everything else is refused:
 * a rule that is not looked at must not seem to hold.
 */
#ifndef CORVO_SCHEMA_H
#define CORVO_SCHEMA_H

#include "util/arena.h"
#include "util/buf.h"

#define SCHEMA_NAMES_MAX 256 /* properties, or values of enum, of one place */

struct schema;

/*
 * In the arena, with slices of the text, which is valid JSON. NULL: it is no
 * schema, or none of this subset; why says where and what, the place beginning
 * with `name`.
 */
const struct schema *schema_read(struct str text, const char *name,
				 struct arena *a, struct buf *why);

/*
 * The document is as the schema says; it is valid JSON, and an empty text
 * stands for null. False: why says the first place that is not.
 */
bool schema_fits(const struct schema *s, struct str document, const char *name,
		 struct arena *a, struct buf *why);

#endif
