/*
 * See util/fiber.h.
 *
 * The sanitizers have to be told of each step from one stack to another.
 */
#include "util/fiber.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "util/base.h"
#include "util/guard.h"
#include "util/turn.h"

/* Only what is used of it is in memory. */
#define STACK_BYTES ((size_t)2 << 20)

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN
#elif __has_feature(thread_sanitizer)
#define HAS_TSAN
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN
#elif defined(__SANITIZE_THREAD__)
#define HAS_TSAN
#endif
#ifdef HAS_ASAN
#include <dlfcn.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef HAS_TSAN
#include <sanitizer/tsan_interface.h>
#endif

/* A stack as the sanitizers know it. */
struct place {
	ucontext_t at;
	const void *bottom;
	size_t size;
	void *watcher;
};

struct fiber {
	struct place own, caller;
	void *memory;   /* with a page below that nobody may touch */
	fiber_fn *work; /* NULL: it has ended */
	bool runs;
	void *ctx;
	struct guard *guard; /* of whoever does not run */
	struct turn_meaning turn;
};

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* AddressSanitizer puts one of its own before that of libc, which warns of what
 * is told to it below. */
static int swap(ucontext_t *from, const ucontext_t *to)
{
#ifdef HAS_ASAN
	static int (*real)(ucontext_t *, const ucontext_t *);

	if (real == NULL) {
		void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

		CHECK(libc != NULL);
		*(void **)&real = dlsym(libc, "swapcontext");
		CHECK(real != NULL && dlclose(libc) == 0);
	}
	return real(from, to);
#else
	return swapcontext(from, to);
#endif
}

static void arrive(struct place *at, struct place *from)
{
#ifdef HAS_ASAN
	__sanitizer_finish_switch_fiber(at->watcher, &from->bottom,
					&from->size);
#else
	(void)at;
	(void)from;
#endif
}

static void step(struct place *from, struct place *to)
{
#if defined(HAS_ASAN)
	__sanitizer_start_switch_fiber(&from->watcher, to->bottom, to->size);
#elif defined(HAS_TSAN)
	from->watcher = __tsan_get_current_fiber();
	__tsan_switch_to_fiber(to->watcher, 0);
#endif
	CHECK(swap(&from->at, &to->at) == 0);
	arrive(from, to);
}

/* makecontext hands on nothing but ints. */
static void begin(unsigned high, unsigned low)
{
	uintptr_t p = (uintptr_t)high << 32 | low;
	struct fiber *f = (struct fiber *)p;

	arrive(&f->own, &f->caller);
	for (;;) {
		f->work(f->ctx);
		f->work = NULL;
		step(&f->own, &f->caller);
	}
}

static void make_context(struct fiber *f)
{
	uintptr_t p = (uintptr_t)f;

	CHECK(getcontext(&f->own.at) == 0);
	f->own.at.uc_stack.ss_sp = (void *)f->own.bottom;
	f->own.at.uc_stack.ss_size = f->own.size;
	f->own.at.uc_link = NULL;
	makecontext(&f->own.at, (void (*)(void))begin, 2, (unsigned)(p >> 32),
		    (unsigned)p);
}

struct fiber *fiber_new(void)
{
	size_t page = page_bytes();
	struct fiber *f;
	void *memory = mmap(
	    NULL, page + STACK_BYTES, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	if (mprotect(memory, page, PROT_NONE) < 0) {
		CHECK(munmap(memory, page + STACK_BYTES) == 0);
		return NULL;
	}
	f = xcalloc(1, sizeof(*f));
	f->memory = memory;
	f->own.bottom = (char *)memory + page;
	f->own.size = STACK_BYTES;
#ifdef HAS_TSAN
	f->own.watcher = __tsan_create_fiber(0);
#endif
	make_context(f);
	return f;
}

void fiber_free(struct fiber *f)
{
	if (f == NULL)
		return;
	CHECK(f->work == NULL);
#ifdef HAS_TSAN
	__tsan_destroy_fiber(f->own.watcher);
#endif
	CHECK(munmap(f->memory, page_bytes() + STACK_BYTES) == 0);
	free(f);
}

void fiber_set(struct fiber *f, fiber_fn *work, void *ctx)
{
	CHECK(f->work == NULL);
	f->work = work;
	f->ctx = ctx;
	f->guard = NULL;
	f->turn = (struct turn_meaning){ 0 };
}

static void swap_meanings(struct fiber *f)
{
	guard_swap(&f->guard);
	turn_swap(&f->turn);
}

bool fiber_go(struct fiber *f)
{
	CHECK(f->work != NULL && !f->runs);
	f->runs = true;
	swap_meanings(f);
	step(&f->caller, &f->own);
	swap_meanings(f);
	f->runs = false;
	return f->work != NULL;
}

void fiber_stop(struct fiber *f)
{
	CHECK(f->runs);
	step(&f->own, &f->caller);
}
