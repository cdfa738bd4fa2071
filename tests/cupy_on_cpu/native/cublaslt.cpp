// cuBLASLt: products of matrices by columns with the epilogues that agrad may ask for, and the rules that cuBLASLt's
// documentation has for them. CUPY_ON_CPU_LT_REFUSES=DRELU_BGRAD,BGRADA lets it refuse epilogues. Each product has three
// algorithms, which compute the same. CUPY_ON_CPU_LT_FASTEST=2 tells which one is the fastest by CUDA's events (0).
// CUPY_ON_CPU_LT_IN_CAPTURE=0: no algorithm can be asked for while a stream is captured, as with cuBLASLt 13.3.
// CUPY_ON_CPU_LT_MASK_AT_ZERO=1: the mask of a ReLU is 1 at zeros.
// CUPY_ON_CPU_LT_WIDE_BIAS=1: a product with a float16 or bfloat16 result takes a float32 bias, which the documentation
// does not list. Epilogues compute in float32, and the result is rounded once.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

typedef ptrdiff_t Long;

#define LT extern "C" int

extern "C" int on_cpu_submit(void* stream, const char* name, const std::function<void()>* work);
extern "C" int on_cpu_is_device_memory(const void* p);
extern "C" int on_cpu_captures();
extern "C" void on_cpu_complain(const char* what);
extern "C" void on_cpu_pass(double milliseconds);
extern "C" void on_cpu_product(int ta, int tb, Long m, Long n, Long k, const void* a, int a_type, Long lda,
                               const void* b, int b_type, Long ldb, bool tf32, double* out);
extern "C" double on_cpu_load(const void* p, int type, Long i);
extern "C" void on_cpu_store(void* p, int type, Long i, double value);

namespace {
enum Status { OK = 0, BAD_VALUE = 7, FAILED = 13, INTERNAL = 14, UNSUPPORTED = 15 };
enum DataType { F32 = 0, F64 = 1, F16 = 2, BF16 = 14 };
enum Compute { COMPUTE_F32 = 68, COMPUTE_F64 = 70, COMPUTE_TF32 = 77 };
enum Attribute {
    COMPUTE_TYPE = 0,
    SCALE_TYPE = 1,
    POINTER_MODE = 2,
    TRANSPOSED_A = 3,
    TRANSPOSED_B = 4,
    TRANSPOSED_C = 5,
    FILL_MODE = 6,
    EPILOGUE = 7,
    BIAS = 8,
    AUX = 11,
    AUX_LD = 12,
    SM_COUNT = 15,
    BIAS_TYPE = 26,
};
enum LayoutAttribute { TYPE = 0, ORDER = 1, ROWS = 2, COLUMNS = 3, LD = 4, BATCH_COUNT = 5, BATCH_STEP = 6 };
enum PreferenceAttribute { MAX_WORKSPACE = 1, ALIGNMENT_A = 5 };
enum Epilogue {
    PLAIN = 1,
    RELU = 2,
    HAS_BIAS = 4,
    HAS_AUX = 128,
    RELU_BIAS = RELU | HAS_BIAS,
    RELU_AUX = RELU | HAS_AUX,
    RELU_AUX_BIAS = RELU | HAS_AUX | HAS_BIAS,
    DRELU = 8 | HAS_AUX,
    DRELU_BGRAD = DRELU | 16,
    BGRADA = 256,
    BGRADB = 512,
};

using Bytes = std::vector<char>;

// The attributes that were set, by number.
struct Attributes {
    std::map<int, Bytes> held;

    template <class T> T get(int which, T otherwise) const {
        auto found = held.find(which);
        if (found == held.end()) return otherwise;
        T value;
        memcpy(&value, found->second.data(), sizeof value);
        return value;
    }

    Status set(int which, const void* p, size_t size, size_t wanted) {
        if (!p || size != wanted) return BAD_VALUE;
        held[which].assign((const char*)p, (const char*)p + size);
        return OK;
    }

