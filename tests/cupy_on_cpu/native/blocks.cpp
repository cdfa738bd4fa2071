// The threads of a block run one after another, each until it ends or waits; then those that waited for the same
// barrier go on. They are taken in ascending order of their numbers, and so are blocks; CUPY_ON_CPU_ORDER=descending
// reverses both. A thread that waits keeps its stack, and the next one gets another.
#include "blocks.h"

#include "state.h"

#include <algorithm>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <vector>

extern "C" {
on_cpu::Size on_cpu_thread, on_cpu_block, on_cpu_block_size, on_cpu_grid_size;
char* on_cpu_dynamic_shared;

// Store the stack pointer and what a function has to keep, and go on where ``to`` was stored.
void on_cpu_switch(void** from, void* to);
asm(R"(
.text
.type on_cpu_switch,@function
on_cpu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size on_cpu_switch, .-on_cpu_switch
)");
}

namespace on_cpu {

namespace {
const size_t STACK = 256 << 10;
const size_t PAGE = 4096;
const int WARP = 32;

enum class State : char { UNSTARTED, RUNNING, WAITING, READY, ENDED };
enum class Barrier : char { BLOCK, WARP };
enum Lanes { INDEXED, UP, DOWN, XOR };

struct Fiber {
    char* stack;
    void* pointer;
};

// A thread that waits, and for what.
struct Waiting {
    Fiber* fiber;
    Barrier barrier;
    int line;
    unsigned mask;
    int predicate;
    unsigned result;
    int source;
    unsigned size;
    char given[16];
    char got[16];
};

std::vector<State> states;
std::vector<Waiting> waiting;
std::vector<Fiber*> unused;
std::vector<char> dynamic_shared;
Fiber* current_fiber;
void* scheduler;
int current, threads, started, ended;
const Kernel* kernel;
void** arguments;

bool descending() {
    const char* given = getenv("CUPY_ON_CPU_ORDER");
    return given && !strcmp(given, "descending");
}
bool reversed = false;

int in_order(int k) { return reversed ? threads - 1 - k : k; }

void place(int thread) {
    const Size size = on_cpu_block_size;
    unsigned n = thread;
    on_cpu_thread = {n % size.x, n / size.x % size.y, n / size.x / size.y};
    current = thread;
}

// Run threads that have not started, until one waits; what a fiber does.
void run_threads() {
    for (;;) {
        while (started < threads) {
            place(in_order(started++));
            states[current] = State::RUNNING;
            kernel->call(arguments);
            states[current] = State::ENDED;
            ended++;
        }
        unused.push_back(current_fiber);
        on_cpu_switch(&current_fiber->pointer, scheduler);
    }
}

Fiber* new_fiber() {
    // below the stack a page without access
    auto* at = (char*)mmap(nullptr, STACK + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED || mprotect(at + PAGE, STACK, PROT_READ | PROT_WRITE)) {
        abandon(OUT_OF_MEMORY, "no memory for the stacks of a block's threads");
    }
    return new Fiber{at + PAGE, nullptr};
}

void reset(Fiber* fiber) {
    void** top = (void**)(fiber->stack + STACK - 64);
    *--top = nullptr;
    *--top = (void*)run_threads;
    for (int k = 0; k < 6; k++) *--top = nullptr;
    fiber->pointer = top;
}

std::vector<Fiber*> fibers;

Fiber* take_fiber() {
    if (unused.empty()) {
        fibers.push_back(new_fiber());
        reset(fibers.back());
        return fibers.back();
    }
    Fiber* fiber = unused.back();
    unused.pop_back();
    return fiber;
}

void resume(Fiber* fiber) {
    current_fiber = fiber;
    on_cpu_switch(&scheduler, fiber->pointer);
}

void wait() {
    Fiber* mine = current_fiber;
    int thread = current;
    waiting[thread].fiber = mine;
    states[thread] = State::WAITING;
    on_cpu_switch(&mine->pointer, scheduler);
}

// ---------------------------------------------------------------- when waiting ends

bool waits_with(int thread, const Waiting& first) {
    const Waiting& w = waiting[thread];
    return states[thread] == State::WAITING && w.barrier == first.barrier && w.line == first.line &&
           w.mask == first.mask;
}

// All threads that have not ended wait at one barrier: whether it let them go on.
bool release_block() {
    const Waiting* first = nullptr;
    unsigned count = 0;
    for (int i = 0; i < threads; i++) {
        if (states[i] == State::ENDED) continue;
        if (!first) first = &waiting[i];
        if (first->barrier != Barrier::BLOCK || !waits_with(i, *first)) return false;
        count += waiting[i].predicate;
    }
    for (int i = 0; i < threads; i++) {
        if (states[i] == State::ENDED) continue;
        waiting[i].result = count;
        states[i] = State::READY;
    }
    return first != nullptr;
}

// The lanes that the mask of ``lane`` names, if all of them that have not ended wait there too; else 0.
unsigned lanes_with(int base, int lane) {
    const Waiting& first = waiting[base + lane];
    unsigned group = 0;
    if (!(first.mask >> lane & 1)) return 0;
    for (int k = 0; k < WARP && base + k < threads; k++) {
        if (!(first.mask >> k & 1) || states[base + k] == State::ENDED) continue;
        if (!waits_with(base + k, first)) return 0;
        group |= 1u << k;
    }
    return group;
}

void exchange(int base, unsigned group) {
    unsigned votes = 0;
    for (int k = 0; k < WARP; k++) {
        if ((group >> k & 1) && waiting[base + k].predicate) votes |= 1u << k;
    }
    for (int k = 0; k < WARP; k++) {
        if (!(group >> k & 1)) continue;
        Waiting& w = waiting[base + k];
        w.result = votes;
        // the value of a lane that takes no part is undefined
        bool known = w.source >= 0 && w.source < WARP && (group >> w.source & 1);
        if (known) {
            memcpy(w.got, waiting[base + w.source].given, w.size);
        } else {
            fill_with_pattern(w.got, w.got + w.size);
        }
        states[base + k] = State::READY;
    }
}

bool release_warps() {
    bool released = false;
    for (int i = 0; i < threads; i++) {
        if (states[i] != State::WAITING || waiting[i].barrier != Barrier::WARP) continue;
        int base = i / WARP * WARP;
        if (unsigned group = lanes_with(base, i - base)) {
            exchange(base, group);
            released = true;
        }
    }
    return released;
}

[[noreturn]] void stuck() {
    std::string lines;
    for (int i = 0; i < threads; i++) {
        if (states[i] != State::WAITING) continue;
        std::string line = std::to_string(waiting[i].line);
        if ((lines + ",").find(" " + line + ",") == std::string::npos) lines += (lines.empty() ? " " : ", ") + line;
    }
    abandon(LAUNCH_FAILURE, "threads of a block wait at barriers that the others do not reach (lines" + lines + ")");
}

void run_block() {
    fill_with_pattern(kernel->shared_begin, kernel->shared_end);
    fill_with_pattern(dynamic_shared.data(), dynamic_shared.data() + dynamic_shared.size());
    std::fill(states.begin(), states.begin() + threads, State::UNSTARTED);
    started = ended = 0;
    while (started < threads) resume(take_fiber());
    while (ended < threads) {
        bool warps = release_warps();
        if (!warps && !release_block()) stuck();
        for (int k = 0; k < threads; k++) {
            int i = in_order(k);
            if (states[i] != State::READY) continue;
            place(i);
            states[i] = State::RUNNING;
            resume(waiting[i].fiber);
        }
    }
}

// Make all fibers usable again, after a launch that was given up.
void reclaim() {
    unused = fibers;
    for (Fiber* fiber : fibers) reset(fiber);
}

thread_local sigjmp_buf* recovery = nullptr;
thread_local int found_error;
struct sigaction earlier[2];

void on_fault(int number, siginfo_t*, void*) {
    if (recovery) {
        found_error = ILLEGAL_ADDRESS;
        siglongjmp(*recovery, 1);
    }
    // not of a kernel: as if this handler were not there
    sigaction(number, &earlier[number == SIGBUS], nullptr);
}

void catch_faults() {
    static const bool installed = [] {
        struct sigaction action = {};
        action.sa_sigaction = on_fault;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        sigaction(SIGSEGV, &action, &earlier[0]);
        sigaction(SIGBUS, &action, &earlier[1]);
        return true;
    }();
    (void)installed;
    thread_local char* stack = nullptr;
    stack_t now;
    if (!stack && !sigaltstack(nullptr, &now) && (now.ss_flags & SS_DISABLE)) {
        stack = new char[64 << 10];
        stack_t mine = {stack, 0, 64 << 10};
        sigaltstack(&mine, nullptr);
    }
}
}  // namespace

void run_grid(const Kernel& what, void** given, Size grid, Size block, size_t dynamic) {
    kernel = &what;
    arguments = given;
    on_cpu_grid_size = grid;
    on_cpu_block_size = block;
    threads = (int)block.count();
    reversed = descending();
    if ((int)states.size() < threads) {
        states.resize(threads);
        waiting.resize(threads);
    }
    dynamic_shared.resize(dynamic);
    on_cpu_dynamic_shared = dynamic_shared.data();
    unsigned long long blocks = grid.count();
    for (unsigned long long k = 0; k < blocks; k++) {
        unsigned long long n = reversed ? blocks - 1 - k : k;
        on_cpu_block = {unsigned(n % grid.x), unsigned(n / grid.x % grid.y), unsigned(n / grid.x / grid.y)};
        run_block();
    }
}

void abandon(int error, const std::string& why) {
    complain(why);
    if (!recovery) abort();
    found_error = error;
    siglongjmp(*recovery, 1);
}

int attempt(const std::string& name, const Work& work) {
    if (recovery) {
        work();
        return SUCCESS;
    }
    catch_faults();
    sigjmp_buf here;
    if (sigsetjmp(here, 1)) {
        recovery = nullptr;
        reclaim();
        if (found_error == ILLEGAL_ADDRESS) complain(name + ": a read or a write outside of every block of memory");
        return fail(found_error);
    }
    recovery = &here;
    work();
    recovery = nullptr;
    return SUCCESS;
}

}  // namespace on_cpu

