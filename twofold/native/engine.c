/* TD3's targets, gradients, optimiser and tracking for fully connected networks, with the numbers of learners/fused.py.

   Matrices are [inputs + 1, outputs] by rows, the bias is the last row. A flat vector holds all matrices of a network
   and then its layer norms, each for both critics in turn (nets/flat.py). Products are those of the BLAS handed in.

   Every call is cut into two tasks, one critic each or half of the rows each, whose results do not depend on who
   computes them: one thread does both, two threads one each, and the bytes are the same. */

#define _POSIX_C_SOURCE 200809L

#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <tgmath.h>

#include "numbers.h"

#ifndef SOURCE
#define SOURCE "unknown"
#endif

enum { LAYERS = 8, TASKS = 2, RELU = 0, TANH, ELU };

typedef struct { int32_t layers, activation, norms, sizes[LAYERS + 1]; } shape;
typedef struct { real *matrix[LAYERS], *scale[LAYERS], *shift[LAYERS]; } weights;
typedef struct { const real *at; int64_t stride; } columns; /* of rows of a replay */
typedef struct { real *hidden[LAYERS], *normal[LAYERS], *spread[LAYERS]; } stack; /* one pass of rows through layers */

typedef struct {
    real *input, *action, *action_slope, *value_slope; /* [rows, actions + obs], [rows, actions] twice, [rows] */
    real *scratch, *unused;                            /* for the widest layer, for gradients that nobody wants */
    stack actor, critic;
} room;

typedef struct { /* filled by native/library.py, in this order; memory is Python's */
    gemm *multiply;
    int (*limit_threads)(int); /* of BLAS, for the calling thread; returns what it was */
    struct team *team;
    real *actor_values, *actor_grads, *critic_values, *critic_grads, *target_actor, *target_critic;
    real *values, *next_values; /* [2, rows]: both critics at the batch, and room for others */
    real *other_half;           /* of the actor's gradient */
    double huber;               /* 0: squared errors */
    int64_t actor_size, rows;
    int32_t obs, actions, twin;
    shape actor, critic;
    room room[TASKS];
    columns obs_at, action_at, next_obs_at, reward_at, terminated_at, discount_at;
    const real *noise; /* [rows, actions] or NULL */
    real *target;      /* [rows] */
    struct { /* one step of Adam; decay is the weight decay times lr, root belongs to the bias correction */
        real *values, *grads, *first, *second;
        int64_t size;
        double scale, lr, decay, beta1, beta2, eps, root;
    } adam;
    struct { real *slow; const real *fast; int64_t size; double share; } track;
    double result[TASKS];
} engine;

/* Rows are odd multiples of 64 bytes long: powers of two would meet in the same lines of the cache. */
static int64_t padded(int64_t width) { return ((width + 15) / 16 | 1) * 16; }

static int64_t input_stride(const engine *e) { return padded(e->actions + e->obs); }

/* Where the parts of a network lie in a flat vector; `which` of its `copies`. */
static weights parts(const shape *s, real *flat, int copies, int which) {
    weights w = {0};
    for (int l = 0; l < s->layers; l++) {
        int64_t size = (int64_t)(s->sizes[l] + 1) * s->sizes[l + 1];
        w.matrix[l] = flat + which * size;
        flat += copies * size;
    }
    for (int l = 0; s->norms && l < s->layers - 1; l++) {
        int64_t size = s->sizes[l + 1];
        w.scale[l] = flat + which * size;
        w.shift[l] = flat + (copies + which) * size;
        flat += 2 * copies * size;
    }
    return w;
}

static real *bias(const shape *s, const weights *w, int l) { return w->matrix[l] + s->sizes[l] * s->sizes[l + 1]; }

/* ---- numbers ---- */

static inline void activate(int kind, int64_t n, real *x) {
    if (kind == RELU) EACH(j, n) x[j] = x[j] > 0 ? x[j] : x[j] == x[j] ? 0 : x[j];
    if (kind == TANH) EACH(j, n) x[j] = tangent(x[j]);
    if (kind == ELU) EACH(j, n) x[j] = x[j] > 0 ? x[j] : exponential(x[j]) - 1;
}

