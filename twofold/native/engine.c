/* TD3's targets, gradients, optimiser and tracking for fully connected networks, with the numbers of learners/fused.py.

   Every call is cut into two tasks, one critic each or half of the rows each, whose results do not depend on who
   computes them: one thread does both, two threads one each, and the bytes are the same. */

#define _POSIX_C_SOURCE 200809L

#include "layers.h"

#ifndef SOURCE
#define SOURCE "unknown"
#endif

enum { TASKS = 2 };

typedef struct { const real *at; int64_t stride; } columns; /* of rows of a replay */

typedef struct {
    real *input, *action, *action_slope, *value_slope; /* [rows, actions + obs], [rows, actions] twice, [rows] */
    real *scratch, *unused;                            /* for the widest layer, for gradients that nobody wants */
    stack actor, critic;
} room;

typedef struct { /* filled by native/library.py, in this order; memory is Python's */
    gemm *multiply;
    int (*limit_threads)(int); /* of BLAS, for the calling thread; returns what it was */
    struct team *team;
    struct sale *sale; /* NULL: without embeddings */
    real *actor_values, *actor_grads, *critic_values, *critic_grads, *target_actor, *target_critic;
    real *values, *next_values; /* [2, rows]: both critics at the batch, and room for others */
    double huber;               /* 0: squared errors */
    int64_t rows;
    int32_t obs, actions, twin;
    shape actor, critic;
    room room[TASKS];
    columns obs_at, action_at, next_obs_at, reward_at, terminated_at, discount_at;
    const real *noise; /* [rows, actions] or NULL */
    real *target;      /* [rows] */
    struct { real *sum, *other; int64_t size; } halves; /* of a gradient that two tasks have made */
    struct { /* one step of Adam; decay is the weight decay times lr, root belongs to the bias correction */
        real *values, *grads, *first, *second;
        int64_t size;
        double scale, lr, decay, beta1, beta2, eps, root;
    } adam;
    struct { real *slow; const real *fast; int64_t size; double share; } track;
    double result[TASKS];
} engine;

/* ---- parts of tasks ---- */

typedef struct { int64_t from, count; } part;

static part half(int64_t size, int task) {
    int64_t middle = size > 64 ? (size / 2 + 7) / 8 * 8 : (size + 1) / 2;
    return task ? (part){middle, size - middle} : (part){0, middle};
}

static int64_t input_stride(const engine *e) { return padded(e->actions + e->obs); }

/* Into some columns of rows. */
static void fill(real *to, int64_t stride, int width, columns given, part rows) {
    for (int64_t r = 0; r < rows.count; r++)
        memcpy(to + r * stride, given.at + (rows.from + r) * given.stride, width * sizeof(real));
}

static real at(columns c, int64_t row) { return c.at[row * c.stride]; }

/* y = r + gamma^n (1 - terminated) min_i Q'_i */
static void bootstrap(engine *e, part rows) {
    for (int64_t r = rows.from; r < rows.from + rows.count; r++) {
        real value = e->next_values[r], second = e->next_values[e->rows + r];
        if (e->twin && (second < value || second != second)) value = second; /* as in torch, a NaN stays */
        e->target[r] = at(e->reward_at, r) + at(e->discount_at, r) * (1 - at(e->terminated_at, r)) * value;
    }
}

/* The mean of one critic's squared or Huber errors, and the slopes of its values. */
static void compare(engine *e, int k, real *slope) {
    double loss = 0;
    for (int64_t r = 0; r < e->rows; r++) {
        double error = (double)e->values[k * e->rows + r] - e->target[r], inside = error;
        if (e->huber > 0) inside = error < -e->huber ? -e->huber : error > e->huber ? e->huber : error;
        loss += e->huber > 0 ? inside * (error - inside / 2) : error * error;
        slope[r] = (e->huber > 0 ? inside : 2 * error) / e->rows;
    }
    e->result[k] = loss / e->rows;
}

/* -mean Q_1 over a task's rows, and the slopes of its values. */
static void ascend(engine *e, int task, int64_t rows, const real *values, real *slope) {
    double sum = 0;
    for (int64_t r = 0; r < rows; r++) sum += values[r], slope[r] = -(real)1 / e->rows;
    e->result[task] = -sum / e->rows;
}

/* ---- the tasks ---- */

