/* A gated recurrent network over whole episodes (nets/recurrent.py) and QMIX's mixer (team/mixers.py), both ways.

   Matrices are [inputs + 1, outputs] by rows, the bias is the last row; where rows of inputs end in a column of ones,
   bias and its gradient are part of the products. Memory is Python's, products are those of the BLAS handed in. */

#include "numbers.h"

typedef struct { real *at; int64_t stride; } rows_of; /* rows of numbers, and how far one is from the next */

typedef struct { /* filled by native/sequence.py, in this order; a room of [steps, rows, ...] each */
    gemm *multiply;
    const int64_t *live; /* [steps]: rows from the first on that matter at a step; never rises */
    int64_t steps, rows, inputs, width, outputs;
    rows_of x, entered, hidden; /* with a column of ones; hidden [steps + 1] is the state before each step */
    real *gates;                /* [.., 3 width]: reset, update, candidate */
    real *past, *q;             /* [.., width], [.., outputs] */
    real *slopes;               /* [.., 4 width]: candidate's past, reset, update, candidate */
    real *d_hidden, *d_entered; /* [.., width] */
    real *carry, *scratch;      /* [rows, width], [rows, 3 width] */
    const real *enter, *into, *recur, *leave;
    real *d_enter, *d_into, *d_recur, *d_leave;
    const real *d_q, *d_memory; /* slopes of q and of the states (or NULL), without gaps */
} recurrent;

typedef struct { /* filled by native/sequence.py, in this order */
    gemm *multiply;
    int64_t rows, state, agents, embed, hyper;
    rows_of states;          /* with a column of ones */
    const real *values;      /* [rows, agents] */
    real *parts;             /* [rows, 2 hyper + 2 embed]: two hidden layers, bias, hidden layer of the value */
    real *into, *out;        /* [rows, agents * embed], [rows, embed]: weights with their signs */
    real *mixed, *joint;     /* [rows, embed], [rows] */
    real *scratch;           /* [rows, hyper] */
    const real *first, *second_in, *second_out, *value;
    real *d_first, *d_second_in, *d_second_out, *d_value;
    const real *d_joint;     /* [rows] */
    real *d_values;          /* [rows, agents] */
} mixer;

/* out [m, n] = a [m, k] b [k, n] + beta out; a turned factor is stored the other way round. */
static void product(gemm *multiply, int a_turned, int b_turned, int64_t m, int64_t n, int64_t k, const real *a,
                    int64_t a_stride, const real *b, int64_t b_stride, real *out, int64_t stride, real beta) {
    const real one = 1; /* Fortran has columns where C has rows: the factors change places */
    multiply(b_turned ? "T" : "N", a_turned ? "T" : "N", &n, &m, &k, &one, b, &b_stride, a, &a_stride, &beta, out,
             &stride);
}

static rows_of from(rows_of rows, int64_t first) { return (rows_of){rows.at + first * rows.stride, rows.stride}; }

/* From step t on, the steps whose rows lie together without a gap; their rows are counted in `count`. */
static int64_t span(const recurrent *e, int64_t t, int64_t *count) {
    int64_t end = t + 1;
    *count = e->live[t];
    for (; end < e->steps && e->live[end - 1] == e->rows; end++) *count += e->live[end];
    return end;
}

/* ---- forwards ---- */

static inline real sigmoid(real x) { return 1 / (1 + exponential(-x)); }

LOOPS rectify(int64_t rows, int64_t n, real *restrict y, int64_t stride) {
    for (int64_t r = 0; r < rows; r++, y += stride) EACH(j, n) y[j] = y[j] > 0 ? y[j] : y[j] == y[j] ? 0 : y[j];
}