/* An activation's output y becomes the slope before it, by the slope after it. */
static inline void deactivate(int kind, int64_t n, const real *restrict slope, real *restrict y) {
    if (kind == RELU) EACH(j, n) y[j] = y[j] > 0 ? slope[j] : 0;
    if (kind == TANH) EACH(j, n) y[j] = slope[j] * (1 - y[j] * y[j]);
    if (kind == ELU) EACH(j, n) y[j] = slope[j] * (y[j] > 0 ? 1 : y[j] + 1);
}

/* Bias, layer norm (if there is one) and activation of the products of a hidden layer, in place. */
LOOPS finish(int64_t rows, const shape *s, const weights *w, stack *k, int l) {
    int64_t n = s->sizes[l + 1];
    real *restrict y = k->hidden[l], *restrict normal = k->normal[l], *restrict spread = k->spread[l];
    const real *restrict b = bias(s, w, l), *restrict scale = w->scale[l], *restrict shift = w->shift[l];
    for (int64_t r = 0; r < rows; r++, y += padded(n)) {
        EACH(j, n) y[j] += b[j];
        if (scale) {
            real mean = 0, squares = 0;
            SUM(mean, j, n) mean += y[j];
            mean /= n;
            SUM(squares, j, n) squares += (y[j] - mean) * (y[j] - mean);
            spread[r] = 1 / sqrt(squares / n + (real)1e-5);
            EACH(j, n) normal[j] = (y[j] - mean) * spread[r];
            EACH(j, n) y[j] = normal[j] * scale[j] + shift[j];
            normal += padded(n);
        }
        activate(s->activation, n, y);
    }
}

/* The way back: the layer's outputs become the slopes of its products, by the slopes after it [rows, n]; gradients are
   added up. Below a last layer with one output, a column, the slopes are those of its values times the column. */
LOOPS unfinish(int64_t rows, const shape *s, const weights *w, const weights *grads, stack *k, int l,
               real *restrict slope, const real *restrict values, const real *restrict column,
               real *restrict column_grad) {
    int64_t n = s->sizes[l + 1];
    real *restrict y = k->hidden[l], *restrict bias_grad = bias(s, grads, l);
    real *restrict scale_grad = grads->scale[l], *restrict shift_grad = grads->shift[l];
    const real *restrict scale = w->scale[l], *restrict normal = k->normal[l], *restrict spread = k->spread[l];
    for (int64_t r = 0; r < rows; r++, y += padded(n), slope += column ? 0 : padded(n)) {
        if (column) EACH(j, n) slope[j] = values[r] * column[j];
        if (column_grad) EACH(j, n) column_grad[j] += values[r] * y[j];
        if (column_grad) column_grad[n] += values[r];
        deactivate(s->activation, n, slope, y);
        if (scale) {
            real mean = 0, along = 0;
            EACH(j, n) shift_grad[j] += y[j];
            EACH(j, n) scale_grad[j] += y[j] * normal[j];
            EACH(j, n) y[j] *= scale[j];
            SUM(mean, j, n) mean += y[j];
            SUM(along, j, n) along += y[j] * normal[j];
            mean /= n, along /= n;
            EACH(j, n) y[j] = spread[r] * (y[j] - mean - normal[j] * along);
            normal += padded(n);
        }
        EACH(j, n) bias_grad[j] += y[j];
    }
}

/* A last layer with one output: x [rows, n] times the column, whose end is the bias. */
LOOPS head(int64_t rows, int64_t n, const real *restrict x, int64_t stride, const real *restrict column,
           real *restrict out) {
    for (int64_t r = 0; r < rows; r++, x += stride) {
        real sum = 0;
        SUM(sum, j, n) sum += x[j] * column[j];
        out[r] = sum + column[n];
    }
}

/* Actions: tanh and, with noise, the clamp of target smoothing. */
LOOPS squash(int64_t count, real *restrict x, const real *restrict noise) {
    EACH(i, count) x[i] = tangent(x[i]);
    if (noise) EACH(i, count) x[i] = x[i] + noise[i] < -1 ? -1 : x[i] + noise[i] > 1 ? 1 : x[i] + noise[i];
}