/* Observations and the actor's actions at them, into the critics' inputs, [action, obs]. */
static void act(engine *e, room *here, const weights *actor, part rows, columns obs, const real *noise) {
    int64_t stride = input_stride(e);
    real *seen = here->input + e->actions;
    fill(seen, stride, e->obs, obs, rows);
    forward(e->multiply, &e->actor, actor, &here->actor, rows.count, seen, stride, here->action, e->actions);
    squash(rows.count * e->actions, here->action, noise ? noise + rows.from * e->actions : NULL);
    fill(here->input, stride, e->actions, (columns){here->action, e->actions}, (part){0, rows.count});
}

/* y = r + gamma^n (1 - terminated) min_i Q'_i(s', clip(pi'(s') + noise)), for half of the rows */
static void target_task(engine *e, int task) {
    part rows = half(e->rows, task);
    room *here = &e->room[task];
    weights actor = parts(&e->actor, e->target_actor, 1, 0);
    act(e, here, &actor, rows, e->next_obs_at, e->noise);
    for (int k = 0; k < 1 + e->twin; k++) {
        weights critic = parts(&e->critic, e->target_critic, 2, k);
        real *values = e->next_values + k * e->rows + rows.from;
        forward(e->multiply, &e->critic, &critic, &here->critic, rows.count, here->input, input_stride(e), values, 1);
    }
    bootstrap(e, rows);
}

/* One critic: its values, the mean of its squared or Huber errors, its gradients. */
static void critic_task(engine *e, int k) {
    room *here = &e->room[k];
    weights critic = parts(&e->critic, e->critic_values, 2, k), grads = parts(&e->critic, e->critic_grads, 2, k);
    part rows = {0, e->rows};
    int64_t stride = input_stride(e);
    fill(here->input, stride, e->actions, e->action_at, rows);
    fill(here->input + e->actions, stride, e->obs, e->obs_at, rows);
    real *values = e->values + k * e->rows;
    forward(e->multiply, &e->critic, &critic, &here->critic, e->rows, here->input, stride, values, 1);
    compare(e, k, here->value_slope);
    backward(e->multiply, &e->critic, &critic, &grads, here->scratch, &here->critic, e->rows, here->input, stride,
             here->value_slope);
}

/* -Q_1(s, pi(s)) for half of the rows, and what it adds to the actor's gradient. */
static void actor_task(engine *e, int task) {
    part rows = half(e->rows, task);
    room *here = &e->room[task];
    weights actor = parts(&e->actor, e->actor_values, 1, 0), critic = parts(&e->critic, e->critic_values, 2, 0);
    weights grads = parts(&e->actor, task ? e->halves.other : e->halves.sum, 1, 0);
    int64_t stride = input_stride(e);
    act(e, here, &actor, rows, e->obs_at, NULL);
    real *values = e->next_values + rows.from;
    forward(e->multiply, &e->critic, &critic, &here->critic, rows.count, here->input, stride, values, 1);
    ascend(e, task, rows.count, values, here->value_slope);
    int n = e->critic.sizes[1];
    weights none = parts(&e->critic, here->unused, 1, 0);
    real *slope = backward(e->multiply, &e->critic, &critic, &none, here->scratch, &here->critic, rows.count, NULL, 0,
                           here->value_slope);
    product(e->multiply, 0, 1, rows.count, e->actions, n, slope, e->critic.layers == 1 ? n : padded(n),
            critic.matrix[0], n, here->action_slope, e->actions);
    deactivate(TANH, rows.count * e->actions, here->action_slope, here->action);
    backward(e->multiply, &e->actor, &actor, &grads, here->scratch, &here->actor, rows.count, here->input + e->actions,
             stride, here->action);
}

#include "sale.h"

/* ---- what follows the gradients ---- */

LOOPS add_task(engine *e, int task) { /* the halves of a gradient */
    part some = half(e->halves.size, task);
    real *restrict sum = e->halves.sum + some.from, *restrict other = e->halves.other + some.from;
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

/* ---- what Python calls ---- */

#include "threads.h"

const char *native_source(void) { return SOURCE; }

int64_t native_size(void) { return sizeof(engine) + sizeof(struct sale); }

/* Both tasks of a call, and the sum of what they result in. */
double native_run(engine *e, int which) {
    static void (*const tasks[])(engine *, int) = {
        target_task,      critic_task,      actor_task,     add_task,         squares_task,   adam_task, track_task,
        sale_encoder_task, sale_target_task, sale_look_task, sale_critic_task, sale_actor_task};
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
