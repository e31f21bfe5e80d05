/*
 * Deliveries to inbound webhooks: whom they are from, and what becomes of them.
 * Nobody is let in who does not know the secret; here nobody does.
 */
#include "fuzz.h"
#include "hook/hook.h"
#include "proto/limits.h"
#include "util/clock.h"
#include "util/json.h"

#define NOW (1614265330 * NS_PER_S)

/* Lines "name: value", then an empty one, then the body. */
static void read_delivery(struct str in, struct arena *a,
			  struct hook_delivery *d)
{
	struct str line, name, value;

	while (in.n > 0) {
		(void)str_split(in, '\n', &line, &in);
		if (line.n == 0)
			break;
		(void)str_split(line, ':', &name, &value);
		if (name.n > 0 && name.p[0] == '?')
			hook_add_argument(&d->query, str_skip(name, 1), value,
					  a);
		else
			hook_add_header(&d->headers, name, str_trim(value), a);
	}
	d->body = in;
}

static void verify(unsigned how, const struct hook_delivery *d)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct m_hook h = { 0 };

	MSG_SET(&h, hook, name, STR("h"));
	MSG_SET(&h, hook, queue, STR("q"));
	MSG_SET(&h, hook, verify, HOOK_VERIFY_TOKEN + how);
	MSG_SET(&h, hook, secret,
		HOOK_VERIFY_TOKEN + how == HOOK_VERIFY_STANDARD
		    ? STR("whsec_c2VjcmV0LXRoYXQtaXMtbG9uZy1lbm91Z2g=")
		    : STR("9f86d081884c7d659a2feaa0c55ad015"));
	CHECK(hook_verify(&h, d, NOW, &why) < 0 && why.n > 0);
}

/* A webhook of which all that can be a place is the same text. */
static void map(struct str place, const struct hook_delivery *d,
		struct arena *a)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	_cleanup_(buf_done) struct buf texts = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&texts);
	struct m_set_hook set = { 0 };
	struct m_enqueue job = { 0 };
	struct json_error e;
	struct m_hook h = { 0 };
	struct str challenge;

	jw_object(&w);
	jw_key(&w, "a");
	jw_str(&w, place);
	jw_object_end(&w);
	MSG_SET(&set, set_hook, name, STR("h"));
	MSG_SET(&set, set_hook, queue, place);
	MSG_SET(&set, set_hook, tags, buf_str(&texts));
	MSG_SET(&set, set_hook, payload, buf_str(&texts));
	MSG_SET(&set, set_hook, unique_key, place);
	MSG_SET(&set, set_hook, delivery_id, place);
	if (hook_check(&set, a, &why) < 0) {
		CHECK(why.n > 0);
		return;
	}
	MSG_SET(&h, hook, name, set.name);
	MSG_SET(&h, hook, queue, set.queue);
	MSG_SET(&h, hook, tags, set.tags);
	MSG_SET(&h, hook, payload, set.payload);
	MSG_SET(&h, hook, unique_key, set.unique_key);
	MSG_SET(&h, hook, delivery_id, set.delivery_id);
	if (hook_map(&h, d, a, &job, &why) == 0)
		CHECK(json_validate(job.payload, LIMIT_JSON_DEPTH, &e));
	MSG_SET(&h, hook, verify, HOOK_VERIFY_SLACK);
	(void)hook_is_challenge(&h, d, a, &challenge);
	CHECK(json_validate(hook_payload(d->body, a), LIMIT_JSON_DEPTH, &e));
}

void fuzz_one(struct str in)
{
	unsigned how = fuzz_choice(&in, 6);
	struct hook_delivery d = { 0 };
	struct arena a = ARENA_INIT;
	struct str place = STR("q");

	if (how == 5)
		(void)str_split(in, '\n', &place, &in);
	read_delivery(in, &a, &d);
	if (how < 5)
		verify(how, &d);
	else
		map(place, &d, &a);
	arena_done(&a);
}

void fuzz_example(struct rng *rng, struct buf *out)
{
	static const char *const texts[] = {
		"authorization: Bearer x\n\n{}",
		"x-hub-signature-256: sha256=00ff\n\n{}",
		"stripe-signature: t=1614265330,v0=00, v1=00ff\n\n{}",
		"x-slack-signature: v0=00\nx-slack-request-timestamp: "
		"1614265330\n\n{}",
		"webhook-id: a\nwebhook-timestamp: 1614265330\n"
		"webhook-signature: v1,AAAA v1,BBBB\n\n{}",
		".body.kind[0]\n?team: red\nx-a: b\n\n{\"kind\": [\"x\"]}",
	};
	unsigned how = (unsigned)rng_below(rng, 6);

	buf_putc(out, (char)how);
	buf_puts(out, texts[how]);
}
