// CUDA's mathematical functions that the C library lacks, in float64, for the kernels (declared in device.h).
#include <cmath>

static const double LARGEST_ERFCX_BY_PRODUCT = 25;

static double normal_density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * M_PI); }

// The quantile of the normal distribution: a rational approximation, then Halley's method.
extern "C" double on_cpu_ndtri(double p) {
    if (p == 0) return -INFINITY;
    if (p == 1) return INFINITY;
    if (!(p > 0 && p < 1)) return NAN;
    const double q = p < 0.5 ? p : 1 - p;
    const double t = std::sqrt(-2 * std::log(q));
    double x = (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t;
    for (int k = 0; k < 60; k++) {
        const double density = normal_density(x);
        if (!(density > 0)) break;
        const double u = (0.5 * std::erfc(-x * M_SQRT1_2) - q) / density;
        const double step = u / (1 + x * u / 2);
        x -= step;
        if (std::fabs(step) < 1e-16 * std::fabs(x)) break;
    }
    return p < 0.5 ? x : -x;
}

// erf(x) - y without cancellation
static double erf_minus(double x, double y) {
    if (std::fabs(x) < 0.5) return std::erf(x) - y;
    return y > 0 ? (1 - y) - std::erfc(x) : std::erfc(-x) - (1 + y);
}

extern "C" double on_cpu_erfinv(double y) {
    if (y == 1) return INFINITY;
    if (y == -1) return -INFINITY;
    if (!(std::fabs(y) < 1)) return NAN;
    double x = y * 0.886;
    if (std::fabs(y) >= 0.9) x = std::copysign(on_cpu_ndtri(1 - (1 - std::fabs(y)) / 2) * M_SQRT1_2, y);
    for (int k = 0; k < 60; k++) {
        const double u = erf_minus(x, y) / (2 / std::sqrt(M_PI) * std::exp(-x * x));
        const double step = u / (1 + x * u);
        x -= step;
        if (std::fabs(step) <= 1e-16 * std::fabs(x)) break;
    }
    return x;
}

extern "C" double on_cpu_erfcinv(double y) {
    if (y == 0) return INFINITY;
    if (y == 2) return -INFINITY;
    if (!(y > 0 && y < 2)) return NAN;
    if (y > 0.5 && y < 1.5) return on_cpu_erfinv(1 - y);
    const double x = -on_cpu_ndtri((y < 1 ? y : 2 - y) / 2) * M_SQRT1_2;
    return y < 1 ? x : -x;
}

extern "C" double on_cpu_erfcx(double x) {
    if (x < LARGEST_ERFCX_BY_PRODUCT) return std::exp(x * x) * std::erfc(x);
    const double w = 0.5 / (x * x);
    return (1 - w * (1 - 3 * w * (1 - 5 * w * (1 - 7 * w * (1 - 9 * w * (1 - 11 * w)))))) / (x * std::sqrt(M_PI));
}

// The modified Bessel function of the first kind, by its power series.
extern "C" double on_cpu_bessel_i(int order, double x) {
    const double half = x / 2;
    double term = 1, total = 0;
    for (int k = 1; k <= order; k++) term *= half / k;
    for (int k = 0; k < 500; k++) {
        total += term;
        term *= half * half / ((k + 1.0) * (k + 1 + order));
        if (std::fabs(term) < 1e-18 * std::fabs(total)) break;
    }
    return total;
}