// ---------------------------------------------------------------- what kernels call (declared in device.h)

using namespace on_cpu;

static Waiting& waiting_for(Barrier barrier, int line, unsigned mask, int predicate) {
    Waiting& w = waiting[current];
    w.barrier = barrier;
    w.line = line;
    w.mask = mask;
    w.predicate = predicate;
    w.source = -1;
    w.size = 0;
    return w;
}

extern "C" int on_cpu_block_barrier(int line, int predicate) {
    Waiting& w = waiting_for(Barrier::BLOCK, line, 0, predicate);
    wait();
    return (int)w.result;
}

extern "C" void on_cpu_warp_barrier(int line, unsigned mask) {
    waiting_for(Barrier::WARP, line, mask, 0);
    wait();
}

extern "C" unsigned on_cpu_ballot(int line, unsigned mask, int predicate) {
    Waiting& w = waiting_for(Barrier::WARP, line, mask, predicate);
    wait();
    return w.result;
}

extern "C" void on_cpu_shuffle(int line, unsigned mask, int kind, int operand, int width, void* value, unsigned size) {
    Waiting& w = waiting_for(Barrier::WARP, line, mask, 0);
    int lane = current % WARP;
    int first = lane / width * width;
    int source = lane;
    if (kind == INDEXED) source = first + (operand & (width - 1));
    if (kind == UP && lane - operand >= first) source = lane - operand;
    if (kind == DOWN && lane + operand < first + width) source = lane + operand;
    if (kind == XOR && (lane ^ operand) < first + width) source = lane ^ operand;
    w.source = source;
    w.size = size;
    memcpy(w.given, value, size);
    wait();
    memcpy(value, w.got, size);
}

extern "C" unsigned on_cpu_active_mask() {
    int base = current / WARP * WARP;
    unsigned mask = 0;
    for (int k = 0; k < WARP && base + k < threads; k++) {
        if (states[base + k] != State::ENDED) mask |= 1u << k;
    }
    return mask;
}

extern "C" void on_cpu_trap() { abandon(LAUNCH_FAILURE, "a kernel called __trap()"); }