    Status read(int which, void* p, size_t size, size_t* written) const {
        auto found = held.find(which);
        if (found == held.end()) return BAD_VALUE;
        if (written) *written = found->second.size();
        if (!size) return OK;
        if (size < found->second.size()) return BAD_VALUE;
        memcpy(p, found->second.data(), found->second.size());
        return OK;
    }
};

struct Layout : Attributes {
    int type() const { return get<int>(TYPE, F32); }
    Long rows() const { return get<int64_t>(ROWS, 0); }
    Long columns() const { return get<int64_t>(COLUMNS, 0); }
    Long ld() const { return get<int64_t>(LD, 0); }
    int count() const { return get<int>(BATCH_COUNT, 1); }
    Long step() const { return get<int64_t>(BATCH_STEP, 0); }
};

struct Product : Attributes {
    int compute() const { return get<int>(COMPUTE_TYPE, COMPUTE_F32); }
    int scale() const { return get<int>(SCALE_TYPE, F32); }
    int transposed_a() const { return get<int>(TRANSPOSED_A, 0); }
    int transposed_b() const { return get<int>(TRANSPOSED_B, 0); }
    int epilogue() const { return get<int>(EPILOGUE, PLAIN); }
    void* bias() const { return get<void*>(BIAS, nullptr); }
    unsigned char* aux() const { return get<unsigned char*>(AUX, nullptr); }
    int64_t aux_ld() const { return get<int64_t>(AUX_LD, 0); }
    // the type of D if it was not set
    int bias_type(const Layout& d) const {
        int type = get<int>(BIAS_TYPE, -1);
        return type < 0 ? d.type() : type;
    }
};

struct Preference : Attributes {};

struct Algorithm {
    // of A, B, C and D, in bytes: what the preference promised
    uint32_t alignments[4];
    uint64_t number;
    uint64_t rest[5];
};

const int ALGORITHMS = 3;

size_t workspace_of(const Algorithm& algorithm) { return algorithm.number == 1 ? 4096 : 0; }

struct Heuristic {
    Algorithm algorithm;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

size_t product_attribute_size(int which) {
    return which <= EPILOGUE || which == SM_COUNT || which == BIAS_TYPE ? 4 : 8;
}

size_t layout_attribute_size(int which) { return which == TYPE || which == ORDER || which == BATCH_COUNT ? 4 : 8; }

size_t preference_attribute_size(int which) { return which == 1 || which == 12 ? 8 : 4; }

const char* name_of(int epilogue) {
    switch (epilogue) {
    case PLAIN: return "DEFAULT";
    case RELU: return "RELU";
    case RELU_AUX: return "RELU_AUX";
    case HAS_BIAS: return "BIAS";
    case RELU_BIAS: return "RELU_BIAS";
    case RELU_AUX_BIAS: return "RELU_AUX_BIAS";
    case DRELU: return "DRELU";
    case DRELU_BGRAD: return "DRELU_BGRAD";
    case BGRADA: return "BGRADA";
    case BGRADB: return "BGRADB";
    }
    return nullptr;
}

bool is_refused(const char* epilogue) {
    const char* given = getenv("CUPY_ON_CPU_LT_REFUSES");
    return given && ("," + std::string(given) + ",").find("," + std::string(epilogue) + ",") != std::string::npos;
}

bool is_set(const char* variable, bool otherwise) {
    const char* given = getenv(variable);
    return given ? atoi(given) : otherwise;
}

// ---------------------------------------------------------------- what it takes

bool fits(const Product& p, const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
    Long m = p.transposed_a() ? a.columns() : a.rows(), k = p.transposed_a() ? a.rows() : a.columns();
    Long n = p.transposed_b() ? b.rows() : b.columns(), other_k = p.transposed_b() ? b.columns() : b.rows();
    if (k != other_k || d.rows() != m || d.columns() != n || c.rows() != m || c.columns() != n) return false;
    for (const Layout* l : {&a, &b, &c, &d}) {
        if (l->ld() < l->rows() || l->count() != d.count()) return false;
    }
    return true;
}

bool is_legal(const Product& p, const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
    if (a.type() != b.type() || c.type() != d.type()) return false;
    bool half = a.type() == F16 || a.type() == BF16;
    if (d.type() != a.type() && !(half && d.type() == F32)) return false;
    if (a.type() == F64) return p.compute() == COMPUTE_F64 && p.scale() == F64;
    if (p.compute() == COMPUTE_TF32) return a.type() == F32 && p.scale() == F32;
    return (half || a.type() == F32) && p.compute() == COMPUTE_F32 && p.scale() == F32;
}

Status check_epilogue(const Product& p, const Layout& a, const Layout& d) {
    const int e = p.epilogue();
    const char* name = name_of(e);
    if (!name || is_refused(name)) return UNSUPPORTED;
    if (e != PLAIN && (a.type() == F64 || d.count() != 1)) return UNSUPPORTED;
    bool bias = (e & HAS_BIAS) || e == DRELU_BGRAD || e == BGRADA || e == BGRADB;
    if (bias && !p.bias()) return BAD_VALUE;
    if (bias && p.bias_type(d) != d.type()) {
        bool wide = (e & HAS_BIAS) && p.bias_type(d) == F32 && is_set("CUPY_ON_CPU_LT_WIDE_BIAS", false);
        if (!wide) return UNSUPPORTED;
    }
    if ((e & HAS_AUX) && (!p.aux() || p.aux_ld() % 128 || p.aux_ld() < d.rows())) return BAD_VALUE;
    return OK;
}

Status check(const Product& p, const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
    if (!fits(p, a, b, c, d)) return BAD_VALUE;
    for (const Layout* l : {&a, &b, &c, &d}) {
        if (l->get<int>(ORDER, 0)) return UNSUPPORTED;
    }
    if (p.get<int>(POINTER_MODE, 0) || p.get<int>(TRANSPOSED_C, 0)) return UNSUPPORTED;
    if (p.transposed_a() > 1 || p.transposed_b() > 1) return UNSUPPORTED;
    return is_legal(p, a, b, c, d) ? check_epilogue(p, a, d) : UNSUPPORTED;
}

size_t width_of(int type) { return type == F64 ? 8 : type == F32 ? 4 : 2; }

// ---------------------------------------------------------------- the product and its epilogue

struct Call {
    Product product;
    Layout a, b, c, d;
    const char *at_a, *at_b, *at_c;
    char* at_d;
    double alpha, beta;

