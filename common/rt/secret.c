#include "rt/secret.h"

#include <errno.h>

#include "proto/err.h"
#include "rt/file.h"

/* so that a file of any kind is told apart from one that is just too long */
#define FILE_BYTES (SECRET_BYTES_MAX * 2)

int secret_read(const char *path, struct buf *ret, struct buf *why)
{
	_cleanup_(buf_done) struct buf all = BUF_INIT(0);
	int r = file_read(path, FILE_BYTES, &all);
	struct str secret = str_trim(buf_str(&all));

	if (r < 0 && r != -EFBIG) {
		buf_printf(why, "cannot read the secret %s: %s", path,
			   strerror(-r));
		return -ERR_VALIDATION_ERROR;
	}
	if (r == -EFBIG || secret.n < SECRET_BYTES_MIN ||
	    secret.n > SECRET_BYTES_MAX) {
		buf_printf(why,
			   "the secret %s has %s%zu bytes; it takes %u to %u, "
			   "such as `openssl rand -hex 32` prints",
			   path, r == -EFBIG ? "more than " : "",
			   r == -EFBIG ? (size_t)FILE_BYTES : secret.n,
			   SECRET_BYTES_MIN, SECRET_BYTES_MAX);
		return -ERR_VALIDATION_ERROR;
	}
	buf_put_str(ret, secret);
	return 0;
}
