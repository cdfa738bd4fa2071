// Streams, captures, events and graphs. A stream does at once what it is given; a stream that is captured keeps it, and
// a graph does what was kept, on the same addresses.
#include "state.h"

#include <cstdio>
#include <cstring>
#include <pthread.h>

namespace on_cpu {

std::recursive_mutex gate;
std::set<Stream*> streams;
std::set<Capture*> captures;

size_t thread_id() { return (size_t)pthread_self(); }

Stream* stream_of(void* handle) {
    // 1 and 2 are cudaStreamLegacy and cudaStreamPerThread
    return (size_t)handle <= 2 ? nullptr : (Stream*)handle;
}

int refuse_unsafe() {
    bool refused = false;
    for (Capture* c : captures) {
        if (c->mode == Capture::GLOBAL || (c->mode == Capture::THREAD_LOCAL && c->thread == thread_id())) {
            refused = c->invalid = true;
        }
    }
    return refused ? fail(CAPTURE_UNSUPPORTED) : SUCCESS;
}

int refuse_legacy() {
    bool refused = false;
    for (Stream* s : streams) {
        if (s->capture && !(s->flags & Stream::NON_BLOCKING)) {
            refused = s->capture->invalid = true;
        }
    }
    return refused ? fail(CAPTURE_IMPLICIT) : SUCCESS;
}

int submit(void* handle, const std::string& name, Work work, Devices devices, const std::string& detail) {
    Lock lock(gate);
    Stream* s = stream_of(handle);
    if (!s) {
        if (int error = refuse_legacy()) return error;
    } else if (!streams.count(s)) {
        complain(name + " on a stream that is destroyed");
        return fail(INVALID_HANDLE);
    } else if (s->device != current_device && devices == Devices::SAME) {
        complain(name + " on a stream of device " + std::to_string(s->device) + " while device " +
                 std::to_string(current_device) + " is current");
        return fail(INVALID_HANDLE);
    } else if (s->capture) {
        if (s->capture->invalid) return fail(CAPTURE_INVALIDATED);
        s->capture->graph->nodes.push_back({name, std::move(work)});
        if (says()) say("capture " + name + detail);
        return SUCCESS;
    }
    if (says()) say(name + detail);
    return idle ? SUCCESS : attempt(name, work);
}

}  // namespace on_cpu

using namespace on_cpu;

extern "C" int on_cpu_submit(void* stream, const char* name, const std::function<void()>* work) {
    return submit(stream, name, *work);
}

// ---------------------------------------------------------------- streams

RUNTIME(cudaStreamCreateWithPriority)(void** out, unsigned flags, int priority) {
    Lock lock(gate);
    auto* s = new Stream{flags, priority, current_device};
    streams.insert(s);
    *out = s;
    return SUCCESS;
}

RUNTIME(cudaStreamCreateWithFlags)(void** out, unsigned flags) {
    return on_cpu_cudaStreamCreateWithPriority(out, flags, 0);
}

RUNTIME(cudaStreamCreate)(void** out) { return on_cpu_cudaStreamCreateWithPriority(out, 0, 0); }

RUNTIME(cudaStreamDestroy)(void* handle) {
    Lock lock(gate);
    // not deleted: its address is not given to another stream, so that a late use is found
    return streams.erase(stream_of(handle)) ? SUCCESS : fail(INVALID_HANDLE);
}

RUNTIME(cudaStreamGetFlags)(void* handle, unsigned* flags) {
    Stream* s = stream_of(handle);
    *flags = s ? s->flags : 0;
    return SUCCESS;
}

RUNTIME(cudaStreamGetPriority)(void* handle, int* priority) {
    Stream* s = stream_of(handle);
    *priority = s ? s->priority : 0;
    return SUCCESS;
}

static int refuse_captured(void* handle) {
    Stream* s = stream_of(handle);
    if (s && s->capture) {
        s->capture->invalid = true;
        return fail(CAPTURE_UNSUPPORTED);
    }
    return s ? SUCCESS : refuse_legacy();
}

RUNTIME(cudaStreamSynchronize)(void* handle) {
    Lock lock(gate);
    counts.syncs++;
    say("streamSynchronize");
    if (int error = refuse_captured(handle)) return error;
    return check_margins();
}

RUNTIME(cudaStreamQuery)(void* handle) {
    Lock lock(gate);
    return refuse_captured(handle);
}

RUNTIME(cudaDeviceSynchronize)() {
    Lock lock(gate);
    counts.syncs++;
    say("deviceSynchronize");
    if (!captures.empty()) {
        for (Capture* c : captures) c->invalid = true;
        return fail(CAPTURE_UNSUPPORTED);
    }
    return check_margins();
}

RUNTIME(cudaStreamAddCallback)(void* handle, void (*callback)(void*, int, void*), void* data, unsigned) {
    if (int error = refuse_captured(handle)) return error;
    callback(handle, 0, data);
    return SUCCESS;
}

RUNTIME(cudaLaunchHostFunc)(void* handle, void (*function)(void*), void* data) {
    Stream* s = stream_of(handle);
    if (s && s->capture) {
        return submit(handle, "hostFunc", [=] { function(data); });
    }
    // without the lock: the function may wait for Python's, which another thread holds while it waits for ours
    say("hostFunc");
    function(data);
    return SUCCESS;
}

// ---------------------------------------------------------------- events

namespace {
// what work claims to have taken beyond the time that it took
std::chrono::steady_clock::duration passed{};

struct Event {
    std::chrono::steady_clock::time_point at;
    Stream* stream = nullptr;
    Capture* capture = nullptr;
};
}  // namespace

extern "C" void on_cpu_pass(double milliseconds) {
    Lock lock(gate);
    passed += std::chrono::microseconds((long)(1000 * milliseconds));
}

