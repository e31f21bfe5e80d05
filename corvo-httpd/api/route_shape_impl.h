/*
 * What rows of route_shape.c are written with.
 */
#ifndef CORVO_ROUTE_SHAPE_IMPL_H
#define CORVO_ROUTE_SHAPE_IMPL_H

#include "api/route_shape.h"

#define MEMBERS(...)                  \
	(const struct shape_member[]) \
	{                             \
		__VA_ARGS__,          \
		{                     \
			0             \
		}                     \
	}

#define TEXT_SCHEMA  "{\"type\":\"string\"}"
#define TEXTS_SCHEMA "{\"type\":\"array\",\"items\":{\"type\":\"string\"}}"
#define BOOL_SCHEMA  "{\"type\":\"boolean\"}"
#define UINT_SCHEMA  "{\"type\":\"integer\",\"minimum\":0}"
#define REF(name)    "{\"$ref\":\"#/components/schemas/" name "\"}"

#define VIEW_LAG                                                              \
	{                                                                     \
		"view_lag_ms", "whole number", UINT_SCHEMA,                   \
		    "Only when the list may lack the newest writes: how far " \
		    "it is behind."                                           \
	}

#define WAIT_ARGUMENT(doc)                           \
	{                                            \
		"wait", "duration", TEXT_SCHEMA, doc \
	}

#define LIMIT_ARGUMENT(doc)                               \
	{                                                 \
		"limit", "whole number", UINT_SCHEMA, doc \
	}

#define EVENT_FILTERS                                                         \
	{ "queues", "text", TEXT_SCHEMA,                                      \
	  "Only events of these queues, with "                                \
	  "commas between them." },                                           \
	    { "job_ids", "text", TEXT_SCHEMA, "Only events of these jobs." }, \
	{                                                                     \
		"types", "text", TEXT_SCHEMA, "Only events of these types."   \
	}

#define GROUPS_MEMBER(doc)                                                  \
	{                                                                   \
		"groups", "list of objects",                                \
		    "{\"type\":\"array\",\"items\":{\"type\":\"object\"}}", \
		    doc                                                     \
	}

/* Which sums, and by what. */
#define USAGE_ARGUMENTS                                                    \
	{ "from", "time or day", TEXT_SCHEMA,                              \
	  "From the hour of this time on; a day stands for its "           \
	  "beginning (default: a day before to)." },                       \
	    { "to", "time or day", TEXT_SCHEMA,                            \
	      "Up to this time, the hour it is in included "               \
	      "(default now)." },                                          \
	    { "days", "text", TEXT_SCHEMA,                                 \
	      "utc (default), or local: from and to are days of the "      \
	      "zone of the settings." },                                   \
	    { "queue", "text", TEXT_SCHEMA, "Only of this queue." },       \
	    { "model", "text", TEXT_SCHEMA, "Only of this model." },       \
	    { "provider", "text", TEXT_SCHEMA, "Only of this provider." }, \
	    { "tag", "text", TEXT_SCHEMA,                                  \
	      "Only of jobs with this tag, NAME:VALUE; several with "      \
	      "commas between them. The settings say which tags there "    \
	      "are." },                                                    \
	{                                                                  \
		"group_by", "text", TEXT_SCHEMA,                           \
		    "Up to four of queue, model, provider, hour, day, "    \
		    "local_day and tag:NAME, with commas between them."    \
	}

#define STATUS_MEMBER(doc)                         \
	{                                          \
		"status", "text", TEXT_SCHEMA, doc \
	}

#define ENQUEUED_MEMBERS                                            \
	{ "job", "job", REF("job"), "The job as it was created." }, \
	    STATUS_MEMBER("State of the job, or duplicate."),       \
	{                                                           \
		"unique_job_id", "text", TEXT_SCHEMA,               \
		    "Of a duplicate: the earlier job, as `job_id`." \
	}

/* One row per route that differs from its tables, or has errors of its own. */
struct special {
	const char *id;
	const struct shape_member *arguments;
	const struct msg_desc *request;   /* the table has none */
	const struct shape_member *takes; /* instead of the table's */
	bool takes_anything;              /* the same */
	const char *needs;
	const struct msg_desc *reply; /* instead of the table's */
	enum reply_form form;
	bool may_be_empty;
	int also;
	const struct msg_desc *also_reply;
	enum err errors[6];
	const char *request_note;
	const char *reply_note;
	const struct shape_member *members;
};

/* Of the routes of Scheduled-DB; NULL: there is none. */
const struct special *find_special_sdb(const char *id);

#endif
