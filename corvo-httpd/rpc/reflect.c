/*
 * Server reflection: the tables, for clients that want to know what there is.
 * The two versions have the same messages in other packages.
 */
#include "rpc/flow.h"
#include "rpc/streams.h"

static const struct pb_file alpha = {
	.path = "grpc/reflection/v1alpha/reflection.proto",
	.package = "grpc.reflection.v1alpha",
};

/* A file, under the name it is asked for. */
struct found {
	const struct pb_file *f, *as;
};

static bool find_file(struct str path, struct found *ret)
{
	for (size_t i = 0; (ret->f = pb_file_at(i)) != NULL; i++) {
		ret->as = ret->f;
		if (str_is(path, ret->f->path))
			return true;
	}
	*ret = (struct found){ &pb_file_reflection, &alpha };
	return str_is(path, alpha.path);
}

/* "name" or "name.more" */
static bool begins_with_name(struct str s, const char *name)
{
	size_t n = strlen(name);

	return str_starts(s, str_from(name)) && (s.n == n || s.p[n] == '.');
}

/* The file has a message, a service or a method of that name. */
static bool has_symbol(const struct pb_file *f, struct str name)
{
	const struct pb_method *m;
	const struct pb_desc *d;

	for (size_t i = 0; (d = pb_desc_at(i)) != NULL; i++)
		if (d->file == f && begins_with_name(name, d->name))
			return true;
	for (size_t i = 0; (m = pb_method_at(i)) != NULL; i++)
		if (m->file == f && begins_with_name(name, m->service))
			return true;
	return false;
}

static bool is_in(struct str symbol, const struct found *x)
{
	size_t n = strlen(x->as->package);

	return begins_with_name(symbol, x->as->package) && symbol.n > n + 1 &&
	       has_symbol(x->f, str_skip(symbol, n + 1));
}

static bool find_symbol(struct str symbol, struct found *ret)
{
	for (size_t i = 0; (ret->f = pb_file_at(i)) != NULL; i++) {
		ret->as = ret->f;
		if (is_in(symbol, ret))
			return true;
	}
	*ret = (struct found){ &pb_file_reflection, &alpha };
	return is_in(symbol, ret);
}

static struct str bytes_of(struct arena *a, const struct found *x)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	pb_file_bytes(x->f, x->as, &b);
	return arena_copy(a, buf_str(&b));
}

static void answer_file(struct arena *a, bool is_found, const struct found *x,
			struct m_reflect_reply *m)
{
	struct m_reflect_files *files = arena_zalloc(a, sizeof(*files));
	struct m_reflect_error *none = arena_zalloc(a, sizeof(*none));
	struct str *item = arena_alloc(a, sizeof(*item));

	if (!is_found) {
		MSG_SET(none, reflect_error, error_code, CODE_NOT_FOUND);
		MSG_SET(none, reflect_error, error_message,
			STR("there is nothing of that name"));
		MSG_SET(m, reflect_reply, error_response, none);
		return;
	}
	*item = bytes_of(a, x);
	MSG_SET_LIST(files, reflect_files, file_descriptor_proto, item, 1);
	MSG_SET(m, reflect_reply, file_descriptor_response, files);
}

/* Services stand together in the table; the last one has another name, too. */
static void answer_services(struct arena *a, struct m_reflect_reply *m)
{
	struct m_reflect_services *all = arena_zalloc(a, sizeof(*all));
	struct m_reflect_service *rows;
	const struct pb_method *pb, *last = NULL;
	size_t n = 0;

	for (size_t i = 0; pb_method_at(i) != NULL; i++)
		n++;
	rows = arena_zalloc(a, (n + 1) * sizeof(*rows));
	n = 0;
	for (size_t i = 0; (pb = pb_method_at(i)) != NULL; last = pb, i++)
		if (last == NULL || last->file != pb->file) {
			MSG_SET(&rows[n], reflect_service, name,
				arena_printf(a, "%s.%s", pb->file->package,
					     pb->service));
			n++;
		}
	MSG_SET(&rows[n], reflect_service, name,
		arena_printf(a, "%s.ServerReflection", alpha.package));
	n++;
	MSG_SET_LIST(all, reflect_services, service, rows, n);
	MSG_SET(m, reflect_reply, list_services_response, all);
}

static void answer_extensions(struct arena *a, const struct m_reflect_ask *q,
			      struct m_reflect_reply *m)
{
	struct m_reflect_extensions *none = arena_zalloc(a, sizeof(*none));

	MSG_SET(none, reflect_extensions, base_type_name,
		q->all_extension_numbers_of_type);
	MSG_SET(m, reflect_reply, all_extension_numbers_response, none);
}

static void answer(struct arena *a, struct m_reflect_ask *q,
		   struct m_reflect_reply *m)
{
	struct found x = { 0 };
	bool is_found = false;

	MSG_SET(m, reflect_reply, valid_host, q->host);
	MSG_SET(m, reflect_reply, original_request, q);
	if (MSG_HAS(q, reflect_ask, list_services)) {
		answer_services(a, m);
		return;
	}
	if (MSG_HAS(q, reflect_ask, all_extension_numbers_of_type) &&
	    find_symbol(q->all_extension_numbers_of_type, &x)) {
		answer_extensions(a, q, m);
		return;
	}
	if (MSG_HAS(q, reflect_ask, file_by_filename))
		is_found = find_file(q->file_by_filename, &x);
	else if (MSG_HAS(q, reflect_ask, file_containing_symbol))
		is_found = find_symbol(q->file_containing_symbol, &x);
	answer_file(a, is_found, &x, m);
}

/* --- the stream --- */

struct reflection {
	struct req *r;
	struct flow *flow;
};

static void on_message(void *ctx, struct str bytes)
{
	struct reflection *s = ctx;
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	struct arena a = ARENA_INIT;
	struct msg_reader rd = { .a = &a, .why = &why };
	struct m_reflect_ask q = { 0 };
	struct m_reflect_reply m = { 0 };
	int err =
	    remote_parse(s->r, bytes, &rd, &pb_ServerReflectionRequest, &q);

	if (err < 0) {
		flow_end(s->flow, -err, buf_str(&why));
	} else {
		answer(&a, &q, &m);
		flow_send(s->flow, &pb_ServerReflectionResponse, &m);
		if (flow_room(s->flow) == 0)
			flow_pause(s->flow);
	}
	arena_done(&a);
}

static void on_ended(void *ctx)
{
	struct reflection *s = ctx;

	flow_end(s->flow, 0, STR_NULL);
}

static void on_room(void *ctx)
{
	struct reflection *s = ctx;

	flow_go(s->flow);
}

static void on_closed(_unused_ void *ctx)
{
}

static const struct flow_ops reflection_ops = {
	.message = on_message,
	.ended = on_ended,
	.room = on_room,
	.closed = on_closed,
};

void serve_reflection(struct req *r)
{
	struct reflection *s = arena_zalloc(&r->arena, sizeof(*s));

	s->r = r;
	s->flow = flow_begin(r, &reflection_ops, s, false);
}