RUNTIME(cudaEventCreateWithFlags)(void** event, unsigned) {
    *event = new Event;
    return SUCCESS;
}

RUNTIME(cudaEventCreate)(void** event) { return on_cpu_cudaEventCreateWithFlags(event, 0); }

RUNTIME(cudaEventDestroy)(void* event) {
    delete (Event*)event;
    return SUCCESS;
}

RUNTIME(cudaEventRecord)(void* handle, void* stream) {
    Lock lock(gate);
    auto* event = (Event*)handle;
    event->at = std::chrono::steady_clock::now() + passed;
    event->stream = stream_of(stream);
    event->capture = event->stream ? event->stream->capture : nullptr;
    return event->stream ? SUCCESS : refuse_legacy();
}

static int refuse_captured_event(void* handle) {
    auto* event = (Event*)handle;
    if (!captures.count(event->capture)) return SUCCESS;
    event->capture->invalid = true;
    return fail(CAPTURE_UNSUPPORTED);
}

RUNTIME(cudaEventSynchronize)(void* event) {
    Lock lock(gate);
    counts.syncs++;
    say("eventSynchronize");
    if (int error = refuse_captured_event(event)) return error;
    return check_margins();
}

RUNTIME(cudaEventQuery)(void* event) {
    Lock lock(gate);
    return refuse_captured_event(event);
}

RUNTIME(cudaEventElapsedTime)(float* milliseconds, void* begin, void* end) {
    std::chrono::duration<float, std::milli> elapsed = ((Event*)end)->at - ((Event*)begin)->at;
    *milliseconds = elapsed.count();
    return SUCCESS;
}

// A stream that waits for an event of a capture becomes part of it; it has to be waited for before the capture ends.
RUNTIME(cudaStreamWaitEvent)(void* handle, void* event_handle, unsigned) {
    Lock lock(gate);
    auto* event = (Event*)event_handle;
    Stream* s = stream_of(handle);
    Capture* c = captures.count(event->capture) ? event->capture : nullptr;
    if (!c) {
        // a captured stream cannot wait for work outside of its capture
        bool outside = s && s->capture && event->stream;
        if (outside) s->capture->invalid = true;
        return outside ? fail(CAPTURE_ISOLATION) : SUCCESS;
    }
    if (!s) return refuse_legacy();
    if (s->capture && s->capture != c) {
        s->capture->invalid = c->invalid = true;
        return fail(CAPTURE_ISOLATION);
    }
    if (!s->capture) {
        s->capture = c;
        c->unjoined.insert(s);
    }
    c->unjoined.erase(event->stream);
    return SUCCESS;
}

// ---------------------------------------------------------------- captures

RUNTIME(cudaStreamBeginCapture)(void* handle, int mode) {
    Lock lock(gate);
    Stream* s = stream_of(handle);
    if (!s) return fail(CAPTURE_UNSUPPORTED);
    if (s->capture) return fail(INVALID_VALUE);
    s->capture = new Capture{s, (Capture::Mode)mode, thread_id(), new Graph, false, {}};
    captures.insert(s->capture);
    say("beginCapture");
    return SUCCESS;
}

RUNTIME(cudaStreamEndCapture)(void* handle, void** graph) {
    Lock lock(gate);
    *graph = nullptr;
    Stream* s = stream_of(handle);
    if (!s || !s->capture || s->capture->origin != s) return fail(INVALID_VALUE);
    Capture* c = s->capture;
    if (c->mode != Capture::RELAXED && c->thread != thread_id()) return fail(CAPTURE_WRONG_THREAD);
    say("endCapture");
    for (Stream* other : streams) {
        if (other->capture == c) other->capture = nullptr;
    }
    captures.erase(c);
    // not deleted: events point to it
    if (c->invalid) return fail(CAPTURE_INVALIDATED);
    if (!c->unjoined.empty()) return fail(CAPTURE_UNJOINED);
    *graph = c->graph;
    return SUCCESS;
}

RUNTIME(cudaStreamIsCapturing)(void* handle, int* status) {
    Lock lock(gate);
    Stream* s = stream_of(handle);
    *status = 0;
    if (!s) return refuse_legacy();
    if (s->capture) *status = s->capture->invalid ? 2 : 1;
    return SUCCESS;
}

extern "C" int on_cpu_captures() {
    Lock lock(gate);
    return captures.size();
}

// ---------------------------------------------------------------- graphs

RUNTIME(cudaGraphInstantiate)(void** executable, void* graph, unsigned long long) {
    *executable = new Graph(*(Graph*)graph);
    return SUCCESS;
}

RUNTIME(cudaGraphDestroy)(void* graph) {
    delete (Graph*)graph;
    return SUCCESS;
}

RUNTIME(cudaGraphExecDestroy)(void* executable) {
    delete (Graph*)executable;
    return SUCCESS;
}

RUNTIME(cudaGraphUpload)(void*, void*) { return SUCCESS; }

RUNTIME(cudaGraphLaunch)(void* executable, void* stream) {
    Lock lock(gate);
    counts.graphs++;
    auto* graph = (Graph*)executable;
    std::string name = "graphLaunch of " + std::to_string(graph->nodes.size()) + ":";
    if (says()) {
        for (const Node& node : graph->nodes) name += " " + node.name;
    }
    return submit(stream, name, [graph] {
        for (const Node& node : graph->nodes) node.work();
    });
}

RUNTIME(cudaGraphDebugDotPrint)(void* graph, const char* path, unsigned) {
    FILE* file = fopen(path, "w");
    if (!file) return fail(INVALID_VALUE);
    for (const Node& node : ((Graph*)graph)->nodes) fprintf(file, "%s\n", node.name.c_str());
    fclose(file);
    return SUCCESS;
}
