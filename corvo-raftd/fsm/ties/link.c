/*
 * See ties/link.h. Links come from anybody; they are looked at only after their
 * signature.
 */
#include "fsm/ties/link.h"

#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "util/base64.h"
#include "util/sha256.h"

static void put_hex(char *ret, const unsigned char *bytes, size_t n)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		ret[2 * i] = digits[bytes[i] >> 4];
		ret[2 * i + 1] = digits[bytes[i] & 15];
	}
}

/* 1, 0: there is none yet, -ERR_*. */
static int read_secret(struct fsm *f, struct str *ret)
{
	struct m_link_secret m;
	struct key k;
	int r;

	key_link_secret(&k);
	r = fsm_read(f, &k, &msg_link_secret, &m);
	if (r > 0)
		*ret = m.secret;
	return r;
}

static struct str make_secret(struct fsm *f, struct str salt)
{
	uint64_t own[] = { fsm_random(f), f->seed, f->now_ns };
	char *hex = arena_alloc(&f->item_arena, 2 * SHA256_BYTES);
	unsigned char hash[SHA256_BYTES];
	struct m_link_secret m = { 0 };
	struct sha256 s;
	struct key k;

	sha256_init(&s);
	sha256_add(&s, salt);
	sha256_add(&s, str_of((const char *)own, sizeof(own)));
	sha256_end(&s, hash);
	put_hex(hex, hash, sizeof(hash));
	MSG_SET(&m, link_secret, secret, str_of(hex, 2 * SHA256_BYTES));
	key_link_secret(&k);
	fsm_put(f, &k, &msg_link_secret, &m);
	return m.secret;
}

/* Base64 with letters that a path may have. */
static struct str encode(struct fsm *f, struct str bytes)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	base64_write(&b, bytes, false);
	for (size_t i = 0; i < b.n; i++) {
		if (b.p[i] == '+')
			b.p[i] = '-';
		if (b.p[i] == '/')
			b.p[i] = '_';
	}
	return arena_copy(&f->item_arena, buf_str(&b));
}

static void sign(struct str secret, struct str said,
		 unsigned char ret[SHA256_BYTES])
{
	struct hmac_sha256 m;

	hmac_sha256_init(&m, secret);
	hmac_sha256_add(&m, STR("approval link 1\n"));
	hmac_sha256_add(&m, said);
	hmac_sha256_end(&m, ret);
}

int link_make(struct fsm *f, struct str salt, const struct m_link_claim *c,
	      struct str *ret)
{
	unsigned char mac[SHA256_BYTES];
	struct str secret, said;
	int r = read_secret(f, &secret);

	if (r < 0)
		return r;
	if (r == 0)
		secret = make_secret(f, salt);
	buf_clear(&f->scratch);
	msg_encode(&msg_link_claim, c, &f->scratch);
	said = encode(f, buf_str(&f->scratch));
	sign(secret, said, mac);
	*ret = arena_printf(
	    &f->item_arena, "%.*s.%.*s", STR_ARG(said),
	    STR_ARG(encode(f, str_of((const char *)mac, sizeof(mac)))));
	return 0;
}

static int refuse_link(struct fsm *f)
{
	return fsm_refuse(f, ERR_LINK_ERROR, "%s", err_text(ERR_LINK_ERROR));
}

static bool decode(struct fsm *f, struct str text, struct str *ret)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	if (!base64_read(&b, text))
		return false;
	*ret = arena_copy(&f->item_arena, buf_str(&b));
	return true;
}

static int read_claim(struct fsm *f, struct str token, struct m_link_claim *ret)
{
	unsigned char mac[SHA256_BYTES];
	struct str said, signature, raw, secret;
	int r;

	if (token.n > LIMIT_LINK_BYTES ||
	    !str_split(token, '.', &said, &signature) ||
	    !decode(f, signature, &signature) || signature.n != sizeof(mac))
		return refuse_link(f);
	r = read_secret(f, &secret);
	if (r < 0)
		return r;
	if (r == 0)
		return refuse_link(f);
	sign(secret, said, mac);
	if (!secret_eq(mac, signature.p, sizeof(mac)) ||
	    !decode(f, said, &raw) ||
	    msg_decode(&msg_link_claim, raw, &f->item_arena, ret) < 0)
		return refuse_link(f);
	return 0;
}

/* Why the job cannot be decided about by this link any more. */
static int refuse_over(struct fsm *f, const struct job *j)
{
	const struct m_decision *d = j->live.decision;

	if (j->live.state == JOB_HELD || d == NULL)
		return fsm_refuse(f, ERR_LINK_OVER,
				  "job \"%.*s\" is not held any more for what "
				  "this link is about",
				  STR_ARG(j->id));
	return fsm_refuse(f, ERR_LINK_OVER,
			  "somebody has decided about job \"%.*s\": it was %s",
			  STR_ARG(j->id),
			  enum_text(&enum_verdict, d->decision));
}

int link_open(struct fsm *f, struct str token, uint64_t now_ns,
	      struct m_link_claim *ret, struct job *ret_job)
{
	int r = read_claim(f, token, ret);

	if (r < 0)
		return r;
	if (ret->expires_at <= now_ns)
		return fsm_refuse(f, ERR_LINK_OVER, "the link has expired");
	r = job_find(f, ret->job_id, ret_job);
	if (r < 0)
		return r;
	if (r == 0)
		return fsm_refuse(f, ERR_LINK_OVER,
				  "job \"%.*s\" does not exist any more",
				  STR_ARG(ret->job_id));
	if (ret_job->live.state != JOB_HELD ||
	    link_number(ret_job) != ret->number)
		return refuse_over(f, ret_job);
	return 0;
}
