/* State-action embeddings (SALE: Fujimoto et al. 2023), with the numbers of learners/plus/fused.py.

   zs = AvgL1(f(s)), zsa = g(a, zs), AvgL1(x) = x / mean |x|. The actor sees [AvgL1(W s), zs], each critic
   [AvgL1(W [a, s]), zsa, zs]: `actor` and `critic` of the engine are their bodies, behind these first layers. A flat
   vector holds f, g (critics and encoder alone), then the first layer, then the body. */

typedef struct { /* of one task; spreads are 1 / mean |x|, raw is what comes before AvgL1 */
    real *input, *pair, *judged, *acted; /* rows of [action, obs], [action, zs], [own, zsa, zs], [own, zs] */
    real *raw, *wanted, *slope, *scratch, *unused;
    real *action, *action_slope, *value_slope, *own_spread, *actor_spread, *zs_spread;
    stack state, link, actor, critic;
} sale_room;

struct sale {
    real *encoder_values, *encoder_grads;
    real *zs, *zsa; /* [rows, embedding]: what the frozen encoders see in the batch */
    int32_t width, embedding;
    shape state, link, actor_first, critic_first; /* f, g, W of the actor, W of a critic */
    columns following_at;
    sale_room room[TASKS];
};

typedef struct { weights state, link, first, body; } sight;

static int64_t numbers(const shape *s, int copies) { /* of a network in a flat vector */
    int64_t sum = 0;
    for (int l = 0; l < s->layers; l++) sum += (int64_t)(s->sizes[l] + 1) * s->sizes[l + 1];
    return copies * sum;
}

static sight critic_sight(const engine *e, real *flat, int k) {
    const struct sale *s = e->sale;
    real *link = flat + numbers(&s->state, 1), *first = link + numbers(&s->link, 1);
    return (sight){parts(&s->state, flat, 1, 0), parts(&s->link, link, 1, 0), parts(&s->critic_first, first, 2, k),
                   parts(&e->critic, first + numbers(&s->critic_first, 2), 2, k)};
}

static sight actor_sight(const engine *e, real *flat) {
    const struct sale *s = e->sale;
    real *first = flat + numbers(&s->state, 1);
    return (sight){.state = parts(&s->state, flat, 1, 0), .first = parts(&s->actor_first, first, 1, 0),
                   .body = parts(&e->actor, first + numbers(&s->actor_first, 1), 1, 0)};
}

/* y = AvgL1(x) for every row; x has no gaps. */
LOOPS even(int64_t rows, int64_t n, const real *restrict x, real *restrict y, int64_t stride, real *restrict spread) {
    for (int64_t r = 0; r < rows; r++, x += n, y += stride) {
        real size = 0;
        SUM(size, j, n) size += x[j] < 0 ? -x[j] : x[j];
        size /= n;
        spread[r] = 1 / (size < (real)1e-8 ? (real)1e-8 : size);
        EACH(j, n) y[j] = x[j] * spread[r];
    }
}

/* The way back, in place: from the slope of y = AvgL1(x) to that of x, (g - sign(x) mean(g y)) / mean |x|. */
LOOPS uneven(int64_t rows, int64_t n, real *restrict slope, const real *restrict y, int64_t stride,
             const real *restrict spread) {
    for (int64_t r = 0; r < rows; r++, slope += n, y += stride) {
        real along = 0;
        SUM(along, j, n) along += slope[j] * y[j];
        along /= n;
        EACH(j, n) slope[j] = (slope[j] - ((y[j] > 0) - (y[j] < 0)) * along) * spread[r];
    }
}

static int64_t pair_stride(const engine *e) { return padded(e->actions + e->sale->embedding); }
static int64_t judged_stride(const engine *e) { return padded(e->sale->width + 2 * e->sale->embedding); }
static int64_t acted_stride(const engine *e) { return padded(e->sale->width + e->sale->embedding); }

/* zs of observations into rows of `out`. */
static void embed(engine *e, sale_room *here, const weights *state, part rows, columns obs, real *out, int64_t stride) {
    struct sale *s = e->sale;
    real *seen = here->input + e->actions;
    fill(seen, input_stride(e), e->obs, obs, rows);
    forward(e->multiply, &s->state, state, &here->state, rows.count, seen, input_stride(e), here->raw, s->embedding);
    even(rows.count, s->embedding, here->raw, out, stride, here->zs_spread);
}

/* zsa of actions and zs into rows of `out`; without zs they are in their places. */
static void link_up(engine *e, sale_room *here, const weights *link, part rows, columns action, columns zs, real *out,
                    int64_t stride) {
    struct sale *s = e->sale;
    fill(here->pair, pair_stride(e), e->actions, action, rows);
    if (zs.at) fill(here->pair + e->actions, pair_stride(e), s->embedding, zs, rows);
    forward(e->multiply, &s->link, link, &here->link, rows.count, here->pair, pair_stride(e), out, stride);
}

