// What the parts of the library share: streams, captures, counters, and how work is given to a stream.
#pragma once
#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>

// A function that takes the place of one of the CUDA runtime that is linked statically into CuPy.
#define RUNTIME(name) extern "C" int on_cpu_##name

namespace on_cpu {

enum Error {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_CONFIGURATION = 9,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_FAILURE = 719,
    NOT_SUPPORTED = 801,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_UNJOINED = 904,
    CAPTURE_ISOLATION = 905,
    CAPTURE_IMPLICIT = 906,
    CAPTURE_WRONG_THREAD = 908,
};

using Work = std::function<void()>;

struct Node {
    std::string name;
    Work work;
};

struct Graph {
    std::vector<Node> nodes;
};

struct Stream;

// One capture: of the stream where it began, and of those that wait for its events.
struct Capture {
    enum Mode { GLOBAL, THREAD_LOCAL, RELAXED };
    Stream* origin;
    Mode mode;
    size_t thread;
    Graph* graph;
    bool invalid = false;
    std::set<Stream*> unjoined;
};

struct Stream {
    enum { NON_BLOCKING = 1 };
    unsigned flags;
    int priority;
    int device;
    Capture* capture = nullptr;
};

struct Counts {
    long launches, syncs, h2d, d2h, d2d, memsets, mallocs, frees, graphs;
};

extern std::recursive_mutex gate;
using Lock = std::lock_guard<std::recursive_mutex>;
extern std::set<Stream*> streams;
extern std::set<Capture*> captures;
extern Counts counts;
// True while what streams are given is counted and not done.
extern bool idle;
extern thread_local int current_device;

int device_count();
int fail(int error);
const char* error_name(int error);
bool says();
void say(const std::string& what);
void complain(const std::string& what);
size_t thread_id();

// The legacy default stream is nullptr.
Stream* stream_of(void* handle);
// Refuse a call that CUDA takes for unsafe while a stream is captured, and invalidate the captures that it spoils.
int refuse_unsafe();
// Refuse the legacy default stream while a stream that synchronises with it is captured.
int refuse_legacy();

enum class Devices { SAME, ANY };
// Do ``work`` now, or keep it where the stream is captured. ``detail``: what the trace has after the name.
int submit(void* stream, const std::string& name, Work work, Devices devices = Devices::SAME,
           const std::string& detail = "");
// Do ``work``; a fault becomes ILLEGAL_ADDRESS, and an error that a kernel finds its own.
int attempt(const std::string& name, const Work& work);
// End the work that is being done with an error.
[[noreturn]] void abandon(int error, const std::string& why);

// memory.cpp. What was never written holds a pattern: NaN in every floating dtype, far out of range as an index.
void fill_with_pattern(char* begin, char* end);
bool is_pattern(const char* begin, const char* end);
// Let a variable of a module be memory of a device.
void add_variable(char* begin, size_t size, int device);
// -1: of none
int device_of(const void* p);
int check_margins();

}  // namespace on_cpu

// For the other libraries, which are linked to none of this.
extern "C" int on_cpu_submit(void* stream, const char* name, const std::function<void()>* work);
