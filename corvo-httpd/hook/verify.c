/*
 * Whom a delivery is from. What is signed are the bytes as they came. Secrets
 * and signatures are compared in a time that does not tell where they differ.
 */
#include "hook/hook.h"
#include "hook/hook_impl.h"
#include "util/base64.h"
#include "util/clock.h"
#include "util/sha256.h"

#define TOLERANCE_DEFAULT_NS (300 * NS_PER_S)
#define PARTS_MAX            6
#define SECRETS              2 /* the present one and the one before */

struct signing {
	struct str parts[PARTS_MAX]; /* what is signed */
	size_t n;
	bool coded_key; /* the secret is a key in base64 */
};

/* What the secrets make of it: a delivery may name many signatures, and its
 * body is long. */
struct signatures {
	unsigned char of[SECRETS][SHA256_BYTES];
	bool has[SECRETS];
};

static int refuse(struct buf *why, const char *text)
{
	buf_puts(why, text);
	return -ERR_SIGNATURE_ERROR;
}

bool hook_key(struct str secret, bool coded, struct buf *ret)
{
	const struct str prefix = STR("whsec_");

	if (!coded) {
		buf_put_str(ret, secret);
		return true;
	}
	if (str_starts(secret, prefix))
		secret = str_skip(secret, prefix.n);
	return base64_read(ret, secret) && ret->n > 0;
}

/* False: the secret is no key. */
static bool sign(const struct signing *s, struct str secret,
		 unsigned char ret[SHA256_BYTES])
{
	_cleanup_(buf_done) struct buf key = BUF_INIT(0);
	struct hmac_sha256 m;

	if (secret.n == 0 || !hook_key(secret, s->coded_key, &key))
		return false;
	hmac_sha256_init(&m, buf_str(&key));
	for (size_t i = 0; i < s->n; i++)
		hmac_sha256_add(&m, s->parts[i]);
	hmac_sha256_end(&m, ret);
	return true;
}

static void sign_all(const struct m_hook *h, const struct signing *s,
		     struct signatures *ret)
{
	ret->has[0] = sign(s, h->secret, ret->of[0]);
	ret->has[1] = sign(s, h->previous_secret, ret->of[1]);
}

/* Whether it is what one of the secrets makes of it. */
static bool is_signed(const struct signatures *want, struct str given)
{
	bool is_right = false;

	if (given.n != SHA256_BYTES)
		return false;
	for (size_t i = 0; i < SECRETS; i++)
		if (want->has[i])
			is_right |=
			    secret_eq(want->of[i], given.p, SHA256_BYTES);
	return is_right;
}