/* The actor's actions at observations and zs that are in their places, into action and the critics' inputs. */
static void sale_act(engine *e, sale_room *here, const sight *actor, int64_t rows, const real *noise) {
    struct sale *s = e->sale;
    real *seen = here->input + e->actions;
    forward(e->multiply, &s->actor_first, &actor->first, NULL, rows, seen, input_stride(e), here->raw, s->width);
    even(rows, s->width, here->raw, here->acted, acted_stride(e), here->actor_spread);
    forward(e->multiply, &e->actor, &actor->body, &here->actor, rows, here->acted, acted_stride(e), here->action,
            e->actions);
    squash(rows * e->actions, here->action, noise);
    fill(here->input, input_stride(e), e->actions, (columns){here->action, e->actions}, (part){0, rows});
}

/* One critic's values at inputs, zsa and zs that are in their places. */
static void judge(engine *e, sale_room *here, const sight *critic, int64_t rows, real *values) {
    struct sale *s = e->sale;
    forward(e->multiply, &s->critic_first, &critic->first, NULL, rows, here->input, input_stride(e), here->raw,
            s->width);
    even(rows, s->width, here->raw, here->judged, judged_stride(e), here->own_spread);
    forward(e->multiply, &e->critic, &critic->body, &here->critic, rows, here->judged, judged_stride(e), values, 1);
}

/* From the slopes of a body's first products to those of what a first layer made, by its columns of the body. */
static void below(engine *e, const shape *body, const weights *w, int64_t rows, const real *slope, const real *own,
                  int64_t stride, const real *spread, real *out) {
    int n = body->sizes[1], width = e->sale->width;
    product(e->multiply, 0, 1, rows, width, n, slope, padded(n), w->matrix[0], n, out, width);
    uneven(rows, width, out, own, stride, spread);
}

/* mean (zsa - zs of what followed)^2 for half of the rows, and what it adds to the encoders' gradients. */
static void sale_encoder_task(engine *e, int task) {
    struct sale *s = e->sale;
    part rows = half(e->rows, task);
    sale_room *here = &s->room[task];
    int z = s->embedding, n = s->link.sizes[1];
    int64_t numbers_of_f = numbers(&s->state, 1), all = e->rows * z;
    real *grads = task ? e->halves.other : e->halves.sum, *zs = here->pair + e->actions;
    weights state = parts(&s->state, s->encoder_values, 1, 0);
    weights link = parts(&s->link, s->encoder_values + numbers_of_f, 1, 0);
    weights state_grads = parts(&s->state, grads, 1, 0), link_grads = parts(&s->link, grads + numbers_of_f, 1, 0);
    embed(e, here, &state, rows, s->following_at, here->wanted, z);
    embed(e, here, &state, rows, e->obs_at, zs, pair_stride(e));
    link_up(e, here, &link, rows, e->action_at, (columns){0}, here->raw, z);
    double loss = 0;
    for (int64_t i = 0; i < rows.count * z; i++) {
        double error = (double)here->raw[i] - here->wanted[i];
        loss += error * error;
        here->raw[i] = 2 * error / all;
    }
    e->result[task] = loss / all;
    real *slope = backward(e->multiply, &s->link, &link, &link_grads, here->scratch, &here->link, rows.count,
                           here->pair, pair_stride(e), here->raw);
    product(e->multiply, 0, 1, rows.count, z, n, slope, padded(n), link.matrix[0] + e->actions * n, n, here->slope, z);
    uneven(rows.count, z, here->slope, zs, pair_stride(e), here->zs_spread);
    backward(e->multiply, &s->state, &state, &state_grads, here->scratch, &here->state, rows.count,
             here->input + e->actions, input_stride(e), here->slope);
}

/* y = r + gamma^n (1 - terminated) min_i Q'_i(s', clip(pi'(s') + noise)), for half of the rows */
static void sale_target_task(engine *e, int task) {
    struct sale *s = e->sale;
    part rows = half(e->rows, task), own = {0, rows.count};
    sale_room *here = &s->room[task];
    sight actor = actor_sight(e, e->target_actor), critic = critic_sight(e, e->target_critic, 0);
    real *zs = here->judged + s->width + s->embedding;
    columns found = {zs, judged_stride(e)};
    embed(e, here, &critic.state, rows, e->next_obs_at, zs, judged_stride(e));
    fill(here->acted + s->width, acted_stride(e), s->embedding, found, own);
    sale_act(e, here, &actor, rows.count, e->noise ? e->noise + rows.from * e->actions : NULL);
    link_up(e, here, &critic.link, own, (columns){here->action, e->actions}, found, here->judged + s->width,
            judged_stride(e));
    for (int k = 0; k < 2; k++) {
        critic = critic_sight(e, e->target_critic, k);
        judge(e, here, &critic, rows.count, e->next_values + k * e->rows + rows.from);
    }
    bootstrap(e, rows);
}

