/*
 * What a run of `corvo bench` cost, and what it ran on. A node tells the use
 * of its processes in its metrics; one that does not is no error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "bench.h"
#include "rt/file.h"

#define CPU_METRIC    "corvo_process_cpu_seconds_total{"
#define MEMORY_METRIC "corvo_process_resident_memory_bytes{"
#define CPUINFO       "/proc/cpuinfo"
#define CPUINFO_BYTES (4u << 20)

/* --- the server's processes --- */

/* The process a line is about; NULL: of none, or there are too many. */
static size_t proc_of(struct bench_use *u, struct str line)
{
	static const char key[] = "process=\"";
	const char *at = memmem(line.p, line.n, key, strlen(key));
	struct str name, tail;
	size_t i = 0;

	if (at == NULL)
		return BENCH_PROCS_MAX;
	tail = str_skip(line, (size_t)(at - line.p) + strlen(key));
	if (!str_split(tail, '"', &name, &tail) || name.n == 0 ||
	    name.n >= sizeof(u->proc[0].name))
		return BENCH_PROCS_MAX;
	while (i < u->n && !str_is(name, u->proc[i].name))
		i++;
	if (i == u->n && u->n < BENCH_PROCS_MAX)
		memcpy(u->proc[u->n++].name, name.p, name.n);
	return i;
}

/* Behind the labels; 0 when it is not known. */
static double value_of(struct str line)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	struct str labels, value;
	double v;

	if (!str_split(line, '}', &labels, &value))
		return 0;
	buf_put_str(&text, str_trim(value));
	buf_putc(&text, '\0');
	v = strtod(text.p, NULL);
	return v >= 0 ? v : 0; /* nor NaN */
}

static void take_line(struct bench_use *u, struct str line)
{
	bool cpu = str_starts(line, STR(CPU_METRIC));
	size_t i;

	if (!cpu && !str_starts(line, STR(MEMORY_METRIC)))
		return;
	i = proc_of(u, line);
	if (i == BENCH_PROCS_MAX)
		return;
	if (cpu)
		u->proc[i].cpu_s += value_of(line); /* by mode */
	else
		u->proc[i].memory = value_of(line);
}

static void on_metrics(struct conn *c, const struct answer *a)
{
	struct str rest = a->body, line;

	c->cl->stop = true;
	while (a->status == 200 && rest.n > 0) {
		(void)str_split(rest, '\n', &line, &rest);
		take_line(c->cl->ctx, line);
	}
}

void bench_look(struct client *cl, struct bench_use *ret)
{
	void *ctx = cl->ctx;

	*ret = (struct bench_use){ 0 };
	if (!client_connect(cl, 1))
		return;
	cl->ctx = ret;
	client_send(cl->conns[0], PATH_METRICS, NULL, on_metrics);
	client_run(cl, 0);
	cl->ctx = ctx;
}

double bench_own_cpu_s(void)
{
	struct rusage u;

	CHECK(getrusage(RUSAGE_SELF, &u) == 0);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* --- this machine --- */

/* "model name : Intel ..."; empty when the kernel does not say. */
static struct str cpu_model(struct buf *cpuinfo)
{
	struct str rest, line, name, value;

	if (file_read(CPUINFO, CPUINFO_BYTES, cpuinfo) < 0)
		return STR("");
	rest = buf_str(cpuinfo);
	while (rest.n > 0) {
		(void)str_split(rest, '\n', &line, &rest);
		if (str_split(line, ':', &name, &value) &&
		    str_is(str_trim(name), "model name"))
			return str_trim(value);
	}
	return STR("");
}

void bench_put_machine(struct json_writer *w)
{
	_cleanup_(buf_done) struct buf cpuinfo = BUF_INIT(0);
	_cleanup_(buf_done) struct buf kernel = BUF_INIT(0);
	struct sysinfo info = { 0 };
	struct utsname uts = { 0 };
	double load = 0;

	(void)sysinfo(&info);
	(void)uname(&uts);
	(void)getloadavg(&load, 1);
	buf_printf(&kernel, "%s %s %s", uts.sysname, uts.release, uts.machine);
	jw_key(w, "machine");
	jw_object(w);
	jw_key(w, "cpu");
	jw_str(w, cpu_model(&cpuinfo));
	jw_key(w, "cores");
	jw_u64(w, (uint64_t)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L));
	jw_key(w, "memory_bytes");
	jw_u64(w, (uint64_t)info.totalram * info.mem_unit);
	jw_key(w, "kernel");
	jw_str(w, buf_str(&kernel));
	jw_key(w, "load_after");
	jw_double(w, load);
	jw_object_end(w);
}