/* ---- networks ---- */

/* out [m, n] = a [m, k] b [k, n]; a turned factor is stored the other way round. */
static void product(const engine *e, int a_turned, int b_turned, int64_t m, int64_t n, int64_t k, const real *a,
                    int64_t a_stride, const real *b, int64_t b_stride, real *out, int64_t stride) {
    const real one = 1, zero = 0;
    for (; !a_turned && !b_turned && m > 128; m -= 128, a += 128 * a_stride, out += 128 * stride) /* a tenth faster */
        product(e, 0, 0, 128, n, k, a, a_stride, b, b_stride, out, stride);
    if (m && n && k) /* Fortran has columns where C has rows: the factors change places */
        e->multiply(b_turned ? "T" : "N", a_turned ? "T" : "N", &n, &m, &k, &one, b, &b_stride, a, &a_stride, &zero,
                    out, &stride);
    else
        for (int64_t i = 0; i < m; i++) memset(out + i * stride, 0, n * sizeof(real));
}

/* x [rows, inputs] through all layers into out [rows, outputs]. */
static void forward(const engine *e, const shape *s, const weights *w, stack *k, int64_t rows, const real *x,
                    real *out) {
    int last = s->layers - 1, outputs = s->sizes[last + 1];
    int64_t stride = input_stride(e);
    for (int l = 0; l < last; l++) {
        int n = s->sizes[l + 1];
        product(e, 0, 0, rows, n, s->sizes[l], x, stride, w->matrix[l], n, k->hidden[l], padded(n));
        finish(rows, s, w, k, l);
        x = k->hidden[l], stride = padded(n);
    }
    if (outputs == 1) {
        head(rows, s->sizes[last], x, stride, w->matrix[last], out);
        return;
    }
    product(e, 0, 0, rows, outputs, s->sizes[last], x, stride, w->matrix[last], outputs, out, outputs);
    for (int64_t r = 0; r < rows; r++) EACH(j, outputs) out[r * outputs + j] += bias(s, w, last)[j];
}

/* Gradients that are added up row by row begin at zero. */
static void clear(const shape *s, const weights *grads) {
    int last = s->layers - 1;
    for (int l = 0; l <= last; l++) {
        size_t bytes = s->sizes[l + 1] * sizeof(real);
        memset(bias(s, grads, l), 0, bytes);
        if (s->norms && l < last) memset(grads->scale[l], 0, bytes), memset(grads->shift[l], 0, bytes);
    }
    if (last && s->sizes[last + 1] == 1) memset(grads->matrix[last], 0, s->sizes[last] * sizeof(real));
}

/* From the slopes [rows, outputs] after a forward pass to those of the first layer's products, which are returned and
   overwrite the activations; on the way all gradients, except where `input` is NULL: then they mean nothing. */
static real *backward(const engine *e, const shape *s, const weights *w, const weights *grads, room *here, stack *k,
                      int64_t rows, const real *input, real *slope) {
    int last = s->layers - 1;
    int64_t stride = s->sizes[last + 1];
    clear(s, grads);
    for (int l = last; l >= 0; l--) {
        int n = s->sizes[l], outputs = s->sizes[l + 1], column = l && l == last && outputs == 1;
        const real *x = l ? k->hidden[l - 1] : input;
        if (input && !column)
            product(e, 1, 0, n, outputs, rows, x, l ? padded(n) : input_stride(e), slope, stride, grads->matrix[l],
                    outputs);
        for (int64_t r = 0; r < rows && l == last && !column; r++)
            EACH(j, outputs) bias(s, grads, l)[j] += slope[r * stride + j];
        if (!l) break;
        if (!column) product(e, 0, 1, rows, n, outputs, slope, stride, w->matrix[l], outputs, here->scratch, padded(n));
        unfinish(rows, s, w, grads, k, l - 1, here->scratch, slope, column ? w->matrix[l] : NULL,
                 column && input ? grads->matrix[l] : NULL);
        slope = k->hidden[l - 1], stride = padded(n);
    }
    return slope;
}

/* ---- the tasks ---- */

typedef struct { int64_t from, count; } part;

