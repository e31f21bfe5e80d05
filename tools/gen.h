/*
 * Pages of docs/reference made from the tables. Each function appends one
 * whole page.
 */
#ifndef CORVO_GEN_H
#define CORVO_GEN_H

#include "proto/proto.h"

void gen_http_api(struct buf *b);
void gen_ops(struct buf *b);
void gen_queries(struct buf *b);
void gen_events(struct buf *b);
void gen_errors(struct buf *b);
void gen_settings(struct buf *b);
void gen_metrics(struct buf *b);
void gen_messages(struct buf *b);

/* For the pages: the title and the note that the page is generated. */
void gen_head(struct buf *b, const char *title);

/* The kind of a field in words: "text, at most 255 bytes". */
void gen_type(struct buf *b, const struct field_desc *f, bool is_request);

/* Text inside a cell of a table. */
void gen_cell(struct buf *b, const char *text);

#endif