/* Gates from the sums of both products, and the next state; `past` is [rows, 3 w]: candidate, reset, update. */
LOOPS gate(int64_t rows, int64_t w, real *restrict gates, const real *restrict past, real *restrict kept,
           const real *restrict before, real *restrict after, int64_t stride) {
    for (int64_t r = 0; r < rows; r++, gates += 3 * w, past += 3 * w, kept += w, before += stride, after += stride) {
        EACH(j, w) {
            real reset = sigmoid(gates[j] + past[w + j]), update = sigmoid(gates[w + j] + past[2 * w + j]);
            real candidate = tangent(gates[2 * w + j] + reset * past[j]);
            gates[j] = reset, gates[w + j] = update, gates[2 * w + j] = candidate, kept[j] = past[j];
            after[j] = candidate + update * (before[j] - candidate);
        }
    }
}

static void step_forward(recurrent *e, int64_t t) {
    int64_t w = e->width, n = e->live[t], at = t * e->rows, gone = e->rows - n;
    rows_of before = from(e->hidden, at), after = from(e->hidden, at + e->rows);
    product(e->multiply, 0, 0, n, 3 * w, w + 1, before.at, before.stride, e->recur, 3 * w, e->scratch, 3 * w, 0);
    gate(n, w, e->gates + at * 3 * w, e->scratch, e->past + at * w, before.at, after.at, before.stride);
    for (int64_t r = n; r < e->rows; r++) memset(after.at + r * after.stride, 0, w * sizeof(real));
    memset(e->q + (at + n) * e->outputs, 0, gone * e->outputs * sizeof(real));
}

void native_recurrent_forward(recurrent *e) {
    int64_t w = e->width, count;
    for (int64_t r = 0; r < e->rows; r++) memset(e->hidden.at + r * e->hidden.stride, 0, w * sizeof(real));
    for (int64_t t = 0, end; t < e->steps; t = end) {
        end = span(e, t, &count);
        int64_t at = t * e->rows;
        rows_of x = from(e->x, at), entered = from(e->entered, at);
        product(e->multiply, 0, 0, count, w, e->inputs + 1, x.at, x.stride, e->enter, w, entered.at, entered.stride, 0);
        rectify(count, w, entered.at, entered.stride);
        product(e->multiply, 0, 0, count, 3 * w, w + 1, entered.at, entered.stride, e->into, 3 * w,
                e->gates + at * 3 * w, 3 * w, 0);
    }
    for (int64_t t = 0; t < e->steps; t++) step_forward(e, t);
    for (int64_t t = 0, end; t < e->steps; t = end) {
        end = span(e, t, &count);
        rows_of after = from(e->hidden, (t + 1) * e->rows);
        product(e->multiply, 0, 0, count, e->outputs, w + 1, after.at, after.stride, e->leave, e->outputs,
                e->q + t * e->rows * e->outputs, e->outputs, 0);
    }
}

/* ---- backwards ---- */

/* Slopes of a step's gates from those of its state, which come from its outputs and, in `carry`, from the next step. */
LOOPS ungate(int64_t rows, int64_t w, const real *restrict gates, const real *restrict past,
             const real *restrict before, int64_t stride, const real *restrict d_hidden,
             const real *restrict d_memory, real *restrict carry, real *restrict slopes) {
    for (int64_t r = 0; r < rows; r++) {
        EACH(j, w) {
            real reset = gates[j], update = gates[w + j], candidate = gates[2 * w + j];
            real slope = carry[j] + d_hidden[j] + (d_memory ? d_memory[j] : 0);
            real inner = slope * (1 - update) * (1 - candidate * candidate);
            slopes[j] = inner * reset;
            slopes[w + j] = inner * past[j] * (1 - reset) * reset;
            slopes[2 * w + j] = (before[j] - candidate) * slope * (1 - update) * update;
            slopes[3 * w + j] = inner;
            carry[j] = slope * update;
        }
        gates += 3 * w, past += w, before += stride, d_hidden += w, carry += w, slopes += 4 * w;
        if (d_memory) d_memory += w;
    }
}

LOOPS unrectify(int64_t rows, int64_t n, const real *restrict y, int64_t stride, real *restrict slope) {
    for (int64_t r = 0; r < rows; r++, y += stride, slope += n) EACH(j, n) slope[j] = y[j] > 0 ? slope[j] : 0;
}

