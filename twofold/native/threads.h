/* A second thread that takes the second of two tasks, or finds it taken. */

#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

/* How often to look before sleeping. The helper stays awake over the step of a world. The caller must not: while it
   keeps its core busy, the scheduler cannot move a helper there that has lost its own to somebody else. */
enum { SPINS = 1000, HELPER_YIELDS = 1500, CALLER_YIELDS = 50 };

typedef struct team {
    engine *engine;
    void (*task)(engine *, int);
    fenv_t rounding; /* of the caller: whether denormals are flushed must not depend on who computes */
    pthread_t helper;
    pthread_mutex_t lock;
    pthread_cond_t opened, closed;
    atomic_uint ticket, done; /* odd ticket: the second task may be taken; done: the last one that the helper did */
    atomic_int helper_sleeps, caller_sleeps, ends;
    int (*limit_threads)(int);
} team;

/* Wait until a word, masked, is as wanted: awake at first, because tasks are short, then asleep. */
static void await(team *t, atomic_uint *word, unsigned mask, unsigned wanted, int yields, atomic_int *sleeps,
                  pthread_cond_t *news) {
    for (int i = 0; i < SPINS + yields; i++) {
        if ((atomic_load(word) & mask) == wanted || atomic_load(&t->ends)) return;
        if (i >= SPINS) sched_yield();
#if defined(__x86_64__)
        else __builtin_ia32_pause();
#endif
    }
    pthread_mutex_lock(&t->lock);
    atomic_store(sleeps, 1);
    while ((atomic_load(word) & mask) != wanted && !atomic_load(&t->ends)) pthread_cond_wait(news, &t->lock);
    atomic_store(sleeps, 0);
    pthread_mutex_unlock(&t->lock);
}

static void wake(team *t, atomic_int *sleeps, pthread_cond_t *news) {
    if (!atomic_load(sleeps)) return;
    pthread_mutex_lock(&t->lock);
    pthread_cond_signal(news);
    pthread_mutex_unlock(&t->lock);
}

/* The second task of the call with this ticket goes to whoever asks first. */
static int take(team *t, unsigned ticket) { return atomic_compare_exchange_strong(&t->ticket, &ticket, ticket + 1); }

static void *help(void *argument) {
    team *t = argument;
    t->limit_threads(1);
    for (;;) {
        await(t, &t->ticket, 1, 1, HELPER_YIELDS, &t->helper_sleeps, &t->opened);
        if (atomic_load(&t->ends)) return NULL;
        unsigned ticket = atomic_load(&t->ticket);
        if (ticket % 2 == 0 || !take(t, ticket)) continue;
        fesetenv(&t->rounding);
        t->task(t->engine, 1);
        atomic_store(&t->done, ticket);
        wake(t, &t->caller_sleeps, &t->closed);
    }
}

/* A helper that is late, because its core is busy, finds its task taken. */
static void together(engine *e, team *t, void (*task)(engine *, int)) {
    unsigned ticket = atomic_load(&t->ticket) + 1;
    t->engine = e, t->task = task;
    fegetenv(&t->rounding);
    atomic_store(&t->ticket, ticket);
    wake(t, &t->helper_sleeps, &t->opened);
    task(e, 0);
    if (take(t, ticket)) task(e, 1);
    else await(t, &t->done, ~0u, ticket, CALLER_YIELDS, &t->caller_sleeps, &t->closed);
}