static part half(int64_t size, int task) {
    int64_t middle = size > 64 ? (size / 2 + 7) / 8 * 8 : (size + 1) / 2;
    return task ? (part){middle, size - middle} : (part){0, middle};
}

/* Into some columns of the critics' inputs, [action, obs]. */
static void fill(const engine *e, real *input, int width, columns given, part rows) {
    for (int64_t r = 0; r < rows.count; r++)
        memcpy(input + r * input_stride(e), given.at + (rows.from + r) * given.stride, width * sizeof(real));
}

/* Observations and the actor's actions at them, into the critics' inputs. */
static void act(engine *e, room *here, const weights *actor, part rows, columns obs, const real *noise) {
    fill(e, here->input + e->actions, e->obs, obs, rows);
    forward(e, &e->actor, actor, &here->actor, rows.count, here->input + e->actions, here->action);
    squash(rows.count * e->actions, here->action, noise ? noise + rows.from * e->actions : NULL);
    fill(e, here->input, e->actions, (columns){here->action, e->actions}, (part){0, rows.count});
}

static real at(columns c, int64_t row) { return c.at[row * c.stride]; }

/* y = r + gamma^n (1 - terminated) min_i Q'_i(s', clip(pi'(s') + noise)), for half of the rows */
static void target_task(engine *e, int task) {
    part rows = half(e->rows, task);
    room *here = &e->room[task];
    weights actor = parts(&e->actor, e->target_actor, 1, 0);
    act(e, here, &actor, rows, e->next_obs_at, e->noise);
    for (int k = 0; k < 1 + e->twin; k++) {
        weights critic = parts(&e->critic, e->target_critic, 2, k);
        real *values = e->next_values + k * e->rows + rows.from;
        forward(e, &e->critic, &critic, &here->critic, rows.count, here->input, values);
    }
    for (int64_t r = rows.from; r < rows.from + rows.count; r++) {
        real value = e->next_values[r], second = e->next_values[e->rows + r];
        if (e->twin && (second < value || second != second)) value = second; /* as in torch, a NaN stays */
        e->target[r] = at(e->reward_at, r) + at(e->discount_at, r) * (1 - at(e->terminated_at, r)) * value;
    }
}

/* One critic: its values, the mean of its squared or Huber errors, its gradients. */
static void critic_task(engine *e, int k) {
    room *here = &e->room[k];
    weights critic = parts(&e->critic, e->critic_values, 2, k), grads = parts(&e->critic, e->critic_grads, 2, k);
    part rows = {0, e->rows};
    fill(e, here->input, e->actions, e->action_at, rows);
    fill(e, here->input + e->actions, e->obs, e->obs_at, rows);
    real *values = e->values + k * e->rows;
    forward(e, &e->critic, &critic, &here->critic, e->rows, here->input, values);
    double loss = 0;
    for (int64_t r = 0; r < e->rows; r++) {
        double error = (double)values[r] - e->target[r], inside = error;
        if (e->huber > 0) inside = error < -e->huber ? -e->huber : error > e->huber ? e->huber : error;
        loss += e->huber > 0 ? inside * (error - inside / 2) : error * error;
        here->value_slope[r] = (e->huber > 0 ? inside : 2 * error) / e->rows;
    }
    e->result[k] = loss / e->rows;
    backward(e, &e->critic, &critic, &grads, here, &here->critic, e->rows, here->input, here->value_slope);
}

/* -Q_1(s, pi(s)) for half of the rows, and what it adds to the actor's gradient. */
static void actor_task(engine *e, int task) {
    part rows = half(e->rows, task);
    room *here = &e->room[task];
    weights actor = parts(&e->actor, e->actor_values, 1, 0), critic = parts(&e->critic, e->critic_values, 2, 0);
    weights grads = parts(&e->actor, task ? e->other_half : e->actor_grads, 1, 0);
    act(e, here, &actor, rows, e->obs_at, NULL);
    real *values = e->next_values + rows.from;
    forward(e, &e->critic, &critic, &here->critic, rows.count, here->input, values);
    double sum = 0;
    for (int64_t r = 0; r < rows.count; r++) sum += values[r], here->value_slope[r] = -(real)1 / e->rows;
    e->result[task] = -sum / e->rows;
    int n = e->critic.sizes[1];
    weights none = parts(&e->critic, here->unused, 1, 0);
    real *slope = backward(e, &e->critic, &critic, &none, here, &here->critic, rows.count, NULL, here->value_slope);
    product(e, 0, 1, rows.count, e->actions, n, slope, e->critic.layers == 1 ? n : padded(n), critic.matrix[0], n,
            here->action_slope, e->actions);
    deactivate(TANH, rows.count * e->actions, here->action_slope, here->action);
    backward(e, &e->actor, &actor, &grads, here, &here->actor, rows.count, here->input + e->actions, here->action);
}

