/*
 * See metric_list.h. Label values may come from clients, names of queues above
 * all: only metric_escape makes them fit to be written between quotes.
 */
#include "proto/metric_list.h"

#define FIRST_CAP 64

void metric_add(struct metric_list *l, enum metric_id id, double value,
		struct str label)
{
	struct m_metric_value *v;

	if (l->n == l->cap) {
		size_t cap = MAX(l->cap * 2, (size_t)FIRST_CAP);
		struct m_metric_value *items =
		    arena_alloc(l->a, cap * sizeof(*items));

		if (l->n > 0)
			memcpy(items, l->items, l->n * sizeof(*items));
		l->items = items;
		l->cap = cap;
	}
	v = &l->items[l->n++];
	*v = (struct m_metric_value){ 0 };
	MSG_SET(v, metric_value, metric, id);
	MSG_SET(v, metric_value, value, value);
	if (label.n > 0)
		MSG_SET(v, metric_value, label, label);
}

struct str metric_escape(struct str s, struct arena *a)
{
	char *out = arena_alloc(a, s.n * 2 + 1);
	size_t n = 0;

	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (c == '\\' || c == '"' || c == '\n')
			out[n++] = '\\';
		out[n++] = c == '\n' ? 'n' : c;
	}
	return str_of(out, n);
}

const struct metric_part metric_parts[METRIC_PARTS] = {
	{ "rocks", "part=\"rocksdb\"" },
	{ "raft", "part=\"raft\"" },
	{ "view", "part=\"sqlite\"" },
};

void metric_list_message(const struct metric_list *l, struct m_metrics *ret)
{
	*ret = (struct m_metrics){ 0 };
	MSG_SET_LIST(ret, metrics, values, l->items, l->n);
}