static void through_time(recurrent *e) {
    int64_t w = e->width;
    memset(e->carry, 0, e->rows * w * sizeof(real));
    for (int64_t t = e->steps - 1; t >= 0; t--) {
        int64_t n = e->live[t], at = t * e->rows;
        rows_of before = from(e->hidden, at);
        ungate(n, w, e->gates + at * 3 * w, e->past + at * w, before.at, before.stride, e->d_hidden + at * w,
               e->d_memory ? e->d_memory + at * w : NULL, e->carry, e->slopes + at * 4 * w);
        if (t) product(e->multiply, 0, 1, n, w, 3 * w, e->slopes + at * 4 * w, 4 * w, e->recur, 3 * w, e->carry, w, 1);
    }
}

/* Gradients of the matrices, of rows that lie together; all but the first are added. */
static void collect(recurrent *e, int64_t at, int64_t count) {
    int64_t w = e->width;
    real more = at > 0, *slopes = e->slopes + at * 4 * w, *d_entered = e->d_entered + at * w;
    rows_of x = from(e->x, at), entered = from(e->entered, at), before = from(e->hidden, at);
    product(e->multiply, 1, 0, w + 1, 3 * w, count, before.at, before.stride, slopes, 4 * w, e->d_recur, 3 * w, more);
    product(e->multiply, 1, 0, w + 1, 3 * w, count, entered.at, entered.stride, slopes + w, 4 * w, e->d_into, 3 * w,
            more);
    product(e->multiply, 0, 1, count, w, 3 * w, slopes + w, 4 * w, e->into, 3 * w, d_entered, w, 0);
    unrectify(count, w, entered.at, entered.stride, d_entered);
    product(e->multiply, 1, 0, e->inputs + 1, w, count, x.at, x.stride, d_entered, w, e->d_enter, w, more);
}

void native_recurrent_backward(recurrent *e) {
    int64_t w = e->width, count;
    for (int64_t t = 0, end; t < e->steps; t = end) {
        end = span(e, t, &count);
        int64_t at = t * e->rows;
        rows_of after = from(e->hidden, at + e->rows);
        const real *d_q = e->d_q + at * e->outputs;
        product(e->multiply, 1, 0, w + 1, e->outputs, count, after.at, after.stride, d_q, e->outputs, e->d_leave,
                e->outputs, t > 0);
        product(e->multiply, 0, 1, count, w, e->outputs, d_q, e->outputs, e->leave, e->outputs, e->d_hidden + at * w, w,
                0);
    }
    through_time(e);
    for (int64_t t = 0, end; t < e->steps; t = end) {
        end = span(e, t, &count);
        collect(e, t * e->rows, count);
    }
}

/* ---- the mixer ---- */

/* Weights get their bias; joint = sum_e elu(sum_a value_a |into_ae| + bias_e) |out_e| + value of the state. */
LOOPS mix(mixer *m) {
    int64_t e = m->embed, h = m->hyper, all = m->agents * e, width = 2 * h + 2 * e;
    const real *bias_in = m->second_in + h * all, *bias_out = m->second_out + h * e;
    for (int64_t r = 0; r < m->rows; r++) {
        const real *restrict part = m->parts + r * width + 2 * h, *restrict values = m->values + r * m->agents;
        real *restrict into = m->into + r * all, *restrict out = m->out + r * e, *restrict mixed = m->mixed + r * e;
        real joint = m->value[e];
        EACH(j, e) mixed[j] = part[j];
        for (int64_t a = 0; a < m->agents; a++) {
            EACH(j, e) {
                into[a * e + j] += bias_in[a * e + j];
                mixed[j] += values[a] * fabs(into[a * e + j]);
            }
        }
        EACH(j, e) mixed[j] = mixed[j] > 0 ? mixed[j] : exponential(mixed[j]) - 1;
        EACH(j, e) out[j] += bias_out[j];
        SUM(joint, j, e) joint += mixed[j] * fabs(out[j]) + part[e + j] * m->value[j];
        m->joint[r] = joint;
    }
}

