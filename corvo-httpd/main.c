/*
 * corvo-httpd: the HTTP front of a node. Everything is in httpd.c.
 */
#include "httpd.h"

int main(int argc, char **argv)
{
	return daemon_main(argc, argv, &httpd_ops);
}
