/* Fully connected networks: passes of rows forward and backward, with products by the BLAS that is handed in.

   Matrices are [inputs + 1, outputs] by rows, the bias is the last row. A flat vector holds all matrices of a network
   and then its layer norms, each for both critics in turn (nets/flat.py). */

#include "numbers.h"

enum { LAYERS = 8, RELU = 0, TANH, ELU };

typedef struct { int32_t layers, activation, norms, sizes[LAYERS + 1]; } shape;
typedef struct { real *matrix[LAYERS], *scale[LAYERS], *shift[LAYERS]; } weights;
typedef struct { real *hidden[LAYERS], *normal[LAYERS], *spread[LAYERS]; } stack; /* one pass of rows through layers */

/* Rows are odd multiples of 64 bytes long: powers of two would meet in the same lines of the cache. */
static int64_t padded(int64_t width) { return ((width + 15) / 16 | 1) * 16; }

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
static void product(gemm *multiply, int a_turned, int b_turned, int64_t m, int64_t n, int64_t k, const real *a,
                    int64_t a_stride, const real *b, int64_t b_stride, real *out, int64_t stride) {
    const real one = 1, zero = 0;
    for (; !a_turned && !b_turned && m > 128; m -= 128, a += 128 * a_stride, out += 128 * stride) /* a tenth faster */
        product(multiply, 0, 0, 128, n, k, a, a_stride, b, b_stride, out, stride);
    if (m && n && k) /* Fortran has columns where C has rows: the factors change places */
        multiply(b_turned ? "T" : "N", a_turned ? "T" : "N", &n, &m, &k, &one, b, &b_stride, a, &a_stride, &zero,
                    out, &stride);
    else
        for (int64_t i = 0; i < m; i++) memset(out + i * stride, 0, n * sizeof(real));
}

/* x [rows, inputs] through all layers into out [rows, outputs]; strides count numbers, one output has none. */
static void forward(gemm *multiply, const shape *s, const weights *w, stack *k, int64_t rows, const real *x,
                    int64_t stride, real *out, int64_t out_stride) {
    int last = s->layers - 1, outputs = s->sizes[last + 1];
    for (int l = 0; l < last; l++) {
        int n = s->sizes[l + 1];
        product(multiply, 0, 0, rows, n, s->sizes[l], x, stride, w->matrix[l], n, k->hidden[l], padded(n));
        finish(rows, s, w, k, l);
        x = k->hidden[l], stride = padded(n);
    }
    if (outputs == 1) {
        head(rows, s->sizes[last], x, stride, w->matrix[last], out);
        return;
    }
    product(multiply, 0, 0, rows, outputs, s->sizes[last], x, stride, w->matrix[last], outputs, out, out_stride);
    for (int64_t r = 0; r < rows; r++) EACH(j, outputs) out[r * out_stride + j] += bias(s, w, last)[j];
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
static real *backward(gemm *multiply, const shape *s, const weights *w, const weights *grads, real *scratch,
                      stack *k, int64_t rows, const real *input, int64_t input_stride, real *slope) {
    int last = s->layers - 1;
    int64_t stride = s->sizes[last + 1];
    clear(s, grads);
    for (int l = last; l >= 0; l--) {
        int n = s->sizes[l], outputs = s->sizes[l + 1], column = l && l == last && outputs == 1;
        const real *x = l ? k->hidden[l - 1] : input;
        if (input && !column)
            product(multiply, 1, 0, n, outputs, rows, x, l ? padded(n) : input_stride, slope, stride, grads->matrix[l],
                    outputs);
        for (int64_t r = 0; r < rows && l == last && !column; r++)
            EACH(j, outputs) bias(s, grads, l)[j] += slope[r * stride + j];
        if (!l) break;
        if (!column)
            product(multiply, 0, 1, rows, n, outputs, slope, stride, w->matrix[l], outputs, scratch, padded(n));
        unfinish(rows, s, w, grads, k, l - 1, scratch, slope, column ? w->matrix[l] : NULL,
                 column && input ? grads->matrix[l] : NULL);
        slope = k->hidden[l - 1], stride = padded(n);
    }
    return slope;
}