static int nibble(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_signed_hex(const struct signatures *want, struct str hex)
{
	unsigned char given[SHA256_BYTES];

	if (hex.n != (size_t)(2 * SHA256_BYTES))
		return false;
	for (size_t i = 0; i < SHA256_BYTES; i++) {
		int high = nibble(hex.p[2 * i]), low = nibble(hex.p[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		given[i] = (unsigned char)(high << 4 | low);
	}
	return is_signed(want, str_of(given, sizeof(given)));
}

/* The same of one signature. */
static bool is_signed_once(const struct m_hook *h, const struct signing *s,
			   struct str hex)
{
	struct signatures want;

	if (hex.n != (size_t)(2 * SHA256_BYTES))
		return false;
	sign_all(h, s, &want);
	return is_signed_hex(&want, hex);
}

/* --- when --- */

static int check_time(const struct m_hook *h, struct str seconds,
		      uint64_t now_ns, struct buf *why)
{
	uint64_t most =
	    MSG_HAS(h, hook, tolerance) ? h->tolerance : TOLERANCE_DEFAULT_NS;
	uint64_t s, at;

	if (!str_parse_u64(seconds, &s) || s > UINT64_MAX / NS_PER_S)
		return refuse(why, "the time of the delivery is missing, or "
				   "no number of seconds");
	at = s * NS_PER_S;
	if ((at > now_ns ? at - now_ns : now_ns - at) <= most)
		return 0;
	return refuse(why, "the time of the delivery is further from now than "
			   "the tolerance allows");
}

/* --- who --- */

/* Digests are compared, so that not even the length is told. */
static bool is_token(struct str want, struct str given)
{
	unsigned char a[SHA256_BYTES], b[SHA256_BYTES];
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, want);
	sha256_end(&s, a);
	sha256_init(&s);
	sha256_add(&s, given);
	sha256_end(&s, b);
	return want.n > 0 && secret_eq(a, b, sizeof(a));
}

static int by_token(const struct m_hook *h, const struct hook_delivery *d,
		    struct buf *why)
{
	const struct str bearer = STR("bearer ");
	struct str given;
	bool is_new, is_old;
	char low[16];

	if (h->token_header.n > 0) {
		given = hook_find_field(&d->headers, h->token_header);
	} else {
		given = hook_header(d, "authorization");
		for (size_t i = 0; i < bearer.n && i < given.n; i++)
			low[i] = hook_lower(given.p[i]);
		if (given.n < bearer.n || memcmp(low, bearer.p, bearer.n) != 0)
			given = STR_NULL;
		given = str_trim(str_skip(given, bearer.n));
	}
	if (given.n == 0)
		return refuse(why, "the delivery has no token");
	/* both are looked at, so that nobody learns which one it was not */
	is_new = is_token(h->secret, given);
	is_old = is_token(h->previous_secret, given);
	if (is_new || is_old)
		return 0;
	return refuse(why, "the token of the delivery is wrong");
}

static int by_github(const struct m_hook *h, const struct hook_delivery *d,
		     struct buf *why)
{
	const struct signing s = { .parts = { d->body }, .n = 1 };
	struct str given = hook_header(d, "x-hub-signature-256");
	struct str kind, hex;

	if (given.n == 0)
		return refuse(why, "the header X-Hub-Signature-256 is missing");
	if (str_split(given, '=', &kind, &hex) && str_is(kind, "sha256") &&
	    is_signed_once(h, &s, hex))
		return 0;
	return refuse(why, "X-Hub-Signature-256 is wrong");
}

/* t=TIME,v1=HEX,... */
static int by_stripe(const struct m_hook *h, const struct hook_delivery *d,
		     uint64_t now_ns, struct buf *why)
{
	struct str all = hook_header(d, "stripe-signature");
	struct str rest = all, word, name, value, t = STR_NULL;
	struct signing s = { .n = 3 };
	struct signatures want;
	bool is_right = false;
	int r;

	if (all.n == 0)
		return refuse(why, "the header Stripe-Signature is missing");
	while (rest.n > 0) {
		(void)str_split(rest, ',', &word, &rest);
		if (str_split(str_trim(word), '=', &name, &value) &&
		    str_is(name, "t"))
			t = value;
	}
	r = check_time(h, t, now_ns, why);
	if (r < 0)
		return r;
	s.parts[0] = t;
	s.parts[1] = STR(".");
	s.parts[2] = d->body;
	sign_all(h, &s, &want);
	for (rest = all; rest.n > 0;) {
		(void)str_split(rest, ',', &word, &rest);
		if (str_split(str_trim(word), '=', &name, &value) &&
		    str_is(name, "v1"))
			is_right |= is_signed_hex(&want, value);
	}
	return is_right ? 0 : refuse(why, "Stripe-Signature is wrong");
}

static int by_slack(const struct m_hook *h, const struct hook_delivery *d,
		    uint64_t now_ns, struct buf *why)
{
	struct str t = hook_header(d, "x-slack-request-timestamp");
	struct str given = hook_header(d, "x-slack-signature");
	const struct signing s = {
		.parts = { STR("v0:"), t, STR(":"), d->body }, .n = 4
	};
	struct str version, hex;
	int r = check_time(h, t, now_ns, why);

	if (r < 0)
		return r;
	if (given.n == 0)
		return refuse(why, "the header X-Slack-Signature is missing");
	if (str_split(given, '=', &version, &hex) && str_is(version, "v0") &&
	    is_signed_once(h, &s, hex))
		return 0;
	return refuse(why, "X-Slack-Signature is wrong");
}

/* "v1,BASE64 v1,BASE64" */
static int by_standard(const struct m_hook *h, const struct hook_delivery *d,
		       uint64_t now_ns, struct buf *why)
{
	struct str id = hook_header(d, "webhook-id");
	struct str t = hook_header(d, "webhook-timestamp");
	struct str rest = hook_header(d, "webhook-signature");
	const struct signing s = {
		.parts = { id, STR("."), t, STR("."), d->body },
		.n = 5,
		.coded_key = true,
	};
	struct signatures want;
	bool is_right = false;
	struct str word, version, text;
	int r = check_time(h, t, now_ns, why);

	if (r < 0)
		return r;
	if (id.n == 0 || rest.n == 0)
		return refuse(why, "the header Webhook-Id or Webhook-Signature "
				   "is missing");
	sign_all(h, &s, &want);
	while (rest.n > 0) {
		_cleanup_(buf_done) struct buf given = BUF_INIT(0);

		(void)str_split(rest, ' ', &word, &rest);
		if (str_split(word, ',', &version, &text) &&
		    str_is(version, "v1") && base64_read(&given, text))
			is_right |= is_signed(&want, buf_str(&given));
	}
	return is_right ? 0 : refuse(why, "Webhook-Signature is wrong");
}

int hook_verify(const struct m_hook *h, const struct hook_delivery *d,
		uint64_t now_ns, struct buf *why)
{
	switch ((enum hook_verify)h->verify) {
	case HOOK_VERIFY_NONE:
		return 0;
	case HOOK_VERIFY_TOKEN:
		return by_token(h, d, why);
	case HOOK_VERIFY_GITHUB:
		return by_github(h, d, why);
	case HOOK_VERIFY_STRIPE:
		return by_stripe(h, d, now_ns, why);
	case HOOK_VERIFY_SLACK:
		return by_slack(h, d, now_ns, why);
	case HOOK_VERIFY_STANDARD:
		return by_standard(h, d, now_ns, why);
	}
	/* what a newer version set is nothing to trust by chance */
	return refuse(why, "this node does not know how to verify deliveries "
			   "to this webhook");
}
