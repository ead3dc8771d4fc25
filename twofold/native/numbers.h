/* What both C files share: the kind of numbers, loops for several instruction sets, exp and tanh, products. */

#ifndef NUMBERS_H
#define NUMBERS_H

#include <stdint.h>
#include <string.h>
#include <tgmath.h>

#ifndef REAL /* the tests also compile it for double, where autograd can be compared exactly */
#define REAL float
#endif

/* One machine builds, another may run: loops exist for several instruction sets, chosen when the library is loaded. */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && !defined(PLAIN)
#define LOOPS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"))) static void
#else
#define LOOPS static void
#endif
#define PRAGMA(text) _Pragma(#text)
#define EACH(i, n) PRAGMA(omp simd) for (int64_t i = 0; i < (n); i++)
#define SUM(total, i, n) PRAGMA(omp simd reduction(+ : total)) for (int64_t i = 0; i < (n); i++)

typedef REAL real;

/* Fortran's sgemm. Dimensions have 64 bits; a BLAS of 32 reads their lower half, where they are little-endian. */
typedef void gemm(const char *, const char *, const int64_t *, const int64_t *, const int64_t *, const real *,
                  const real *, const int64_t *, const real *, const int64_t *, const real *, real *, const int64_t *);

static inline real exponential(real x) {
    if (sizeof(real) == 8) return exp(x);
    /* Cephes: 2^n times a polynomial. Unlike libm's it can be computed for many numbers at once. */
    float v = x < -87 ? -87 : x > 88 ? 88 : x == x ? (float)x : 0, n = floor(v * 1.44269504f + 0.5f);
    v = v - n * 0.693359375f + n * 2.12194440e-4f;
    float p = ((1.9875691500e-4f * v + 1.3981999507e-3f) * v + 8.3334519073e-3f) * v + 4.1665795894e-2f;
    p = (p * v + 1.6666665459e-1f) * v + 5.0000001201e-1f;
    union { uint32_t bits; float number; } power = {(uint32_t)((int32_t)n + 127) << 23};
    return x == x ? (p * v * v + v + 1) * power.number : x;
}

static inline real tangent(real x) { /* tanh */
    if (sizeof(real) == 8) return tanh(x);
    float z = x * x, size = fabs((float)x);
    float p = ((-5.70498872745e-3f * z + 2.06390887954e-2f) * z - 5.37397155531e-2f) * z + 1.33314422036e-1f;
    float small = (p * z - 3.33332819422e-1f) * z * x + x, large = 1 - 2 / (float)(exponential(2 * size) + 1);
    return size < 0.625f ? small : copysign(large, (float)x);
}

#endif