static inline real sign(real x) { return (x > 0) - (x < 0); }

/* The way back: weights become their slopes; d_values, and the gradients of what was added row by row. */
LOOPS unmix(mixer *m) {
    int64_t e = m->embed, h = m->hyper, all = m->agents * e, width = 2 * h + 2 * e;
    real *restrict bias_in = m->d_second_in + h * all, *restrict bias_out = m->d_second_out + h * e;
    real *restrict value = m->d_value;
    memset(bias_in, 0, all * sizeof(real)), memset(bias_out, 0, e * sizeof(real));
    memset(value, 0, (e + 1) * sizeof(real));
    for (int64_t r = 0; r < m->rows; r++) {
        real *restrict part = m->parts + r * width + 2 * h, *restrict into = m->into + r * all;
        real *restrict out = m->out + r * e, *restrict mixed = m->mixed + r * e, slope = m->d_joint[r];
        value[e] += slope;
        EACH(j, e) {
            real size = fabs(out[j]);
            out[j] = slope * mixed[j] * sign(out[j]);
            bias_out[j] += out[j];
            part[j] = slope * size * (mixed[j] > 0 ? 1 : mixed[j] + 1);
            value[j] += slope * part[e + j];
            part[e + j] = part[e + j] > 0 ? slope * m->value[j] : 0;
        }
        for (int64_t a = 0; a < m->agents; a++) {
            real sum = 0, given = m->values[r * m->agents + a];
            SUM(sum, j, e) {
                sum += part[j] * fabs(into[a * e + j]);
                into[a * e + j] = part[j] * given * sign(into[a * e + j]);
                bias_in[a * e + j] += into[a * e + j];
            }
            m->d_values[r * m->agents + a] = sum;
        }
    }
}

void native_mixer_forward(mixer *m) {
    int64_t e = m->embed, h = m->hyper, all = m->agents * e, width = 2 * h + 2 * e;
    product(m->multiply, 0, 0, m->rows, width, m->state + 1, m->states.at, m->states.stride, m->first, width, m->parts,
            width, 0);
    rectify(m->rows, 2 * h, m->parts, width);
    rectify(m->rows, e, m->parts + 2 * h + e, width);
    product(m->multiply, 0, 0, m->rows, all, h, m->parts, width, m->second_in, all, m->into, all, 0);
    product(m->multiply, 0, 0, m->rows, e, h, m->parts + h, width, m->second_out, e, m->out, e, 0);
    mix(m);
}

/* Gradients of a second layer whose input is a part, and that part becomes its own slope. */
static void second(mixer *m, real *part, const real *slope, int64_t n, const real *matrix, real *gradient) {
    int64_t h = m->hyper, width = 2 * h + 2 * m->embed;
    product(m->multiply, 1, 0, h, n, m->rows, part, width, slope, n, gradient, n, 0);
    product(m->multiply, 0, 1, m->rows, h, n, slope, n, matrix, n, m->scratch, h, 0);
    unrectify(m->rows, h, part, width, m->scratch);
    for (int64_t r = 0; r < m->rows; r++) memcpy(part + r * width, m->scratch + r * h, h * sizeof(real));
}

void native_mixer_backward(mixer *m) {
    int64_t e = m->embed, h = m->hyper, width = 2 * h + 2 * e;
    unmix(m);
    second(m, m->parts, m->into, m->agents * e, m->second_in, m->d_second_in);
    second(m, m->parts + h, m->out, e, m->second_out, m->d_second_out);
    product(m->multiply, 1, 0, m->state + 1, width, m->rows, m->states.at, m->states.stride, m->parts, width,
            m->d_first, width, 0);
}

/* Sizes of both structures, one after the other. */
int64_t native_sequence_size(void) { return sizeof(recurrent) * 1000 + sizeof(mixer); }
