#include "cluster/fault_file.h"

#include "rt/file.h"

#define TEXT_MAX 64

uint64_t fault_file_number(const char *path)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	uint64_t n;

	if (path == NULL || file_read(path, TEXT_MAX, &text) < 0 ||
	    !str_parse_u64(str_trim(buf_str(&text)), &n))
		return 0;
	return n;
}
