/*
 * The transport of a cluster of one: there is nobody to talk to.
 */
#include "cluster/node_impl.h"

static int transport_init(struct raft_uv_transport *t, raft_id id,
			  const char *address)
{
	(void)t;
	(void)id;
	(void)address;
	return 0;
}

static int transport_listen(struct raft_uv_transport *t, raft_uv_accept_cb cb)
{
	(void)t;
	(void)cb;
	return 0;
}

static int transport_connect(struct raft_uv_transport *t,
			     struct raft_uv_connect *req, raft_id id,
			     const char *address, raft_uv_connect_cb cb)
{
	(void)t;
	(void)req;
	(void)id;
	(void)address;
	(void)cb;
	return RAFT_NOCONNECTION;
}

static void transport_close(struct raft_uv_transport *t,
			    raft_uv_transport_close_cb cb)
{
	cb(t);
}

void node_wire_transport(struct node *n)
{
	n->transport = (struct raft_uv_transport){
		.data = n,
		.init = transport_init,
		.listen = transport_listen,
		.connect = transport_connect,
		.close = transport_close,
	};
}