    Long m() const { return d.rows(); }
    Long n() const { return d.columns(); }
    Long k() const { return product.transposed_a() ? a.rows() : a.columns(); }
    bool tf32() const { return product.compute() == COMPUTE_TF32; }
};

// alpha op(A) op(B) + beta C of one matrix of a batch, by columns
std::vector<double> computed(const Call& x, int i) {
    const char* a = x.at_a + i * x.a.step() * width_of(x.a.type());
    const char* b = x.at_b + i * x.b.step() * width_of(x.b.type());
    const char* c = x.at_c + i * x.c.step() * width_of(x.c.type());
    std::vector<double> out(x.m() * x.n());
    on_cpu_product(x.product.transposed_a(), x.product.transposed_b(), x.m(), x.n(), x.k(), a, x.a.type(), x.a.ld(), b,
                   x.b.type(), x.b.ld(), x.tf32(), out.data());
    for (Long j = 0; j < x.n(); j++) {
        for (Long r = 0; r < x.m(); r++) {
            double& v = out[r + j * x.m()];
            v *= x.alpha;
            if (x.beta != 0) v += x.beta * on_cpu_load(c, x.c.type(), r + j * x.c.ld());
            if (x.d.type() != F64) v = (float)v;
        }
    }
    return out;
}

void add_bias(const Call& x, std::vector<double>& out) {
    const int type = x.product.bias_type(x.d);
    for (Long j = 0; j < x.n(); j++) {
        for (Long r = 0; r < x.m(); r++) {
            double& v = out[r + j * x.m()];
            v += on_cpu_load(x.product.bias(), type, r);
            if (x.d.type() != F64) v = (float)v;
        }
    }
}

// ReLU; NaN stays. The mask has a bit for each element, by columns.
void relu(const Call& x, std::vector<double>& out, bool mask) {
    const Long ld = x.product.aux_ld();
    unsigned char* bits = x.product.aux();
    const bool at_zero = is_set("CUPY_ON_CPU_LT_MASK_AT_ZERO", false);
    if (mask) memset(bits, 0, x.n() * ld / 8);
    for (Long j = 0; j < x.n(); j++) {
        for (Long r = 0; r < x.m(); r++) {
            double& v = out[r + j * x.m()];
            if (mask && (v > 0 || (at_zero && v == 0))) bits[(r + j * ld) / 8] |= 1 << r % 8;
            if (v <= 0) v = 0;
        }
    }
}

void relu_gradient(const Call& x, std::vector<double>& out) {
    const Long ld = x.product.aux_ld();
    const unsigned char* bits = x.product.aux();
    for (Long j = 0; j < x.n(); j++) {
        for (Long r = 0; r < x.m(); r++) {
            if (!(bits[(r + j * ld) / 8] >> r % 8 & 1)) out[r + j * x.m()] = 0;
        }
    }
}

// The sums of a matrix of ``rows`` and ``columns`` over its columns, into the bias.
void sum_columns(const Call& x, Long rows, Long columns, const std::function<double(Long, Long)>& at) {
    for (Long r = 0; r < rows; r++) {
        double sum = 0;
        for (Long j = 0; j < columns; j++) sum += at(r, j);
        on_cpu_store(x.product.bias(), x.d.type(), r, sum);
    }
}

void finish(const Call& x, std::vector<double>& out) {
    const int e = x.product.epilogue();
    const bool ta = x.product.transposed_a(), tb = x.product.transposed_b();
    if (e & HAS_BIAS) add_bias(x, out);
    if (e & RELU) relu(x, out, e & HAS_AUX);
    if (e == DRELU || e == DRELU_BGRAD) relu_gradient(x, out);
    if (e == DRELU_BGRAD) sum_columns(x, x.m(), x.n(), [&](Long r, Long j) { return out[r + j * x.m()]; });
    if (e == BGRADA) {
        sum_columns(x, x.m(), x.k(), [&](Long r, Long p) {
            return on_cpu_load(x.at_a, x.a.type(), ta ? p + r * x.a.ld() : r + p * x.a.ld());
        });
    }
    if (e == BGRADB) {
        sum_columns(x, x.n(), x.k(), [&](Long j, Long p) {
            return on_cpu_load(x.at_b, x.b.type(), tb ? j + p * x.b.ld() : p + j * x.b.ld());
        });
    }
}

void run(const Call& x) {
    for (int i = 0; i < x.d.count(); i++) {
        std::vector<double> out = computed(x, i);
        finish(x, out);
        char* d = x.at_d + i * x.d.step() * width_of(x.d.type());
        for (Long j = 0; j < x.n(); j++) {
            for (Long r = 0; r < x.m(); r++) on_cpu_store(d, x.d.type(), r + j * x.d.ld(), out[r + j * x.m()]);
        }
    }
}

void take_time(const Algorithm& algorithm) {
    const char* given = getenv("CUPY_ON_CPU_LT_FASTEST");
    int fastest = given ? atoi(given) : 0;
    if ((int)algorithm.number != fastest) on_cpu_pass(1000);
}

bool is_aligned(const Algorithm& algorithm, const void* const operands[4]) {
    for (int k = 0; k < 4; k++) {
        if ((size_t)operands[k] % algorithm.alignments[k]) {
            on_cpu_complain("cublasLtMatmul: an operand is aligned to less than the preference promised");
            return false;
        }
    }
    return true;
}

std::string title(const Call& x) {
    std::string text = std::string("cublasLt ") + name_of(x.product.epilogue());
    text += " m" + std::to_string(x.m()) + " n" + std::to_string(x.n()) + " k" + std::to_string(x.k());
    if (x.d.count() > 1) text += " of " + std::to_string(x.d.count());
    if (x.tf32()) return text + " tf32";
    if (x.a.type() != BF16 && x.a.type() != F16) return text;
    return text + (x.a.type() == BF16 ? " bf16" : " f16") + (x.d.type() == x.a.type() ? " narrow" : "");
}
}  // namespace

// ---------------------------------------------------------------- handles and descriptions

LT cublasLtCreate(void** handle) {
    *handle = malloc(8);
    return OK;
}

LT cublasLtDestroy(void* handle) {
    free(handle);
    return OK;
}

extern "C" size_t cublasLtGetVersion() { return 130000; }
extern "C" size_t cublasLtGetCudartVersion() { return 13000; }

extern "C" const char* cublasLtGetStatusName(int status) {
    switch (status) {
    case OK: return "CUBLAS_STATUS_SUCCESS";
    case BAD_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case INTERNAL: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case UNSUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    }
    return "CUBLAS_STATUS_UNKNOWN";
}

extern "C" const char* cublasLtGetStatusString(int status) { return cublasLtGetStatusName(status); }

LT cublasLtMatmulDescCreate(Product** product, int compute, int scale) {
    *product = new Product;
    (*product)->set(COMPUTE_TYPE, &compute, sizeof compute, sizeof compute);
    return (*product)->set(SCALE_TYPE, &scale, sizeof scale, sizeof scale);
}

LT cublasLtMatmulDescDestroy(Product* product) {
    delete product;
    return OK;
}

LT cublasLtMatmulDescSetAttribute(Product* product, int which, const void* p, size_t size) {
    return product->set(which, p, size, product_attribute_size(which));
}

LT cublasLtMatmulDescGetAttribute(Product* product, int which, void* p, size_t size, size_t* written) {
    return product->read(which, p, size, written);
}

LT cublasLtMatrixLayoutCreate(Layout** layout, int type, uint64_t rows, uint64_t columns, int64_t ld) {
    *layout = new Layout;
    (*layout)->set(TYPE, &type, sizeof type, sizeof type);
    (*layout)->set(ROWS, &rows, sizeof rows, sizeof rows);
    (*layout)->set(COLUMNS, &columns, sizeof columns, sizeof columns);
    return (*layout)->set(LD, &ld, sizeof ld, sizeof ld);
}

LT cublasLtMatrixLayoutDestroy(Layout* layout) {
    delete layout;
    return OK;
}

LT cublasLtMatrixLayoutSetAttribute(Layout* layout, int which, const void* p, size_t size) {
    return layout->set(which, p, size, layout_attribute_size(which));
}

LT cublasLtMatrixLayoutGetAttribute(Layout* layout, int which, void* p, size_t size, size_t* written) {
    return layout->read(which, p, size, written);
}

LT cublasLtMatmulPreferenceCreate(Preference** preference) {
    *preference = new Preference;
    return OK;
}

LT cublasLtMatmulPreferenceDestroy(Preference* preference) {
    delete preference;
    return OK;
}

LT cublasLtMatmulPreferenceSetAttribute(Preference* preference, int which, const void* p, size_t size) {
    return preference->set(which, p, size, preference_attribute_size(which));
}

LT cublasLtMatmulPreferenceGetAttribute(Preference* preference, int which, void* p, size_t size, size_t* written) {
    return preference->read(which, p, size, written);
}

// ---------------------------------------------------------------- heuristics and products

LT cublasLtMatmulAlgoGetHeuristic(void*, Product* product, Layout* a, Layout* b, Layout* c, Layout* d,
                                  Preference* preference, int most, Heuristic* found, int* count) {
    *count = 0;
    if (!is_set("CUPY_ON_CPU_LT_IN_CAPTURE", true) && on_cpu_captures()) return INTERNAL;
    if (int error = check(*product, *a, *b, *c, *d)) return error;
    for (int number = 0; number < ALGORITHMS && *count < most; number++) {
        Heuristic one = {};
        for (int k = 0; k < 4; k++) {
            one.algorithm.alignments[k] = preference->get<uint32_t>(ALIGNMENT_A + k, 256);
        }
        one.algorithm.number = number;
        one.workspace = workspace_of(one.algorithm);
        if (one.workspace <= preference->get<uint64_t>(MAX_WORKSPACE, 0)) found[(*count)++] = one;
    }
    return OK;
}

LT cublasLtMatmul(void*, Product* product, const void* alpha, const void* at_a, Layout* a, const void* at_b, Layout* b,
                  const void* beta, const void* at_c, Layout* c, void* at_d, Layout* d, const Algorithm* algorithm,
                  void* workspace, size_t workspace_size, void* stream) {
    if (int error = check(*product, *a, *b, *c, *d)) return error;
    size_t needed = algorithm ? workspace_of(*algorithm) : 0;
    if (needed && (workspace_size < needed || !on_cpu_is_device_memory(workspace))) {
        on_cpu_complain("cublasLtMatmul is given less workspace than its algorithm needs");
        return BAD_VALUE;
    }
    const void* const operands[4] = {at_a, at_b, at_c, at_d};
    if (algorithm && !is_aligned(*algorithm, operands)) return BAD_VALUE;
    Call call = {*product, *a, *b, *c, *d, (const char*)at_a, (const char*)at_b, (const char*)at_c, (char*)at_d, 0, 0};
    call.alpha = on_cpu_load(alpha, product->scale(), 0);
    call.beta = on_cpu_load(beta, product->scale(), 0);
    for (const void* p : operands) {
        if ((p != at_c || call.beta != 0) && !on_cpu_is_device_memory(p)) {
            on_cpu_complain("cublasLtMatmul is given memory that is not the current device's");
            return BAD_VALUE;
        }
    }
    const Algorithm by = algorithm ? *algorithm : Algorithm{};
    std::function<void()> work = [call, by] {
        run(call);
        take_time(by);
    };
    return on_cpu_submit(stream, title(call).c_str(), &work) ? FAILED : OK;
}