LOOPS add_task(engine *e, int task) { /* the halves of the actor's gradient */
    part some = half(e->actor_size, task);
    real *restrict sum = e->actor_grads + some.from, *restrict other = e->other_half + some.from;
    EACH(i, some.count) sum[i] += other[i];
}

LOOPS squares_task(engine *e, int task) {
    part some = half(e->adam.size, task);
    const real *grads = e->adam.grads + some.from;
    double sum = 0;
    SUM(sum, i, some.count) sum += (double)grads[i] * grads[i];
    e->result[task] = sum;
}

/* Adam with decoupled weight decay; the sum of the gradients keeps every NaN and infinity in them. */
LOOPS adam_task(engine *e, int task) {
    part some = half(e->adam.size, task);
    real *restrict x = e->adam.values + some.from, *restrict g = e->adam.grads + some.from;
    real *restrict first = e->adam.first + some.from, *restrict second = e->adam.second + some.from;
    const real scale = e->adam.scale, keep = 1 - e->adam.decay, lr = e->adam.lr;
    const real eps = e->adam.eps, root = 1 / e->adam.root;
    const real new1 = 1 - e->adam.beta1, beta2 = e->adam.beta2, new2 = 1 - e->adam.beta2;
    real sum = 0;
    if (scale != 1) EACH(i, some.count) g[i] *= scale;
    SUM(sum, i, some.count) {
        sum += g[i];
        first[i] += new1 * (g[i] - first[i]);
        second[i] = beta2 * second[i] + new2 * g[i] * g[i];
        x[i] = x[i] * keep - lr * first[i] / (sqrt(second[i]) * root + eps);
    }
    e->result[task] = sum;
}

LOOPS track_task(engine *e, int task) { /* torch's lerp: exact at both ends */
    part some = half(e->track.size, task);
    real *restrict slow = e->track.slow + some.from, share = e->track.share;
    const real *restrict fast = e->track.fast + some.from;
    if (share < (real)0.5) EACH(i, some.count) slow[i] += share * (fast[i] - slow[i]);
    else EACH(i, some.count) slow[i] = fast[i] - (fast[i] - slow[i]) * (1 - share);
}

/* ---- two threads ---- */

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

/* ---- what Python calls ---- */

const char *native_source(void) { return SOURCE; }

int64_t native_size(void) { return sizeof(engine); }

/* Both tasks of a call, and the sum of what they result in. */
double native_run(engine *e, int which) {
    static void (*const tasks[])(engine *, int) = {target_task,  critic_task, actor_task, add_task,
                                                   squares_task, adam_task,   track_task};
    int before = e->limit_threads(1);
    if (e->team) together(e, e->team, tasks[which]);
    else tasks[which](e, 0), tasks[which](e, 1);
    e->limit_threads(before);
    return e->result[0] + e->result[1];
}

/* A helper for engines with this BLAS, or NULL if none can be had. */
team *native_team(int (*limit_threads)(int)) {
    team *t = calloc(1, sizeof(team));
    if (!t) return NULL;
    t->limit_threads = limit_threads;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->opened, NULL);
    pthread_cond_init(&t->closed, NULL);
    if (!pthread_create(&t->helper, NULL, help, t)) return t;
    free(t);
    return NULL;
}

void native_dismiss(team *t) {
    pthread_mutex_lock(&t->lock);
    atomic_store(&t->ends, 1);
    pthread_cond_signal(&t->opened);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->helper, NULL);
    free(t);
}
