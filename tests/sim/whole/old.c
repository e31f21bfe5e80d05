#include "old.h"

#include "cluster/manifest.h"
#include "golden/golden.h"
#include "store/format.h"
#include "whole.h"

#define TERM 1

static struct kv *read_store(void)
{
	struct golden_lines lines = { 0 };
	struct kv *kv;

	CHECK(golden_read(SIM_OLD_STORE, "store", &lines));
	kv = golden_store(&lines);
	golden_lines_done(&lines);
	CHECK(kv_flush(kv, NULL) == 0);
	return kv;
}

struct kv *old_store(void)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct kv *kv = read_store();

	CHECK(format_prepare(kv, NULL, &why) == 0);
	return kv;
}

static void put_members(const struct machine *m, struct disk_snapshot *ret)
{
	struct raft_configuration c;

	raft_configuration_init(&c);
	CHECK(raft_configuration_add(&c, m->host.id, m->address, RAFT_VOTER) ==
	      0);
	members_encode(&c, &ret->members);
	raft_configuration_close(&c);
}

void old_begin(struct machine *m)
{
	struct disk_snapshot s = { .term = TERM, .members_index = 1 };
	struct manifest at = { 0 };
	struct record_meta meta;

	kv_close(m->kv);
	m->kv = read_store();
	CHECK(record_meta_read(m->kv, &meta) == 0);
	s.index = at.index = at.applied = meta.applied_index;
	manifest_put(&s.data, &at);
	put_members(m, &s);
	disk_install(&m->host.disk, &s);
	buf_done(&s.members);
	buf_done(&s.data);
}