/* zs and zsa of the batch, for half of the rows. */
static void sale_look_task(engine *e, int task) {
    struct sale *s = e->sale;
    part rows = half(e->rows, task);
    sale_room *here = &s->room[task];
    sight critic = critic_sight(e, e->critic_values, 0);
    int z = s->embedding;
    embed(e, here, &critic.state, rows, e->obs_at, s->zs + rows.from * z, z);
    link_up(e, here, &critic.link, rows, e->action_at, (columns){s->zs, z}, s->zsa + rows.from * z, z);
}

/* One critic: its values, the mean of its squared or Huber errors, its gradients. */
static void sale_critic_task(engine *e, int k) {
    struct sale *s = e->sale;
    sale_room *here = &s->room[k];
    sight critic = critic_sight(e, e->critic_values, k), grads = critic_sight(e, e->critic_grads, k);
    part rows = {0, e->rows};
    int z = s->embedding;
    fill(here->input, input_stride(e), e->actions, e->action_at, rows);
    fill(here->input + e->actions, input_stride(e), e->obs, e->obs_at, rows);
    fill(here->judged + s->width, judged_stride(e), z, (columns){s->zsa, z}, rows);
    fill(here->judged + s->width + z, judged_stride(e), z, (columns){s->zs, z}, rows);
    judge(e, here, &critic, e->rows, e->values + k * e->rows);
    compare(e, k, here->value_slope);
    real *slope = backward(e->multiply, &e->critic, &critic.body, &grads.body, here->scratch, &here->critic, e->rows,
                           here->judged, judged_stride(e), here->value_slope);
    below(e, &e->critic, &critic.body, e->rows, slope, here->judged, judged_stride(e), here->own_spread, here->slope);
    backward(e->multiply, &s->critic_first, &critic.first, &grads.first, here->scratch, NULL, e->rows, here->input,
             input_stride(e), here->slope);
}

/* The slope of -mean Q_1 at the actor's actions after its forward pass: through the critic's first layer and zsa. */
static void action_slopes(engine *e, sale_room *here, const sight *critic, int64_t rows) {
    struct sale *s = e->sale;
    int width = s->width, z = s->embedding, n = e->critic.sizes[1], m = s->link.sizes[1], a = e->actions;
    weights none = parts(&e->critic, here->unused, 1, 0), no_link = parts(&s->link, here->unused, 1, 0);
    real *slope = backward(e->multiply, &e->critic, &critic->body, &none, here->scratch, &here->critic, rows, NULL, 0,
                           here->value_slope);
    product(e->multiply, 0, 1, rows, z, n, slope, padded(n), critic->body.matrix[0] + (int64_t)width * n, n,
            here->wanted, z);
    below(e, &e->critic, &critic->body, rows, slope, here->judged, judged_stride(e), here->own_spread, here->slope);
    product(e->multiply, 0, 1, rows, a, width, here->slope, width, critic->first.matrix[0], width, here->action_slope,
            a);
    slope = backward(e->multiply, &s->link, &critic->link, &no_link, here->scratch, &here->link, rows, NULL, 0,
                     here->wanted);
    product(e->multiply, 0, 1, rows, a, m, slope, padded(m), critic->link.matrix[0], m, here->raw, a);
    for (int64_t i = 0; i < rows * a; i++) here->action_slope[i] += here->raw[i];
}

/* -Q_1(s, pi(s)) for half of the rows, and what it adds to the actor's gradient. */
static void sale_actor_task(engine *e, int task) {
    struct sale *s = e->sale;
    part rows = half(e->rows, task), own = {0, rows.count};
    sale_room *here = &s->room[task];
    sight actor = actor_sight(e, e->actor_values), critic = critic_sight(e, e->critic_values, 0);
    sight grads = actor_sight(e, task ? e->halves.other : e->halves.sum);
    columns zs = {s->zs + rows.from * s->embedding, s->embedding};
    fill(here->input + e->actions, input_stride(e), e->obs, e->obs_at, rows);
    fill(here->acted + s->width, acted_stride(e), s->embedding, zs, own);
    fill(here->judged + s->width + s->embedding, judged_stride(e), s->embedding, zs, own);
    sale_act(e, here, &actor, rows.count, NULL);
    link_up(e, here, &critic.link, own, (columns){here->action, e->actions}, zs, here->judged + s->width,
            judged_stride(e));
    real *values = e->next_values + rows.from;
    judge(e, here, &critic, rows.count, values);
    ascend(e, task, rows.count, values, here->value_slope);
    action_slopes(e, here, &critic, rows.count);
    deactivate(TANH, rows.count * e->actions, here->action_slope, here->action);
    real *slope = backward(e->multiply, &e->actor, &actor.body, &grads.body, here->scratch, &here->actor, rows.count,
                           here->acted, acted_stride(e), here->action);
    below(e, &e->actor, &actor.body, rows.count, slope, here->acted, acted_stride(e), here->actor_spread, here->slope);
    backward(e->multiply, &s->actor_first, &actor.first, &grads.first, here->scratch, NULL, rows.count,
             here->input + e->actions, input_stride(e), here->slope);
}
